"""Compute products in bfloat16, where this machine is faster at that."""

from __future__ import annotations

import numpy as np

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WITHOUT_CEILINGS, WORTH, Facts
from wattstep.insight.explain.operations import NARROW
from wattstep.insight.explain.threads import near
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import with_higher_ceilings


def bfloat16(facts: Facts) -> Advice | Missing:
    """Products get faster as the measured ceilings of both precisions differ, and only then."""
    if facts.run.info.precision not in (None, "fp32"):
        return Missing(f"it trains in {facts.run.info.precision} already")
    if isinstance(facts.ceilings, Missing):
        return WITHOUT_CEILINGS
    wide, narrow = facts.ceilings.peak("fp32"), facts.ceilings.peak("bf16")
    if wide is None or narrow is None or not wide.value or not narrow.value:
        return Missing("the ceilings of both precisions were not measured")
    if (narrow.low or narrow.value) <= (wide.high or wide.value):
        return Missing(
            f"bfloat16 is no faster here: {narrow.value / 1e9:.3g} GFLOP/s at most, fp32 "
            f"{wide.value / 1e9:.3g}"
        )
    rows = facts.of_kind(*NARROW)
    time = facts.time_of(rows, "products of matrices and convolutions")
    gained = 1 - wide.value / narrow.value
    bound = (time.value or 0.0) * gained
    if bound < WORTH * facts.step_s:
        return Missing(f"{100 * (time.value or 0.0) / facts.step_s:.1f} % of a step is products")
    assert facts.placed is not None
    ratio = narrow.value / wide.value
    saving = with_higher_ceilings(
        facts.time_s,
        facts.placed.least_s,
        np.full(len(rows), ratio),
        near(facts.placed),
        rows,
        ratio,
    )
    return Advice(
        title="Compute products in bfloat16",
        why=f"{100 * (time.value or 0.0) / facts.step_s:.0f} % of a step is products, and this machine reaches "
        f"{narrow.value / wide.value:.2g} times as many FLOP/s in bfloat16.",
        gain=gain_of(
            saving,
            facts.step_s,
            "products near their ceiling scaled with the ceilings of both precisions; at most all",
            time,
        ),
        evidence={"products_time": time, "peak_fp32": wide, "peak_bf16": narrow},
        how=f"{facts.tried_by} --precision amp"
        if facts.ours and facts.on_torch
        else facts.in_code(
            "products of matrices and convolutions in bfloat16",
            "torch.autocast('cpu', torch.bfloat16)",
        ),
    )
