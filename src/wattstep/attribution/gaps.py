"""Time in which a processor does nothing, cut by what was going on meanwhile, so that the parts add up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

LAUNCHED: Final = "launched, not yet running"
WAITING: Final = "waiting for a device"
DISPATCH: Final = "operations that launch the next work"
SYNCHRONISATION: Final = "waiting for a synchronisation"
COPY: Final = "waiting for a copy"
# Calls that return when a device has done something; asynchronous ones do not.
_WAITS: Final = re.compile(
    r"^(cuda|hip|cu|musa)(Device|Stream|Event|Ctx)Synchronize|^(cuda|hip)Memcpy(WithStream)?$|"
    r"^aclrtSynchronize"
)


def is_wait(name: str) -> bool:
    """True if a call of this name waits for a device."""
    return bool(_WAITS.match(name))


@dataclass(frozen=True, kw_only=True, eq=False)
class Spans:
    """Intervals in ns; they may overlap, and are in no order. Both arrays have shape (n,)."""

    start_ns: IntArray
    end_ns: IntArray

    @classmethod
    def of(cls, start_ns: ArrayLike, end_ns: ArrayLike) -> Spans:
        """From any integers."""
        return cls(start_ns=np.asarray(start_ns, np.int64), end_ns=np.asarray(end_ns, np.int64))

    def within(self, begin: int, end: int) -> Spans:
        """Part of them between two times."""
        start, stop = np.clip(self.start_ns, begin, end), np.clip(self.end_ns, begin, end)
        return Spans(start_ns=start[stop > start], end_ns=stop[stop > start])

    def later(self, ns: int) -> Spans:
        """All of them so much later."""
        return Spans(start_ns=self.start_ns + ns, end_ns=self.end_ns + ns)

    def union(self) -> Spans:
        """Union as intervals that do not touch, in order."""
        order = np.argsort(self.start_ns, kind="stable")
        start, latest_end = self.start_ns[order], np.maximum.accumulate(self.end_ns[order])
        if not len(start):
            return self
        begins = np.append(True, start[1:] > latest_end[:-1])
        first = np.flatnonzero(begins)
        return Spans(
            start_ns=start[first], end_ns=latest_end[np.append(first[1:] - 1, len(start) - 1)]
        )

    def holes(self, begin: int, end: int) -> Spans:
        """The time between two times that none of them covers, in order."""
        covered = self.within(begin, end).union()
        starts = np.concatenate([[begin], covered.end_ns])
        ends = np.concatenate([covered.start_ns, [end]])
        some = ends > starts
        return Spans(start_ns=starts[some], end_ns=ends[some])

    def without(self, other: Spans) -> Spans:
        """Their time that the other intervals do not cover, in order."""
        mine = self.union()
        if not len(mine.start_ns):
            return mine
        begin, end = int(mine.start_ns[0]), int(mine.end_ns[-1])
        return mine.both(other.holes(begin, end))

    def both(self, other: Spans) -> Spans:
        """The time that these and the other intervals cover, in order."""
        mine, theirs = self.union(), other.union()
        edges = np.unique(
            np.concatenate([mine.start_ns, mine.end_ns, theirs.start_ns, theirs.end_ns])
        )
        if len(edges) < 2:
            return Spans.of([], [])
        inside = mine.covers(edges[:-1]) & theirs.covers(edges[:-1])
        return Spans(start_ns=edges[:-1][inside], end_ns=edges[1:][inside]).union()

    def covers(self, t_ns: IntArray) -> BoolArray:
        """Mask of the times that lie in one of these, which are a union; ends do not belong to them."""
        if not len(self.start_ns):
            return np.zeros(len(t_ns), bool)
        at = np.searchsorted(self.start_ns, t_ns, side="right") - 1
        inside: BoolArray = (at >= 0) & (t_ns < self.end_ns[np.maximum(at, 0)])
        return inside

    @property
    def total_s(self) -> float:
        """Their lengths together, in s; of a union the time that they cover."""
        return float((self.end_ns - self.start_ns).sum()) * 1e-9


def joined(parts: Sequence[Spans]) -> Spans:
    """All intervals of several."""
    if not parts:
        return Spans.of([], [])
    return Spans(
        start_ns=np.concatenate([part.start_ns for part in parts]),
        end_ns=np.concatenate([part.end_ns for part in parts]),
    )


def by_cause(idle: Spans, causes: Mapping[str, Spans], otherwise: str) -> dict[str, float]:
    """Time in s of idle intervals by what went on: the first cause that covers an instant takes it.

    Args:
        idle: The intervals; they do not overlap.
        causes: What went on when, the more telling first.
        otherwise: What is left is called.

    Returns:
        Times that add up to that of `idle`.
    """
    return {name: spans.total_s for name, spans in cut_by_cause(idle, causes, otherwise).items()}


def cut_by_cause(idle: Spans, causes: Mapping[str, Spans], otherwise: str) -> dict[str, Spans]:
    """Idle intervals cut by what went on, as `by_cause` counts them."""
    left = idle
    parts: dict[str, Spans] = {}
    for name, spans in causes.items():
        parts[name] = left.both(spans)
        left = left.without(spans)
    rest = joined([parts[otherwise], left]) if otherwise in parts else left
    return {**parts, otherwise: rest}


def device_gap_spans(
    begin_ns: int,
    end_ns: int,
    work: Spans,
    launched_ns: FloatArray,
    host: Mapping[str, Spans],
    otherwise: str,
) -> dict[str, Spans]:
    """The intervals of a step in which a device has no work, by why it has none.

    From the launch of the work that ends a gap on, the gap is the device's and the driver's
    (`LAUNCHED`); before it, and after the last work, it is whatever the host was doing.

    Args:
        begin_ns: Begin of the step.
        end_ns: Its end.
        work: Work on the device.
        launched_ns: When the call that launched each of it began; NaN where not known.
        host: What the host did when, the more telling first.
        otherwise: What it did when none of these.
    """
    holes = work.holes(begin_ns, end_ns)
    order = np.argsort(work.start_ns, kind="stable")
    starts, launched = work.start_ns[order], launched_ns[order]
    at = np.searchsorted(starts, holes.end_ns, side="left")
    next_launch = np.append(launched, np.nan)[np.minimum(at, len(launched))]
    # What begins right at the end of the gap ended it; after the last there is nothing.
    ended = (at < len(starts)) & (
        np.append(starts, -1)[np.minimum(at, len(starts))] == holes.end_ns
    )
    cut = np.where(ended & np.isfinite(next_launch), next_launch, np.inf)
    cut = np.clip(cut, holes.start_ns, holes.end_ns).astype(np.int64)
    before = Spans(start_ns=holes.start_ns, end_ns=cut).within(begin_ns, end_ns)
    after = Spans(start_ns=cut, end_ns=holes.end_ns).within(begin_ns, end_ns)
    return {LAUNCHED: after, **cut_by_cause(before, host, otherwise)}
