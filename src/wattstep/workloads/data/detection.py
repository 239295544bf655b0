"""Scenes with boxes around their objects: digits on photographs, in place of COCO."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wattstep.workloads.data.mnist import read_digits
from wattstep.workloads.data.samples import Array, Bytes, Samples, describe
from wattstep.workloads.data.scikit_images import read_photographs

STANDS_FOR = "COCO"
CLASSES = 10
SIDE = 320
# The longer side of each object of a scene, as shares of the picture: small ones lie on top.
SIZES = (0.95, 0.8, 0.65, 0.5, 0.35, 0.2)
TRAINED, HELD_OUT = 128, 32
# Width and height of what is cut out of a photograph and enlarged; left of the boundary for
# training, right of it to be held out.
WINDOW = 256
BOUNDARY = 384
# So that pixels become -1 to 1, as the reference has it.
MEAN = (0.5, 0.5, 0.5)
DEVIATION = (0.5, 0.5, 0.5)


def read_scenes(data_dir: Path | None) -> Samples:
    """Scenes (N, 3, 320, 320) with six objects each (N, 6, 5): class, left, top, right, bottom.

    Classes are the digits 0 to 9; the box is in pixels of the scene. Always a stand-in: the
    photographs are scikit-learn's; the digits are MNIST where it lies in `data_dir`.

    Raises:
        InvalidValueError: MNIST is there, but cannot be read.
        MissingPartError: scikit-learn or Pillow is not installed.
    """
    digits = read_digits(data_dir)
    photographs = read_photographs()
    random = np.random.default_rng(0)
    inputs, targets = _compose(
        [photo[:, :BOUNDARY] for photo in photographs],
        (digits.inputs[:, 0], digits.targets),
        count=TRAINED,
        random=random,
    )
    held_out = _compose(
        [photo[:, BOUNDARY:] for photo in photographs],
        (digits.held_out_inputs[:, 0], digits.held_out_targets),
        count=HELD_OUT,
        random=random,
    )
    return describe(
        name=f"digits ({digits.facts.name}) on scikit-learn's sample photographs, with boxes",
        inputs=inputs,
        targets=targets,
        held_out=held_out,
        stands_for=STANDS_FOR,
    )


def _compose(
    photographs: list[Bytes],
    digits: tuple[Array, Array],
    *,
    count: int,
    random: np.random.Generator,
) -> tuple[Array, Array]:
    images, classes = digits
    scenes: Bytes = np.empty((count, 3, SIDE, SIDE), np.uint8)
    objects = np.empty((count, len(SIZES), 5), np.int16)
    for number in range(count):
        scenes[number] = _background(photographs[number % len(photographs)], random)
        for rank, size in enumerate(SIZES):
            chosen = random.integers(len(images))
            box = _paste(images[chosen], scenes[number], int(size * SIDE), random)
            objects[number, rank] = (classes[chosen], *box)
    return scenes, objects


def _background(photograph: Bytes, random: np.random.Generator) -> Bytes:
    """A window (3, 320, 320) from anywhere in a photograph (H, W, 3)."""
    top, left = (
        int(random.integers(length - WINDOW + 1)) if length > WINDOW else 0
        for length in photograph.shape[:2]
    )
    window = photograph[top : top + WINDOW, left : left + WINDOW]
    return enlarge(window.transpose(2, 0, 1), height=SIDE, width=SIDE)


def enlarge(image: Bytes, *, height: int, width: int) -> Bytes:
    """An image (..., H, W) in another size; each pixel is the nearest of the original."""
    rows = np.arange(height) * image.shape[-2] // height
    columns = np.arange(width) * image.shape[-1] // width
    enlarged: Bytes = image.take(rows, axis=-2).take(columns, axis=-1)
    return enlarged


def _paste(
    digit: Bytes, scene: Bytes, longer: int, random: np.random.Generator
) -> tuple[int, int, int, int]:
    """Draws a digit (28, 28) into a scene (3, H, W); returns the box that it just fills."""
    glyph = trim(digit)
    scale = longer / max(glyph.shape)
    height, width = (max(1, round(length * scale)) for length in glyph.shape)
    left, top = (int(random.integers(SIDE - length + 1)) for length in (width, height))
    opacity = enlarge(glyph, height=height, width=width).astype(np.float32) / 255
    colour = random.integers(0, 256, (3, 1, 1)).astype(np.float32)
    place = scene[:, top : top + height, left : left + width]
    place[:] = place + (colour - place) * opacity
    return left, top, left + width, top + height


def trim(digit: Bytes) -> Bytes:
    """The part of an image that is not black."""
    rows, columns = np.flatnonzero(digit.any(axis=1)), np.flatnonzero(digit.any(axis=0))
    return digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
