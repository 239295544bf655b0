"""Back-test of forecasts from the first steps of a run: time, energy, and the steps to its goal."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wattstep.insight.explain.level_changes import SectionPart
from wattstep.insight.explain.section import Table
from wattstep.recorded.steps import SINGLE_GONE, Steps
from wattstep.run import Run
from wattstep.run.completion import evaluations
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import CLOCK, Figure, Missing
from wattstep.schema.goal import HIGHER_IS_BETTER, Goal
from wattstep.stats.forecast import LATER, begun, energy_left, expected_mean, forecast_time
from wattstep.stats.learning_curve import steps_to_goal

SHARES: Final = (0.05, 0.1, 0.2, 0.5)
LEAST_FIRST: Final = 10  # steps
STRETCHES: Final = 64  # of power, at the most
_COLUMNS: Final = {
    "first": "first steps", "what": "what", "predicted": "predicted (90 %)", "came": "came to",
    "off": "off by", "held": "held",
}  # fmt: skip


def backtest(run: Run) -> SectionPart:
    """Forecasts after some of the first steps, beside the actual values."""
    steps = run.series.steps
    if steps.thinned is not None:
        return SectionPart(
            sentences=(f"How well the first steps predict the rest: {SINGLE_GONE}.",)
        )
    usable = np.flatnonzero(~(steps.traced & (not steps.only_traced)) & ~steps.after_traced)
    seconds = (steps.seconds + steps.gap_s)[usable]
    if len(seconds) < 2 * LEAST_FIRST:
        words = f"How well the first steps predict the rest: too few steps ({len(seconds)})."
        return SectionPart(sentences=(words,))
    gains = _gains(run, steps)[usable]
    rows: list[dict[str, Any]] = []
    for first in sorted({max(int(share * len(seconds)), LEAST_FIRST) for share in SHARES}):
        if first < len(seconds):
            rows += _of_time_and_energy(run, seconds, gains, first)
    goal_rows = _of_goal(run)
    table = Table(
        name="forecasts", title="Forecasts from the first steps, and what came", columns=_COLUMNS,
        rows=[*rows, *goal_rows],
    )  # fmt: skip
    return SectionPart(sentences=tuple(_words([*rows, *goal_rows])), tables=(table,))


def _gains(run: Run, steps: Steps) -> FloatArray:
    """Energy of each step in J; NaN where it is not known."""
    energy = run.series.energy
    if isinstance(energy, Missing):
        return np.full(len(steps.index), np.nan)
    gains, covered = energy.curve.difference(steps.start_ns, steps.end_ns)
    return np.where(covered > 0.99, gains, np.nan)


def _of_time_and_energy(
    run: Run, seconds: FloatArray, gains: FloatArray, first: int
) -> list[dict[str, Any]]:
    warmup = min(run.info.warmup, first)
    steps_left = len(seconds) - first
    forecast = forecast_time(
        seconds[:first], float(seconds[:first].sum()), steps_left, warmup, CLOCK
    )
    rows = [_row(first, "time", forecast.time_left, float(seconds[first:].sum()))]
    energy = run.series.energy
    if isinstance(energy, Missing) or not np.isfinite(gains[first:]).any():
        return rows
    known = np.isfinite(gains)
    if known[first:].mean() < 0.99:
        return rows
    scale = steps_left / known[first:].sum()
    power = _power(seconds[warmup:first], gains[warmup:first], energy.shortest[0], steps_left)
    left = energy_left(forecast.time_left, power, energy.source)
    rows.append(_row(first, "energy", left, float(np.nansum(gains[first:])) * scale))
    return rows


def _power(seconds: FloatArray, gains: FloatArray, shortest: float, steps_left: int) -> Any:
    """Forecast of mean power from the stretches of steps so far; or the reason why there is none."""
    known = np.isfinite(gains) & (seconds > 0)
    seconds, gains = seconds[known], gains[known]
    if not len(seconds):
        return "the energy of the first steps is not known"
    a_stretch = max(
        -(-len(seconds) // STRETCHES), int(np.ceil(shortest / max(float(seconds.mean()), 1e-9))), 1
    )
    count = len(seconds) // a_stretch
    if not count:
        return "the first steps are shorter than the sensor can tell apart"
    shape = (count, a_stretch)
    last = slice(len(seconds) - count * a_stretch, None)
    watts = gains[last].reshape(shape).sum(axis=1) / seconds[last].reshape(shape).sum(axis=1)
    return expected_mean(watts[begun(watts) :], steps_left, a_stretch)


def _row(first: int, what: str, predicted: Figure, came: float) -> dict[str, Any]:
    low, high, value = predicted.low, predicted.high, predicted.value
    held = None
    if value is not None:
        held = (low is None or low <= came) and (high is None or came <= high)
    return {
        "first": first,
        "what": what,
        "predicted": predicted,
        "came": f"{came:.4g} {predicted.unit}" if predicted.unit != "count" else f"{came:,.0f}",
        "off": None if value is None or not came else f"{100 * (value / came - 1):+.1f} %",
        "held": "—" if held is None else "yes" if held else "no",
    }


def _of_goal(run: Run) -> list[dict[str, Any]]:
    """Forecasts of the steps to the goal, from the evaluations of the first half and three quarters."""
    text = run.info.options.get("until")
    if text is None:
        return []
    goal = Goal.parse(str(text))
    judged = [one for one in evaluations(run.tables) if goal.measure in one.measures]
    done = np.array([one.step for one in judged], float)
    value = np.array([_value(one.measures[goal.measure]) for one in judged])
    higher = HIGHER_IS_BETTER[goal.measure]
    wrong, wanted = (1 - value, 1 - goal.value) if higher else (value, goal.value)
    reached = np.flatnonzero(wrong <= wanted)
    if not len(reached):
        return []
    rows = []
    for share in (0.5, 0.75):
        first = int(share * reached[0])
        if first:
            forecast = steps_to_goal(done[:first], wrong[:first], wanted, "evaluations")
            rows.append(
                _row(int(done[first - 1]), f"steps to {goal}", forecast, float(done[reached[0]]))
            )
    return rows


def _value(figure: Figure) -> float:
    return float("nan") if figure.value is None else figure.value


def _words(rows: list[dict[str, Any]]) -> list[str]:
    decided = [row for row in rows if row["held"] != "—"]
    if not decided:
        return ["Nothing of this run can be forecast from its first steps: the table says why."]
    held = sum(row["held"] == "yes" for row in decided)
    first = decided[0]
    return [
        f"A forecast from its first {first['first']} steps would have been {first['off']} off for the "
        f"{first['what']} of the rest; {held} of {len(decided)} forecasts with 90 % intervals held.",
        f"A forecast knows what its steps have met: {LATER}.",
    ]
