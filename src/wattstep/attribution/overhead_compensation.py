"""Compensates the operations of traced steps for the tracer's overhead: takes the tracer's cost out, and conserves the step.

A traced step is longer than a clean one by a cost for each event. The tracer stamps an event's
beginning after its own preparations and its end before its own clean-up, so that nearly all of
the cost of an event lies outside of it, in the time of whatever encloses it. The cost is fitted
for each phase from traced and neighbouring clean steps, taken off the enclosing operation, and
what then remains of difference to the clean step is stated before phases are scaled to match.

Other tracers (calls of Python around each operation, profiles that write down shapes) stamp the end after
some of their own work. Cost for which the gaps between operations that enclose nothing have no room lies
within these, and is taken off them, of each the same: no more than the shortest of them last, for these are
nearly nothing else. What is slow for another reason is so in proportion.

Work on a GPU is stamped by the GPU, and its duration is not scaled; its share of wall time is, as that
of all rows, for together they make the step. So only events on the host count as cost here. What
tracing costs the GPU itself, and the host where phases of a GPU do not show it, is fitted and measured
in `attribution.tables.timeline`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.attribution.correlation import Ranked, nest_ranked, share_ranked
from wattstep.attribution.window_means import CONFIDENCE
from wattstep.recorded.curves import Curve, curve_of_clock
from wattstep.recorded.phases import Phases
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.stats.student import half_width

Labels = NDArray[np.object_]
Numbers = NDArray[np.integer[Any]]
SAFE_GAP_NS = 1_000
TESTED = 4  # windows, from which on a fit is tested on those that it was not made on
SHORTEST = 0.05  # of operations are taken to be nothing but the cost of tracing, at most
MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)  # how much less surely a median tells the middle


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedRows:
    """Rows of all traced steps, in the order of windows; shape (n,) each.

    Attributes:
        window: Number of the window, counted from 0 without gaps.
        start_ns: Begin.
        end_ns: End.
        self_ns: Duration without the direct children.
        thread: Where it ran.
        parent: Index of the row that encloses it, or -1.
        scope: Whether it only groups others (module code, optimizer step, annotation).
        layer: Position of its module path in `layers`.
        layers: Module paths, "" for none, shape (layers,); a trace has millions of rows and few.
        on_gpu: Which are work on a GPU; None: none is.
        waits: Calls that wait for a GPU; None: none does.
        cores: That each kept busy, by which it shares CPU time and energy with what ran beside it; None:
            all share alike.
    """

    window: Numbers
    start_ns: IntArray
    end_ns: IntArray
    self_ns: IntArray
    thread: Numbers
    parent: Numbers
    scope: BoolArray
    layer: Numbers
    layers: Labels
    on_gpu: BoolArray | None = None
    waits: BoolArray | None = None
    cores: IntArray | None = None

    @property
    def on_host(self) -> BoolArray:
        """Rows of the CPU, which each cost the host the making of an event."""
        return np.ones(len(self.window), bool) if self.on_gpu is None else ~self.on_gpu

    @property
    def apart(self) -> BoolArray:
        """Scopes that no operation holds, for one inside an operation is a part of it; and what waits.

        A call that waits for a GPU does not work while that does, nor do the operations around it.
        """
        scopes = self._scopes_apart
        if self.waits is None or not self.waits.any():
            return scopes
        apart = scopes | self.waits
        above = self.parent[self.waits]
        while len(above := np.unique(above[above >= 0])):
            apart[above] = True
            above = self.parent[above]
        return apart

    @property
    def _scopes_apart(self) -> BoolArray:
        if not self.scope.any():
            return self.scope
        apart: BoolArray = self.scope.copy()
        at = np.flatnonzero(apart)
        above = self.parent[at]
        while len(at):
            inside = above >= 0
            at, above = at[inside], above[inside]
            held = ~self.scope[above]
            apart[at[held]] = False
            at, above = at[~held], self.parent[above[~held]]
        return apart

    def ranked(self, start_ns: IntArray, end_ns: IntArray, *, by_cores: bool = False) -> Ranked:
        """Their nesting at these times, scopes behind operations.

        Args:
            start_ns: Begin of each row, shape (n,).
            end_ns: End of each row, shape (n,).
            by_cores: Whether they share by the cores that each kept busy: wall time is no matter of these.
        """
        cores = self.cores if by_cores else None
        return nest_ranked(start_ns, end_ns, self.thread, self.apart, cores)


@dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """Cost of tracing.

    Attributes:
        cost_s: Of one event, for each phase, in s.
        residual: Relative error with which the cost fitted on odd windows predicts the clean
            steps beside even ones; NaN with fewer than four windows.
        inflation: Traced step over clean step, median.
        windows: How many windows it rests on.
        error_s: Half width of the 95 % interval of the cost, for each phase, in s: what an
            operation holds fewer events for than its share, another loses.
        unattributed_error_s: How far the rest of each phase may be off for that, a window, in s: no
            further than there are gaps in traced steps. None: not known.
        within: Share of the cost that lies within operations that enclose nothing, for each phase;
            None: none does.
        added_up: What rows and rests of phases with operations come to once the cost is off, before they
            are scaled, over the clean steps beside them, median; NaN: not known.
    """

    cost_s: FloatArray
    residual: float
    inflation: float
    windows: int
    error_s: FloatArray
    unattributed_error_s: FloatArray | None = None
    within: FloatArray | None = None
    added_up: float = math.nan

    def events(self, rows: TracedRows, phase: Numbers) -> FloatArray:
        """Of how many events each row holds the cost, shape (n,): of those inside it, or a part of its own.

        Args:
            rows: The traced rows.
            phase: Position of the phase of each.
        """
        top = rows.parent < 0
        events = np.bincount(rows.parent[~top], minlength=len(rows.parent)).astype(np.float64)
        if self.within is not None and self.within.any():
            alone = np.flatnonzero(top & rows.on_host & (events == 0))
            events[alone] = self.within[phase[alone]]
        return events


@dataclass(frozen=True, kw_only=True, eq=False)
class CompensatedRows:
    """Cost of each row in the mean clean step; a window's rows and unattributed time add up to the step.

    Attributes:
        phase: Position of the phase of each row, shape (n,).
        time_s: Share of wall time, shape (n,).
        busy_s: Duration counted in full, shape (n,).
        unattributed_s: What no operation covers, shape (windows, phases).
        correction: The cost that was taken off.
        traced: Phases of the traced steps.
        edges_s: Begin of each phase of the mean clean step, and its end, shape (phases + 1,).
    """

    phase: Numbers
    time_s: FloatArray
    busy_s: FloatArray
    unattributed_s: FloatArray
    correction: Correction
    traced: Phases
    edges_s: FloatArray


def compensate(
    rows: TracedRows,
    traced: Phases,
    clean_beside: FloatArray | None,
    clean_share: FloatArray,
    clean_step_s: float,
    event_s: float | None = None,
) -> CompensatedRows:
    """Compensates traced rows to the mean clean step.

    Where nothing but traced steps is known, they are compensated to their own mean: nothing is taken
    off, and work that goes on after the end of its step (of a GPU) shares the time of the next.

    Wall time is shared among the operations that run at once. Scopes take what is left: one that
    is open while operations run on another thread only waits for them.

    Args:
        rows: Operations and scopes.
        traced: Phases of the traced steps, one row a window.
        clean_beside: Duration in s of each phase in the clean steps beside each window, median,
            shape (windows, phases), 0 for phases of another kind of step; None: there are none.
        clean_share: Share of each phase in clean steps, adding up to 1, shape (phases,).
        clean_step_s: Mean duration of a clean step in s.
        event_s: Cost of an event for the host, where that is known otherwise: phases of a device that
            it runs ahead of do not tell it. None: they do.
    """
    windows, phases = traced.durations_s.shape
    phase = _phase_of(rows, traced)
    cells = _Cells(rows, phase, windows, phases)
    ranked = rows.ranked(rows.start_ns, rows.end_ns)
    busy = (rows.self_ns * 1e-9).astype(np.float64, copy=False)
    if clean_beside is None:
        correction = _uncorrected(windows, phases)
        time, unattributed = _within_steps(ranked, traced, _clock_of(traced))
        del ranked
    else:
        durations = traced.durations_s
        correction = fit_correction(durations, cells.sums(_weights(rows.on_host)), clean_beside)
        top = rows.parent < 0
        if event_s is not None:
            correction = replace(correction, cost_s=np.full(phases, event_s))
        elif windows < TESTED:
            most = _most_cost(busy, correction.events(rows, phase))
            correction = replace(correction, cost_s=np.minimum(correction.cost_s, most))
        # Seconds since 1970, as imported traces count, would have no digits left for a nanosecond.
        begin = int(rows.start_ns.min()) if len(rows.start_ns) else 0
        end = int(rows.end_ns.max(initial=begin))
        shared, _ = share_ranked(ranked, curve_of_clock(begin, end))
        del ranked
        own = np.maximum(busy, 1e-12)
        tops = cells.sums((top & rows.on_host).astype(float))
        gaps = np.maximum(durations - cells.sums(shared), 0.0)
        tells = event_s is None and windows >= TESTED
        shortest = _shortest(busy, phase, correction.events(rows, phase) == 0, phases)
        within = _within(correction, tops, gaps, shortest) if tells else np.zeros(phases)
        correction = replace(correction, within=within)
        busy -= correction.cost_s[phase] * correction.events(rows, phase)
        np.maximum(busy, 0.0, out=busy)
        time = busy * np.clip(shared / own, 0.0, 1.0)
        outside = (1 - within) * tops
        unattributed = np.maximum(gaps - correction.cost_s * outside, 0.0)
        off = np.minimum(correction.error_s * outside.mean(axis=0), gaps.mean(axis=0))
        those = tops.any(axis=0)
        came = (cells.sums(time) + unattributed)[:, those].sum(axis=1)
        beside = clean_beside[:, those].sum(axis=1)
        added_up = (
            float(np.median(came[beside > 0] / beside[beside > 0])) if beside.any() else math.nan
        )
        correction = replace(correction, unattributed_error_s=off, added_up=added_up)
    wanted = clean_share * clean_step_s
    sums = (cells.sums(time) + unattributed).mean(axis=0)
    if clean_beside is None:
        # Nothing was taken off: each operation keeps its length, also one that ends a phase later.
        scale = np.full(phases, clean_step_s / sums.sum() if sums.sum() > 0 else 0.0)
        unattributed = unattributed * scale
    else:
        # Phases are scaled as a whole, after the residual was stated: sums are the clean step.
        scale = np.divide(wanted, sums, out=np.zeros(phases), where=sums > 0)
        unattributed = unattributed * scale
        unattributed[:, sums <= 0] = wanted[sums <= 0]
    edges = np.concatenate([[0.0], np.cumsum(wanted)])
    if clean_beside is not None:
        on_host = rows.on_host
        busy[on_host] = _scaled(busy[on_host], scale, phase[on_host])
    return CompensatedRows(
        phase=phase,
        time_s=_scaled(time, scale, phase),
        busy_s=busy,
        unattributed_s=unattributed,
        correction=correction,
        traced=traced,
        edges_s=edges,
    )


def compensate_device(
    rows: TracedRows, traced: Phases, clean_share: FloatArray, clean_step_s: float
) -> CompensatedRows:
    """Puts work on a device, without what the host did, on the mean clean step.

    It lasts as long as it was traced: tracing makes the device wait, which clean steps do not have.
    What is left of each phase the device is idle.

    Args:
        rows: Work on the device.
        traced: Phases of the traced steps.
        clean_share: As for `compensate`.
        clean_step_s: Likewise.
    """
    windows, phases = traced.durations_s.shape
    phase = _phase_of(rows, traced)
    ranked = rows.ranked(rows.start_ns, rows.end_ns)
    time, idle = _within_steps(ranked, traced, _clock_of(traced))
    wanted = clean_share * clean_step_s
    busy = _Cells(rows, phase, windows, phases).sums(time).mean(axis=0)
    left = np.maximum(wanted - busy, 0.0)
    scale = np.divide(wanted, busy, out=np.ones(phases), where=busy > wanted)
    mean_idle = idle.mean(axis=0)
    unattributed = idle * np.divide(left, mean_idle, out=np.zeros(phases), where=mean_idle > 0)
    unattributed[:, mean_idle <= 0] = left[mean_idle <= 0]
    return CompensatedRows(
        phase=phase,
        time_s=_scaled(time, scale, phase),
        busy_s=(rows.self_ns * 1e-9).astype(np.float64, copy=False),
        unattributed_s=unattributed,
        correction=_uncorrected(windows, phases),
        traced=traced,
        edges_s=np.concatenate([[0.0], np.cumsum(wanted)]),
    )


def _weights(chosen: BoolArray) -> FloatArray | None:
    """1 for each chosen row; None where all are."""
    return None if chosen.all() else chosen.astype(np.float64)


def _scaled(values: FloatArray, factors: FloatArray, phase: Numbers) -> FloatArray:
    """Each value by the factor of its phase, in its own memory."""
    values *= factors[0] if len(factors) == 1 else factors[phase]
    return values


class _Cells:
    """Sums over the rows of each window and phase."""

    def __init__(self, rows: TracedRows, phase: Numbers, windows: int, phases: int) -> None:
        self._shape = (windows, phases)
        self._cell = rows.window if phases == 1 else rows.window.astype(np.int64) * phases + phase

    def sums(self, weights: FloatArray | None) -> FloatArray:
        """Of these weights, or how many rows there are (None); shape (windows, phases)."""
        sums = np.bincount(self._cell, weights, minlength=self._shape[0] * self._shape[1])
        return sums.reshape(self._shape).astype(np.float64)


def _uncorrected(windows: int, phases: int) -> Correction:
    """No correction: without clean steps, what tracing costs cannot be determined."""
    nan = float("nan")
    none = np.zeros(phases)
    return Correction(cost_s=none, residual=nan, inflation=nan, windows=windows, error_s=none)


def _within_steps(ranked: Ranked, traced: Phases, curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Share of a curve of each row, and unattributed share of each phase, in its unit."""
    shares, free = share_ranked(ranked, curve)
    base = free.t_ns[0]
    left = np.interp(traced.edges_ns - base, free.t_ns - base, free.total)
    return shares, np.diff(left, axis=1)


