"""Layout of a mean clean step by each traced one: segments in which the same operations run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wattstep.attribution.codes import Codes
from wattstep.attribution.regression.problem import Layout
from wattstep.attribution.traced_rows import CompensatedRows, TracedRows
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

MOST_LAYOUTS = 32  # of a run: more say nothing new of how operation times vary
MOST_ENTRIES = 2_000_000  # in all of them together
ROUNDS = 10  # until kinds last on average as long as they should: four would do
MOST_FACTOR = 10.0


class Kind(NamedTuple):
    """Kind that the regression tells apart: an operation of a layer in a phase, or the unattributed rest of a phase."""

    name: str
    kind: str
    layer: str
    phase: str
    processor: str = "cpu"

    @property
    def words(self) -> str:
        """For a sentence."""
        return " ".join([self.name, *([f"of {self.layer}"] if self.layer else [])])


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """Traced rows on the mean clean step, and what each of them is.

    Attributes:
        rows: The traced rows.
        compensated: The same on the mean clean step.
        outer: The outermost row that each belongs to, shape (n,).
        operation: Whether a row is an operation's, and not a scope's own time, shape (n,).
        outermost: Whether it is an operation's own row, not one inside another, shape (n,).
        kind: What kind it is, a number, shape (n,).
        rest: What kind the rest of each phase is, shape (phases,).
    """

    rows: TracedRows
    compensated: CompensatedRows
    outer: Codes
    operation: BoolArray
    outermost: BoolArray
    kind: Codes
    rest: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut:
    """A traced step cut into segments, in s.

    Attributes:
        phase: Of each segment.
        length: Of each segment, as it was traced.
        segment: Of each entry.
        kind: Of each entry.
        weight: What the entry takes of the clean step over what its segment lasted.
    """

    phase: IntArray
    length: FloatArray
    segment: IntArray
    kind: IntArray
    weight: FloatArray


def layouts(labelled: Labelled) -> list[Layout]:
    """The layouts of the traced steps, evenly chosen where there are many.

    Within a traced step, operations stand in their order and beside each other as they ran; each
    lasts as long as it does in the compensated step, the tracer's cost taken off, and each kind on
    average over the layouts as long as it does in the tables.

    Args:
        labelled: The rows.
    """
    windows = len(labelled.compensated.unattributed_s)
    bounds = np.searchsorted(labelled.rows.window, np.arange(windows + 1))
    busy = busy_of(labelled)
    unattributed = rests_of(labelled)
    cuts: list[Cut] = []
    entries = 0
    for window in np.unique(np.linspace(0, windows - 1, min(windows, MOST_LAYOUTS)).astype(int)):
        mine = np.arange(bounds[window], bounds[window + 1])
        mine = mine[labelled.outermost[mine] & labelled.operation[mine]]
        cuts.append(cut_of(labelled, int(window), mine, busy[mine], unattributed[window]))
        entries += len(cuts[-1].segment)
        if entries > MOST_ENTRIES:
            break
    own = labelled.outermost & labelled.operation
    count = int(max(labelled.kind.max(initial=0), labelled.rest.max())) + 1
    wanted = np.bincount(labelled.kind[own], busy[own], minlength=count).astype(np.float64)
    wanted[labelled.rest] += unattributed.sum(axis=0)
    return _raked(cuts, wanted / windows, np.diff(labelled.compensated.edges_s), labelled.rest)


def _raked(
    cuts: Sequence[Cut], wanted: FloatArray, phases: FloatArray, rest: IntArray
) -> list[Layout]:
    """Layouts in which kinds last on average as long as is wanted, and phases in each of them.

    Iterative proportional fitting (Deming and Stephan 1940).
    """
    factor = np.ones(len(wanted))
    for _ in range(ROUNDS):
        sums = np.zeros(len(wanted))
        for layout in (_scaled(cut, factor, phases, rest) for cut in cuts):
            lasting = layout.weight * np.diff(layout.edges)[layout.segment]
            sums += np.bincount(layout.kind, lasting, minlength=len(wanted))
        sums *= phases.sum() / len(cuts)
        change = np.divide(wanted, sums, out=np.ones(len(wanted)), where=(sums > 0) & (wanted > 0))
        factor = np.clip(factor * change, 1 / MOST_FACTOR, MOST_FACTOR)
    return [_scaled(cut, factor, phases, rest) for cut in cuts]


def busy_of(labelled: Labelled) -> FloatArray:
    """Time in s of the operations within each outermost row, its own included, shape (rows,)."""
    seconds: FloatArray = np.bincount(
        labelled.outer[labelled.operation],
        labelled.compensated.time_s[labelled.operation],
        minlength=len(labelled.outer),
    ).astype(np.float64)
    return seconds


def rests_of(labelled: Labelled) -> FloatArray:
    """Unattributed time of each window and phase, scopes' own time included, in s."""
    compensated, scope = labelled.compensated, ~labelled.operation
    windows, phases = compensated.unattributed_s.shape
    cell = labelled.rows.window[scope].astype(np.int64) * phases + compensated.phase[scope]
    own = np.bincount(cell, compensated.time_s[scope], minlength=windows * phases)
    unattributed: FloatArray = compensated.unattributed_s + own.reshape(windows, phases)
    return unattributed


