"""Reads the Python version of CIFAR-10 without running what a pickle may ask for.

A pickle can name any function to call. These files name three things of numpy (and one of the
standard library, where Python 3 wrote them); each is replaced here by a plain record, so that
nothing of the file's choosing is ever called.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import Bytes, read_bytes

# What unpickling garbage raises; the documentation of pickle lists some "and others".
FAULTS = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)


class _PickledType:
    """Stands for `numpy.dtype`: keeps the name."""

    def __init__(self, name: str | bytes, *flags: int) -> None:
        self.name = name.decode("ascii") if isinstance(name, bytes) else name

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Byte order and fields, which bytes do not have."""


class _PickledArray:
    """Stands for an array while it is read."""

    def __init__(self, *start: Any) -> None:
        self.array: Bytes | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, content = state
        if kind.name not in ("u1", "|u1", "uint8"):
            raise pickle.UnpicklingError(f"an array of {kind.name}, not of bytes")
        self.array = np.frombuffer(content, np.uint8).reshape(
            shape, order="F" if column_major else "C"
        )


def _encode(text: str, encoding: str | bytes) -> bytes:
    """Bytes as Python 3 spells them in the old protocols."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only what CIFAR-10 holds."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ALLOWED[module, name]


def read_pickled(path: Path, *, pixels: int) -> tuple[Bytes, Bytes]:
    """Images (N, pixels) and labels (N,) of one file of the Python version.

    Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Python / Matlab versions".

    Raises:
        InvalidValueError: It is no such file, damaged, or asks for anything else than arrays.
    """
    content = read_bytes(path)
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        images, labels = _entry(batch, "data").array, _entry(batch, "labels")
        targets = np.array(labels, np.uint8)
    except FAULTS as error:
        raise InvalidValueError(
            f"{path}: not a CIFAR-10 batch, or damaged ({error})", id="damaged-data-file"
        ) from error
    if images is None or images.ndim != 2 or images.shape[1] != pixels or not len(images):
        raise InvalidValueError(
            f"{path}: its images are not rows of {pixels} bytes", id="wrong-shape"
        )
    if targets.shape != (len(images),):
        raise InvalidValueError(
            f"{path}: {targets.size} labels for {len(images)} images", id="unequal-counts"
        )
    return images, targets


def _entry(batch: Any, key: str) -> Any:
    """Python 2 wrote the keys as bytes, Python 3 writes them as text."""
    return batch[key.encode()] if key.encode() in batch else batch[key]