def _clock_of(traced: Phases) -> Curve:
    """Wall time in s that stands still outside of the steps."""
    begin, end = traced.edges_ns[:, 0], traced.edges_ns[:, -1]
    t_ns = np.unique(np.concatenate([begin, end]))
    opened = np.searchsorted(np.sort(begin), t_ns, side="right")
    inside = (opened > np.searchsorted(np.sort(end), t_ns, side="right"))[:-1]
    elapsed = np.concatenate([[0], np.cumsum(np.where(inside, np.diff(t_ns), 0))])
    return Curve(t_ns=t_ns, total=elapsed * 1e-9, unit="s", covered_ns=elapsed)


def fit_correction(
    durations: FloatArray, events: FloatArray, clean_beside: FloatArray
) -> Correction:
    """Fits the cost of an event for each phase, and tests it on windows that it was not fitted on.

    Args:
        durations: Of the phases of traced steps in s, shape (windows, phases).
        events: Their numbers, same shape.
        clean_beside: Of the same phases in the clean steps beside each window in s, same shape; 0
            for phases of another kind of step.
    """
    windows = len(durations)
    per_event = (durations - clean_beside) / np.maximum(events, 1.0)
    there = (clean_beside > 0) | (durations > 0)
    beside = clean_beside.sum(axis=1)
    if not (beside > 0).all():  # clean steps that take no time tell nothing of the tracer
        return _uncorrected(*durations.shape)

    def cost_of(chosen: slice) -> FloatArray:
        parts = zip(per_event[chosen].T, there[chosen].T, strict=True)
        return np.array([max(float(np.median(x[y])), 0.0) if y.any() else 0.0 for x, y in parts])

    residual = float("nan")
    if windows >= TESTED:
        predicted = (durations - cost_of(slice(0, None, 2)) * events).sum(axis=1)
        residual = float(np.median(predicted[1::2] / beside[1::2]) - 1)
    return Correction(
        cost_s=cost_of(slice(None)),
        residual=residual,
        inflation=float(np.median(durations.sum(axis=1) / beside)),
        windows=windows,
        error_s=np.array([_of_median(x[y]) for x, y in zip(per_event.T, there.T, strict=True)]),
    )


