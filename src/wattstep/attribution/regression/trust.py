"""Trust in each sample: less where traced steps differ in what runs, and where it lies far beside."""

from __future__ import annotations

import numpy as np

from wattstep.attribution.regression.axis import Axis
from wattstep.attribution.regression.observed import Rows
from wattstep.schema.arrays import FloatArray

FAR = 3.0  # standard deviations: samples farther beside count for less (Huber 1964)
NORMAL_MEDIAN = 0.4549  # of the square of a normal variable with variance 1
EXACT = 1e-10  # of the samples' variance: less is rounding


def varying(axis: Axis, rows: Rows, watts: FloatArray) -> FloatArray:
    """Variance of what traced steps would have each sample be, in W², shape (n,).

    Args:
        axis: The mean step.
        rows: The equations.
        watts: Powers of kinds and between steps, shape (k + 1,).
    """
    curves = axis.curves(np.maximum(watts[:-1], 0.0))
    off = curves - curves.mean(axis=1, keepdims=True)
    differ = rows.weights @ np.vstack([off, np.zeros(axis.layouts)])
    variances: FloatArray = (differ**2).sum(axis=1) / max(axis.layouts - 1, 1)
    return variances


def trust(axis: Axis, rows: Rows, watts: FloatArray, left: FloatArray) -> FloatArray:
    """By what each equation is multiplied, so that all have the same variance, shape (n,).

    Where an operation ends at another time in each step, a sample near its end may have seen this
    or that: how far traced steps differ there, given the powers, says how much. What lies far
    beside all the same (a glitch, an end beyond those of the traced steps) counts for less.

    Args:
        axis: The mean step.
        rows: The equations.
        watts: Powers of kinds and between steps, shape (k + 1,).
        left: What these leave of each sample in W, shape (n,).
    """
    differ = varying(axis, rows, watts)
    calm = left[differ <= np.median(differ)]
    noise = float(np.median(calm**2)) / NORMAL_MEDIAN + EXACT * float(rows.watts.var()) + 1e-300
    variance = noise + differ
    variance *= np.maximum(np.abs(left) / np.sqrt(variance) / FAR, 1.0)
    deviations: FloatArray = np.sqrt(noise / variance)
    return deviations
