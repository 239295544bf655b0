"""The clean steps of a process in time, and what a window of time covers of the mean step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattstep.attribution.regression.problem import Sampled
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:  # loads scipy
    from wattstep.attribution.regression.axis import Axis

SHORT_GAP = 0.2  # of a step: what lies between steps is taken for the same everywhere up to here,
USUAL_GAP = 2.0  # or up to so many times the usual gap, where that is no longer than a step
UNUSUAL_GAP = 0.05  # of a step: a longer gap is unusual where most are shorter
_OUTSIDE = -1  # no clean step
_BETWEEN = -2  # a short gap between two of them


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """Pieces of time in order: phases of clean steps, short gaps between them, and the outside.

    Attributes:
        cuts_s: Begin of each piece, and end of the last, in s, shape (q + 1,).
        phase: Of each piece; -1: outside of clean steps, -2: a short gap, shape (q,).
        step: The step that each piece belongs to or follows, shape (q,).
        speed: Of each piece: seconds that a whole step would take at its pace, shape (q,).
        passed: For each piece, sum of `speed` over earlier pieces of each phase; behind those, the
            time in short gaps, shape (q + 1, p + 1).
        outside_s: For each cut, time outside of clean steps up to it, shape (q + 1,).
        unusual_s: Likewise, with the gaps between steps that are longer than most.
    """

    cuts_s: FloatArray
    phase: IntArray
    step: IntArray
    speed: FloatArray
    passed: FloatArray
    outside_s: FloatArray
    unusual_s: FloatArray


def timeline(process: Sampled, axis: Axis) -> Timeline:
    """The clean steps of a process as pieces of time.

    Args:
        process: It has at least one clean step.
        axis: The mean step.
    """
    origin = int(process.start_ns[0])
    edges = (process.edges_ns - origin) * 1e-9
    steps, phases = edges.shape[0], edges.shape[1] - 1
    # After the phases of each step, what follows it up to the next.
    after = np.append(edges[1:, 0], edges[-1, -1] + 1e-9)
    cuts = np.concatenate([edges, after[:, None]], axis=1)
    lasted = np.diff(cuts, axis=1)
    phase = np.tile(np.append(np.arange(phases), _OUTSIDE), (steps, 1))
    width = np.diff(axis.edges)
    typical = float(np.median(edges[:, -1] - edges[:, 0]))
    gap = lasted[:-1, -1]
    usual = float(np.median(gap)) if len(gap) else 0.0
    # Were usual pauses outside, no average over more than a step would lie within steps, and samples
    # of a moment would be the only ones to explain: they explain averages too, and wrongly.
    longest = max(SHORT_GAP * typical, USUAL_GAP * usual if usual <= typical else 0.0)
    phase[:-1, -1][gap <= longest] = _BETWEEN
    unusual = np.zeros_like(phase, bool)
    if usual <= UNUSUAL_GAP * typical:
        unusual[:-1, -1] = gap > UNUSUAL_GAP * typical
    # Time in a phase that the mean step does not have: what ran is unknown.
    lost = np.append((width <= 0), False)[None, :] & (lasted > 0)
    phase[lost] = _OUTSIDE
    speed = np.divide(lasted, np.append(width, 0.0), out=np.zeros_like(lasted),
                      where=np.append(width, 0.0) > 0)  # fmt: skip
    return _pieces(cuts, phase, speed, lasted, unusual)


def _pieces(
    cuts: FloatArray, phase: IntArray, speed: FloatArray, lasted: FloatArray, unusual: BoolArray
) -> Timeline:
    steps, phases = len(cuts), phase.shape[1] - 1
    flat, pace, time = phase.ravel(), speed.ravel(), lasted.ravel()
    gained = np.zeros((len(flat) + 1, phases + 1))
    for j in range(phases):
        gained[1:, j] = np.where(flat == j, pace, 0.0)
    gained[1:, phases] = np.where(flat == _BETWEEN, time, 0.0)
    outside, longer = (
        np.concatenate([[0.0], np.cumsum(np.where(left_out, time, 0.0))])
        for left_out in (flat == _OUTSIDE, (flat == _OUTSIDE) | unusual.ravel())
    )
    return Timeline(
        cuts_s=np.append(cuts[:, :-1].ravel(), cuts[-1, -1]),
        phase=flat, step=np.repeat(np.arange(steps), phases + 1), speed=pace,
        passed=np.cumsum(gained, axis=0), outside_s=outside, unusual_s=longer,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Position of moments: piece, time since its begin, and position on the mean step."""

    piece: IntArray
    since_s: FloatArray
    position: FloatArray
    inside: BoolArray


