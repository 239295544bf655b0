"""Samples in memory with the facts about them, and the files that they come from."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import DataFacts

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Training and test samples of a supervised workload.

    Attributes:
        inputs: (N, ...) as they lie on disk: pixels, characters, sound.
        targets: (N, ...) a class, a class for each position, or numbers.
        held_out_inputs: (M, ...) samples that are never trained on; M may be 0.
        held_out_targets: (M, ...).
        facts: Where they come from; its `samples` is N.
    """

    inputs: Array
    targets: Array
    held_out_inputs: Array
    held_out_targets: Array
    facts: DataFacts


def describe(
    *,
    name: str,
    inputs: Array,
    targets: Array,
    held_out: tuple[Array, Array] | None = None,
    stands_for: str | None = None,
) -> Samples:
    """Samples with their facts.

    Args:
        held_out: Inputs and targets to judge by; none where the source has none.
        stands_for: The official set that they replace, or None where they are official.
    """
    facts = DataFacts(
        name=name,
        stand_in=stands_for is not None,
        stands_for=stands_for,
        sha256=hash_arrays(inputs, targets),
        samples=len(inputs),
    )
    kept_inputs, kept_targets = (inputs[:0], targets[:0]) if held_out is None else held_out
    return Samples(
        inputs=inputs,
        targets=targets,
        held_out_inputs=kept_inputs,
        held_out_targets=kept_targets,
        facts=facts,
    )


def hash_arrays(*arrays: Array) -> str:
    """SHA-256 over the shape and the content of each array, in hexadecimal digits."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()


def spread_evenly(paths: Sequence[Path], count: int) -> list[Path]:
    """At most so many of them, at equal distances."""
    count = min(count, len(paths))
    return [paths[n * len(paths) // count] for n in range(count)]


def folders(root: Path) -> Iterator[Path]:
    """The folder itself, its sub-folders and theirs, in that order, each level sorted.

    Raises:
        InvalidValueError: It is no folder: a mistyped path must not end in a stand-in.
    """
    if not root.is_dir():
        raise InvalidValueError(
            f"{root}: there is no such folder to read data from", id="no-such-folder"
        )
    yield root
    for pattern in ("*", "*/*"):
        yield from sorted(path for path in root.glob(pattern) if path.is_dir())


def find_file(data_dir: Path | None, *names: str) -> Path | None:
    """The first file of one of these names in a folder; None where there is none, or no folder.

    Raises:
        InvalidValueError: `data_dir` is no folder.
    """
    if data_dir is None:
        return None
    candidates = (folder / name for folder in folders(data_dir) for name in names)
    return next((path for path in candidates if path.is_file()), None)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked where its name ends in .gz.

    Raises:
        InvalidValueError: It cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidValueError(
            f"{path}: cannot be read ({error})", id="unreadable-data-file"
        ) from error


def check_classes(path: Path, targets: Array, *, classes: int) -> None:
    """Refuses labels that no class has.

    Raises:
        InvalidValueError: A label is `classes` or more.
    """
    if targets.size and int(targets.max()) >= classes:
        raise InvalidValueError(
            f"{path}: label {int(targets.max())}, but there are {classes} classes",
            id="unknown-label",
        )