def _shortest(busy: FloatArray, phase: Numbers, chosen: BoolArray, phases: int) -> FloatArray:
    """What nearly all of the chosen rows of each phase last at least, in s, shape (phases,)."""
    lasting = [busy[chosen & (phase == each)] for each in range(phases)]
    return np.array([float(np.quantile(x, SHORTEST)) if len(x) else 0.0 for x in lasting])


def _within(
    correction: Correction, tops: FloatArray, gaps: FloatArray, shortest: FloatArray
) -> FloatArray:
    """Share of an event's cost that lies within operations, shape (phases,): what gaps have no room for.

    Args:
        correction: With the cost.
        tops: Operations that nothing encloses, shape (windows, phases).
        gaps: Time in s that none of them covers, likewise.
        shortest: What the shortest operations last in s, shape (phases,).
    """
    share = np.zeros(len(correction.cost_s))
    for phase, cost in enumerate(correction.cost_s):
        there = tops[:, phase] > 0  # it may be a phase of some steps only
        if cost > 0 and there.any():
            room = float(np.median(gaps[there, phase] / tops[there, phase]))
            share[phase] = min(max(1 - room / cost, 0.0), shortest[phase] / cost)
    return share


def _of_median(values: FloatArray) -> float:
    """Half width of the 95 % interval of a median, as if of a normal distribution; 0 of one value."""
    return MEDIAN_TO_MEAN * half_width(values, CONFIDENCE) if len(values) > 1 else 0.0


