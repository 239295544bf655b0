"""All that is observed, of all processes, as rows on the axis of the mean step for any delay and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from wattstep.attribution.regression.axis import Axis
from wattstep.attribution.regression.problem import Sampled
from wattstep.attribution.regression.readings import (
    Readings,
    common_spacing,
    readings,
    since_before,
)
from wattstep.attribution.regression.timeline import (
    Covered,
    Timeline,
    covered,
    covered_in_mean,
    timeline,
)
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

LONGEST_DELAY = 0.12  # s, or three sample spacings
AT_ONCE = 0.01  # of the spacing of samples: a delay that cannot be distinguished from none
SHORTEST = 1e-7  # s: a window that is shorter is a moment
PARTS_A_MEMORY = 3.0  # plain averages that an exponential one is made of
MOST_PARTS = 8
MEMORIES = 4.0  # time constants: what was before hardly counts
MAYBE = np.array([-0.8, -0.4, 0.0, 0.4, 0.8])  # of half the time between reads


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Observations as equations: `weights @ time of kinds up to each knot` explains `watts`.

    Attributes:
        weights: Of the knots, and of the time between steps, shape (n, b + 2).
        watts: Mean power of each, shape (n,).
        process: Number of each one's process, shape (n,).
        step: Number of the step in which it ended, in its process, shape (n,).
        position: Where on the mean step each ended, shape (n,).
        slow: What slow change of all power was taken off before, in W, shape (n,).
        taken: Which of all observations these are, shape (all,).
    """

    weights: sparse.csr_matrix
    watts: FloatArray
    process: IntArray
    step: IntArray
    position: FloatArray
    slow: FloatArray
    taken: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Observations of all processes, and the mean step that they are mapped onto.

    Attributes:
        axis: The mean step.
        lines: Of each process that has clean steps and observations.
        readings: Likewise.
        seconds: Length of the mean clean step.
        phase_seconds: Length of its phases, shape (p,).
        counter: Whether windows are known from the samples, as a counter's are.
        moving_s: As in `Sampled`, mean of the processes.
        beside_s: As in `Sampled`, the most of the processes.
        centred: As in `Sampled`, of all processes.
        grouped: Whether the kinds of the axis are groups of kinds.
    """

    axis: Axis
    lines: Sequence[Timeline]
    readings: Sequence[Readings]
    seconds: float
    phase_seconds: FloatArray
    counter: bool
    moving_s: FloatArray | None = None
    beside_s: float = 0.0
    centred: bool = False
    grouped: bool = False

    def delays(self, window: float) -> tuple[float, float]:
        """The least and the longest delay in s that are looked for.

        Nothing is shown before it was, but for how well times are known.

        Args:
            window: That the sensor averages over in s.
        """
        early = max(each.early_s for each in self.readings) + self.beside_s
        least = -early - AT_ONCE * self.spacing_s
        if self.centred:
            return least - window / 2, self.beside_s + AT_ONCE * self.spacing_s - window / 2
        return least, max(LONGEST_DELAY, 3 * self.spacing_s) + self.beside_s

    @property
    def spacing_s(self) -> float:
        """Median time between observations."""
        return common_spacing(self.readings)

    @property
    def count(self) -> int:
        """Number of observations, inside of clean steps and outside."""
        return sum(len(each.watts) for each in self.readings)

    @property
    def ends_s(self) -> FloatArray:
        """When each observation was taken, in s since its process began, shape (n,)."""
        return np.concatenate([each.end_s for each in self.readings])

    def at_rate(self, rate: float) -> Observed:
        """Copy with times of samples on a clock that runs at another rate, the same in the middle.

        Args:
            rate: What is added for each second.
        """
        middle = float(self.ends_s.mean())
        moved = [
            replace(each, end_s=each.end_s + rate * (each.end_s - middle)) for each in self.readings
        ]
        return replace(self, readings=moved)

    def thinned(self, most: int) -> Observed:
        """Copy with as many observations as that, evenly chosen."""
        every = max(1, -(-self.count // most))
        if every == 1:
            return self
        fewer = [
            replace(
                each, end_s=each.end_s[::every], watts=each.watts[::every],
                slow_w=each.slow_w[::every],
                lasted_s=None if each.lasted_s is None else each.lasted_s[::every],
            )
            for each in self.readings
        ]  # fmt: skip
        return replace(self, readings=fewer)

    def without(self, rows: Rows, slow: FloatArray) -> Observed:
        """Copy with slow change of all power removed, between the equations too.

        Args:
            rows: The equations in which it was found.
            slow: In W, shape (n,).
        """
        every = np.interp(np.arange(self.count), np.flatnonzero(rows.taken), slow)
        ends = np.cumsum([len(each.watts) for each in self.readings])[:-1]
        flat = [
            replace(each, watts=each.watts - part, slow_w=each.slow_w + part)
            for each, part in zip(self.readings, np.split(every, ends), strict=True)
        ]
        return replace(self, readings=flat)

    def rows(self, delay: float, window: float) -> Rows:
        """The equations, if the sensor has this delay and window.

        Args:
            delay: From the end of what was averaged to the time of the sample, in s.
            window: What was averaged in s; 0: nothing. A counter's differences have their own.
        """
        parts = []
        window = window if window > SHORTEST else 0.0
        for line, each in zip(self.lines, self.readings, strict=True):
            lasted = np.full(len(each.end_s), window) if each.lasted_s is None else each.lasted_s
            end = each.end_s - delay
            parts.append(_spread_over(line, self.axis, each, end, lasted, self.grouped))
        taken = np.concatenate([part.whole for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        columns = np.concatenate([part.columns for part in parts])
        count, each_row = weights.shape
        begins = np.arange(0, count * each_row + 1, each_row, dtype=np.int32)
        return Rows(
            weights=sparse.csr_matrix(
                (weights.ravel(), columns.ravel(), begins), shape=(count, len(self.axis.knots) + 1)
            ),
            watts=np.concatenate([each.watts for each in self.readings])[taken],
            process=np.repeat(np.arange(len(parts)), [len(part.weights) for part in parts]),
            step=np.concatenate([part.step for part in parts]),
            position=np.concatenate([part.position for part in parts]),
            slow=np.concatenate([each.slow_w for each in self.readings])[taken], taken=taken,
        )  # fmt: skip

    def since_before(self) -> Observed:
        """Copy in which each value of a gauge is the mean since the one before, not over a window."""
        return replace(self, readings=[since_before(each) for each in self.readings], counter=True)

    def forgetting(self, seconds: float, window: float) -> Observed:
        """Copy whose observations are exponential averages.

        Args:
            seconds: Time constant.
            window: That is averaged plainly before, in s; a counter's differences have their own.
        """
        lasting = [
            replace(
                each, memory_s=seconds, averaged_s=window if each.lasted_s is None else each.lasted_s,
                lasted_s=np.full(len(each.end_s), MEMORIES * seconds),
            )
            for each in self.readings
        ]  # fmt: skip
        return replace(self, readings=lasting)

    def table(self, reached: FloatArray | None = None) -> FloatArray:
        """Time of kinds up to each knot as `Rows.weights` take it, shape (b + 2, k + 1).

        Its last column is the time between steps.

        Args:
            reached: In place of the axis' own, shape (b + 1, k).
        """
        reached = self.axis.reached if reached is None else reached
        table = np.zeros((reached.shape[0] + 1, reached.shape[1] + 1))
        table[:-1, :-1], table[-1, -1] = reached, 1.0
        return table

    def kind_seconds(self) -> FloatArray:
        """Time of each kind in the mean clean step in s, shape (k,)."""
        return self._seconds(np.diff(self.axis.reached[self.axis.edge_knot], axis=0))

    def _seconds(self, in_phases: FloatArray) -> FloatArray:
        width = np.diff(self.axis.edges)
        pace = np.divide(self.phase_seconds, width, out=np.zeros_like(width), where=width > 0)
        seconds: FloatArray = pace @ in_phases
        return seconds


def observe(processes: Sequence[Sampled], axis: Axis) -> Observed:
    """Observations of the processes.

    Args:
        processes: Each has clean steps.
        axis: Their common mean step.
    """
    lasted = [np.diff(process.edges_ns, axis=1).mean(axis=0) * 1e-9 for process in processes]
    phases = np.mean(lasted, axis=0)
    moving = [each.moving_s for each in processes if each.moving_s is not None]
    return Observed(
        axis=axis,
        lines=[timeline(process, axis) for process in processes],
        readings=[readings(process) for process in processes],
        seconds=float(phases.sum()), phase_seconds=phases, counter=processes[0].counter,
        moving_s=None if not moving else np.mean(moving, axis=0),
        beside_s=max(each.beside_s for each in processes),
        centred=all(each.centred for each in processes),
    )  # fmt: skip


def _forgetting(
    end: FloatArray, lasted: FloatArray, memory: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Spans of time that count alike in an exponential average over some time."""
    parts = int(np.clip(np.ceil(PARTS_A_MEMORY * np.median(lasted) / memory), 1, MOST_PARTS))
    gone = -np.expm1(-lasted / memory)
    ago = [-memory * np.log1p(-gone * (nth / parts)) for nth in range(parts)] + [lasted]
    moments = [end - each for each in ago]
    return [(begin, until) for until, begin in pairwise(moments)]


