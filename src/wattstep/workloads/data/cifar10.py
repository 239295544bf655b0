"""Small colour images, 3×32×32: CIFAR-10 from disk, or patches of photographs in its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.cifar10_pickle import read_pickled
from wattstep.workloads.data.samples import (
    Bytes,
    Samples,
    check_classes,
    describe,
    folders,
    read_bytes,
)
from wattstep.workloads.parts import load_part

NAME = "CIFAR-10"
SIDE = 32
PIXELS = 3 * SIDE * SIDE
# Of red, green and blue over the training images, where 1 is white.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)

PICKLED = "cifar-10-batches-py"
BINARY = "cifar-10-batches-bin"
REGIONS = 5
STRIDE = 8


def read_images(data_dir: Path | None) -> Samples:
    """The training images (N, 3, 32, 32) with their classes 0 to 9.

    Raises:
        InvalidValueError: CIFAR-10 is there, but cannot be read.
        MissingPartError: It is not, and neither is scikit-learn or Pillow.
    """
    folder = _find(data_dir)
    return _stand_in() if folder is None else _official(folder)


def _find(data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    return next((path for path in folders(data_dir) if path.name in (PICKLED, BINARY)), None)


def _official(folder: Path) -> Samples:
    parts = [_read_part(folder, number) for number in range(1, 6)]
    rows = np.concatenate([images for images, _ in parts])
    targets = np.concatenate([labels for _, labels in parts])
    return describe(name=NAME, inputs=rows.reshape(-1, 3, SIDE, SIDE), targets=targets)


def _read_part(folder: Path, number: int) -> tuple[Bytes, Bytes]:
    """Images (N, 3072) and labels (N,) of one of the five training files."""
    if folder.name == PICKLED:
        path = folder / f"data_batch_{number}"
        images, labels = read_pickled(path, pixels=PIXELS)
    else:
        path = folder / f"data_batch_{number}.bin"
        images, labels = read_binary(path)
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
            f"{path}: {len(content)} bytes are not a whole number of records of {1 + PIXELS}"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0]


def _stand_in() -> Samples:
    load_part("PIL")  # scikit-learn reads its photographs with it
    photographs = load_part("sklearn.datasets").load_sample_images().images
    inputs, targets = cut_patches(photographs)
    name = "scikit-learn sample photographs in 32×32 patches; class: which of 2×5 strips it is from"
    return describe(name=name, inputs=inputs, targets=targets, stands_for=NAME)


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
