"""Comparison of a metric of two sides: values, ratio and difference with intervals, and a plan for more runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from wattstep.insight.compare.claims import not_claimed
from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.process import A_STEP, ENERGY, UNITS, Process
from wattstep.schema.figure import Figure, missing, weakest
from wattstep.schema.metrics import METRICS
from wattstep.stats.differences import (
    CONFIDENCE,
    Differences,
    Observed,
    detectable,
    differences,
    mean_of,
    observed,
    pooled_spread,
    processes_needed,
    ratio_of,
)
from wattstep.stats.statistics import NOT_BELOW

Verdict = Literal["lower", "higher", "differs here", "not shown", "not compared"]
EFFECT: Final = 0.02  # what a plan for more processes is to show
WIDENED: Final = "widened by what the canary saw of the machine"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan for more processes, from the spread between those there are.

    Attributes:
        spread: Relative standard deviation between processes of one configuration.
        processes: Of the smaller side.
        shows: The smallest relative difference that so many of each side show in 8 of 10 campaigns;
            None for one.
        effect: A difference that is worth to be shown.
        needs: Processes of each side that show it; None: more than 50.
    """

    spread: float
    processes: int
    shows: float | None
    effect: float
    needs: int | None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A metric of both sides.

    Attributes:
        name: Of the metric.
        a: Of side A: mean over its processes.
        b: Of side B.
        ratio: B / A.
        difference: B - A, in the metric's unit.
        p: Probability of a ratio as far from 1 where there is no difference; None: not tested.
        verdict: Verdict on the configurations; "differs here": a difference of these runs that
            is not shown to be the configurations'.
        of_these: Verdict on just these processes: as `verdict`, but by one of each, too.
        plan: Plan for more processes; None where nothing is known of their spread.
        not_claimed: Why no difference is claimed of the configurations, whatever these runs show.
    """

    name: str
    a: Figure
    b: Figure
    ratio: Figure
    difference: Figure
    p: float | None = None
    verdict: Verdict = "not compared"
    of_these: Verdict = "not compared"
    plan: Plan | None = None
    not_claimed: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "a": self.a,
            "b": self.b,
            "ratio": self.ratio,
            "difference": self.difference,
            "p": self.p,
            "verdict": self.verdict,
            "of_these_processes": self.of_these,
            "plan": None if self.plan is None else vars(self.plan),
            "not_claimed_because": list(self.not_claimed),
        }


def compare_metric(
    name: str,
    a: Sequence[Process],
    b: Sequence[Process],
    drift: Drift,
    effect: float = EFFECT,
) -> Compared:
    """Compares a metric of two sides.

    Args:
        name: One of `UNITS`.
        a: Processes of A, one or more.
        b: Of B.
        drift: Of the machine between them.
        effect: Relative difference that a plan for more processes is to show.
    """
    unit = UNITS[name]
    sides = [[process.figure(name) for process in side] for side in (a, b)]
    shown_a, shown_b = (of_side(figures, unit) for figures in sides)
    reason = _lacking(sides) or _unlike(name, a, b, sides)
    if reason is not None:
        return Compared(
            name=name, a=shown_a, b=shown_b, ratio=missing("ratio", reason),
            difference=missing(unit, reason),
        )  # fmt: skip
    both = [_observed(figures) for figures in sides]
    absolute = differences(*both)
    moved = drift if name not in ("peak_memory", "mean_power") else Drift(parts={})
    rises = not METRICS[name].most
    difference = widened_difference(
        _figure(absolute, sides, unit, lambda value: value), shown_b, moved, rises=rises
    )
    if min(both[0].values.min(), both[1].values.min()) <= 0:
        none = missing("ratio", "a value is 0 or less: there is no ratio")
        return Compared(name=name, a=shown_a, b=shown_b, ratio=none, difference=difference)
    logs = [side.log for side in both]
    relative = differences(*logs)
    ratio = _figure(relative, sides, "ratio", ratio_of)
    if name in ENERGY:
        ratio = replace(ratio, systematic=_systematic(a, b, sides), reason=_sensor_words(a, b))
    ratio = widened(ratio, moved, rises=rises)
    of_these, reasons = verdict_of(ratio), not_claimed(name, a, b)
    return Compared(
        name=name,
        a=shown_a,
        b=shown_b,
        ratio=ratio,
        difference=difference,
        p=float(relative.p[0]),
        verdict=here_only(of_these) if reasons else of_these,
        of_these=of_these,
        plan=_plan(logs[0], logs[1], effect),
        not_claimed=reasons,
    )


def widened(ratio: Figure, drift: Drift, *, rises: bool = True) -> Figure:
    """A ratio whose interval holds what the machine alone may have changed.

    Args:
        ratio: B / A.
        drift: From A to B.
        rises: True if it rises where the machine gets slower; else it falls.
    """
    if not drift.shown or ratio.low is None or ratio.high is None:
        return ratio
    down, up = (drift.low, drift.high) if rises else (-drift.high, -drift.low)
    return replace(
        ratio,
        low=ratio.low * math.exp(-up),
        high=ratio.high * math.exp(-down),
        method=f"{ratio.method}; {WIDENED}",
    )


def widened_difference(
    difference: Figure, b: Figure, drift: Drift, *, rises: bool = True
) -> Figure:
    """B - A with an interval that holds what the machine alone may have changed of B; see `widened`.

    Args:
        difference: In the unit of both.
        b: The value of B.
        drift: From A to B.
        rises: True if it rises where the machine gets slower; else it falls.
    """
    if not drift.shown or b.value is None or difference.low is None or difference.high is None:
        return difference
    down, up = (drift.low, drift.high) if rises else (-drift.high, -drift.low)
    return replace(
        difference,
        low=difference.low + b.value * math.expm1(-up),
        high=difference.high + b.value * math.expm1(-down),
        method=f"{difference.method}; {WIDENED}",
    )


def energies_of_operations(
    a: Sequence[Process], b: Sequence[Process]
) -> tuple[str | None, float | None]:
    """Reason why energies of operations are not of the same thing, and the systematic error of their ratios."""
    sides = [[process.figures["mean_power"] for process in side] for side in (a, b)]
    if any(figure.missing for side in sides for figure in side):
        return None, None
    reason = _unlike("mean_power", a, b, sides)
    return reason, None if reason else _systematic(a, b, sides)


def verdict_of(ratio: Figure) -> Verdict:
    """Verdict of the interval of a ratio, the error of different sensors included."""
    if ratio.missing:
        return "not compared"
    if ratio.low is None or ratio.high is None:
        return "not shown"
    beside = ratio.systematic or 0.0
    if ratio.high * (1 + beside) < 1:
        return "lower"
    return "higher" if ratio.low * (1 - beside) > 1 else "not shown"


def here_only(verdict: Verdict) -> Verdict:
    """The verdict on configurations where a difference is only known to be one of these runs."""
    return "differs here" if verdict in ("lower", "higher") else verdict


def _lacking(sides: Sequence[Sequence[Figure]]) -> str | None:
    """Reason why a metric is missing on a side; None where it is on both."""
    reasons = {
        letter: figure.reason
        for letter, figures in zip("AB", sides, strict=True)
        for figure in reversed(figures)
        if figure.missing
    }
    if not reasons:
        return None
    letter, reason = next(iter(reasons.items()))
    return f"missing in {'both' if reasons.get('B') == reasons.get('A') else letter}: {reason}"


def _unlike(
    name: str, a: Sequence[Process], b: Sequence[Process], sides: Sequence[Sequence[Figure]]
) -> str | None:
    """Reason why the values of both sides are not of the same thing; None where they are."""
    sizes = {process.samples for process in (*a, *b)}
    if name in A_STEP and len(sizes) > 1:
        known = " and ".join(
            "?" if size is None else f"{size:g}"
            for size in sorted(sizes, key=lambda size: size or 0.0)
        )
        return f"steps are of {known} samples: compare by sample"
    statuses = [sorted({figure.status.value for figure in figures}) for figures in sides]
    if name in ENERGY and statuses[0] != statuses[1]:
        mine, theirs = (" and ".join(words) for words in statuses)
        return f"energy of A is {mine}, that of B {theirs}: not the same thing"
    models = {str(process.info.power_model) for process in (*a, *b)}
    if name in ENERGY and "modelled" in statuses[0] and len(models) > 1:
        return "the energy of A and B comes from different models"
    return None


def of_side(figures: Sequence[Figure], unit: str) -> Figure:
    """A side's own value: its process's, or the mean of its processes.

    No metric that is compared can be below 0: the interval of a mean of such values ends there.
    """
    if len(figures) == 1:
        return figures[0]
    lacking = next((figure for figure in figures if figure.missing), None)
    if lacking is not None:
        return missing(unit, lacking.reason or "not known")
    several, n = _observed(figures), len(figures)
    estimate = mean_of(several)
    mean, half_width = float(several.values.mean()), float(estimate.half_width()[0])
    low, method = mean - half_width, f"Student's t over the means of {n} processes"
    if estimate.by_steps:
        method = f"mean of {n} processes, the intervals of their own steps"
    if low < 0 and (several.values >= 0).all():
        low, method = 0.0, f"{method}; {NOT_BELOW}"
    return Figure(
        value=mean, unit=unit, low=low, high=mean + half_width, confidence=CONFIDENCE, n=n,
        method=method, source=figures[0].source,
        status=weakest(figure.status for figure in figures),
        systematic=max((f.systematic for f in figures if f.systematic is not None), default=None),
    )  # fmt: skip


def _observed(figures: Sequence[Figure]) -> Observed:
    def numbers(values: Sequence[float | None]) -> list[float]:
        return [math.nan if value is None else value for value in values]

    return observed(
        numbers([figure.value for figure in figures]),
        numbers([figure.low for figure in figures]),
        numbers([figure.high for figure in figures]),
    )


def _figure(
    result: Differences, sides: Sequence[Sequence[Figure]], unit: str, scale: Any
) -> Figure:
    figures = [figure for side in sides for figure in side]
    low, high = scale(float(result.low[0])), scale(float(result.high[0]))
    known = math.isfinite(low) and math.isfinite(high)
    return Figure(
        value=scale(float(result.value[0])),
        unit=unit,
        low=low if known else None,
        high=high if known else None,
        confidence=CONFIDENCE if known else None,
        n=len(figures),
        method=result.method,
        status=weakest(figure.status for figure in figures),
        source=figures[0].source,
    )


def _systematic(
    a: Sequence[Process], b: Sequence[Process], sides: Sequence[Sequence[Figure]]
) -> float | None:
    """Relative error of a ratio of energies that no number of runs takes away.

    That of a calibration cancels where the same sensor saw both; what the smallest step of the
    sensor leaves does not, for two powers are rounded apart.
    """
    if _one_sensor(a, b):
        rounding = [max(process.rounding for process in side) for side in (a, b)]
        return math.hypot(*rounding) or None
    worst = [max((f.systematic or 0.0 for f in figures), default=0.0) for figures in sides]
    return math.hypot(*worst) or None


def _one_sensor(a: Sequence[Process], b: Sequence[Process]) -> bool:
    return len({(process.sensors, process.configuration["device"]) for process in (*a, *b)}) == 1


def _sensor_words(a: Sequence[Process], b: Sequence[Process]) -> str | None:
    if _one_sensor(a, b):
        return "the same sensor saw both: the error of its calibration cancels"
    unknown = any(process.figures["mean_power"].systematic is None for process in (*a, *b))
    words = "different sensors: their errors do not cancel"
    return f"{words}, and are not known" if unknown else words


def _plan(a: Observed, b: Observed, effect: float) -> Plan | None:
    spread = pooled_spread(a, b)
    if spread is None:
        return None
    fewest, size = min(a.processes, b.processes), float(spread[0])
    return Plan(
        spread=size,
        processes=fewest,
        shows=math.expm1(detectable(size, fewest)) if fewest > 1 else None,
        effect=effect,
        needs=processes_needed(size, math.log1p(effect)),
    )
