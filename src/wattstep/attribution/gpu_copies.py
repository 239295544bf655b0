"""Copies and fills of GPUs: which way each goes, how many bytes it moved and how long that took."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.gpu_breakdown import Work
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import FloatArray, IntArray

FILL, WITHIN, ACROSS = 1, 2, 3  # kinds of copies
_FILL: Final = re.compile(r"(?i)^(\[CUDA )?(hip)?memset|^fillbuffer")
_COPY: Final = re.compile(r"(?i)^(\[CUDA )?(hip)?memcpy|^copy(kernel)?(host|device)")
_WAYS: Final = (
    ("host to device", re.compile(r"(?i)HtoD|HtoA|copy\w*hosttodevice")),
    ("device to host", re.compile(r"(?i)DtoH|AtoH|copy\w*devicetohost")),
    ("within the host", re.compile(r"(?i)HtoH")),
    ("device to device", re.compile(r"(?i)PtoP|peer")),
)
FILLS: Final = "fill"
INSIDE: Final = "within the device"


def way_of(name: str) -> str:
    """Way of a copy by its name; "" for what is none."""
    if _FILL.search(name):
        return FILLS
    if not _COPY.search(name):
        return ""
    return next((way for way, words in _WAYS if words.search(name)), INSIDE)


def copies_of(names: Sequence[str]) -> IntArray:
    """What rows of these names are: 0 no copy, `FILL`, `WITHIN` the GPU, `ACROSS` to or from the host.

    Args:
        names: Of rows on a GPU, shape (n,).
    """
    kinds = {"": 0, FILLS: FILL, INSIDE: WITHIN, "device to device": WITHIN}
    return np.array([kinds.get(way_of(name), ACROSS) for name in names], np.int64)


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Copies of one GPU in one way.

    Attributes:
        processor: Which.
        way: As `way_of`.
        count: How many.
        total_ns: Their durations together.
        bytes: What they moved, as far as the trace tells it.
        unknown: Of how many it does not.
    """

    processor: str
    way: str
    count: int
    total_ns: int
    bytes: int
    unknown: int


def copies(work: Work, size: FloatArray) -> tuple[Copies, ...]:
    """Copies and fills of each GPU by their way, most time first.

    Args:
        work: What ran.
        size: Bytes that each piece moved, NaN where not known, shape (n,).

    Raises:
        InvalidValueError: Columns differ in length.
    """
    if len(size) != len(work):
        raise InvalidValueError("columns of work differ in length", id="unequal-lengths")
    ways = [way_of(name) for name in work.names]
    lasting = work.end_ns - work.start_ns
    by_way = []
    for processor, name in enumerate(work.processors):
        for way in dict.fromkeys(ways):
            codes = [code for code, each in enumerate(ways) if each == way]
            mine = np.flatnonzero((work.processor == processor) & np.isin(work.name, codes))
            if way and len(mine):
                by_way.append(
                    Copies(
                        processor=name,
                        way=way,
                        count=len(mine),
                        total_ns=int(lasting[mine].sum()),
                        bytes=int(np.nansum(size[mine])),
                        unknown=int(np.isnan(size[mine]).sum()),
                    )
                )
    return tuple(sorted(by_way, key=lambda one: (one.processor, -one.total_ns)))