def _most_cost(own_s: FloatArray, children: FloatArray) -> float:
    """The most that an event is taken to have cost, in s: what the middle operation with others inside has of its own.

    For the cost of those inside lies in there, beside the operation's own work.

    Of a few windows, one that something else disturbed tells a cost many times as large, which would
    leave short operations with nothing.

    Args:
        own_s: Duration of each row without its children.
        children: Their number.
    """
    those = children > 0
    if not those.any():
        return math.inf
    return float(np.median(own_s[those] / children[those]))


class Sharing:
    """Shares curves out among the same rows, whose nesting is found once.

    Args:
        rows: The traced rows.
        compensated: The same on the mean clean step.
    """

    def __init__(self, rows: TracedRows, compensated: CompensatedRows) -> None:
        self._rows = rows
        self._compensated = compensated
        self._length: int | None = None  # of the steps that the rows are lined up on
        self._ranked: Ranked | None = None  # by cores, where these are known
        self._lasted: FloatArray | None = None

    def folded(self, curve: Curve) -> tuple[FloatArray, FloatArray]:
        """Shares of a curve of rows and unattributed time over the mean clean step.

        Each row takes the mean rate of the curve where it lies, times its time; phases are then scaled
        to what the curve gains in them, so that nothing is lost.

        Args:
            curve: Accumulated over the mean clean step, from 0 to its length in ns.

        Returns:
            What each row takes, shape (n,), and the rests, shape (windows, phases). The sum over the
            rows and rests of one window is the curve's total, on average over the windows.
        """
        length = int(curve.t_ns[-1]) + SAFE_GAP_NS
        windows = len(self._compensated.unattributed_s)
        if self._ranked is None or self._length != length:
            self._ranked = None  # two at once would be more memory than there need be
            self._ranked, self._length = _lined_up(self._rows, self._compensated, length), length
            self._lasted, _ = share_ranked(self._ranked, curve_of_clock(0, windows * length))
            if self._rows.cores is not None:
                self._ranked = _lined_up(self._rows, self._compensated, length, by_cores=True)
        assert self._lasted is not None
        gained, _ = share_ranked(self._ranked, _tiled(curve, windows, length))
        return _conserved(self._rows, self._compensated, curve, gained, self._lasted)

    def recorded(self, curve: Curve, rate: float) -> tuple[FloatArray, FloatArray]:
        """Shares of a curve of rows and unattributed time just when they ran, where all steps were traced.

        Time of steps that was not sampled is taken to be as all that was.

        Args:
            curve: As it was recorded.
            rate: What it gains in a second of these steps, mean over what was sampled.

        Returns:
            As `folded`.
        """
        if self._ranked is None or self._length is not None:
            self._ranked = self._lasted = None
            rows = self._rows
            self._ranked = rows.ranked(rows.start_ns, rows.end_ns, by_cores=True)
            self._length = None
        return _within_steps(
            self._ranked, self._compensated.traced, _inside(curve, self._compensated, rate)
        )


