"""Let the optimizer update all parameters in one call."""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.insight.explain.device_gaps import OPTIMIZER
from wattstep.schema.figure import Figure, Missing, Status
from wattstep.stats.speedup import Saving

FUSED: Final = ("_fused_", "_foreach_")
STEP: Final = "Optimizer.step"  # scope of the framework's


def fused_optimizer(facts: Facts) -> Advice | Missing:
    """An optimizer that calls operations for each parameter pays for the calls.

    A fused one still moves every parameter, gradient and state once: that is what remains.
    """
    if facts.ours and not facts.on_torch:
        return Missing("there is one implementation of the optimizer on this engine")
    rows, step = facts.in_phase("optimizer") & facts.within(STEP), facts.step_s
    names = [row.name for row, mine in zip(facts.work.rows, rows, strict=True) if mine]
    gap = float(np.mean(facts.idle_s[OPTIMIZER]))
    its = facts.time_of(rows, "operations within the steps of optimizers")
    phase = facts.span_of("optimizer")
    # Clipping and clearing gradients stay; and no more can go than the phase takes in clean steps.
    time = min((its.value or 0.0) + gap, phase)
    if time < WORTH * step:
        return Missing(
            f"the optimizer and the code between its calls take {100 * time / step:.1f} % of a step"
        )
    if any(word in name for name in names for word in FUSED):
        return Missing("the optimizer updates lists of parameters at once already")
    calls = sum(
        row.figure("calls").value or 0.0
        for row, mine in zip(facts.work.rows, rows, strict=True)
        if mine
    )
    least = 0.0 if facts.placed is None else float(np.nansum(facts.placed.least_s[rows]))
    value = max(min(its.value or 0.0, time) - least, 0.0)
    saving = Saving(value=value, low=0.0, high=time)
    return Advice(
        title="Use a fused optimizer",
        why=f"The optimizer's operations take {100 * (facts.optimizer_time.value or 0.0) / step:.0f} % of a "
        f"step, the code between them {100 * gap / step:.0f} %: {calls:.0f} calls, one parameter after another.",
        gain=gain_of(
            saving,
            step,
            "its calls, but for moving what they move at the ceilings of memory; at most the code "
            "between them, too"
            if facts.placed is not None
            else "its calls; without ceilings, what moving memory takes is not known",
        ),
        evidence={
            "optimizer_time": its,
            "optimizer_calls": Figure(
                value=calls, unit="count", status=Status.COUNTED, source="trace"
            ),
        },
        how=facts.in_code(
            "an optimizer that updates all parameters in one call",
            "torch.optim.SGD(..., fused=True), or Adam and AdamW likewise",
        ),
    )
