"""Cost of reaching a goal: steps, samples, time and energy, evaluations left out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.recorded.reading import Tables
from wattstep.recorded.steps import SINGLE_GONE, Steps
from wattstep.schema.figure import CLOCK, Figure, Missing, Status, missing, weakest
from wattstep.schema.figures import Figures
from wattstep.schema.goal import HIGHER_IS_BETTER, Goal
from wattstep.schema.report_rows import Evaluation
from wattstep.stats.statistics import share_figure

HELD_OUT = "held-out samples"
BETWEEN = "between the last evaluation that did not reach it and the first that did"
# A run that ends with the first evaluation that is good enough may have met a lucky one.
STOPPED = "the first that reached it ended the run, by luck perhaps (optional stopping)"
Evaluations = dict[int, dict[str, float]]


def completion(tables: Tables, breakdown: RunBreakdown, power: Figure | None) -> dict[str, Figure]:
    """`steps_to_target`, `samples_to_target`, `time_to_target`, `energy_to_target`.

    Empty where the run had no goal.

    Args:
        power: Mean power while it trained, in W.
    """
    text = tables.info.options.get("until")
    if text is None:
        return {}
    goal = Goal.parse(str(text))
    judged = _by_step(tables)
    bounds = _reached(goal, judged, breakdown.steps)
    if isinstance(bounds, Missing):
        units = {"steps": "count", "samples": "count", "time": "s", "energy": "J"}
        return {f"{name}_to_target": missing(unit, bounds) for name, unit in units.items()}
    before, after = bounds
    steps = breakdown.steps
    shorter, longer = (_first(steps, count, breakdown.step_time.value) for count in (before, after))
    if shorter is None or longer is None:
        reason = SINGLE_GONE
        return {
            "steps_to_target": _counted(after, before, BETWEEN),
            "samples_to_target": missing("count", reason),
            "time_to_target": missing("s", reason),
            "energy_to_target": missing("J", reason),
        }
    (low, least, _), (high, samples, traced) = shorter, longer
    method = f"{BETWEEN}; {_extent(judged[after])}; {STOPPED}"
    time = Figure(
        value=high, low=low, high=high, unit="s", n=after, source=CLOCK,
        status=weakest([steps.status, Status.ATTRIBUTED if traced else Status.MEASURED]),
        method=f"sum of the steps; {method}"
        + ("; traced steps count as mean clean ones" if traced else ""),
    )  # fmt: skip
    return {
        "steps_to_target": _counted(after, before, method),
        "samples_to_target": _counted(samples, least, method),
        "time_to_target": time,
        "energy_to_target": _energy(time, power, method),
    }


def _by_step(tables: Tables) -> Evaluations:
    """Result of each evaluation, by the number of steps done."""
    evaluations_by_step: Evaluations = {}
    for row in tables.evaluations():
        evaluations_by_step.setdefault(row.step, {})[row.measure] = row.value
    return evaluations_by_step


def _reached(goal: Goal, judged: Evaluations, steps: Steps) -> tuple[int, int] | Missing:
    """Steps done at the last evaluation before the goal and at the first that reached it."""
    before, best = 0, math.nan
    for step, measures in judged.items():
        if goal.measure not in measures:
            continue
        if goal.reached_by(measures):
            return before, step
        before, best = step, goal.better(best, measures[goal.measure])
    if math.isnan(best):
        return Missing("the run ended before the first evaluation")
    diverged = steps.index[~np.isfinite(steps.loss)]
    if (thinned := steps.thinned) is not None:
        diverged = np.sort(np.append(diverged, thinned.index[thinned.losses == 0]))
    if len(diverged):
        return Missing(
            f"{goal} was not reached: the loss is no finite number from step {diverged[0]} on"
        )
    return Missing(f"{goal} was not reached in {before} steps: the best was {best:.4g}")


def _extent(measures: Mapping[str, float]) -> str:
    """On how much an evaluation rests, in words."""
    if "judged" not in measures:
        return "on how many samples it was judged is not known"
    samples = f"judged on {measures['judged']:,.0f} {HELD_OUT}"
    if "positions" not in measures:
        return samples
    return f"{samples}, {measures['positions']:,.0f} positions in all"


def _first(steps: Steps, count: int, clean: float | None) -> tuple[float, float, bool] | None:
    """Time in s and samples of so many first steps, and whether any was traced; None where that is not known.

    A traced step takes as long as a clean one would have.
    """
    line = steps.line
    until = count
    if (every := line.steps) is not None:
        done = np.append(0, np.cumsum(every))
        until = int(np.searchsorted(done, count))
        if until == len(done) or done[until] != count:
            return None
    seconds = line.in_steps_ns[:until].astype(np.float64) * 1e-9
    traced = steps.of_line(steps.traced, False)[:until]
    if clean is not None:
        seconds[traced] = clean
    return float(seconds.sum()), float(np.nansum(line.samples[:until])), bool(traced.any())


def _counted(value: float, low: float, method: str) -> Figure:
    return Figure(
        value=float(value), low=float(low), high=float(value), unit="count",
        status=Status.COUNTED, source="evaluations", method=method,
    )  # fmt: skip


def _energy(time: Figure, power: Figure | None, method: str) -> Figure:
    if power is None or power.value is None or time.value is None:
        return missing("J", "power is not known" if power is None else power.reason or "no power")
    scaled = time.scaled(power.value, "J")
    return Figure(
        value=scaled.value, low=scaled.low, high=scaled.high, unit="J", status=power.status,
        source=power.source, reason=power.reason, n=time.n, systematic=power.systematic,
        method=f"mean power of clean steps times the time to the target; {method}",
    )  # fmt: skip


def evaluations(tables: Tables) -> tuple[Evaluation, ...]:
    """Every evaluation."""
    return tuple(
        Evaluation(
            step=step,
            samples=int(measures["judged"]) if "judged" in measures else None,
            measures=Figures(
                {name: _judgement(name, measures) for name in measures if name in HIGHER_IS_BETTER}
            ),
        )
        for step, measures in _by_step(tables).items()
    )


def _judgement(name: str, measures: Mapping[str, float]) -> Figure:
    """An accuracy or a loss, with an interval where what was judged is independent."""
    value, judged, positions = (measures.get(key) for key in (name, "judged", "positions"))
    unit = "ratio" if name == "accuracy" else "1"
    if value is None or not math.isfinite(value):
        return missing(unit, "the evaluation gave no finite number")
    if name == "accuracy" and judged and positions is None:
        return share_figure(round(value * judged), int(judged), HELD_OUT)
    method = "share that is right" if name == "accuracy" else "mean loss"
    if name == "accuracy" and positions is not None:
        why = "positions of a sample are not independent: no interval"
    else:
        why = "no interval"
    return Figure(
        value=value, unit=unit, n=None if judged is None else int(judged), source=HELD_OUT,
        status=Status.MEASURED, method=f"{method}; {_extent(measures)}; {why}",
    )  # fmt: skip
