"""What the host did meanwhile, where a device runs behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattstep.recorded.steps import Steps
from wattstep.run.metrics import Parts
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import CLOCK, Figure, Status
from wattstep.stats.statistics import mean_figure


def host_step_time(run: Parts) -> Figure | None:
    """Mean time in s from the begin of a clean step on the host to the next; None: the host trains.

    Begin to begin, since a host that runs ahead waits wherever the queue is full, be it between
    two steps.
    """
    steps = run.series.steps
    host_ns = steps.host_ns
    if host_ns is None:
        return None
    clean = np.flatnonzero(steps.clean & np.isfinite(host_ns[:, 0]))
    next_ns = np.append(host_ns[1:, 0], np.nan)
    follows = np.append(steps.follows[1:], False)
    whole = clean[follows[clean] & np.isfinite(next_ns[clean])]
    return _mean(steps, (next_ns - host_ns[:, 0])[whole] * 1e-9, "the begin of a step to the next")


def run_ahead(run: Parts) -> Figure | None:
    """Mean time in s from the end of a clean step on the host to its end on the device."""
    steps = run.series.steps
    host_ns = steps.host_ns
    if host_ns is None:
        return None
    clean: IntArray = np.flatnonzero(steps.clean & np.isfinite(host_ns[:, 1]))
    late = (steps.end_ns[clean] - host_ns[clean, 1]) * 1e-9
    figure = _mean(steps, late, "the end of a step on the host to its end on the device")
    if not figure.value or figure.value <= 0:
        return figure
    # One offset between both clocks is in all of them.
    off = (run.info.device_clock.get("uncertainty_ns") or 0) * 1e-9
    return replace(figure, systematic=off / figure.value)


def _mean(steps: Steps, values: FloatArray, what: str) -> Figure:
    figure = mean_figure(values, "s", f"{CLOCK}, {steps.source}", Status.MEASURED)
    return replace(figure, method=f"mean time from {what}; {figure.method}")
