"""Pictures with or without a person, 3×96×96: Visual Wake Words, or photographs in its place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require
from wattstep.workloads.data.samples import Array, Bytes, Samples, describe, folders, read_bytes
from wattstep.workloads.data.scikit_images import read_photographs

NAME = "Visual Wake Words"
SIDE = 96
# Bytes become -1 to 1; the reference divides by 255, which its first layer can make up for.
MEAN = (0.5, 0.5, 0.5)
DEVIATION = (0.5, 0.5, 0.5)
# Classes 0 and 1, as in the folders of MLPerf Tiny.
FOLDERS = ("non_person", "person")
# A person must fill this share of a picture to count (Chowdhery et al., arXiv 1906.05721).
LEAST_AREA = 0.005
# Of 110 thousand: 111 MB at 28 kB each.
LIMIT = 4_000
HELD_OUT_SHARE = 10

# A picture, and whether a person is in it.
Labelled = tuple[Path, int]


def read_pictures(data_dir: Path | None, *, limit: int = LIMIT) -> Samples:
    """Pictures (N, 3, 96, 96) with their classes: 0 without a person, 1 with one.

    Two forms are known: the folders `person` and `non_person` of MLPerf Tiny, of which every
    tenth picture is held out; and COCO itself, `annotations/instances_train*.json` beside
    folders of pictures, where those of `instances_val*.json` are held out if they are there.
    COCO's annotations take gigabytes to read.

    Args:
        data_dir: Where they lie.
        limit: The most pictures to read, half of each class, evenly spread over the names.

    Raises:
        InvalidValueError: They are there, but cannot be read.
        MissingPartError: Pillow is not installed, or there is nothing and no scikit-learn.
    """
    if data_dir is not None:
        for folder in folders(data_dir):
            if all((folder / name).is_dir() for name in FOLDERS):
                return _official(_from_folders(folder), None, limit)
            annotations = sorted(folder.glob("instances_train*.json"))
            if annotations:
                beside = _beside(annotations[0])
                held_out = None if beside is None else _from_coco(beside)
                return _official(_from_coco(annotations[0]), held_out, limit)
    return _stand_in()


def _beside(annotations: Path) -> Path | None:
    """The annotations of the validation pictures, if they lie there."""
    path = annotations.with_name(annotations.name.replace("train", "val", 1))
    return path if path.is_file() else None


def _from_folders(folder: Path) -> list[Labelled]:
    return [
        (path, target)
        for target, name in enumerate(FOLDERS)
        for path in sorted((folder / name).glob("*.jpg"))
    ]


def _from_coco(annotations: Path) -> list[Labelled]:
    """The pictures that a file of annotations lists; they lie in a folder of the same name."""
    content = read_bytes(annotations)
    folder = annotations.parent.parent / annotations.stem.removeprefix("instances_")
    try:
        document = json.loads(content)
        people = _people(document)
        return sorted(
            # Of the file's choosing is the name alone, not the folder.
            (folder / Path(image["file_name"]).name, int(image["id"] in people))
            for image in document["images"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise InvalidValueError(
            f"{annotations}: not annotations of COCO, or damaged ({error!r})",
            id="damaged-data-file",
        ) from error


def _people(document: Any) -> set[int]:
    """The pictures (by id) of which a person fills half a per cent or more."""
    person = {each["name"]: each["id"] for each in document["categories"]}["person"]
    sizes = {image["id"]: image["width"] * image["height"] for image in document["images"]}
    return {
        each["image_id"]
        for each in document["annotations"]
        if each["category_id"] == person and each["area"] / sizes[each["image_id"]] > LEAST_AREA
    }


def _official(trained: list[Labelled], held_out: list[Labelled] | None, limit: int) -> Samples:
    chosen = _balance(trained, limit)
    if held_out is None:
        # In pairs, one picture of each class.
        last = [n // 2 % HELD_OUT_SHARE == HELD_OUT_SHARE - 1 for n in range(len(chosen))]
        held_out_images = [each for each, out in zip(chosen, last, strict=True) if out]
        chosen = [each for each, out in zip(chosen, last, strict=True) if not out]
    else:
        held_out_images = _balance(held_out, limit // HELD_OUT_SHARE)
    inputs, targets = _read(chosen)
    name = f"{NAME}, {len(inputs)} of its pictures"
    return describe(name=name, inputs=inputs, targets=targets, held_out=_read(held_out_images))


def _balance(pictures: Sequence[Labelled], limit: int) -> list[Labelled]:
    """As many of one class as of the other, in turns, each evenly spread."""
    classes = [[each for each in pictures if each[1] == target] for target in (0, 1)]
    share = min(max(1, limit // 2), *(len(each) for each in classes))
    if not share:
        where = pictures[0][0].parent if pictures else "Visual Wake Words"
        raise InvalidValueError(
            f"{where}: pictures of both kinds are needed, with people and without",
            id="one-kind-of-pictures",
        )
    return [each[n * len(each) // share] for n in range(share) for each in classes]


def _read(pictures: Iterable[Labelled]) -> tuple[Array, Array]:
    chosen = list(pictures)
    inputs: Bytes = np.empty((len(chosen), 3, SIDE, SIDE), np.uint8)
    for number, (path, _) in enumerate(chosen):
        inputs[number] = read_picture(path)
    return inputs, np.array([target for _, target in chosen], np.uint8)


def read_picture(path: Path) -> Bytes:
    """The picture (3, 96, 96) in red, green and blue, squeezed where it has another shape.

    Raises:
        InvalidValueError: It is no picture, damaged, or too large to be a photograph.
    """
    pillow = require("PIL.Image")
    try:
        with pillow.open(path) as picture:
            picture.draft("RGB", (SIDE, SIDE))  # lets JPEG decode no more than is needed
            small = picture.convert("RGB").resize((SIDE, SIDE), pillow.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise InvalidValueError(
            f"{path}: not a picture, or damaged ({error})", id="damaged-data-file"
        ) from error
    pixels: Bytes = np.asarray(small).transpose(2, 0, 1)
    return pixels


# The stand-in: at half the resolution, in which the photographs are 320×213. What lies to the
# right of the boundary is held out.
BOUNDARY = 224
STRIDE = 8


def _stand_in() -> Samples:
    photographs = read_photographs()
    halves = [halve(photograph) for photograph in photographs]
    inputs, targets = _cut([half[:, :, :BOUNDARY] for half in halves], stride=STRIDE)
    return describe(
        name="scikit-learn sample photographs in patches of 96×96; class: which of the two",
        inputs=inputs,
        targets=targets,
        held_out=_cut([half[:, :, BOUNDARY:] for half in halves], stride=STRIDE // 4),
        stands_for=NAME,
    )


def halve(photograph: Bytes) -> Bytes:
    """A photograph (H, W, 3) as (3, H // 2, W // 2): each 2×2 pixels averaged."""
    height, width = (length // 2 for length in photograph.shape[:2])
    even = photograph[: 2 * height, : 2 * width].transpose(2, 0, 1)
    halved: Bytes = even.reshape(3, height, 2, width, 2).mean(axis=(2, 4)).astype(np.uint8)
    return halved


def _cut(photographs: Sequence[Bytes], *, stride: int) -> tuple[Array, Array]:
    """Patches (N, 3, 96, 96) of photographs (3, H, W), and which of them each is from (N,)."""
    windows = [
        np.lib.stride_tricks.sliding_window_view(each, (SIDE, SIDE), axis=(1, 2))[
            :, ::stride, ::stride
        ]
        for each in photographs
    ]
    patches = [each.reshape(3, -1, SIDE, SIDE).swapaxes(0, 1) for each in windows]
    targets = np.repeat(np.arange(len(patches), dtype=np.uint8), [len(each) for each in patches])
    return np.concatenate(patches), targets
