"""Traced steps of a device as they would have run untraced: the tracer's cost taken out, its queue played again.

A traced step begins with an empty queue, since the tracer waits for what was in it, and its host is
slower. So its work waited less than that of other steps, or the device waited more. What of it does
not change are the lengths of work and calls, the order in each stream, and what waited for what:
each piece begins again when all of that is there, as long after it as it did in the trace.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from wattstep.attribution.gpu_idle import LAUNCH_NS, UNKNOWN
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

DISTINCT: Final = 0.02  # of the product of their squares: below, two counts are as good as one
CLOSE_NS: Final = 2_000  # what begins so soon after something else waited for nothing more
Waited = Literal["call", "before", "aside"]
SOON: Final = (
    0.25  # quantile of how long launched work takes to begin, that of what waits for nothing
)


@dataclass(frozen=True, kw_only=True)
class TracingCost:
    """Cost of tracing a step in which a device works.

    Attributes:
        operation_s: Of each operation of the framework, for the host; NaN: not known.
        call_s: Of each call of the runtime, for the host; likewise.
        piece_s: Of each kernel, copy and fill, for the device; likewise.
        within_s: Part of it that lies within the piece's own length: what gaps between pieces that
            waited for nothing cannot hold.
        host_residual: Relative error with which the host's costs, fitted on odd windows, predict the
            clean phases beside even ones; NaN with fewer than four windows.
        device_residual: Likewise of the device's.
    """

    operation_s: float
    call_s: float
    piece_s: float
    within_s: float
    host_residual: float
    device_residual: float


def fit_host_cost(
    extra_s: FloatArray, operations: FloatArray, calls: FloatArray, beside_s: FloatArray
) -> tuple[float, float, float]:
    """Costs of an operation and of a call, and the residual of what they predict.

    Args:
        extra_s: By how much phases of traced steps last longer on the host than those of clean steps,
            shape (windows, phases); of phases in which it never waits.
        operations: Their operations, same shape.
        calls: Their calls of the runtime, same shape.
        beside_s: Of the same phases in clean steps in s, same shape.
    """
    if not extra_s.size:
        return math.nan, math.nan, math.nan

    def fitted(rows: slice) -> tuple[float, float]:
        counts = np.median(np.stack([operations, calls])[:, rows], axis=1)
        return _two_costs(np.median(extra_s[rows], axis=0), *counts)

    residual = math.nan
    if len(extra_s) >= 4:
        operation, call = fitted(slice(0, None, 2))
        left = (extra_s - operation * operations - call * calls)[1::2]
        residual = float(np.median(left.sum(axis=1) / beside_s[1::2].sum(axis=1)))
    return *fitted(slice(None)), residual


def _two_costs(
    extra_s: FloatArray, operations: FloatArray, calls: FloatArray
) -> tuple[float, float]:
    """Least squares without negative costs; one cost for both where their numbers go together."""
    of_both = operations @ calls
    squares = operations @ operations, calls @ calls
    determinant = squares[0] * squares[1] - of_both**2
    if determinant > DISTINCT * squares[0] * squares[1] > 0:
        sums = operations @ extra_s, calls @ extra_s
        operation = (squares[1] * sums[0] - of_both * sums[1]) / determinant
        call = (squares[0] * sums[1] - of_both * sums[0]) / determinant
        if operation >= 0 and call >= 0:
            return float(operation), float(call)
    events = operations + calls
    one = max(float(events @ extra_s) / max(float(events @ events), 1.0), 0.0)
    return one, one


def fit_piece_cost(
    extra_s: FloatArray, pieces: FloatArray, beside_s: FloatArray, measured_s: float = math.nan
) -> tuple[float, float]:
    """Cost of a piece of work, and the residual of what it predicts.

    Where it was measured, that is it, and phases only tell how well it predicts them.

    Args:
        extra_s: By how much phases of traced steps last longer on the device than those of clean
            steps, shape (windows, phases); of phases in which it always works.
        pieces: Their pieces of work, same shape.
        beside_s: Of the same phases in clean steps in s, same shape.
        measured_s: The cost as it was measured; NaN: it was not.
    """
    if not extra_s.size or not pieces.any():
        return measured_s, math.nan
    extra, count, beside = (each.sum(axis=1) for each in (extra_s, pieces, beside_s))
    each = extra / np.maximum(count, 1.0)
    if math.isfinite(measured_s):
        return measured_s, float(np.median((extra - measured_s * count) / beside))
    residual = math.nan
    if len(each) >= 4:
        cost = max(float(np.median(each[::2])), 0.0)
        residual = float(np.median((extra - cost * count)[1::2] / beside[1::2]))
    return max(float(np.median(each)), 0.0), residual


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What a piece of work needs before it begins.

    Attributes:
        before: The piece before it in its stream, `UNKNOWN` for none.
        aside: One of another stream, likewise.
        waited: Which of them it waited for in the trace.
    """

    before: int
    aside: int
    waited: Waited


