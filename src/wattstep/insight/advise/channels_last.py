"""Store images with their channels last, where this machine convolves faster so."""

from __future__ import annotations

import numpy as np

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WITHOUT_CEILINGS, WORTH, Facts
from wattstep.insight.explain.operations import precision_of
from wattstep.insight.explain.threads import near
from wattstep.schema.ceilings import CHANNELS_LAST, CONVOLUTION
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import with_higher_ceilings


def channels_last(facts: Facts) -> Advice | Missing:
    """Convolutions get faster as those that were measured in both layouts differ, and only then."""
    if isinstance(facts.ceilings, Missing):
        return WITHOUT_CEILINGS
    precision = precision_of(facts.run, "convolution")
    first = facts.ceilings.compute.get(f"{CONVOLUTION}.{precision}")
    last = facts.ceilings.compute.get(f"{CHANNELS_LAST}.{precision}")
    if first is None or last is None or not first.value or not last.value:
        return Missing("convolutions were not measured in both layouts")
    if (last.low or last.value) <= (first.high or first.value):
        return Missing(
            f"channels last is not surely faster here: {last.value / 1e9:.3g} GFLOP/s, channels "
            f"first {first.value / 1e9:.3g}"
        )
    rows = facts.of_kind("convolution")
    time = facts.time_of(rows, "convolutions")
    gained = 1 - first.value / last.value
    bound = (time.value or 0.0) * gained
    if bound < WORTH * facts.step_s:
        return Missing(
            f"{100 * (time.value or 0.0) / facts.step_s:.1f} % of a step is convolutions"
        )
    assert facts.placed is not None
    saving = with_higher_ceilings(
        facts.time_s,
        facts.placed.least_s,
        np.full(len(rows), last.value / first.value),
        near(facts.placed),
        rows,
        last.value / first.value,
    )
    return Advice(
        title="Store images with their channels last",
        why=f"{100 * (time.value or 0.0) / facts.step_s:.0f} % of a step is convolutions, and a measured one "
        f"ran {last.value / first.value:.2g} times as fast with channels last.",
        gain=gain_of(
            saving,
            facts.step_s,
            "convolutions near their ceiling scaled with those that were measured in both layouts; "
            "at most all of them",
            time,
        ),
        evidence={"convolution_time": time, "channels_first": first, "channels_last": last},
        how=f"{facts.tried_by} --channels-last"
        if facts.ours and facts.on_torch
        else facts.in_code(
            "images and the kernels of convolutions in memory with their channels last",
            "model.to(memory_format=torch.channels_last)",
        ),
    )
