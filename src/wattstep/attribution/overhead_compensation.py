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
from dataclasses import replace

import numpy as np

from wattstep.attribution.correlation import share_ranked
from wattstep.attribution.traced_rows import (
    Cells,
    CompensatedRows,
    Correction,
    Labels,
    Numbers,
    TracedRows,
    clock_of_steps,
    own_phases,
    within_steps,
)
from wattstep.attribution.window_means import CONFIDENCE
from wattstep.recorded.curves import curve_of_clock
from wattstep.recorded.phases import Phases
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.stats.student import half_width

TESTED = 4  # windows, from which on a fit is tested on those that it was not made on
SHORTEST = 0.05  # of operations are taken to be nothing but the cost of tracing, at most
MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)  # how much less surely a median tells the middle


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
    cells = Cells(rows, phase, windows, phases)
    ranked = rows.ranked(rows.start_ns, rows.end_ns)
    busy = (rows.self_ns * 1e-9).astype(np.float64, copy=False)
    if clean_beside is None:
        correction = _uncorrected(windows, phases)
        time, unattributed = within_steps(ranked, traced, clock_of_steps(traced))
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
    time, idle = within_steps(ranked, traced, clock_of_steps(traced))
    wanted = clean_share * clean_step_s
    busy = Cells(rows, phase, windows, phases).sums(time).mean(axis=0)
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


def _uncorrected(windows: int, phases: int) -> Correction:
    """No correction: without clean steps, what tracing costs cannot be determined."""
    nan = float("nan")
    none = np.zeros(phases)
    return Correction(cost_s=none, residual=nan, inflation=nan, windows=windows, error_s=none)


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
        phase[part] = np.clip(at, *own_phases(edges))
    return phase


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