@dataclass(frozen=True, kw_only=True, eq=False)
class Window:
    """A traced step of a device, in ns.

    Attributes:
        begin_ns: When the host began it.
        end_ns: When it had asked for all of it.
        reached_ns: When the device came to its begin.
        stamps_ns: Times of the host in the trace, in order, shape (s,).
        untraced_ns: The same untraced, had it waited as long as it did, shape (s,).
        waits_ns: Begin and end of calls that waited for a device, by their ends, shape (w, 2).
        joins_ns: Begin of calls that let a stream wait for another, shape (j,).
        start_ns: Begin of each piece of work, in order, shape (n,).
        finish_ns: Its end, shape (n,).
        stream: Number of its stream, shape (n,).
        call_ns: Begin of the call that asked for it, `UNKNOWN` where not known, shape (n,).
        followed: Whether it is of the device on whose timeline the steps lie, shape (n,).
        backlog_ns: From the begin of a clean step on the host to when the device comes to it.
    """

    begin_ns: int
    end_ns: int
    reached_ns: int
    stamps_ns: IntArray
    untraced_ns: FloatArray
    waits_ns: IntArray
    joins_ns: IntArray
    start_ns: IntArray
    finish_ns: IntArray
    stream: IntArray
    call_ns: IntArray
    followed: BoolArray
    backlog_ns: float

    @property
    def _before(self) -> IntArray:
        """The piece before each in its stream, `UNKNOWN` for the first, shape (n,)."""
        before = np.full(len(self.start_ns), UNKNOWN, np.int64)
        for stream in np.unique(self.stream):
            mine = np.flatnonzero(self.stream == stream)
            before[mine[1:]] = mine[:-1]
        return before

    @property
    def before_ns(self) -> IntArray:
        """When the piece before each ended in its stream, `UNKNOWN` for the first, shape (n,)."""
        before = self._before
        return np.where(before == UNKNOWN, UNKNOWN, self.finish_ns[before])

    def queued(self, launch_ns: float) -> BoolArray:
        """Pieces that waited for nothing but the one before them, shape (n,).

        Args:
            launch_ns: From a call to the begin of its work, where nothing else keeps it.
        """
        before = self.before_ns
        known: BoolArray = (before != UNKNOWN) & (self.call_ns != UNKNOWN)
        return known & (self.call_ns + launch_ns < before)

    @property
    def alone_ns(self) -> IntArray:
        """From its call to the begin of each piece whose stream had nothing to do, shape (m,)."""
        alone = (self.call_ns != UNKNOWN) & (self.before_ns < self.call_ns)
        alone_ns: IntArray = (self.start_ns - self.call_ns)[alone]
        return alone_ns

    def needs(self, launch_ns: float) -> list[Need]:
        """What each piece needs before it begins.

        Args:
            launch_ns: From a call to the begin of its work, where nothing else keeps it.
        """
        by_finish = np.argsort(self.finish_ns, kind="stable")
        last = np.searchsorted(self.finish_ns[by_finish], self.start_ns, side="right") - 1
        other = by_finish[np.maximum(last, 0)]
        ended = np.where(last >= 0, self.finish_ns[other], UNKNOWN)
        launched = np.where(self.call_ns != UNKNOWN, self.call_ns + launch_ns, -np.inf)
        behind = (self._before != UNKNOWN) & (self.before_ns >= launched)
        latest = np.where(behind, self.before_ns, launched)
        aside = (last >= 0) & (self.stream[other] != self.stream) & (ended > latest + CLOSE_NS)
        aside &= self.start_ns - ended < LAUNCH_NS
        columns = (self._before, np.where(aside, other, self._joined), behind, aside)
        return [
            Need(
                before=before,
                aside=beside,
                waited="aside" if of_other else "before" if of_own else "call",
            )
            for before, beside, of_own, of_other in zip(*(c.tolist() for c in columns), strict=True)
        ]

    @property
    def _joined(self) -> IntArray:
        """The last piece of other streams before each that the host told it to wait for, `UNKNOWN` for none."""
        joined = np.full(len(self.start_ns), UNKNOWN, np.int64)
        order = np.argsort(self.call_ns, kind="stable")
        calls = self.call_ns[order]
        for at in np.searchsorted(calls, self.joins_ns).tolist():
            if at >= len(order):
                continue
            piece, earlier = order[at], order[:at]
            others = earlier[self.stream[earlier] != self.stream[piece]]
            if len(others):
                joined[piece] = others[np.argmax(self.finish_ns[others])]
        return joined

    @property
    def main(self) -> int:
        """The stream of the device that works longest, which is that of the training's own."""
        streams, of_piece = np.unique(self.stream, return_inverse=True)
        lasting = np.bincount(of_piece, (self.finish_ns - self.start_ns) * self.followed)
        return int(streams[np.argmax(lasting)]) if len(streams) else UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Delays:
    """How long after what it waits for a piece begins, or a host goes on, in ns; medians of a run.

    Attributes:
        launch: From the begin of its call, where nothing else keeps it.
        between: From the end of the piece before it, where it had been asked for.
        wake: From the end of the last work to that of a call which waits for it.
    """

    launch: float
    between: float
    wake: float


