"""Kinds that last long are told in parts: within them power need not be the same from begin to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.attribution.regression.figures import Answer
from wattstep.attribution.regression.problem import Kinds, Layout, Sampled
from wattstep.attribution.regression.readings import common_spacing, readings
from wattstep.schema.arrays import FloatArray, IntArray

LONG = 6.0  # times what a sample sees: a kind that lasts longer is told in parts
CUTS = np.array([0.12, 0.3, 0.6])  # power settles soon after it changes, and then slowly
A_KIND = 30  # observations, for a kind more to be told
MOST_KINDS = 90  # with parts: more would take long


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Kinds in parts.

    Attributes:
        processes: With layouts of parts.
        kinds: The parts; the finest level joins those of one kind.
        whole: The kind of each part, shape (parts,).
    """

    processes: Sequence[Sampled]
    kinds: Kinds
    whole: IntArray


def in_parts(processes: Sequence[Sampled], kinds: Kinds, window: float) -> Parts:
    """Problem with long kinds in parts; unchanged where none is long.

    Args:
        processes: What is to be told.
        kinds: Of what.
        window: That the sensor averages over in s, where it is known; 0: it is not.
    """
    count = len(kinds.names)
    all_readings = [readings(process) for process in processes]
    sees_s = max(window, common_spacing(all_readings))
    tell = sum(len(each.watts) for each in all_readings) // A_KIND
    room = max(min(MOST_KINDS, tell) - count, 0) // len(CUTS)
    lasting = np.zeros(count)
    for process in processes if room else ():
        step_s = float(np.mean(process.end_ns - process.start_ns)) * 1e-9
        for layout in process.layouts:
            for kind, begin, end in _runs(layout):
                lasting[kind] = max(lasting[kind], (end - begin) * step_s)
    long = [k for k in np.argsort(-lasting)[:room].tolist() if lasting[k] > LONG * sees_s]
    whole = np.concatenate([np.arange(count), np.repeat(np.array(long, np.int64), len(CUTS))])
    first = {kind: count + len(CUTS) * nth for nth, kind in enumerate(long)}
    ways = [_of_parts(process, first, whole) for process in processes]
    levels = [level[whole] for level in kinds.levels]
    names = [kinds.names[k] for k in whole]
    return Parts(processes=ways, kinds=replace(kinds, names=names, levels=levels), whole=whole)


def _of_parts(process: Sampled, first: dict[int, int], whole: IntArray) -> Sampled:
    """A process with layouts of parts; what a kind may gain or lose, its parts do by their length."""
    moving = process.moving_s
    if moving is not None and first:
        share = np.ones(len(whole))
        widths = np.diff(np.concatenate([[0.0], CUTS, [1.0]]))
        for kind, begin in first.items():
            share[kind], share[begin : begin + len(CUTS)] = widths[0], widths[1:]
        moving = moving[:, whole] * share
    layouts = [_cut(layout, first) for layout in process.layouts]
    return replace(process, layouts=layouts, moving_s=moving)


def _runs(layout: Layout) -> list[tuple[int, float, float]]:
    """Each kind with begin and end, from 0 to 1 of the step, of each time that it runs."""
    order = np.lexsort((layout.segment, layout.kind))
    kind, segment = layout.kind[order], layout.segment[order]
    begins = np.append(True, (np.diff(kind) != 0) | (np.diff(segment) > 1))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(kind)) - 1
    edges = layout.edges
    return list(
        zip(
            kind[first].tolist(), edges[segment[first]].tolist(),
            edges[segment[last] + 1].tolist(), strict=True,
        )
    )  # fmt: skip


def _cut(layout: Layout, first: dict[int, int]) -> Layout:
    """The layout with kinds in parts: the first keeps the kind's number, others begin at `first`."""
    if not first:
        return layout
    runs = [run for run in _runs(layout) if run[0] in first]
    cuts = [begin + (end - begin) * CUTS for _, begin, end in runs]
    edges = np.unique(np.concatenate([layout.edges, *cuts]))
    middle = (edges[1:] + edges[:-1]) / 2
    old = np.clip(np.searchsorted(layout.edges, middle, side="right") - 1, 0, len(layout.edges) - 2)
    order = np.argsort(layout.segment, kind="stable")
    bounds = np.searchsorted(layout.segment[order], np.arange(len(layout.edges)))
    many = bounds[old + 1] - bounds[old]
    new = np.repeat(np.arange(len(old)), many)
    within = np.arange(len(new)) - np.repeat(np.cumsum(many) - many, many)
    entry = order[bounds[old[new]] + within]
    kind = layout.kind[entry].copy()
    for (one, begin, end), inner in zip(runs, cuts, strict=True):
        mine = (layout.kind[entry] == one) & (middle[new] > begin) & (middle[new] < end)
        part = np.searchsorted(inner, middle[new[mine]])
        kind[mine] = np.where(part > 0, first[one] + part - 1, one)
    return Layout(edges=edges, segment=new, kind=kind, weight=layout.weight[entry])


def joined(answer: Answer, parts: Parts, seconds: FloatArray) -> Answer:
    """An answer of parts as one of kinds.

    Args:
        answer: Of the parts.
        parts: What they are parts of.
        seconds: Of each part in the mean clean step, shape (parts,).
    """
    whole = parts.whole
    count = int(whole.max()) + 1
    if count == len(whole):
        return answer
    sums = np.zeros((count, len(whole)))
    sums[whole, np.arange(len(whole))] = 1.0
    lasting = sums @ seconds

    def mean(watts: FloatArray) -> FloatArray:
        return np.divide(sums @ (watts * seconds), lasting, out=np.zeros(count), where=lasting > 0)

    fit, spread = answer.fit, answer.spread
    times = mean(np.sqrt(spread.times)) ** 2
    return Answer(
        fit=replace(fit, watts=mean(fit.watts), free=mean(fit.free[: len(whole)])),
        spread=replace(spread, energy=sums @ spread.energy @ sums.T, times=times),
        other=None if answer.other is None else answer.other @ sums.T,
    )