def cut_of(
    labelled: Labelled, window: int, mine: IntArray, busy: FloatArray, rest: FloatArray
) -> Cut:
    """A traced step cut where operations begin and end, and where phases do.

    Args:
        labelled: The rows.
        window: Which traced step.
        mine: Its outermost rows.
        busy: What each of them takes of the mean clean step in s.
        rest: Unattributed time of each phase in s.
    """
    edges = labelled.compensated.traced.edges_ns[window]
    start = np.clip(labelled.rows.start_ns[mine], edges[0], edges[-1])
    end = np.clip(labelled.rows.end_ns[mine], edges[0], edges[-1])
    cuts = np.unique(np.concatenate([edges, start, end]))
    segment, of = _spread(np.searchsorted(cuts, start), np.searchsorted(cuts, end))
    length = np.diff(cuts) * 1e-9
    lanes = np.bincount(segment, minlength=len(length))
    weight = 1.0 / lanes[segment]
    traced = np.bincount(of, weight * length[segment], minlength=len(mine))
    factor = np.divide(busy, traced, out=np.zeros(len(mine)), where=traced > 0)
    phase = np.clip(np.searchsorted(edges, cuts[:-1], side="right") - 1, 0, len(rest) - 1)
    free = np.flatnonzero(lanes == 0)
    uncovered = np.bincount(phase[free], length[free], minlength=len(rest))
    slack = np.divide(rest, uncovered, out=np.zeros(len(rest)), where=uncovered > 0)
    order = np.argsort(np.concatenate([segment, free]), kind="stable")
    kinds = [labelled.kind[mine[of]].astype(np.int64), labelled.rest[phase[free]]]
    return Cut(
        phase=phase,
        length=length,
        segment=np.concatenate([segment, free])[order],
        kind=np.concatenate(kinds)[order],
        weight=np.concatenate([weight * factor[of], slack[phase[free]]])[order],
    )


def _spread(first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """Every number from first to last (exclusive) of each pair, and which pair it is of."""
    count = last - first
    of = np.repeat(np.arange(len(first)), count)
    before = np.cumsum(count) - count
    return np.arange(len(of)) - np.repeat(before - first, count), of


def _scaled(cut: Cut, factor: FloatArray, phases: FloatArray, rest: IntArray) -> Layout:
    """Segments as long as what runs in them is compensated to, phases as long as in clean steps."""
    cut = _without_empty(cut, phases, rest)
    weight = cut.weight * factor[cut.kind]
    total = np.bincount(cut.segment, weight, minlength=len(cut.length))
    lasting = total * cut.length
    durations = np.bincount(cut.phase, lasting, minlength=len(phases))
    scale = np.divide(phases, durations, out=np.zeros(len(phases)), where=durations > 0)
    lasting *= scale[cut.phase]
    there = lasting > 0
    present = there[cut.segment] & (weight > 0)
    edges = np.concatenate([[0.0], np.cumsum(lasting[there])])
    return Layout(
        edges=edges / edges[-1] if edges[-1] > 0 else edges,
        segment=(np.cumsum(there) - 1)[cut.segment[present]],
        kind=cut.kind[present],
        weight=weight[present] / total[cut.segment[present]],
    )


def _without_empty(cut: Cut, phases: FloatArray, rest: IntArray) -> Cut:
    """Copy in which a phase of which nothing was left is all unattributed."""
    total = np.bincount(cut.segment, cut.weight, minlength=len(cut.length))
    durations = np.bincount(cut.phase, total * cut.length, minlength=len(phases))
    empty = (durations <= 0) & (phases > 0)
    if not empty.any():
        return cut
    at = np.flatnonzero(empty[cut.phase])
    present = ~empty[cut.phase[cut.segment]]
    return replace(
        cut,
        segment=np.concatenate([cut.segment[present], at]),
        kind=np.concatenate([cut.kind[present], rest[cut.phase[at]]]),
        weight=np.concatenate([cut.weight[present], np.ones(len(at))]),
    )
