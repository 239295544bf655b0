"""What the processes of one configuration say together, and how two configurations differ, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.analysis.differences import NORMAL
from wattstep.analysis.student import critical_value
from wattstep.records.figure import Figure, Status, missing, weakest

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its standard error.

    Attributes:
        value: The number; the logarithm of one where `logarithm`.
        error: Its standard error; infinite where nothing tells it; 0 for what was counted.
        freedom: Degrees of freedom of the error: of Student's t; infinite where the error is that
            of a figure's own interval.
        unit: Of the number, or of what it is the logarithm of.
        processes: How many it rests on: of two configurations, those of the one with fewer.
        status: The weakest of its figures.
        source: What the figures rest on.
        method: How it was made.
        logarithm: Whether it is the natural logarithm of what is meant.
        within: Where it cannot lie beyond.
    """

    value: float
    error: float
    freedom: float
    unit: str
    processes: int
    status: Status
    source: str
    method: str
    logarithm: bool = False
    within: tuple[float, float] = (-math.inf, math.inf)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Both ends, of the logarithm where it is one; infinite where there is no error."""
        if not self.error:
            return self.value, self.value
        if not math.isfinite(self.error):
            return self.within
        reach = critical_value(confidence, self.freedom) * self.error
        least, most = self.within
        return max(self.value - reach, least), min(self.value + reach, most)

    def figure(self) -> Figure:
        """With its 95 % interval; of what is meant, where it is a logarithm."""
        value = math.exp(self.value) if self.logarithm else self.value
        ends: tuple[float | None, float | None] = None, None
        if math.isfinite(self.error) and self.error:
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
) -> Estimate | str:
    """The mean over processes of one configuration, or why there is none.

    Of several processes the interval is Student's t over their means: what differs from process to
    process is in it. Of one it is the figure's own, which knows the steps of that process only, made
    wider by what processes are assumed to differ.
    Where the figures' own intervals leave more open than their spread, they are what counts:
    processes that happen to agree are no proof.

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
        return "; ".join(reasons) or "no run tells it"
    if logarithm and any((figure.value or 0.0) <= 0 for figure in known):
        return f"{known[0].source or 'it'} is not above 0: ratios of it mean nothing"
    values = np.array([_point(figure, logarithm) for figure in known])
    own = np.array([_own_error(figure, logarithm) for figure in known])
    count = len(known)
    finite = own[np.isfinite(own)]
    of_steps = math.sqrt(float((finite**2).mean()) / count) if len(finite) else 0.0
    if count == 1:
        counted = known[0].status is Status.COUNTED
        error = math.hypot(float(own[0]), 0.0 if counted else between)
        freedom, method = math.inf, "one process: interval of its own steps"
        if between and not counted:
            method += f", and an assumed standard deviation of {between:g} between processes"
    else:
        error, freedom = float(values.std(ddof=1)) / math.sqrt(count), float(count - 1)
        method = f"mean over {count} processes, Student's t"
        if of_steps * NORMAL > error * critical_value(CONFIDENCE, freedom):
            error, freedom = of_steps, math.inf
            method = f"mean over {count} processes, the intervals of their own steps"
        if not error and not len(finite):
            error = math.inf  # they agree, and nothing says how sure any of them is
    return Estimate(
        value=float(values.mean()), error=error, freedom=freedom, unit=known[0].unit,
        processes=count, status=weakest(figure.status for figure in known),
        source=", ".join(dict.fromkeys(figure.source or "" for figure in known)),
        method=method, logarithm=logarithm, within=within,
    )  # fmt: skip


def _point(figure: Figure, logarithm: bool) -> float:
    assert figure.value is not None
    return math.log(figure.value) if logarithm else figure.value


def _own_error(figure: Figure, logarithm: bool) -> float:
    """Standard error by the figure's own interval; 0 where it was counted, infinite without one."""
    if figure.status is Status.COUNTED:
        return 0.0
    if figure.low is None or figure.high is None:
        return math.inf
    if not logarithm:
        return figure.half_width / NORMAL
    if figure.low <= 0:
        return math.inf
    return (math.log(figure.high) - math.log(figure.low)) / (2 * NORMAL)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """b less a, of independent processes; degrees of freedom as Welch (1947) and Satterthwaite.

    Of logarithms it is the logarithm of the ratio.
    """
    squares = a.error**2, b.error**2
    total = squares[0] + squares[1]
    below = sum(
        square**2 / estimate.freedom
        for square, estimate in zip(squares, (a, b), strict=True)
        if math.isfinite(estimate.freedom) and math.isfinite(square)
    )
    freedom = total**2 / below if below > 0 and math.isfinite(total) else math.inf
    least = min(a.processes, b.processes)
    if least == 1:
        method = "one process on a side: interval of its own steps"
    else:
        method = f"Welch's t over {a.processes} and {b.processes} processes"
    return Estimate(
        value=b.value - a.value, error=math.sqrt(total), freedom=freedom,
        unit="ratio" if a.logarithm else a.unit, processes=least,
        status=weakest((a.status, b.status)),
        source=", ".join(dict.fromkeys((a.source, b.source))),
        method=method, logarithm=a.logarithm,
    )  # fmt: skip


def over(estimate: Estimate, divisor: float, unit: str, method: str) -> Estimate:
    """The estimate (the logarithm, where it is one) divided by a positive number, as a plain number."""
    return replace(
        estimate, value=estimate.value / divisor, error=estimate.error / divisor, unit=unit,
        method=f"{method}; {estimate.method}", logarithm=False,
    )  # fmt: skip


def exact(value: float, unit: str, source: str, processes: int) -> Estimate:
    """Something that was counted and has no error."""
    return Estimate(
        value=value, error=0.0, freedom=math.inf, unit=unit, processes=processes,
        status=Status.COUNTED, source=source, method="counted",
    )  # fmt: skip


def as_figure(estimate: Estimate | str, unit: str) -> Figure:
    """The figure, missing with the reason where there is no estimate."""
    return missing(unit, estimate) if isinstance(estimate, str) else estimate.figure()
