"""Causes of idle GPU streams: the host had not asked for more, a launch takes its time, or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.gpu_breakdown import Whole, Work
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import IntArray

LAUNCH_NS: Final = 30_000  # a shorter gap between two kernels is what launching costs
UNKNOWN: Final = -1


@dataclass(frozen=True, kw_only=True)
class StreamIdle:
    """Gaps between the work of one stream.

    Attributes:
        processor: Of which GPU.
        stream: Its number.
        gaps: How many.
        host_ns: Time of gaps in which the next work had not been asked for: the CPU was too slow.
        launch_ns: Time of other gaps shorter than `LAUNCH_NS`.
        other_ns: Time of the others: waiting for another stream or GPU, or the trace does not say
            when the next work was asked for.
    """

    processor: str
    stream: int
    gaps: int
    host_ns: int
    launch_ns: int
    other_ns: int


def idle_by_cause(work: Work, stream: Whole, asked_ns: IntArray) -> tuple[StreamIdle, ...]:
    """The gaps of each stream by their cause, in the order of processors and streams.

    Args:
        work: What ran.
        stream: Number of the stream of each piece, shape (n,).
        asked_ns: When the call that asked for it began, `UNKNOWN` where not known, shape (n,).

    Raises:
        InvalidValueError: Columns differ in length.
    """
    if not len(work) == len(stream) == len(asked_ns):
        raise InvalidValueError("columns of work differ in length", id="unequal-lengths")
    order = np.lexsort((work.end_ns, work.start_ns, work.stretch, stream, work.processor))
    keys = (work.processor[order], stream[order])
    changes = np.flatnonzero((np.diff(keys[0]) != 0) | (np.diff(keys[1]) != 0)) + 1
    return tuple(
        _of_stream(work.take(rows), int(stream[rows[0]]), asked_ns[rows])
        for rows in (np.split(order, changes) if len(order) else ())
    )


def _of_stream(work: Work, stream: int, asked_ns: IntArray) -> StreamIdle:
    """Of the work of one stream, in order of begin."""
    latest_end = np.maximum.accumulate(work.end_ns)[:-1]
    gap = work.start_ns[1:] - latest_end
    gap[np.diff(work.stretch) != 0] = 0  # nothing was recorded in between
    asked = asked_ns[1:]
    host = (asked != UNKNOWN) & (asked > latest_end)
    launch = ~host & (gap < LAUNCH_NS)
    idle = gap > 0

    def time(of: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
        return int(gap[of & idle].sum())

    return StreamIdle(
        processor=work.processors[int(work.processor[0])],
        stream=stream,
        gaps=int(idle.sum()),
        host_ns=time(host),
        launch_ns=time(launch),
        other_ns=time(~host & ~launch),
    )
