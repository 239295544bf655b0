"""Lays the operations of traced steps onto clean ones: takes the tracer's cost out, and conserves the step.

A traced step is longer than a clean one by a cost for each event. The tracer stamps an event's
beginning after its own preparations and its end before its own clean-up, so that nearly all of
the cost of an event lies outside of it, in the time of whatever encloses it. The cost is fitted
for each phase from traced and neighbouring clean steps, taken off the enclosing operation, and
what then remains of difference to the clean step is stated before phases are scaled to match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattstep.analysis.correlation import attribute, nest, wall_time
from wattstep.analysis.curves import Curve
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray

Labels = NDArray[np.object_]
SAFE_GAP_NS = 1_000


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
        layer: Module path, or "" for none.
    """

    window: IntArray
    start_ns: IntArray
    end_ns: IntArray
    self_ns: IntArray
    thread: IntArray
    parent: IntArray
    scope: BoolArray
    layer: Labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Phases:
    """When the phases of steps began; every step has the same sequence of them.

    Attributes:
        names: Of the phases in their order; a name may come twice.
        edges_ns: Begin of each phase and end of the last, shape (steps, phases + 1).
    """

    names: tuple[str, ...]
    edges_ns: IntArray

    @property
    def durations_s(self) -> FloatArray:
        """Shape (steps, phases)."""
        return np.diff(self.edges_ns, axis=1) * 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """What tracing costs here.

    Attributes:
        cost_s: Of one event, for each phase, in s.
        residual: Relative error with which the cost fitted on odd windows predicts the clean
            steps beside even ones; NaN with fewer than four windows.
        inflation: Traced step over clean step, median.
        windows: How many windows it rests on.
    """

    cost_s: FloatArray
    residual: float
    inflation: float
    windows: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LaidRows:
    """What each row takes of the mean clean step; a window's rows and rests add up to the step.

    Attributes:
        phase: Position of the phase of each row, shape (n,).
        time_s: Share of wall time, shape (n,).
        busy_s: Duration counted in full, shape (n,).
        rest_s: What no operation covers, shape (windows, phases).
        correction: The cost that was taken off.
        mapped_start_ns: Begin on the time axis of the mean clean step, shape (n,).
        mapped_end_ns: End on it, shape (n,).
        edges_s: Begin of each phase of the mean clean step, and its end, shape (phases + 1,).
    """

    phase: IntArray
    time_s: FloatArray
    busy_s: FloatArray
    rest_s: FloatArray
    correction: Correction
    mapped_start_ns: IntArray
    mapped_end_ns: IntArray
    edges_s: FloatArray


def lay(
    rows: TracedRows,
    traced: Phases,
    clean_beside: FloatArray,
    clean_share: FloatArray,
    clean_step_s: float,
) -> LaidRows:
    """Lays traced rows onto the mean clean step.

    Args:
        rows: Operations and scopes.
        traced: Phases of the traced steps, one row a window.
        clean_beside: Median duration in s of the clean steps beside each window, shape (windows,).
        clean_share: Share of each phase in clean steps, adding up to 1, shape (phases,).
        clean_step_s: Mean duration of a clean step in s.
    """
    windows, phases = traced.durations_s.shape
    phase = _phase_of(rows, traced)
    cell = rows.window * phases + phase
    top = rows.parent < 0
    children = np.bincount(rows.parent[~top], minlength=len(rows.parent)).astype(float)

    def by_cell(weights: FloatArray | None, chosen: BoolArray | slice = slice(None)) -> FloatArray:
        chosen_weights = None if weights is None else weights[chosen]
        sums = np.bincount(cell[chosen], chosen_weights, minlength=windows * phases)
        return sums.reshape(windows, phases).astype(float)

    events = by_cell(None)
    correction = fit_correction(traced.durations_s, events, clean_beside, clean_share)
    cost = correction.cost_s[phase]
    busy = np.maximum(rows.self_ns * 1e-9 - cost * children, 0.0)
    nesting = nest(rows.start_ns, rows.end_ns, rows.thread)
    own = np.maximum(rows.self_ns * 1e-9, 1e-12)
    shared = wall_time(nesting).self_share
    time = busy * np.clip(shared / own, 0.0, 1.0)
    covered = by_cell(shared)
    tops = by_cell(None, top)
    rest = np.maximum(traced.durations_s - covered - correction.cost_s * tops, 0.0)
    # Phases are scaled as a whole, after the residual was stated: sums are then the clean step.
    wanted = clean_share * clean_step_s
    found = (by_cell(time) + rest).mean(axis=0)
    scale = np.divide(wanted, found, out=np.zeros(phases), where=found > 0)
    rest = rest * scale
    rest[:, found <= 0] = wanted[found <= 0]
    edges = np.concatenate([[0.0], np.cumsum(wanted)])
    return LaidRows(
        phase=phase,
        time_s=time * scale[phase],
        busy_s=busy * scale[phase],
        rest_s=rest,
        correction=correction,
        mapped_start_ns=_mapped(rows.start_ns, rows.window, traced, edges),
        mapped_end_ns=_mapped(rows.end_ns, rows.window, traced, edges),
        edges_s=edges,
    )


