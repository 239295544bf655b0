"""Train more samples in a step, where a part of it does not grow with them."""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.device.roofline import FAR_BELOW
from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.run import Run
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import Saving, fixed_cost, per_sample_with_batch

TIMES: Final = 2


def larger_batch(facts: Facts) -> Advice | Missing:
    """Code between operations and the optimizer cost a step the same, whatever its batch.

    Where runs with other batches are given, the fixed cost is that of a line through their steps.
    """
    run, step = facts.run, facts.step_s
    batch = run.info.batch_size
    if not batch:
        return Missing("the run does not say its batch size")
    fitted = _fitted(facts)
    saving, method = _of_line(fitted, facts) if fitted is not None else _of_shares(facts)
    least = saving.value if fitted is not None else _fixed_s(facts) / TIMES
    if saving.value < WORTH * step:
        return Missing(
            f"{100 * (TIMES * saving.value / step):.1f} % of a step does not grow with its batch"
        )
    return Advice(
        title=f"Train batches of {TIMES * batch} instead of {batch}, where the task and memory allow",
        why=_why(saving, step, least),
        gain=gain_of(saving, step, f"time of a sample with {TIMES} times the batch; {method}"),
        evidence={"idle_framework": facts.time_between, "optimizer_time": facts.optimizer_time},
        how=facts.run_with(batch=TIMES * batch)
        if facts.ours
        else facts.in_code(f"batches of {TIMES * batch}"),
    )


def _why(saving: Saving, step: float, least: float) -> str:
    """Sentence on the time that does not grow with the batch, and how much of that is only likely."""
    about, surely = (f"{100 * (TIMES * seconds / step):.0f} %" for seconds in (saving.value, least))
    if about == surely:
        return (
            f"About {about} of a step costs the same whatever its batch: code between operations, "
            "the optimizer, calls."
        )
    return (
        f"Code between operations and the optimizer, {surely} of a step, cost the same whatever its "
        f"batch; it would be {about} if what operations take beyond both ceilings did not grow either."
    )


def _of_shares(facts: Facts) -> tuple[Saving, str]:
    """From the shares of one run."""
    least = _fixed_s(facts)
    low = sum(each.low or 0.0 for each in (facts.time_between, facts.optimizer_time))
    if facts.placed is None:
        return _saving(least, low, facts.step_s, facts.step_s), (
            "code between operations and the optimizer do not grow; without ceilings it is not "
            "known of which operations more"
        )
    small = np.nan_to_num(facts.placed.share, nan=1.0) < FAR_BELOW
    rows = small & ~facts.in_phase("optimizer")
    above = (facts.time_s - np.nan_to_num(facts.placed.least_s))[rows].clip(0.0)
    return _saving(least + float(above.sum()), low, facts.step_s, facts.step_s), (
        "code between operations, the optimizer, and what operations far below both ceilings take "
        "beyond them do not grow; at least the first two do not, at most nothing does"
    )


def _fixed_s(facts: Facts) -> float:
    """Time in s of a step that does not grow with its batch, whatever operations do."""
    return (facts.time_between.value or 0.0) + (facts.optimizer_time.value or 0.0)


def _of_line(fitted: tuple[float, float], facts: Facts) -> tuple[Saving, str]:
    fixed, each = fitted
    step = fixed + each * (facts.run.info.batch_size or 1)
    scaled = fixed * facts.step_s / step
    low, high = 0.9 * scaled, min(1.1 * scaled, facts.step_s)
    return _saving(scaled, low, high, facts.step_s), (
        f"fixed cost of {fixed * 1e3:.3g} ms a step, from a line through the runs given, ± 10 %"
    )


def _saving(fixed: float, low: float, high: float, step: float) -> Saving:
    value, least, most = (
        step * per_sample_with_batch(each, step, TIMES) for each in (fixed, low, high)
    )
    return Saving(value=value, low=min(least, value), high=max(most, value))


def _fitted(facts: Facts) -> tuple[float, float] | None:
    """Fixed cost and cost a sample, from runs that differ in their batch alone."""
    runs = [facts.run, *(run for run in facts.beside if _alike(run, facts.run))]
    known = [run for run in runs if run.info.batch_size and run.breakdown.step_time.value]
    batches = np.array([float(run.info.batch_size or 0) for run in known])
    steps = np.array([run.breakdown.step_time.value or 0.0 for run in known])
    return fixed_cost(batches, steps)


def _alike(one: Run, other: Run) -> bool:
    keys = ("workload", "engine", "threads", "precision", "processor")
    same = all(getattr(one.info, key) == getattr(other.info, key) for key in keys)
    machine = ("model", "cpu", "cores")
    return same and all(one.info.device.get(k) == other.info.device.get(k) for k in machine)
