"""Small colour images, 3×32×32: CIFAR-10 from disk, or patches of photographs in its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.cifar10_pickle import read_pickled
from wattstep.workloads.data.holding_out import split_last_tenth
from wattstep.workloads.data.samples import (
    Bytes,
    Samples,
    check_classes,
    describe,
    folders,
    read_bytes,
)
from wattstep.workloads.data.scikit_images import read_photographs

NAME = "CIFAR-10"
WITHOUT_TEST = f"{NAME} without its test file; the last tenth of its training images is held out"
SIDE = 32
PIXELS = 3 * SIDE * SIDE
# Of red, green and blue over the training images, where 1 is white.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)

PICKLED = "cifar-10-batches-py"
BINARY = "cifar-10-batches-bin"
REGIONS = 5
STRIDE = 8
# A photograph is cut into ten bands from top to bottom, and these are held out. Bands between
# others look like them; the bottom of a photograph looks like nothing above it.
BANDS = 10
HELD_OUT_BANDS = (2, 5, 8)


def read_images(data_dir: Path | None) -> Samples:
    """The training images (N, 3, 32, 32) with their classes 0 to 9; its test images are held out.

    Where the test file is missing, the last tenth of the training images is held out instead,
    and the name of the data says so. Of the photographs of the stand-in, bands are held out.

    Raises:
        InvalidValueError: CIFAR-10 is there, but cannot be read.
        MissingPartError: It is not, and neither is scikit-learn or Pillow.
    """
    folder = None if data_dir is None else find(data_dir)
    return _stand_in() if folder is None else _official(folder)


def find(data_dir: Path) -> Path | None:
    """The folder of either version, or None.

    Raises:
        InvalidValueError: `data_dir` is no folder.
    """
    return next((path for path in folders(data_dir) if path.name in (PICKLED, BINARY)), None)


def _official(folder: Path) -> Samples:
    inputs, targets = _read_files(folder, [f"data_batch_{number}" for number in range(1, 6)])
    if _path(folder, "test_batch").is_file():
        held_out = _read_files(folder, ["test_batch"])
        return describe(name=NAME, inputs=inputs, targets=targets, held_out=held_out)
    (inputs, targets), held_out = split_last_tenth(inputs, targets)
    return describe(name=WITHOUT_TEST, inputs=inputs, targets=targets, held_out=held_out)


def _read_files(folder: Path, names: Sequence[str]) -> tuple[Bytes, Bytes]:
    """Images (N, 3, 32, 32) and labels (N,) of several files, in that order."""
    parts = [_read_file(_path(folder, name)) for name in names]
    rows = np.concatenate([images for images, _ in parts])
    return rows.reshape(-1, 3, SIDE, SIDE), np.concatenate([labels for _, labels in parts])


def _path(folder: Path, name: str) -> Path:
    return folder / (name if folder.name == PICKLED else f"{name}.bin")


def _read_file(path: Path) -> tuple[Bytes, Bytes]:
    """Images (N, 3072) and labels (N,) of one file of either version."""
    binary = path.suffix == ".bin"
    images, labels = read_binary(path) if binary else read_pickled(path, pixels=PIXELS)
    check_classes(path, labels, classes=10)
    return images, labels


def read_binary(path: Path) -> tuple[Bytes, Bytes]:
    """Images (N, 3072) and labels (N,) of a file in the binary version: a label, then the pixels.

    Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".

    Raises:
        InvalidValueError: It does not hold a whole number of records.
    """
    content = read_bytes(path)
    if not content or len(content) % (1 + PIXELS):
        raise InvalidValueError(
            f"{path}: {len(content)} bytes are not a whole number of records of {1 + PIXELS}",
            id="wrong-size",
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0]


def _stand_in() -> Samples:
    photographs = read_photographs()
    inputs, targets = cut_bands(photographs, held_out=False)
    name = "scikit-learn sample photographs in 32×32 patches; class: which of 2×5 strips it is from"
    return describe(
        name=name,
        inputs=inputs,
        targets=targets,
        held_out=cut_bands(photographs, held_out=True),
        stands_for=NAME,
    )


def cut_bands(photographs: list[Bytes], *, held_out: bool) -> tuple[Bytes, Bytes]:
    """Patches of the bands that are held out, or of all others, classes as in `cut_patches`.

    No patch reaches over the edge of its band, so that the two kinds share no pixel.
    """
    parts = [
        cut_patches([_band(photograph, band) for photograph in photographs])
        for band in range(BANDS)
        if (band in HELD_OUT_BANDS) is held_out
    ]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _band(photograph: Bytes, number: int) -> Bytes:
    height = len(photograph)
    return photograph[height * number // BANDS : height * (number + 1) // BANDS]


def cut_patches(photographs: list[Bytes]) -> tuple[Bytes, Bytes]:
    """Patches (N, 3, 32, 32) of photographs (H, W, 3), with the upright strip each lies in.

    Each photograph makes five strips of equal width, counted on through the photographs; a
    patch lies in one strip as a whole, so that colours and texture tell the class.
    """
    inputs: list[Bytes] = []
    for photograph in photographs:
        width = photograph.shape[1] // REGIONS
        strips = (photograph[:, n * width : (n + 1) * width] for n in range(REGIONS))
        inputs += [_patches(strip) for strip in strips]
    counts = [len(patches) for patches in inputs]
    return np.concatenate(inputs), np.repeat(np.arange(len(counts), dtype=np.uint8), counts)


def _patches(strip: Bytes) -> Bytes:
    windows: npt.NDArray[np.uint8] = np.lib.stride_tricks.sliding_window_view(
        strip, (SIDE, SIDE), axis=(0, 1)
    )
    return windows[::STRIDE, ::STRIDE].reshape(-1, 3, SIDE, SIDE)
