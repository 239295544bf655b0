"""End what else runs on the machine."""

from __future__ import annotations

import numpy as np

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.insight.explain.threads import undisturbed_step
from wattstep.recorded.steps import SINGLE_GONE
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import Saving
from wattstep.stats.student import half_width


def quiet_machine(facts: Facts) -> Advice | Missing:
    """Advises a quiet machine where disturbed steps took longer: the others tell what quiet would bring."""
    run, step = facts.run, facts.step_s
    if run.conditions.unseen:
        return Missing(
            f"whether anything disturbed the steps is not known: {run.conditions.unseen}"
        )
    if run.breakdown.steps.thinned is not None:
        return Missing(SINGLE_GONE)
    clean = run.breakdown.steps.clean
    disturbed = clean & run.conditions.disturbed
    quiet = undisturbed_step(run)
    if not disturbed.any():
        return Missing("nothing disturbed the steps")
    if quiet is None:
        return Missing("every step was disturbed: how long one is in quiet is not known")
    saved = step - quiet
    if saved < WORTH * step:
        return Missing(
            f"disturbed steps cost {100 * max(saved, 0.0) / step:.1f} % of the mean step"
        )
    spread = _error(run.breakdown.steps.seconds[clean & ~disturbed])
    saving = Saving(value=saved, low=max(saved - spread, 0.0), high=min(saved + spread, step))
    return Advice(
        title="End what else runs on this machine",
        why=f"{int(disturbed.sum())} of {int(clean.sum())} steps were disturbed by other processes or "
        "the host; the others were shorter.",
        gain=gain_of(saving, step, "undisturbed steps beside all"),
        evidence={"other_cpu": facts.cores.others},
        how=f"{facts.tried_by} when nothing else runs",
    )


def _error(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Half width of the 95 % interval of a mean in s; all of it where one value tells none."""
    return half_width(seconds, 0.95) if len(seconds) > 1 else float(seconds.mean())
