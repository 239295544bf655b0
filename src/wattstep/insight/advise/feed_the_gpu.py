"""Give a GPU more to do at once, where it waits for the host."""

from __future__ import annotations

import numpy as np

from wattstep.attribution.gaps import COPY, LAUNCHED
from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.insight.explain.device_gaps import idle_of_device, traced_step_s
from wattstep.insight.explain.operations import attributed
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import Saving


def feed_the_gpu(facts: Facts) -> Advice | Missing:
    """Advises more work at once where a GPU is idle because the host has not launched it: the host is too slow."""
    breakdown = facts.run.breakdown
    if not breakdown.others:
        return Missing("no GPU took part")
    by_host = {
        device: np.array(
            [
                sum(seconds for cause, seconds in one.items() if cause not in (LAUNCHED, COPY))
                for one in idle_of_device(breakdown, device)
            ]
        )
        for device in breakdown.others
    }
    device = max(by_host, key=lambda name: float(by_host[name].mean()))
    step = facts.step_s
    time = attributed(
        breakdown,
        by_host[device] * step / traced_step_s(breakdown),  # in a clean step as in traced ones
        "time without work that the host had not launched yet",
    )
    value = time.value or 0.0
    if value < WORTH * step:
        return Missing(f"{device} waits for the host {100 * value / step:.1f} % of a step")
    saving = Saving(value=value, low=0.0, high=max(min(time.high or value, step), value))
    batch = facts.run.info.batch_size
    if facts.ours and batch is not None:
        how = f"a larger batch: {facts.run_with(batch=2 * batch)}"
        if facts.on_torch and not facts.run.info.options.get("compiled"):
            how += "; --compile launches less"
    else:
        graphs = "torch.compile(mode='reduce-overhead') or CUDA graphs"
        if not facts.on_torch:
            graphs = "or graphs of work that are launched as one"
        how = facts.in_code(f"a larger batch, {graphs}")
    return Advice(
        title=f"Give {device} more to do at once",
        why=f"{device} has nothing to do for {100 * value / step:.0f} % of a step, because the host has not "
        "launched its next work.",
        gain=gain_of(saving, step, "all of it, if work were always launched in time: a bound"),
        evidence={"gpu_waits_for_host": time},
        how=how,
    )