def _spread_over(
    line: Timeline,
    axis: Axis,
    each: Readings,
    end: FloatArray,
    lasted: FloatArray,
    grouped: bool,
) -> Covered:
    """Mean coverage of windows that may have ended somewhat earlier or later."""
    if not each.early_s and not each.memory_s:
        return covered(line, axis, end - lasted, end)
    spans = [(end - lasted, end)]
    if each.memory_s:
        spans = _forgetting(end, lasted, each.memory_s)
        if np.any(each.averaged_s):
            middles = [(begin + until) / 2 for begin, until in spans]
            spans = [(middle - each.averaged_s, middle) for middle in middles]
        # Groups have rounding of their own; figures of kinds that are told apart keep theirs.
        if grouped and not each.early_s:
            return covered_in_mean(line, axis, spans)
    early = each.early_s * MAYBE if each.early_s else np.zeros(1)
    parts = [covered(line, axis, begin + by, until + by) for begin, until in spans for by in early]
    whole = np.logical_and.reduce([part.whole for part in parts])
    wholes = [whole[part.whole] for part in parts]
    middle = len(parts) // 2
    return Covered(
        weights=np.hstack([p.weights[k] for p, k in zip(parts, wholes, strict=True)]) / len(parts),
        columns=np.hstack([p.columns[k] for p, k in zip(parts, wholes, strict=True)]),
        whole=whole, step=parts[middle].step[wholes[middle]],
        position=parts[middle].position[wholes[middle]],
    )  # fmt: skip
