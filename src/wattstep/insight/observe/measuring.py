"""Quantities of the same moments, taken from the samples of a run and set against each other."""

from __future__ import annotations

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.recorded.steps import slices
from wattstep.run import Run
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.statistics import mean_figure, ratio_figure

SLICE_NS = 200_000_000  # as the metrics are resampled
WINDOW_NS = 100_000_000  # busy time of cores ticks in 10 ms
LEAST_WINDOWS = 10  # fewer tell no correlation


def parts_of(run: Run, least_s: float = 0.0) -> IntArray:
    """Slices of the counted time, no shorter than sensors can tell apart; shape (p, 2) in ns."""
    return slices(run.series.steps.stretches(), max(SLICE_NS, round(least_s * 1e9)))


def mean_busy(curves: list[Curve], parts: IntArray) -> FloatArray:
    """Mean over curves of what each gains in a second of each part; NaN where none was sampled."""
    rates = []
    for curve in curves:
        gains, seconds = curve.gains(parts)
        rates.append(np.divide(gains, seconds, out=np.full(len(parts), np.nan), where=seconds > 0))
    if not rates:
        return np.full(len(parts), np.nan)
    sampled = np.isfinite(np.array(rates))
    total = np.where(sampled, np.array(rates), 0.0).sum(axis=0)
    count = sampled.sum(axis=0)
    mean: FloatArray = np.divide(total, count, out=np.full(len(parts), np.nan), where=count > 0)
    return mean


def paired_difference(
    a: FloatArray, b: FloatArray, parts: IntArray, unit: str, source: str, status: Status
) -> Figure:
    """Mean over time of a less b, slice by slice: what moves both at once does not widen it."""
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return missing(unit, f"{source}: nothing was sampled in counted steps")
    seconds = ((parts[:, 1] - parts[:, 0]) * 1e-9)[known]
    return ratio_figure((a - b)[known] * seconds, seconds, unit, source, status, signed=True)


def correlation(a: FloatArray, b: FloatArray, source: str, status: Status) -> Figure:
    """Pearson's correlation of two series, with an interval that knows neighbours are alike.

    The interval is that of the mean of the correlation's influence values (Devlin, Gnanadesikan and
    Kettenring 1975), whose mean is the correlation itself.
    """
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if len(a) < LEAST_WINDOWS:
        return missing("1", f"{len(a)} windows of {source}: {LEAST_WINDOWS} are the least")
    if not (_moves(a) and _moves(b)):
        return missing("1", f"{source}: one of them never changes, so that nothing goes with it")
    a, b = (a - a.mean()) / a.std(), (b - b.mean()) / b.std()
    value = float((a * b).mean())
    influence = a * b - value / 2 * (a * a + b * b)
    return mean_figure(value + influence, "1", source, status, signed=True)


def _moves(values: FloatArray) -> bool:
    """True if a series changes by more than rounding."""
    return bool(values.std() > 1e-9 * max(1.0, float(np.abs(values).max())))
