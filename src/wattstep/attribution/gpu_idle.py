"""Causes of idle GPU streams: the host had not asked for more, or waited itself; a launch; a copy; or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.gaps import Spans
from wattstep.attribution.gpu_breakdown import Whole, Work
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, IntArray

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
        sync_ns: Time of such gaps in which the host waited for the device itself.
        launch_ns: Time of other gaps shorter than `LAUNCH_NS`.
        copy_ns: Time of the others in which a copy to or from the host ran in another stream.
        other_ns: What is left: waiting for another stream or GPU, or the trace does not say when the
            next work was asked for.
    """

    processor: str
    stream: int
    gaps: int
    host_ns: int
    sync_ns: int
    launch_ns: int
    copy_ns: int
    other_ns: int


def idle_by_cause(
    work: Work, stream: Whole, asked_ns: IntArray, copy: BoolArray, waits: Spans
) -> tuple[StreamIdle, ...]:
    """The gaps of each stream by their cause, in the order of processors and streams.

    Args:
        work: What ran.
        stream: Number of the stream of each piece, shape (n,).
        asked_ns: When the call that asked for it began, `UNKNOWN` where not known, shape (n,).
        copy: Which are copies to or from the host, shape (n,).
        waits: When the host waited for a device.

    Raises:
        InvalidValueError: Columns differ in length.
    """
    if not len(work) == len(stream) == len(asked_ns) == len(copy):
        raise InvalidValueError("columns of work differ in length", id="unequal-lengths")
    order = np.lexsort((work.end_ns, work.start_ns, work.stretch, stream, work.processor))
    keys = (work.processor[order], stream[order])
    changes = np.flatnonzero((np.diff(keys[0]) != 0) | (np.diff(keys[1]) != 0)) + 1
    copies = {
        code: Spans.of(work.start_ns[mine], work.end_ns[mine])
        for code in np.unique(work.processor).tolist()
        if len(mine := np.flatnonzero(copy & (work.processor == code)))
    }
    nothing = Spans.of([], [])
    return tuple(
        _of_stream(
            work.take(rows),
            int(stream[rows[0]]),
            asked_ns[rows],
            copies.get(int(work.processor[rows[0]]), nothing),
            waits,
        )
        for rows in (np.split(order, changes) if len(order) else ())
    )


def _of_stream(
    work: Work, stream: int, asked_ns: IntArray, copies: Spans, waits: Spans
) -> StreamIdle:
    """Of the work of one stream, in order of begin."""
    latest_end = np.maximum.accumulate(work.end_ns)[:-1]
    gap = work.start_ns[1:] - latest_end
    gap[np.diff(work.stretch) != 0] = 0  # nothing was recorded in between
    asked = asked_ns[1:]
    host = (asked != UNKNOWN) & (asked > latest_end)
    launch = ~host & (gap < LAUNCH_NS)
    idle = gap > 0

    def time(of: BoolArray, cause: Spans | None = None) -> int:
        chosen = of & idle
        if cause is None:
            return int(gap[chosen].sum())
        both = Spans.of(latest_end[chosen], (latest_end + gap)[chosen]).both(cause)
        return int((both.end_ns - both.start_ns).sum())

    synchronised, copied = time(host, waits), time(~host & ~launch, copies)
    return StreamIdle(
        processor=work.processors[int(work.processor[0])],
        stream=stream,
        gaps=int(idle.sum()),
        host_ns=time(host) - synchronised,
        sync_ns=synchronised,
        launch_ns=time(launch),
        copy_ns=copied,
        other_ns=time(~host & ~launch) - copied,
    )
