"""Folds samples over many clean steps onto one mean step, where steps are too short to be sampled singly."""

from __future__ import annotations

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import FloatArray, IntArray

BINS = 200  # of a mean step, at least
MOST_BINS = 20_000  # as many as there are samples in a step, up to here
MOST_POINTS = 4_000_000  # of steps times bins that are averaged
SAMPLES_A_STEP = 10  # from here on, a step is sampled well enough by itself
COUNTS_A_STEP = 3  # a counter loses nothing between samples: fewer will do
SAMPLES_A_BIN = 20
MOST_STEPS = 2000


def stand_alone(
    curve: Curve, start_ns: IntArray, end_ns: IntArray, gauge: tuple[IntArray, FloatArray] | None
) -> bool:
    """True if steps tell as much one by one as folded onto each other.

    They do where each holds enough samples, or where they are too few to see a step anywhere but
    where a single one was sampled.

    Args:
        curve: The cumulative curve.
        start_ns: Begin of the steps.
        end_ns: Their ends.
        gauge: Samples (t_ns, value) of the gauge that the curve integrates, or None.
    """
    held = np.median(end_ns - start_ns) / _spacing(curve)
    if gauge is None:
        return bool(held >= COUNTS_A_STEP)
    return bool(held >= SAMPLES_A_STEP or (held >= 1 and len(start_ns) <= SAMPLES_A_BIN))


def fold(
    curve: Curve,
    start_ns: IntArray,
    end_ns: IntArray,
    length_s: float,
    gauge: tuple[IntArray, FloatArray] | None = None,
) -> Curve | None:
    """Gain of a curve over the mean of these steps, on an axis from 0 to `length_s`.

    None where nothing was sampled in them.

    Steps with ten samples or more (three of a counter) are averaged as they are. In shorter ones a
    gauge's samples are sorted by the phase of the step at which they fell; a counter's differences
    span several such steps and say nothing below a step, so that it gains evenly.

    Args:
        curve: The cumulative curve.
        start_ns: Begin of the steps.
        end_ns: Their ends.
        length_s: Length of the mean step.
        gauge: Samples (t_ns, value) of the gauge that the curve integrates, or None.
    """
    total = mean_gain(curve, start_ns, end_ns)
    if total is None:
        return None
    least = SAMPLES_A_STEP if gauge is not None else COUNTS_A_STEP
    held = float(np.median(end_ns - start_ns)) / _spacing(curve)
    if held >= least:
        shape = _averaged(curve, start_ns, end_ns, int(np.clip(np.ceil(held), BINS, MOST_BINS)))
    elif gauge is not None:
        shape = _sorted_by_phase(*gauge, start_ns, end_ns)
    else:
        shape = np.linspace(0.0, 1.0, 2)
    if shape[-1] <= 0:
        shape = np.linspace(0.0, 1.0, len(shape))
    t_ns = np.linspace(0, max(round(length_s * 1e9), len(shape)), len(shape)).astype(np.int64)
    return Curve(t_ns=t_ns, total=shape / shape[-1] * total, unit=curve.unit, covered_ns=t_ns)


def _spacing(curve: Curve) -> float:
    """Median time between samples in ns; without two of them it has no end."""
    return float(np.median(np.diff(curve.t_ns))) if len(curve.t_ns) > 1 else np.inf


def mean_gain(curve: Curve, start_ns: IntArray, end_ns: IntArray) -> float | None:
    """Gain of the curve in a step, mean over the time that was sampled; None if none was."""
    gains, covered = curve.difference(start_ns, end_ns)
    lengths = (end_ns - start_ns) * 1e-9
    known = covered > 0
    sampled = float((lengths * covered)[known].sum())
    if sampled <= 0:
        return None
    return float(gains[known].sum()) / sampled * float(lengths.mean())


def _averaged(curve: Curve, start_ns: IntArray, end_ns: IntArray, bins: int) -> FloatArray:
    count = min(len(start_ns), MOST_STEPS, MOST_POINTS // bins)
    chosen = np.linspace(0, len(start_ns) - 1, count).astype(np.int64)
    start, end = start_ns[chosen], end_ns[chosen]
    position = np.linspace(0.0, 1.0, bins + 1)
    grid = start[:, None] + np.rint((end - start)[:, None] * position).astype(np.int64)
    base = curve.t_ns[0]
    gained = np.interp(grid - base, curve.t_ns - base, curve.total)
    shape: FloatArray = (gained - gained[:, :1]).mean(axis=0)
    return shape


def _sorted_by_phase(
    t_ns: IntArray, value: FloatArray, start_ns: IntArray, end_ns: IntArray
) -> FloatArray:
    at = np.searchsorted(start_ns, t_ns, side="right") - 1
    inside = (at >= 0) & (t_ns < end_ns[np.maximum(at, 0)]) & np.isfinite(value)
    at, t_ns, value = at[inside], t_ns[inside], value[inside]
    bins = int(np.clip(len(value) // SAMPLES_A_BIN, 1, BINS))
    position = (t_ns - start_ns[at]) / np.maximum(end_ns[at] - start_ns[at], 1)
    number = np.minimum((position * bins).astype(np.int64), bins - 1)
    sums = np.bincount(number, value, minlength=bins)
    counts = np.bincount(number, minlength=bins)
    overall = value.mean() if len(value) else 1.0
    means = np.divide(sums, counts, out=np.full(bins, overall), where=counts > 0)
    return np.concatenate([[0.0], np.cumsum(means)])
