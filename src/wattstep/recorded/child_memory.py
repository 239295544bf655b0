"""Memory that child processes add to a training, over time: a page that they share counts once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.recorded.memory import METHOD, SOURCE, Stretch
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status

Samples = tuple[IntArray, FloatArray]  # times in ns, bytes

SHARED_ONCE = (
    "plus what children add meanwhile, shared pages counted once: proportional sizes read now and "
    "then, resident sets in between; the interval holds what lies between those reads and, at its "
    "upper end, that both peaks meet"
)
SUMMED = "plus the resident sets of its children"
NOT_TOLD = (
    "no proportional size of theirs was read: what they share with the training or each other may "
    "be counted several times"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Added:
    """Bytes that children add to what their parent has resident.

    Attributes:
        t_ns: Times in ns, rising.
        value: The best estimate, shape as `t_ns`.
        low: No less than this.
        high: No more than this.
        shared_known: True if shared pages were told from others at any time.
    """

    t_ns: IntArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    shared_known: bool

    def without(self, spans: Iterable[Sequence[int]]) -> Added:
        """Without these stretches, begin and end in ns."""
        mine = np.ones(len(self.t_ns), dtype=bool)
        for begin, end in spans:
            mine &= (self.t_ns < begin) | (self.t_ns > end)
        return Added(
            t_ns=self.t_ns[mine], value=self.value[mine], low=self.low[mine], high=self.high[mine],
            shared_known=self.shared_known,
        )  # fmt: skip

    def within(self, stretch: Stretch) -> BoolArray:
        """Mask of the times in a stretch."""
        return (self.t_ns >= stretch.begin_ns) & (self.t_ns <= stretch.end_ns)

    def at(self, t_ns: int) -> tuple[float, float]:
        """Value and low between the samples; those of the nearest beyond them."""
        times = (self.t_ns - self.t_ns[0]).astype(float)
        when = float(t_ns - self.t_ns[0])
        return float(np.interp(when, times, self.value)), float(np.interp(when, times, self.low))


def added_memory(resident: Samples, added: Samples, shared: Samples) -> Added:
    """Memory of children, from resident sets read often and proportional ones read now and then.

    At a proportional read it is what that read says; between two, on a line from one to the other.
    Where less is resident than at both, it is less in proportion; where more is, children that
    neither of them saw may share as much of it as the others do, or nothing.

    Args:
        resident: Sum of the children's resident sets; a page of several counts several times.
        added: What they add by the proportional reads.
        shared: What they have resident beside that, at the same times as `added`.
    """
    known = np.isfinite(added[1]) & np.isfinite(shared[1])
    read_ns, alone, shared_part = added[0][known], added[1][known], shared[1][known]
    seen = np.isfinite(resident[1])
    often_ns, size = resident[0][seen], resident[1][seen]
    whole = alone + shared_part
    if not whole.any():
        return Added(
            t_ns=often_ns, value=size, low=np.zeros(len(size)), high=size, shared_known=False
        )
    share = float(alone.sum() / whole.sum())
    # A read that saw no children tells nothing of what those that came since share; they may add 0.
    least_alone = alone[_beside(read_ns, often_ns)].min(axis=0)
    there = whole > 0
    told_ns, sampled, size_then = read_ns[there], alone[there], whole[there]
    beside = _beside(told_ns, often_ns)
    least, most = size_then[beside].min(axis=0), size_then[beside].max(axis=0)
    left = np.divide(size, least, out=np.ones(len(size)), where=size < least)
    more = np.maximum(size - most, 0.0)
    since = (often_ns - told_ns[0]).astype(np.float64)
    line = np.interp(since, (told_ns - told_ns[0]).astype(np.float64), sampled)
    value = np.minimum(line * left + more * share, size)
    low = np.minimum(least_alone * left, value)
    high = np.minimum(sampled[beside].max(axis=0) + more, size)
    t_ns = np.concatenate([often_ns, read_ns])
    order = np.argsort(t_ns, kind="stable")
    value, low, high = (np.concatenate([part, alone])[order] for part in (value, low, high))
    return Added(t_ns=t_ns[order], value=value, low=low, high=high, shared_known=True)


def _beside(read_ns: IntArray, t_ns: IntArray) -> IntArray:
    """Positions of the reads before and after each time, or of the nearest twice; shape (2, t)."""
    after = np.searchsorted(read_ns, t_ns)
    return np.stack([np.maximum(after - 1, 0), np.minimum(after, len(read_ns) - 1)])


@dataclass(frozen=True, kw_only=True)
class _Peak:
    """Of one stretch, in bytes; `own` is the training process's part of `value`."""

    value: float
    own: float
    low: float
    high: float


def family_peak(stretches: Sequence[Stretch], own: Samples, added: Added) -> tuple[Figure, float]:
    """Most memory that a training and its children held at once, and the children's part of it.

    The high-water mark of the training's own process is exact and has no time; it is taken to have
    been reached when its samples were highest. What children add is known at the samples.

    Args:
        stretches: Of the training's own process, at least one.
        own: Samples of its resident memory.
        added: By the children; at least one sample.
    """
    peaks = [_peak_of(stretch, own, added) for stretch in stretches]
    best = max(peaks, key=lambda peak: peak.value)
    figure = Figure(
        value=best.value,
        unit="B",
        low=max(peak.low for peak in peaks),
        high=max(peak.high for peak in peaks),
        n=len(stretches),
        method=f"{METHOD}, {SHARED_ONCE if added.shared_known else SUMMED}",
        status=Status.MEASURED if added.shared_known else Status.ATTRIBUTED,
        source=SOURCE,
        reason=None if added.shared_known else NOT_TOLD,
    )
    return figure, best.value - best.own


def _peak_of(stretch: Stretch, own: Samples, added: Added) -> _Peak:
    """The higher of two moments: when the process held most, and when both together did."""
    t_ns, size = own
    inside = (t_ns >= stretch.begin_ns) & (t_ns <= stretch.end_ns) & np.isfinite(size)
    t_ns, size = t_ns[inside], size[inside]
    mine = added.within(stretch)
    highest = t_ns[np.argmax(size)] if len(size) else stretch.end_ns
    value, low = added.at(int(highest))
    peak = _Peak(
        value=stretch.size + value,
        own=stretch.size,
        low=stretch.size + low,
        high=stretch.size + max(added.high[mine].max(initial=0.0), value),
    )
    if not mine.any() or not len(size):
        return peak
    held = np.interp(
        (added.t_ns[mine] - t_ns[0]).astype(float), (t_ns - t_ns[0]).astype(float), size
    )
    held = np.minimum(held - stretch.held, stretch.size)
    together = held + added.value[mine]
    best = int(np.argmax(together))
    low = max(peak.low, float((held + added.low[mine]).max()))
    if together[best] <= peak.value:
        return _Peak(value=peak.value, own=peak.own, low=low, high=peak.high)
    return _Peak(value=float(together[best]), own=float(held[best]), low=low, high=peak.high)
