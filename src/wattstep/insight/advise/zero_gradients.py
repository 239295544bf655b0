"""Drop gradients instead of filling them with zeros."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.schema.figure import Missing
from wattstep.stats.speedup import Saving

_FILLS: Final = re.compile(r"^aten::(_foreach_)?zero_$")


def zero_gradients(facts: Facts) -> Advice | Missing:
    """Gradients that are filled with zeros are written, read and added to; none need be there."""
    rows = np.array(
        [
            bool(_FILLS.match(row.name)) and row.phase in ("optimizer", "data")
            for row in facts.work.rows
        ],
        bool,
    )
    time = facts.time_of(rows, "operations that fill gradients with zeros")
    value, step = time.value or 0.0, facts.step_s
    if not rows.any() or value < WORTH * step:
        return Missing(f"{100 * value / step:.1f} % of a step fills gradients with zeros")
    saving = Saving(
        value=value, low=min(time.low or 0.0, value), high=max(time.high or value, value)
    )
    return Advice(
        title="Set gradients to none instead of zero",
        why=f"{100 * value / step:.0f} % of a step fills gradients with zeros.",
        gain=gain_of(saving, step, "time of the operations that fill; adding to them goes, too"),
        evidence={"zero_time": time},
        how=facts.in_code(
            "gradients that are written anew, not filled with zeros and added to",
            "optimizer.zero_grad(set_to_none=True)",
        ),
    )