def places(line: Timeline, axis: Axis, at_s: FloatArray) -> Places:
    """Position of moments on the mean step.

    Args:
        line: Pieces of time.
        axis: The mean step.
        at_s: Moments in s, shape (n,).
    """
    piece = np.searchsorted(line.cuts_s, at_s, side="right") - 1
    inside = (piece >= 0) & (piece < len(line.phase))
    piece = np.clip(piece, 0, len(line.phase) - 1)
    since = at_s - line.cuts_s[piece]
    phase, speed = line.phase[piece], line.speed[piece]
    inside &= phase != _OUTSIDE
    running = inside & (phase >= 0) & (speed > 0)
    begin = axis.edges[np.maximum(phase, 0)]
    position = begin + np.divide(since, speed, out=np.zeros_like(since), where=running)
    return Places(piece=piece, since_s=since, position=position, inside=inside)


def outside_until(line: Timeline, where: Places) -> FloatArray:
    """Time outside of clean steps up to each place, in s."""
    return line.outside_s[where.piece] + np.where(
        line.phase[where.piece] == _OUTSIDE, where.since_s, 0.0
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Covered:
    """Coverage of windows of time as weights of knots, for a window of length 1.

    Attributes:
        weights: Shape (n, c).
        columns: Of which knots; one behind the last stands for time between steps, shape (n, c).
        whole: Which of all windows lie within clean steps: those above, shape (all,).
        step: In which step each ends, shape (n,).
        position: Where on the mean step each ends, shape (n,).
    """

    weights: FloatArray
    columns: IntArray
    whole: BoolArray
    step: IntArray
    position: FloatArray


def covered(line: Timeline, axis: Axis, begin_s: FloatArray, end_s: FloatArray) -> Covered:
    """Coverage of windows of time: `weights @ reached` is the time of kinds in them.

    Args:
        line: Pieces of time.
        axis: The mean step.
        begin_s: Begin of the windows; where it is the end, the window is a moment.
        end_s: Their ends, shape (n,).
    """
    last = places(line, axis, end_s)
    if (begin_s == end_s).all():
        where = _chosen(last, last.inside)
        weights, columns = _moments(line, axis, where)
        return Covered(
            weights=weights,
            columns=columns,
            whole=last.inside,
            step=line.step[where.piece],
            position=where.position,
        )
    first = places(line, axis, begin_s)
    left_out = outside_until(line, last) - outside_until(line, first)
    whole = first.inside & last.inside & (left_out <= 1e-12)
    later, at_later = _until(line, axis, _chosen(last, whole))
    earlier, at_earlier = _until(line, axis, _chosen(first, whole))
    length = (end_s - begin_s)[whole, None]
    return Covered(
        weights=np.hstack([later / length, -earlier / length]),
        columns=np.hstack([at_later, at_earlier]),
        whole=whole, step=line.step[last.piece[whole]], position=last.position[whole],
    )  # fmt: skip


def covered_in_mean(
    line: Timeline, axis: Axis, spans: Sequence[tuple[FloatArray, FloatArray]]
) -> Covered:
    """Mean coverage of several windows each, as `covered` has them one by one, but for rounding.

    What runs up to a moment is looked up once where one window begins and another ends, and what all
    windows have of a knot is one weight: of an exponential average a fifth of the weights is left.

    Args:
        line: Pieces of time.
        axis: The mean step.
        spans: Begins and ends of windows that last, in s, each of shape (n,); a moment that two of
            them share is the same array.
    """
    moments = {id(moment): moment for span in spans for moment in span}
    at = {key: places(line, axis, moment) for key, moment in moments.items()}
    outside = {key: outside_until(line, where) for key, where in at.items()}
    whole = np.logical_and.reduce(
        [
            at[id(begin)].inside
            & at[id(end)].inside
            & (outside[id(end)] - outside[id(begin)] <= 1e-12)
            for begin, end in spans
        ]
    )
    count, edges = int(whole.sum()), len(axis.edges)
    factor = {key: np.zeros(count) for key in moments}
    for begin, end in spans:
        each = 1 / ((end - begin)[whole] * len(spans))
        factor[id(end)] += each
        factor[id(begin)] -= each
    at_edges, between = np.zeros((count, edges)), np.zeros((count, 1))
    in_cells, cells = [], []
    for key, where in at.items():
        weights, columns = _until(line, axis, _chosen(where, whole))
        weights *= factor[key][:, None]
        at_edges += weights[:, :edges]
        between += weights[:, -1:]
        in_cells.append(weights[:, edges:-1])
        cells.append(columns[:, edges:-1])
    common = np.append(axis.edge_knot, len(axis.knots))
    last = at[id(spans[len(spans) // 2][1])]
    return Covered(
        weights=np.hstack([at_edges, between, *in_cells]),
        columns=np.hstack([np.broadcast_to(common, (count, edges + 1)), *cells]),
        whole=whole, step=line.step[last.piece[whole]], position=last.position[whole],
    )  # fmt: skip


def _chosen(where: Places, chosen: BoolArray) -> Places:
    return Places(
        piece=where.piece[chosen], since_s=where.since_s[chosen],
        position=where.position[chosen], inside=where.inside[chosen],
    )  # fmt: skip


def _until(line: Timeline, axis: Axis, where: Places) -> tuple[FloatArray, IntArray]:
    """Weights of knots for all time up to places."""
    count, phases = len(where.piece), len(axis.edges) - 1
    passed = line.passed[where.piece]
    phase = line.phase[where.piece]
    pace = np.where(phase >= 0, line.speed[where.piece], 0.0)
    cell, part = _cell(axis, where.position)
    weights = np.zeros((count, phases + 4))
    weights[:, 1 : phases + 1] += passed[:, :phases]
    weights[:, :phases] -= passed[:, :phases]
    # From the begin of its phase to the place itself.
    rows = np.flatnonzero(phase >= 0)
    weights[rows, phase[rows]] -= pace[rows]
    weights[:, phases + 1] = pace * (1 - part)
    weights[:, phases + 2] = pace * part
    weights[:, phases + 3] = passed[:, phases] + np.where(phase == _BETWEEN, where.since_s, 0.0)
    columns = np.empty((count, phases + 4), np.int64)
    columns[:, : phases + 1] = axis.edge_knot
    columns[:, phases + 1], columns[:, phases + 2] = cell, cell + 1
    columns[:, phases + 3] = len(axis.knots)
    return weights, columns


def _moments(line: Timeline, axis: Axis, where: Places) -> tuple[FloatArray, IntArray]:
    """Weights of knots for what runs at places."""
    cell, _ = _cell(axis, where.position)
    length = axis.knots[cell + 1] - axis.knots[cell]
    running = (line.phase[where.piece] >= 0).astype(float)
    between = (line.phase[where.piece] == _BETWEEN).astype(float)
    weights = np.stack([-running / length, running / length, between], axis=1)
    columns = np.stack([cell, cell + 1, np.full(len(cell), len(axis.knots), np.int64)], axis=1)
    return weights, columns


def _cell(axis: Axis, position: FloatArray) -> tuple[IntArray, FloatArray]:
    """The cell in which positions lie, and how far into it, from 0 to 1."""
    cell = np.clip(np.searchsorted(axis.knots, position, side="right") - 1, 0, len(axis.knots) - 2)
    part = (position - axis.knots[cell]) / (axis.knots[cell + 1] - axis.knots[cell])
    return cell, np.clip(part, 0.0, 1.0)
