"""Estimates over the processes of one configuration, and differences of two, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.schema.figure import Figure, Missing, Status, missing, weakest
from wattstep.stats.differences import CONFIDENCE, Mean, less, mean_of, observed


@dataclass(frozen=True, kw_only=True)
class Estimate(Mean):
    """A number with its standard errors, and what they rest on.

    Attributes:
        unit: Of the number, or of what it is the logarithm of.
        status: The weakest of its figures.
        source: Source of the figures.
        method: Method of the estimate.
        logarithm: True if it is the natural logarithm of the quantity.
        within: Where it cannot lie beyond.
    """

    value: float
    error: float
    degrees_of_freedom: float
    own: float = 0.0
    unit: str
    status: Status
    source: str
    method: str
    logarithm: bool = False
    within: tuple[float, float] = (-math.inf, math.inf)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Both ends, of the logarithm where it is one; infinite where there is no error."""
        half_width, (least, most) = float(self.half_width(confidence)), self.within
        if not half_width:
            return self.value, self.value
        return max(self.value - half_width, least), min(self.value + half_width, most)

    @property
    def standard(self) -> tuple[float, float]:
        """Standard error and degrees of freedom that its 95 % interval goes by."""
        return (
            (self.own, math.inf)
            if self.by_steps and self.processes > 1
            else (self.error, self.degrees_of_freedom)
        )

    @property
    def exact(self) -> bool:
        """True if it was counted and has no error."""
        return not (self.error or self.own)

    def figure(self) -> Figure:
        """With its 95 % interval; of what is meant, where it is a logarithm."""
        value = math.exp(self.value) if self.logarithm else self.value
        ends: tuple[float | None, float | None] = None, None
        if math.isfinite(self.error) and not self.exact:
            low, high = self.interval()
            ends = (math.exp(low), math.exp(high)) if self.logarithm else (low, high)
        return Figure(
            value=value, unit=self.unit, status=self.status, low=ends[0], high=ends[1],
            confidence=None if ends[0] is None else CONFIDENCE, n=self.processes,
            method=self.method, source=self.source,
        )  # fmt: skip


def of_processes(
    figures: Sequence[Figure],
    *,
    logarithm: bool = False,
    within: tuple[float, float] = (-math.inf, math.inf),
    between: float = 0.0,
) -> Estimate | Missing:
    """The mean over processes of one configuration, or why there is none.

    Of several processes the interval is that of comparisons (`Mean.half_width`). Of one it is the figure's
    own, which knows the steps of that process only, made wider by what processes are assumed to
    differ.

    Args:
        figures: One a process; missing ones are left out.
        logarithm: Average logarithms: of quantities above 0 whose ratios count.
        within: Where the number cannot lie beyond.
        between: Standard deviation that processes are taken to have where there is one only, on the
            scale of the average; see `spreads`. 0: none, for numbers that decide nothing.
    """
    known = [figure for figure in figures if figure.value is not None]
    if not known:
        reasons = dict.fromkeys(figure.reason or "not known" for figure in figures)
        return Missing("; ".join(reasons) or "no run tells it")
    if logarithm and any((figure.value or 0.0) <= 0 for figure in known):
        return Missing(f"{known[0].source or 'it'} is not above 0: ratios of it mean nothing")
    side = observed(*zip(*(_ends(figure) for figure in known), strict=True))
    mean = mean_of(side.log if logarithm else side)
    error, own = float(mean.error[0]), float(mean.own[0])  # type: ignore[index]
    if not error and not np.isfinite(side.low).any():
        error = math.inf  # one, or some that agree, and nothing says how sure any of them is
    elif len(known) == 1 and known[0].status is not Status.COUNTED:
        error = math.hypot(error, between)
    else:
        between = 0.0
    estimate = Estimate(
        value=float(mean.value[0]), error=error, degrees_of_freedom=float(mean.degrees_of_freedom[0]), own=own,  # type: ignore[index]
        unit=known[0].unit, processes=len(known), method="",
        status=weakest(figure.status for figure in known),
        source=", ".join(dict.fromkeys(figure.source or "" for figure in known)),
        logarithm=logarithm, within=within,
    )  # fmt: skip
    return replace(estimate, method=_method(estimate, between))


def _ends(figure: Figure) -> tuple[float, float, float]:
    """Value and interval; of what was counted the value, NaN where there is none."""
    value = figure.value or 0.0
    if figure.status is Status.COUNTED:
        return value, value, value
    low, high = figure.low, figure.high
    return (value, math.nan, math.nan) if low is None or high is None else (value, low, high)


def _method(estimate: Estimate, between: float) -> str:
    if estimate.processes > 1:
        how = "the intervals of their own steps" if estimate.by_steps else "Student's t"
        return f"mean over {estimate.processes} processes, {how}"
    assumed = f", and an assumed standard deviation of {between:g} between processes"
    return f"one process: interval of its own steps{assumed if between else ''}"


def difference(a: Estimate, b: Estimate) -> Estimate:
    """b less a, as comparisons have it (`less`).

    Of logarithms it is the logarithm of the ratio.
    """
    mean = less(b, a)
    if mean.processes > 1:
        method = f"Welch's t over {a.processes} and {b.processes} processes"
    elif max(a.processes, b.processes) > 1:
        method = "one process on a side: taken to spread as those of the other"
    else:
        method = "one process on a side: interval of its own steps"
    return Estimate(
        value=b.value - a.value, error=float(mean.error), degrees_of_freedom=float(mean.degrees_of_freedom),
        own=float(mean.own), unit="ratio" if a.logarithm else a.unit, processes=mean.processes,
        status=weakest((a.status, b.status)),
        source=", ".join(dict.fromkeys((a.source, b.source))),
        method=method, logarithm=a.logarithm,
    )  # fmt: skip


def over(estimate: Estimate, divisor: float, unit: str, method: str) -> Estimate:
    """The estimate (the logarithm, where it is one) divided by a positive number, as a plain number."""
    return replace(
        estimate, value=estimate.value / divisor, error=estimate.error / divisor,
        own=estimate.own / divisor, unit=unit, method=f"{method}; {estimate.method}",
        logarithm=False,
    )  # fmt: skip


def exact(value: float, unit: str, source: str, processes: int) -> Estimate:
    """Something that was counted and has no error."""
    return Estimate(
        value=value, error=0.0, degrees_of_freedom=math.inf, unit=unit, processes=processes,
        status=Status.COUNTED, source=source, method="counted",
    )  # fmt: skip


def as_figure(estimate: Estimate | Missing, unit: str) -> Figure:
    """The figure, missing with the reason where there is no estimate."""
    return missing(unit, estimate) if isinstance(estimate, Missing) else estimate.figure()