def delays_of(windows: Sequence[Window]) -> Delays:
    """Delays in traced steps."""
    launch = _quantile([window.alone_ns for window in windows], SOON)
    between = [(window.start_ns - window.before_ns)[window.queued(launch)] for window in windows]
    wake = [_wakes(window) for window in windows]
    return Delays(launch=launch, between=_quantile(between, 0.5), wake=_quantile(wake, 0.5))


def _quantile(parts: Sequence[FloatArray | IntArray], q: float) -> float:
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(np.quantile(values, q)) if len(values) else 0.0


def _wakes(window: Window) -> FloatArray:
    """From the last work to the end of each call that waited for it."""
    ends = np.sort(window.finish_ns)
    if not len(ends):
        return np.zeros(0)
    at = np.searchsorted(ends, window.waits_ns[:, 1], side="right") - 1
    last = ends[np.maximum(at, 0)]
    binding = (at >= 0) & (last > window.waits_ns[:, 0])
    return (window.waits_ns[:, 1] - last)[binding].astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Replayed:
    """A traced step as it would have run untraced.

    Attributes:
        begin_ns: When the device comes to its begin.
        end_ns: To its end.
        start_ns: Begin of each piece of work, shape (n,).
        finish_ns: Its end, shape (n,).
        traced_ns: Times of the host in the trace, in order, shape (k,).
        host_ns: The same as they would have been; in between it is linear.
    """

    begin_ns: float
    end_ns: float
    start_ns: FloatArray
    finish_ns: FloatArray
    traced_ns: FloatArray
    host_ns: FloatArray

    def host(self, t_ns: IntArray) -> FloatArray:
        """Times of the host."""
        return interpolated(t_ns.astype(np.float64), self.traced_ns, self.host_ns)


def replay(window: Window, needs: Sequence[Need], delays: Delays, cost: TracingCost) -> Replayed:
    """Plays the queue of a traced step again.

    Args:
        window: The step.
        needs: As its `needs`.
        delays: Of the run.
        cost: Of a piece of work; that of the host is in the window.
    """
    return _Replay(window, needs, delays, cost).played()


