"""Tests of slow operations and steps for coincidences, behind the section of variance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattstep.attribution.codes import compact
from wattstep.attribution.tables.instances import TracedInstances
from wattstep.attribution.variation import (
    DEVIATIONS,
    SLOW,
    TO_NORMAL,
    Variation,
    variation,
)
from wattstep.recorded.steps import Steps
from wattstep.run import Run
from wattstep.run.covariates import (
    Covariate,
    Unwatched,
    covariates,
    shapes_covariate,
    slow_ones,
)
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Missing
from wattstep.stats.coincidence import (
    LEAST_WINDOWS,
    Coincidence,
    Coincidences,
    first_call,
)
from wattstep.stats.false_discovery import false_discovery
from wattstep.stats.proportions import newcombe

MOST_TESTED = 60  # operations: each further one makes every discovery harder
LEAST_SLOW = 2  # windows: one alone may be anything
RATE = 0.05  # of false discoveries among those that are reported
TRACER = 0.5  # of what is left of an operation: beyond, its variation may be the tracer's
FIRST_CALL = "it was the first call in its traced step"


@dataclass(frozen=True, kw_only=True)
class Tested:
    """Pair of an operation (or of the steps) and a covariate.

    Attributes:
        group: Number of the operation; None: the steps.
        condition: Its name.
        words: The condition in plain words.
        every_s: Interval at which the condition is sampled, in s; 0: exact.
        result: Coincidence, or the reason why none can be tested.
        q: The probability as adjusted for all pairs that were tested; 1 where none was.
    """

    group: int | None
    condition: str
    words: str
    every_s: float
    result: Coincidence | Missing
    q: float = 1.0

    @property
    def significant(self) -> bool:
        """True if they coincided more often than chance would have it."""
        return self.q <= RATE


@dataclass(frozen=True, kw_only=True)
class Held:
    """Share of steps in which a covariate held.

    Attributes:
        covariate: The condition.
        limit: The rate from which on it holds for steps as a whole.
        of_windows: Share of traced steps in which it held; NaN where not known.
        of_steps: Share of clean steps in which it held; NaN where not known.
    """

    covariate: Covariate
    limit: float
    of_windows: float
    of_steps: float


class SlowInstances:
    """Slow operations and steps of one run.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.steps: Steps = run.series.steps
        self._tests = Coincidences()

    # --- operations -----------------------------------------------------------------------------

    @cached_property
    def reason(self) -> str | None:
        """Reason why nothing can be said of operations; None where it can."""
        return self._run.breakdown.reason

    @cached_property
    def instances(self) -> TracedInstances:
        """The traced operations; only where `reason` is None."""
        return self._run.breakdown.instances()

    @cached_property
    def variation(self) -> Variation:
        """Variation of the operations."""
        return variation(self.instances.of_shapes)

    @cached_property
    def lost_s(self) -> FloatArray:
        """Time of each operation's slow instances beyond what is usual, in s, shape (groups,)."""
        of = self.instances.of_shapes
        lost: FloatArray = np.bincount(of.group, self.variation.lost_s, minlength=of.groups).astype(
            float
        )
        return lost

    @cached_property
    def of_the_tracer(self) -> BoolArray:
        """Operations whose own time is not clearly more than what tracing them costs."""
        of = self.instances.of_shapes
        cost = np.bincount(of.group, self.instances.tracer_s, minlength=of.groups)
        return cost > TRACER * self.variation.total_s

    @cached_property
    def slow_windows(self) -> IntArray:
        """In how many traced steps each operation was slow, shape (groups,)."""
        of = self.instances.of_shapes
        cells, _ = compact((of.group * np.int64(of.windows) + of.window)[self.variation.slow])
        return np.bincount(cells // max(of.windows, 1), minlength=of.groups)

    @cached_property
    def candidates(self) -> list[int]:
        """Operations worth a test, those that lost most first; chosen without a look at conditions."""
        worth = (self.slow_windows >= LEAST_SLOW) & ~self.of_the_tracer
        order = np.argsort(-self.lost_s, kind="stable")
        return [int(group) for group in order if worth[group]][:MOST_TESTED]

    # --- conditions -----------------------------------------------------------------------------

    @cached_property
    def _all_covariates(self) -> tuple[list[Covariate], list[Unwatched]]:
        run = self._run
        return covariates(run.series, run.conditions, run.tables.marks)

    @property
    def unwatched(self) -> list[Unwatched]:
        """Covariates that were not watched, so that nothing can be said of them."""
        return self._all_covariates[1]

    @cached_property
    def held(self) -> list[Held]:
        """Share of traced and of clean steps in which each covariate held."""
        watched = list(self._all_covariates[0])
        windows = np.zeros(0, np.int64) if self.reason else self.instances.step
        if not self.reason:
            other = self.instances.other_shapes
            watched.append(shapes_covariate(self.steps, windows, other))
        return [self._held(one, windows, self.clean) for one in watched]

    def _held(self, one: Covariate, windows: IntArray, clean: IntArray) -> Held:
        shares, limits = [], []
        for rows in (windows, clean):
            start, end = self.steps.start_ns[rows], self.steps.end_ns[rows]
            usual = float(np.median(self.steps.seconds[rows])) if len(rows) else 0.0
            shares.append(_mean(one.holds(start, end, usual)))
            limits.append(one.limit(one.seen(start, end)))
        limit = limits[0] if len(windows) else limits[1]
        return Held(covariate=one, limit=limit, of_windows=shares[0], of_steps=shares[1])

    # --- tests ----------------------------------------------------------------------------------

    @cached_property
    def tested(self) -> list[Tested]:
        """Every pair, with false discoveries controlled over all of them; the surest first."""
        pairs = [*self._of_operations(), *self._first_calls(), *self._of_steps()]
        known = [pair for pair in pairs if isinstance(pair.result, Coincidence)]
        chances = [pair.result.p for pair in known if isinstance(pair.result, Coincidence)]
        rates = false_discovery(np.array(chances))
        judged = [replace(p, q=float(q)) for p, q in zip(known, rates, strict=True)]
        judged.sort(key=_surest)
        return judged + [pair for pair in pairs if isinstance(pair.result, Missing)]

    def _of_operations(self) -> Iterator[Tested]:
        if self.reason:
            return
        of, traced = self.instances.of_shapes, self.instances
        order = np.argsort(of.group, kind="stable")
        first = np.searchsorted(of.group[order], np.arange(of.groups + 1))
        for group in self.candidates:
            rows = order[first[group] : first[group + 1]]
            window = of.window[rows].astype(np.int64)
            calls = np.bincount(window, minlength=of.windows).astype(np.float64)
            slow = np.bincount(window, self.variation.slow[rows], minlength=of.windows)
            phase = traced.names["phase"].of(int(rows[0]))
            for held in self.held:
                one = held.covariate
                if one.leaves_out and one.leaves_out == phase:
                    continue
                usual = float(self.variation.median_s[group])
                there = one.holds(traced.start_ns[rows], traced.end_ns[rows], usual)
                present = _means(window, there, of.windows)
                yield self._pair(group, one, slow.astype(np.float64), calls, present)

    def _pair(
        self, group: int | None, one: Covariate, slow: FloatArray, calls: FloatArray,
        present: FloatArray,
    ) -> Tested:  # fmt: skip
        return Tested(
            group=group, condition=one.name, words=one.words, every_s=one.every_s,
            result=self._tests.test(slow, calls, present),
        )  # fmt: skip

    def _first_calls(self) -> Iterator[Tested]:
        """Of operations that are called several times a step: whether the first call is the slow one."""
        if self.reason:
            return
        of, variation_ = self.instances.of_shapes, self.variation
        median = variation_.median_s[of.group]
        spread = TO_NORMAL * variation_.deviation_s[of.group]
        slow = of.seconds > np.maximum(SLOW * median, median + DEVIATIONS * spread)
        worth = (variation_.steady_calls > 1) & (variation_.windows >= LEAST_WINDOWS)
        worth &= ~self.of_the_tracer & (variation_.median_s > 0)
        mine = slow & worth[of.group]
        extra = np.where(mine, of.seconds - median, 0.0)
        lost = np.bincount(of.group, extra, minlength=of.groups)
        for group in np.argsort(-lost, kind="stable")[:MOST_TESTED]:
            if lost[group] > 0:
                yield self._first_call(int(group), of.group == group, mine)

    def _first_call(self, group: int, chosen: BoolArray, slow: BoolArray) -> Tested:
        of, rows = self.instances.of_shapes, np.flatnonzero(chosen)
        _, window = np.unique(of.window[rows], return_inverse=True)
        windows = int(window.max()) + 1
        mine, first = slow[rows], self.variation.position[rows] == 0
        calls = np.bincount(window, minlength=windows).astype(np.float64)
        slows = np.bincount(window, mine, minlength=windows).astype(np.float64)
        both = np.bincount(window, mine & first, minlength=windows).astype(np.float64)
        shares = float(both.sum() / slows.sum()), float((first & ~mine).sum() / (~mine).sum())
        low, high = newcombe(shares[0], float((slows > 0).sum()), shares[1], float(windows))
        result = Coincidence(
            with_slow=shares[0], with_others=shares[1], low=low, high=high,
            p=first_call(slows, calls, both), windows=windows,
            slow_windows=int((slows > 0).sum()), inflation=1.0,
        )  # fmt: skip
        return Tested(
            group=group, condition="first_call", words=FIRST_CALL, every_s=0.0, result=result
        )

    # --- steps ----------------------------------------------------------------------------------

    @cached_property
    def clean(self) -> IntArray:
        """Rows of clean steps."""
        return np.flatnonzero(self.steps.clean)

    @cached_property
    def slow_steps(self) -> BoolArray:
        """Mask of the slow clean steps: beyond 1.5 times the median and three robust deviations."""
        seconds = self.steps.seconds[self.clean]
        if len(seconds) < LEAST_WINDOWS:
            return np.zeros(len(seconds), bool)
        return slow_ones(seconds)

    def _of_steps(self) -> Iterator[Tested]:
        slow = self.slow_steps.astype(np.float64)
        if slow.sum() < LEAST_SLOW:
            return
        start, end = self.steps.start_ns[self.clean], self.steps.end_ns[self.clean]
        usual = float(np.median(self.steps.seconds[self.clean]))
        for one in self._all_covariates[0]:
            present = one.holds(start, end, usual)
            yield self._pair(None, one, slow, np.ones(len(slow)), present)

    def coincidences_of(self, group: int | None) -> Sequence[Tested]:
        """Coincidences of an operation's slow instances (None: of slow steps), largest difference first."""
        mine = [pair for pair in self.tested if pair.group == group and pair.significant]
        return sorted(mine, key=lambda pair: -_difference(pair))

    def labels(self, group: int) -> Mapping[str, str]:
        """Name, layer, phase, processor and shapes of an operation."""
        return self.instances.shaped.shown[group]


def _difference(pair: Tested) -> float:
    return pair.result.difference if isinstance(pair.result, Coincidence) else 0.0


def _surest(pair: Tested) -> tuple[float, float]:
    return pair.q, -_difference(pair)


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _means(window: IntArray, values: FloatArray, windows: int) -> FloatArray:
    """Mean of the known values in each window; NaN where there are none."""
    known = np.isfinite(values)
    counts = np.bincount(window[known], minlength=windows)
    sums = np.bincount(window[known], values[known], minlength=windows)
    means: FloatArray = np.divide(sums, counts, out=np.full(windows, np.nan), where=counts > 0)
    return means
