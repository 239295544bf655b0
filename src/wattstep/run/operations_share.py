"""How much of a step its traced operations take: how near their times come to adding up to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.run.metrics import Parts
from wattstep.schema.figure import Figure, Status, missing, weakest
from wattstep.stats.statistics import ratio_figure


def operations_share(run: Parts) -> Figure | None:
    """Time of traced operations over that of their steps, the tracer's own cost taken off both.

    The rest has rows of its own: what runs between operations ("framework"), the batch ("data").
    None: no operations are told of a step.
    """
    breakdown = run.breakdown
    if breakdown.reason is not None:
        return missing("ratio", breakdown.reason)
    if breakdown.by_events is not None:  # whose table has no operations
        return None
    try:
        compensated = breakdown.compensated
    except InvalidValueError as error:  # operations of a trace that cannot be
        return missing("ratio", str(error))
    windows = len(compensated.unattributed_s)
    window, mine = breakdown.rows.window, breakdown.is_operation
    covered = np.bincount(window[mine], compensated.time_s[mine], minlength=windows)
    whole = np.bincount(window, compensated.time_s, minlength=windows)
    of_steps = whole + compensated.unattributed_s.sum(axis=1)
    status = weakest([Status.ATTRIBUTED, breakdown.steps.status])
    share = ratio_figure(covered, of_steps, "ratio", breakdown.traced_by, status)
    if share.low is None or share.high is None:
        return share
    return replace(share, low=max(share.low, 0.0), high=min(share.high, 1.0))
