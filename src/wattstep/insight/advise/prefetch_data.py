"""Prepare the next batch while this one trains."""

from __future__ import annotations

import numpy as np

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.insight.explain.device_gaps import DATA
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import Saving


def prefetch_data(facts: Facts) -> Advice | Missing:
    """Advises prefetching where a step spends time on its data, which another thread or process can load.

    At best all of it goes; where the rest of a step is shorter than the data take, a step is as
    long as they are. Without a core of its own, only waiting goes, not working.
    """
    data, step = facts.data_time, facts.step_s
    time = data.value or 0.0
    if time < WORTH * step:
        return Missing(f"{100 * time / step:.1f} % of a step is data loading")
    hidden = min(time, step - time)
    idle = facts.cores.idle
    gap = float(np.mean(facts.idle_s[DATA]))
    free = idle.value is None or idle.value >= 1 or hidden <= (idle.value or 0.0) * step
    expected = hidden if free else min(gap, hidden)
    saving = Saving(
        value=expected,
        low=min(gap if free else 0.0, data.low or 0.0, expected),
        high=max(expected, min(data.high or time, step - time if time < step else time)),
    )
    return Advice(
        title="Prepare the next batch while this one trains",
        why=f"{100 * time / step:.0f} % of a step goes into its data, before anything is trained.",
        gain=gain_of(
            saving, step, "time of the phase `data`, as far as the rest of a step is as long"
        ),
        evidence={"data_time": data, "cores_idle": idle},
        how=facts.in_code(
            "batches that another process loads ahead",
            "DataLoader(..., num_workers=1, prefetch_factor=2)",
        ),
    )