class _Replay:
    """The host's clock and the device's as they go on; arguments as of `replay`."""

    def __init__(
        self, window: Window, needs: Sequence[Need], delays: Delays, cost: TracingCost
    ) -> None:
        self._window, self._needs, self._delays = window, needs, delays
        self._within = cost.within_s * 1e9
        self._between = (0.0 if np.isnan(cost.piece_s) else cost.piece_s * 1e9) - self._within
        self._main = window.main
        self._reached = window.begin_ns + window.backlog_ns
        self._stamps = window.stamps_ns.astype(np.float64)
        self._ended: list[float] = []  # of the waits that were played: their ends in the trace
        # Before and after each; the step begins when it did: what tracing cost before is not its own.
        self._shifts = [0.0]
        self._shifts = [window.begin_ns - self._host(window.begin_ns)]
        self._called = self._without_cost(window.call_ns.astype(np.float64)).tolist()
        self._start, self._finish = [0.0] * len(needs), [0.0] * len(needs)

    def _without_cost(self, t_ns: FloatArray) -> FloatArray:
        """Times of the host, had it waited as long as it did."""
        return interpolated(t_ns, self._stamps, self._window.untraced_ns)

    def _shift(self, t_ns: float) -> float:
        """By how much it is later then, since it waited longer, as far as its waits were played."""
        return self._shifts[bisect_right(self._ended, t_ns)]

    def _host(self, t_ns: float) -> float:
        """A time of the host, likewise."""
        return float(self._without_cost(np.array([t_ns]))[0]) + self._shift(t_ns)

    def played(self) -> Replayed:
        """The whole step."""
        window, pieces = self._window, len(self._needs)
        times = [*window.start_ns.tolist(), *window.waits_ns[:, 1].tolist()]
        columns = (window.start_ns, window.finish_ns, window.call_ns, window.stream == self._main)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        for at in sorted(range(len(times)), key=times.__getitem__):
            if at < pieces:
                self._begin(at, *rows[at])
            else:
                self._wait(*window.waits_ns[at - pieces].tolist())
        start, finish = np.array(self._start), np.array(self._finish)
        end = self._host(window.end_ns) + (window.reached_ns - window.begin_ns)
        mine = finish[window.stream == self._main]
        traced, host = self._knots()
        return Replayed(
            begin_ns=self._reached, end_ns=float(mine.max(initial=max(end, self._reached))),
            start_ns=start, finish_ns=finish, traced_ns=traced, host_ns=host,
        )  # fmt: skip

    def _begin(self, at: int, start: int, finish: int, call: int, is_main: bool) -> None:
        """A piece begins when all is there that it needs, as long after what it waited for as it did."""
        window, need = self._window, self._needs[at]
        # Other streams are free when the step begins: nothing tells by how much they are behind.
        earliest = self._reached if is_main else float(window.begin_ns)
        if call != UNKNOWN:
            delay = start - call if need.waited == "call" else self._delays.launch
            called = self._called[at] + self._shift(call)
            earliest = max(earliest, called + max(delay - self._between, 0.0))
        for other, waited in ((need.before, "before"), (need.aside, "aside")):
            if other != UNKNOWN:
                delay = self._delays.between
                if need.waited == waited:
                    delay = start - int(window.finish_ns[other])
                earliest = max(earliest, self._finish[other] + max(delay - self._between, 0.0))
        if call == UNKNOWN and need.before == need.aside == UNKNOWN:
            earliest = max(earliest, self._host(start))
        self._start[at] = earliest
        self._finish[at] = earliest + max(finish - start - self._within, 0.0)

    def _wait(self, begin: int, end: int) -> None:
        """A call goes on when what it waited for has ended."""
        window, began = self._window, self._host(begin)
        asked = np.flatnonzero((window.call_ns < begin) & (window.finish_ns <= end))
        ended = began + (end - begin)
        if len(asked):
            last = asked[np.argmax(window.finish_ns[asked])]
            if window.finish_ns[last] > begin:
                ended = max(began, self._finish[last] + end - window.finish_ns[last])
            elif (latest := max(self._finish[other] for other in asked.tolist())) > began:
                ended = max(ended, latest + self._delays.wake)
        self._shifts.append(ended - self._host(end) + self._shift(end))
        self._ended.append(end)

    def _knots(self) -> tuple[FloatArray, FloatArray]:
        """Times of the host in the trace and as they were played."""
        edges = self._window.waits_ns.ravel().astype(np.float64)
        times = np.unique(np.concatenate([self._stamps, edges, [self._window.begin_ns]]))
        shifts = np.array(self._shifts)[np.searchsorted(self._ended, times, side="right")]
        return times, np.maximum.accumulate(self._without_cost(times) + shifts)


def interpolated(times: FloatArray, known: FloatArray, values: FloatArray) -> FloatArray:
    """Values at times between and beyond known ones, which go on as time does, shape of the times."""
    if not len(known):
        return times
    beyond = np.maximum(times - known[-1], 0.0) + np.minimum(times - known[0], 0.0)
    between: FloatArray = np.interp(times, known, values) + beyond
    return between