def fit_correction(
    durations: FloatArray, events: FloatArray, clean_beside: FloatArray, clean_share: FloatArray
) -> Correction:
    """Fits the cost of an event for each phase, and tests it on windows that it was not fitted on.

    Args:
        durations: Of the phases of traced steps in s, shape (windows, phases).
        events: Their numbers, same shape.
        clean_beside: Clean step beside each window in s, shape (windows,).
        clean_share: Share of each phase in clean steps, shape (phases,).
    """
    windows = len(durations)
    expected = clean_beside[:, None] * clean_share
    per_event = (durations - expected) / np.maximum(events, 1.0)

    def cost_of(chosen: slice) -> FloatArray:
        fitted: FloatArray = np.maximum(np.median(per_event[chosen], axis=0), 0.0)
        return fitted

    residual = float("nan")
    if windows >= 4:
        predicted = (durations - cost_of(slice(0, None, 2)) * events).sum(axis=1)
        residual = float(np.median(predicted[1::2] / clean_beside[1::2]) - 1)
    return Correction(
        cost_s=cost_of(slice(None)),
        residual=residual,
        inflation=float(np.median(durations.sum(axis=1) / clean_beside)),
        windows=windows,
    )


def share_curve(rows: TracedRows, laid: LaidRows, curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Shares a curve over the mean clean step out among rows and rests.

    Each row takes the mean rate of the curve where it lies, times its time; phases are then scaled
    to what the curve gains in them, so that nothing is lost.

    Args:
        rows: The traced rows.
        laid: The same, laid onto the mean clean step.
        curve: Accumulated over the mean clean step, from 0 to its length in ns.

    Returns:
        What each row takes, shape (n,), and the rests, shape (windows, phases). The sum over the
        rows and rests of one window is the curve's total, on average over the windows.
    """
    windows, phases = laid.rest_s.shape
    length = int(curve.t_ns[-1]) + SAFE_GAP_NS
    offset = rows.window * length
    nesting = nest(laid.mapped_start_ns + offset, laid.mapped_end_ns + offset, rows.thread)
    tiled = _tiled(curve, windows, length)
    gained = attribute(nesting, tiled).self_share
    lasted = wall_time(nesting).self_share
    gains = _gains(curve, laid.edges_s)
    spans = np.diff(laid.edges_s)
    mean_rate = np.divide(gains, spans, out=np.zeros(phases), where=spans > 0)
    rate = np.divide(gained, lasted, out=mean_rate[laid.phase].copy(), where=lasted > 1e-9)
    taken = rate * laid.time_s
    cell = rows.window * phases + laid.phase

    def by_cell(weights: FloatArray) -> FloatArray:
        sums = np.bincount(cell, weights, minlength=windows * phases)
        return sums.reshape(windows, phases).astype(np.float64)

    left_gain = np.maximum(gains - by_cell(gained), 0.0)
    left_span = np.maximum(spans - by_cell(lasted), 0.0)
    rest_rate = np.divide(
        left_gain, left_span, out=np.broadcast_to(mean_rate, left_gain.shape).copy(),
        where=left_span > 0.01 * spans + 1e-12,
    )  # fmt: skip
    rests = rest_rate * laid.rest_s
    found = (by_cell(taken) + rests).mean(axis=0)
    scale = np.divide(gains, found, out=np.zeros(phases), where=found > 0)
    rests = rests * scale
    rests[:, found <= 0] = gains[found <= 0]
    return taken * scale[laid.phase], rests


def common_phases(sequences: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The sequence of phases that most steps have."""
    counts: dict[tuple[str, ...], int] = {}
    for sequence in sequences:
        counts[sequence] = counts.get(sequence, 0) + 1
    return max(counts, key=lambda sequence: counts[sequence]) if counts else ()


def _phase_of(rows: TracedRows, traced: Phases) -> IntArray:
    """Position of the phase in which each row begins."""
    phase = np.zeros(len(rows.window), np.int64)
    bounds = np.searchsorted(rows.window, np.arange(len(traced.edges_ns) + 1))
    for window, edges in enumerate(traced.edges_ns):
        part = slice(bounds[window], bounds[window + 1])
        at = np.searchsorted(edges, rows.start_ns[part], side="right") - 1
        phase[part] = np.clip(at, 0, len(edges) - 2)
    return phase


def _mapped(times: IntArray, window: IntArray, traced: Phases, edges_s: FloatArray) -> IntArray:
    """Times in traced steps on the axis of the mean clean step, in proportion within a phase."""
    mapped = np.zeros(len(times), np.int64)
    targets = edges_s * 1e9
    bounds = np.searchsorted(window, np.arange(len(traced.edges_ns) + 1))
    for number, edges in enumerate(traced.edges_ns):
        part = slice(bounds[number], bounds[number + 1])
        position = np.interp(times[part] - edges[0], edges - edges[0], targets)
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
    rows: TracedRows, laid: LaidRows, names: Sequence[str], shares: Mapping[str, float]
) -> LaidRows:
    """Scales the top-level layers of the forward phase to the shares they have in clean steps.

    What a layer gains another loses: the phase keeps its length.

    Args:
        rows: The traced rows.
        laid: The same, laid out.
        names: Of the phases.
        shares: Of the forward phase by top-level layer, measured in clean steps; {}: not known.
    """
    if not shares or sum(shares.values()) > 1.0:
        return laid
    phase = list(names).index("forward")
    forward = laid.phase == phase
    windows = len(laid.rest_s)
    length = laid.edges_s[phase + 1] - laid.edges_s[phase]
    factor = np.ones(len(rows.window))
    inside = np.zeros(len(rows.window), bool)
    for layer, share in shares.items():
        mine = forward & _below(rows.layer, layer)
        found = float(laid.time_s[mine].sum()) / windows
        if found > 0:
            factor[mine] = share * length / found
            inside |= mine
    outside = forward & ~inside
    left = float(laid.time_s[outside].sum() + laid.rest_s[:, phase].sum()) / windows
    wanted = length - float((laid.time_s * factor)[inside].sum()) / windows
    if left <= 0 or wanted <= 0:
        return laid
    factor[outside] = wanted / left
    rest = laid.rest_s.copy()
    rest[:, phase] *= wanted / left
    return replace(laid, time_s=laid.time_s * factor, busy_s=laid.busy_s * factor, rest_s=rest)


def _below(layers: Labels, top: str) -> BoolArray:
    """Whether each layer is `top` or lies below it."""
    distinct = {name: name == top or name.startswith(top + ".") for name in set(layers)}
    return np.array([distinct[name] for name in layers], dtype=bool)
