"""More kinds than samples can tell: the shortest are regressed together, and each is uncertain within its group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from wattstep.attribution.regression.axis import Axis
from wattstep.attribution.regression.figures import Answer
from wattstep.attribution.regression.fit import Fit
from wattstep.attribution.regression.observed import Observed
from wattstep.attribution.regression.parts import A_KIND
from wattstep.attribution.regression.prior import similarity
from wattstep.attribution.regression.problem import MOST_SAMPLES, Kinds
from wattstep.attribution.regression.spread import TAILS, least_unlike
from wattstep.attribution.regression.time_errors import blur
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.stats.student import critical_value

MOST = MOST_SAMPLES // A_KIND  # kinds that so many samples can tell apart, at the very best
LONGER = 1.1  # stretches of the next try
GROUPS = 200  # of more: each further one takes time, and few of them are told from all others


@dataclass(frozen=True, kw_only=True, eq=False)
class Fewer:
    """Kinds as groups, each of which has one power in the equations.

    Attributes:
        observed: The samples, on a mean step of groups.
        kinds: The groups.
        covariance: Prior of their mean powers in units of the variance among kinds, and of that
            between steps, shape (g + 1, g + 1).
        group: Of each kind, shape (k,).
        seconds: Of each kind in the mean clean step, shape (k,).
        axis: The mean step of kinds.
        moving_s: As in `Sampled`, of kinds.
        own: Prior of the powers of kinds, shape (k + 1, k + 1).
    """

    observed: Observed
    kinds: Kinds
    covariance: FloatArray
    group: IntArray
    seconds: FloatArray
    axis: Axis
    moving_s: FloatArray | None
    own: FloatArray

    @property
    def grouped(self) -> bool:
        """True if any group has several kinds."""
        return len(self.kinds.names) < len(self.group)

    def of_kinds(self, at_knots: FloatArray) -> FloatArray:
        """Sums over knots, as `Rows.weights` have them, of columns times the time of kinds up to there.

        Args:
            at_knots: Shape (b + 2, m).

        Returns:
            Shape (m, k + 1); the last is between steps.
        """
        after = np.cumsum(at_knots[-2:0:-1], axis=0)[::-1]
        return np.hstack([np.asarray(self._in_cells @ after).T, at_knots[-1:].T])

    @cached_property
    def _in_cells(self) -> sparse.csr_matrix:
        """Time of kinds in the cells between knots, shape (k, b)."""
        return (self.axis.overlap @ self.axis.segment_kind).T / self.axis.layouts

    @property
    def share(self) -> FloatArray:
        """Of each kind in the time of its group, shape (k,)."""
        return _shares(self.group, self.seconds)


def in_fewer(observed: Observed, kinds: Kinds) -> Fewer:
    """Many kinds in groups: a long one alone, short ones with those that run beside them.

    A kind has samples in proportion to its time. Where kinds are more than samples can tell even if
    all had as many, powers of the shortest are not known: one power for several of them, the mean of theirs,
    takes the place of powers that would be no better known than before any sample.

    Args:
        observed: The samples.
        kinds: Of what.
    """
    covariance, seconds, axis = similarity(kinds), observed.kind_seconds(), observed.axis
    group = np.arange(len(kinds.names))
    if len(group) > MOST:
        group = groups_of(kinds, seconds, _positions(axis), GROUPS)
        first = np.unique(group, return_index=True)[1]
        count = len(first)
        sums = sparse.csr_matrix(
            (np.ones(len(group)), (np.arange(len(group)), group)), shape=(len(group), count)
        )
        levels = [np.unique(level[first], return_inverse=True)[1] for level in kinds.levels]
        grouped = replace(kinds, names=[kinds.names[k] for k in first], levels=levels)
        moving = observed.moving_s
        mean = replace(
            axis, reached=axis.reached @ sums, layout_share=axis.layout_share @ sums,
            segment_kind=axis.segment_kind @ sums,
        )  # fmt: skip
        return Fewer(
            observed=replace(
                observed, axis=mean, moving_s=None if moving is None else moving @ sums, grouped=True
            ),
            kinds=grouped, covariance=_of_means(covariance, group, _shares(group, seconds)),
            group=group, seconds=seconds, axis=axis, moving_s=moving, own=covariance,
        )  # fmt: skip
    return Fewer(
        observed=observed, kinds=kinds, covariance=covariance, group=group, seconds=seconds,
        axis=axis, moving_s=observed.moving_s, own=covariance,
    )  # fmt: skip


def _positions(axis: Axis) -> FloatArray:
    """Where each kind runs in the mean step, from 0 to 1, mean over its time, shape (k,)."""
    whole = axis.reached[-1]
    until = np.diff(axis.knots) @ (axis.reached[1:] + axis.reached[:-1]) / 2
    positions: FloatArray = np.divide(
        whole - until, whole, out=np.ones_like(whole), where=whole > 0
    )
    return positions


def groups_of(kinds: Kinds, seconds: FloatArray, position: FloatArray, most: int) -> IntArray:
    """The group of each kind: a long one alone, short ones with those that run beside them.

    What runs at the same time is known together, whatever powers it has. So groups are stretches of
    a phase, cut where a layer ends if that is near, and nearly as long as each other.

    Args:
        kinds: With their levels, finest first; the last joins all, and before it stand layer and phase.
        seconds: Of each in the mean clean step, shape (k,).
        position: Where in it each runs, mean, shape (k,).
        most: Groups.

    Returns:
        Numbers from 0 in the order of first members, shape (k,).
    """
    nothing = np.zeros(len(seconds), np.int64)
    *_, layer, phase = nothing, nothing, *kinds.levels[1:-1]
    part = np.unique(np.stack([phase, layer]), axis=1, return_inverse=True)[1].ravel()
    whole = np.bincount(part, seconds)
    middle = np.divide(
        np.bincount(part, seconds * position), whole, out=np.zeros(len(whole)), where=whole > 0
    )
    order = np.lexsort((position, part, middle[part], phase))
    longest = float(seconds.sum()) / most
    while True:
        number = _stretches(seconds[order], part[order], phase[order], longest)
        if number[-1] < most:
            break
        longest *= LONGER
    group = np.empty(len(order), np.int64)
    group[order] = number
    first = np.unique(group, return_index=True)[1]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group]


def _stretches(seconds: FloatArray, part: IntArray, phase: IntArray, longest: float) -> IntArray:
    """Numbers of stretches in a row of kinds, shape (k,)."""
    numbers, number, lasting = [], -1, math.inf
    parts = zip(seconds.tolist(), part.tolist(), phase.tolist(), strict=True)
    before = (-1, -1)
    for took, *now in parts:
        ends = tuple(now) != before and (now[1] != before[1] or lasting > longest / 2)
        if ends or lasting + took > longest:
            number, lasting = number + 1, 0.0
        lasting += took
        before = (now[0], now[1])
        numbers.append(number)
    return np.array(numbers)


def _shares(group: IntArray, seconds: FloatArray) -> FloatArray:
    """Time of each kind over that of its group; alike where a group has none."""
    whole = np.bincount(group, seconds)[group]
    alike = 1.0 / np.bincount(group)[group]
    shares: FloatArray = np.divide(seconds, whole, out=alike, where=whole > 0)
    return shares


def _of_means(covariance: FloatArray, group: IntArray, share: FloatArray) -> FloatArray:
    """Prior covariance of groups' mean powers; last stands the time between steps."""
    count = int(group.max()) + 1
    means = sparse.csr_matrix(
        (np.append(share, 1.0), (np.append(group, count), np.arange(len(group) + 1)))
    )
    of_means: FloatArray = np.asarray(means @ (means @ covariance).T)
    return of_means


