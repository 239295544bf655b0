"""Handwritten digits, 28×28: MNIST from disk, or scikit-learn's digits in its place."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.holding_out import split_every_fifth, split_last_tenth
from wattstep.workloads.data.samples import (
    Bytes,
    Samples,
    check_classes,
    describe,
    folders,
    read_bytes,
)
from wattstep.workloads.data.scikit_images import read_handwritten

NAME = "MNIST"
WITHOUT_TEST = f"{NAME} without its test files; the last tenth of its training images is held out"
# Sets for the same purpose whose files have the same names; torchvision keeps each in a folder.
OTHER_SETS = ("fashion", "kmnist")
SIDE = 28
# Over the training images, where 1 is white.
MEAN = (0.1307,)
DEVIATION = (0.3081,)


def read_digits(data_dir: Path | None, *, side: int = SIDE) -> Samples:
    """The training images (N, 1, side, side) with their classes 0 to 9; its test images are held out.

    Where the test files are missing, the last tenth of the training images is held out instead,
    and the name of the data says so. Of the stand-in, every fifth image is held out.

    Args:
        data_dir: Where MNIST may lie.
        side: Height and width: 28, or less by averages, see `shrink`.

    Raises:
        InvalidValueError: MNIST is there, but cannot be read.
        MissingPartError: It is not, and neither is scikit-learn.
    """
    folder = None if data_dir is None else find(data_dir)
    samples = _stand_in() if folder is None else _official(folder)
    if side == SIDE:
        return samples
    facts = samples.facts
    return describe(
        name=f"{facts.name}, averaged to {side}×{side}",
        inputs=shrink(samples.inputs, side),
        targets=samples.targets,
        held_out=(shrink(samples.held_out_inputs, side), samples.held_out_targets),
        stands_for=facts.stands_for,
    )


def shrink(images: Bytes, side: int) -> Bytes:
    """Images (N, 1, 28, 28) as averages of squares, (N, 1, side, side); a margin makes squares whole."""
    margin = -SIDE % side
    before, after = margin // 2, margin - margin // 2
    wide = np.pad(images, ((0, 0), (0, 0), (before, after), (before, after)))
    square = (SIDE + margin) // side
    parts = wide.reshape(len(images), 1, side, square, side, square)
    averages: Bytes = np.rint(parts.mean(axis=(3, 5))).astype(np.uint8)
    return averages


def find(data_dir: Path) -> Path | None:
    """The folder with the training images, or None.

    Raises:
        InvalidValueError: `data_dir` is no folder.
    """
    images = _find(data_dir, "train-images", dimensions=3)
    return None if images is None else images.parent


def _find(data_dir: Path, what: str, *, dimensions: int) -> Path | None:
    """The first file of that kind; as published, or as unpacked by other tools."""
    stems = (f"{what}-idx{dimensions}-ubyte", f"{what}.idx{dimensions}-ubyte")
    candidates = (
        folder / f"{stem}{suffix}"
        for folder in folders(data_dir)
        if not any(other in str(folder.relative_to(data_dir)).lower() for other in OTHER_SETS)
        for stem in stems
        for suffix in ("", ".gz")
    )
    return next((path for path in candidates if path.is_file()), None)


def _official(folder: Path) -> Samples:
    inputs, targets = _read_part(folder, "train")
    if _find(folder, "t10k-images", dimensions=3) is not None:
        held_out = _read_part(folder, "t10k")
        return describe(name=NAME, inputs=inputs, targets=targets, held_out=held_out)
    (inputs, targets), held_out = split_last_tenth(inputs, targets)
    return describe(name=WITHOUT_TEST, inputs=inputs, targets=targets, held_out=held_out)


def _read_part(folder: Path, part: str) -> tuple[Bytes, Bytes]:
    """Images (N, 1, 28, 28) and labels (N,) of "train" or of "t10k", the test."""
    images = _find(folder, f"{part}-images", dimensions=3)
    labels = _find(folder, f"{part}-labels", dimensions=1)
    if images is None or labels is None:
        raise InvalidValueError(
            f"{folder}: MNIST images without {part}-labels-idx1-ubyte", id="missing-labels"
        )
    pixels, classes = read_idx(images, dimensions=3), read_idx(labels, dimensions=1)
    if pixels.shape[1:] != (SIDE, SIDE):
        raise InvalidValueError(
            f"{images}: images of {pixels.shape[1:]}, not 28×28", id="wrong-shape"
        )
    if len(pixels) != len(classes):
        raise InvalidValueError(
            f"{labels}: {len(classes)} labels for {len(pixels)} images", id="unequal-counts"
        )
    check_classes(labels, classes, classes=10)
    return pixels[:, None], classes


def read_idx(path: Path, *, dimensions: int) -> Bytes:
    """The array of bytes in an IDX file: a magic number, big-endian sizes, the content.

    Source: http://yann.lecun.com/exdb/mnist/, "file format".

    Raises:
        InvalidValueError: It is another kind of file, empty, or of another length than it says.
    """
    content = read_bytes(path)
    start = 4 + 4 * dimensions
    # 0x08 means unsigned bytes.
    if len(content) < start or content[:4] != bytes((0, 0, 0x08, dimensions)):
        raise InvalidValueError(
            f"{path}: not an IDX file of bytes in {dimensions} dimensions", id="damaged-data-file"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if math.prod(shape) == 0 or len(content) - start != math.prod(shape):
        raise InvalidValueError(
            f"{path}: {len(content) - start} bytes of content, where its header says {shape}",
            id="wrong-size",
        )
    array: Bytes = np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
    return array


def _stand_in() -> Samples:
    images, digits = read_handwritten()
    (inputs, targets), held_out = split_every_fifth(enlarge(images), digits)
    name = "scikit-learn digits (8×8), enlarged to 28×28"
    return describe(name=name, inputs=inputs, targets=targets, held_out=held_out, stands_for=NAME)


def enlarge(images: Bytes) -> Bytes:
    """Images (N, 8, 8) of 0 to 16 as (N, 1, 28, 28) of 0 to 255: three times, with a margin of 2."""
    brightness = (images.astype(np.uint16) * 255 // 16).astype(np.uint8)
    large: Bytes = np.zeros((len(images), 1, SIDE, SIDE), np.uint8)
    large[:, 0, 2:-2, 2:-2] = brightness.repeat(3, axis=1).repeat(3, axis=2)
    return large