def _inside(curve: Curve, compensated: CompensatedRows, rate: float) -> Curve:
    """A curve that stands still outside of steps and has no gap in them."""
    clock = _clock_of(compensated.traced)
    begin, end = clock.t_ns[0], clock.t_ns[-1]
    within = curve.t_ns[(curve.t_ns > begin) & (curve.t_ns < end)]
    t_ns = np.sort(np.concatenate([clock.t_ns, within]), kind="stable")  # two that are sorted
    t_ns = t_ns[np.append(True, t_ns[1:] > t_ns[:-1])]
    gains, covered = curve.difference(t_ns[:-1], t_ns[1:])
    seconds = np.diff(np.interp(t_ns - begin, clock.t_ns - begin, clock.total))
    gains = np.where(seconds > 0, np.nan_to_num(gains) + rate * (1 - covered) * seconds, 0.0)
    total = np.concatenate([[0.0], np.cumsum(gains)])
    return Curve(t_ns=t_ns, total=total, unit=curve.unit, covered_ns=t_ns - begin)


def _conserved(
    rows: TracedRows,
    compensated: CompensatedRows,
    curve: Curve,
    gained: FloatArray,
    lasted: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Shares by the rates at which rows gained, scaled to what the curve gains in each phase."""
    windows, phases = compensated.unattributed_s.shape
    gains = _gains(curve, compensated.edges_s)
    spans = np.diff(compensated.edges_s)
    mean_rate = np.divide(gains, spans, out=np.zeros(phases), where=spans > 0)
    rate = np.divide(gained, lasted, out=mean_rate[compensated.phase].copy(), where=lasted > 1e-9)
    shares = rate * compensated.time_s
    cells = _Cells(rows, compensated.phase, windows, phases)
    left_gain = np.maximum(gains - cells.sums(gained), 0.0)
    left_span = np.maximum(spans - cells.sums(lasted), 0.0)
    rest_rate = np.divide(
        left_gain, left_span, out=np.broadcast_to(mean_rate, left_gain.shape).copy(),
        where=left_span > 0.01 * spans + 1e-12,
    )  # fmt: skip
    unattributed = rest_rate * compensated.unattributed_s
    sums = (cells.sums(shares) + unattributed).mean(axis=0)
    scale = np.divide(gains, sums, out=np.zeros(phases), where=sums > 0)
    unattributed = unattributed * scale
    unattributed[:, sums <= 0] = gains[sums <= 0]
    return shares * scale[compensated.phase], unattributed


def _phase_of(rows: TracedRows, traced: Phases) -> Numbers:
    """Position of the phase in which each row begins."""
    windows, phases = traced.durations_s.shape
    phase = np.zeros(len(rows.window), np.int32)
    if phases == 1:
        return phase
    bounds = np.searchsorted(rows.window, np.arange(windows + 1))
    for window, edges in enumerate(traced.edges_ns):
        part = slice(bounds[window], bounds[window + 1])
        at = np.searchsorted(edges, rows.start_ns[part], side="right") - 1
        phase[part] = np.clip(at, *_own(edges))
    return phase


def _own(edges: IntArray) -> tuple[int, int]:
    """First and last phase of a window: those of other kinds of steps have no length in it."""
    first = int(np.searchsorted(edges, edges[0], side="right")) - 1
    last = int(np.searchsorted(edges, edges[-1], side="left")) - 1
    return first, max(first, last)


def _lined_up(
    rows: TracedRows, compensated: CompensatedRows, length: int, *, by_cores: bool = False
) -> Ranked:
    """The rows on mean clean steps one after another, each `length` ns after the one before."""
    start, end = (
        _mapped(times, rows.window, compensated) for times in (rows.start_ns, rows.end_ns)
    )
    np.maximum(start, end, out=end)  # rounding may bring an end of next to no length before it
    offset = rows.window.astype(np.int64) * length
    return rows.ranked(start + offset, end + offset, by_cores=by_cores)


def _mapped(times: IntArray, window: Numbers, compensated: CompensatedRows) -> IntArray:
    """Times in traced steps on the axis of the mean clean step, in proportion within a phase."""
    mapped = np.zeros(len(times), np.int64)
    targets = compensated.edges_s * 1e9
    bounds = np.searchsorted(window, np.arange(len(compensated.traced.edges_ns) + 1))
    for number, edges in enumerate(compensated.traced.edges_ns):
        part = slice(bounds[number], bounds[number + 1])
        first, last = _own(edges)
        mine = slice(first, last + 2)
        position = np.interp(times[part] - edges[0], edges[mine] - edges[0], targets[mine])
        mapped[part] = np.rint(position).astype(np.int64)
    return mapped


def _tiled(curve: Curve, times: int, length: int) -> Curve:
    """The curve again and again, each `length` ns after the one before."""
    offsets = np.arange(times) * length
    total = curve.total - curve.total[0]
    t_ns = (curve.t_ns[None, :] + offsets[:, None]).ravel()
    totals = (total[None, :] + (np.arange(times) * total[-1])[:, None]).ravel()
    return Curve(t_ns=t_ns, total=totals, unit=curve.unit, covered_ns=t_ns - t_ns[0])


def _gains(curve: Curve, edges_s: FloatArray) -> FloatArray:
    at = np.interp(edges_s * 1e9, curve.t_ns, curve.total)
    at[0], at[-1] = curve.total[0], curve.total[-1]
    return np.diff(at)


def match_layers(
    rows: TracedRows, compensated: CompensatedRows, phase: int, shares: Mapping[str, float]
) -> CompensatedRows:
    """Scales the top-level layers of a forward phase to the shares they have in clean steps.

    What a layer gains another loses: the phase keeps its length.

    Args:
        rows: The traced rows.
        compensated: Those rows, compensated.
        phase: Which of the phases it is.
        shares: Of that phase by top-level layer, measured in clean steps; {}: not known.
    """
    if not shares or sum(shares.values()) > 1.0:
        return compensated
    forward = compensated.phase == phase
    windows = len(compensated.unattributed_s)
    length = compensated.edges_s[phase + 1] - compensated.edges_s[phase]
    factor = np.ones(len(rows.window))
    inside = np.zeros(len(rows.window), bool)
    for layer, share in shares.items():
        mine = forward & _below(rows.layers, layer)[rows.layer]
        seconds = float(compensated.time_s[mine].sum()) / windows
        if seconds > 0:
            factor[mine] = share * length / seconds
            inside |= mine
    outside = forward & ~inside
    left = (
        float(compensated.time_s[outside].sum() + compensated.unattributed_s[:, phase].sum())
        / windows
    )
    wanted = length - float((compensated.time_s * factor)[inside].sum()) / windows
    if left <= 0 or wanted <= 0:
        return compensated
    factor[outside] = wanted / left
    unattributed = compensated.unattributed_s.copy()
    unattributed[:, phase] *= wanted / left
    return replace(
        compensated,
        time_s=compensated.time_s * factor,
        busy_s=compensated.busy_s * factor,
        unattributed_s=unattributed,
    )


def _below(layers: Labels, top: str) -> BoolArray:
    """Mask of layers that are `top` or lie below it."""
    return np.array([name == top or name.startswith(top + ".") for name in layers], dtype=bool)