def apart(answer: Answer, fewer: Fewer, confidence: float, seed: int) -> Answer:
    """An answer of groups as one of kinds: each has its group's power, and may have another.

    Args:
        answer: Of the groups.
        fewer: What they are groups of.
        confidence: Of the intervals.
        seed: Of what was drawn for it.
    """
    if not fewer.grouped:
        return answer
    group, share, seconds = fewer.group, fewer.share, fewer.seconds
    fit, spread = answer.fit, answer.spread
    normal = critical_value(confidence, math.inf)
    watts = np.maximum(fit.watts, 0.0)[group]
    lasting = np.bincount(group, seconds).astype(np.float64)
    of_groups: FloatArray = spread.energy - _unlike_groups(fit, lasting, normal)
    energy = of_groups[np.ix_(group, group)] * share[:, None] * share
    energy += _unlike_kinds(fit, fewer, normal, seed)
    # How a group's time is divided among its kinds is uncertain as their times are.
    rows, times = _of_layouts(fewer, watts, confidence)
    if fewer.moving_s is not None:
        rows = np.vstack([rows, normal * fewer.moving_s * watts])
    divided = rows.T @ rows
    divided[np.diag_indices(len(group))] += (normal * fit.time_error * watts * seconds) ** 2
    energy += _within(divided, group, share)
    return Answer(
        fit=replace(fit, watts=fit.watts[group], free=fit.free[group]),
        spread=replace(spread, energy=energy, times=spread.times[group] + times * (share < 1)),
        other=None if answer.other is None else answer.other[:, group] * share,
    )


def _unlike_groups(fit: Fit, seconds: FloatArray, normal: float) -> FloatArray:
    """Part of the spread of groups by powers that samples do not tell, in J², shape (g, g)."""
    powers = slice(len(seconds) + 1)
    apart = fit.inverse[powers, : len(seconds)] * seconds
    drawn = fit.precision[powers, powers] @ apart
    common = fit.trust @ fit.columns[:, powers] / float(fit.trust @ fit.trust)
    about = drawn - common[:, None] * drawn.sum(axis=0)
    unlike: FloatArray = (TAILS * normal) ** 2 * (apart.T @ drawn)
    unlike += normal**2 * least_unlike(fit) * (about.T @ about)
    return unlike


def _unlike_kinds(fit: Fit, fewer: Fewer, normal: float, seed: int) -> FloatArray:
    """The same of kinds: what the equations of groups make of powers of kinds, in J², shape (k, k).

    An energy of groups is a sum over samples. A kind that has another power than its group moves all
    that the samples show while it runs, and has another energy itself.
    """
    group, share, seconds = fewer.group, fewer.share, fewer.seconds
    groups, kinds = len(fewer.kinds.names), len(group)
    lasting = np.bincount(group, seconds)
    influence = fit.columns @ (fit.inverse[:, :groups] * lasting) / fit.noise
    known = sparse.block_diag([blur(fewer.observed.axis, fit.assumed, seed), [[1.0]]])
    weights = known.T @ fit.rows.weights.T @ sparse.diags(fit.trust)
    by_power = fewer.of_kinds(weights @ influence)
    mean = fewer.of_kinds(weights @ fit.trust[:, None]) / float(fit.trust @ fit.trust)
    about_mean = by_power - (by_power.sum(axis=1) - lasting)[:, None] * mean
    # Squares of `share * by_power[group] - seconds`, of powers that differ as in the prior.
    in_prior, least = fit.spread * (TAILS * normal) ** 2, normal**2 * least_unlike(fit)
    half = in_prior * (by_power @ fewer.own)
    sums = half @ by_power.T + least * (about_mean @ about_mean.T)
    # In place: of thousands of kinds each of these takes as long as to make it.
    cross = (half + least * about_mean)[group, :kinds]
    cross *= share[:, None]
    cross *= seconds
    unlike: FloatArray = in_prior * fewer.own[:kinds, :kinds]
    unlike[np.diag_indices(kinds)] += least
    unlike *= seconds[:, None]
    unlike *= seconds
    unlike -= cross
    unlike -= cross.T
    shared = sums[np.ix_(group, group)]
    shared *= share[:, None]
    shared *= share
    unlike += shared
    return unlike


def _of_layouts(
    fewer: Fewer, watts: FloatArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Energies of kinds by how their times differ among traced steps, and relative variances of these.

    Returns:
        In J, as half widths, one row each layout, shape (l, k); and shape (k,).
    """
    lasting = fewer.axis.layout_share
    layouts, total = len(lasting), lasting.mean(axis=0)
    if layouts < 2:
        return np.zeros((0, len(total))), np.zeros(len(total))
    clean = sum(int(line.step[-1]) + 1 for line in fewer.observed.lines)
    scale = (1.0 + layouts / clean) / (layouts * (layouts - 1))
    relative = np.divide(lasting, total, out=np.ones_like(lasting), where=total > 0) - 1
    rows = relative * fewer.seconds * watts * math.sqrt(scale)
    return critical_value(confidence, layouts - 1) * rows, (relative**2).sum(axis=0) * scale


def _within(covariance: FloatArray, group: IntArray, share: FloatArray) -> FloatArray:
    """Covariance of what kinds have beyond their share of their group's sum."""
    sums = sparse.csr_matrix((np.ones(len(group)), (np.arange(len(group)), group)))
    rest = covariance - np.asarray(covariance @ sums)[:, group] * share
    within: FloatArray = rest - share[:, None] * np.asarray(sums.T @ rest)[group]
    return within
