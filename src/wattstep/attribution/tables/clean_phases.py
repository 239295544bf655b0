"""Phases, layers and times of clean steps by their marks, for traced ones to be compensated to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wattstep.recorded.marks import Marks
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.journal import Mark

BESIDE = 4  # clean steps on either side of a window that it is compared with


def layer_shares(
    marks: Marks, steps: Steps, clean: IntArray, names: Sequence[str]
) -> dict[str, float]:
    """Share of the forward phase of each top-level layer, in clean steps that carry marks."""
    marked = np.intersect1d(clean, marks.step[marks.kind == Mark.LAYER_START])
    if not len(marked) or "forward" not in names:
        return {}
    phases, rows = marks.phases(steps, marked, tuple(names))
    if not len(rows):
        return {}
    forward = list(names).index("forward")
    begin, end = phases.edges_ns[:, forward], phases.edges_ns[:, forward + 1]
    length = float(phases.durations_s[:, forward].mean())
    times = marks.layers(rows, begin, end)
    return {name: value / length for name, value in times.items()}


def seconds_beside(
    steps: Steps, clean: IntArray, windows: IntArray, otherwise_s: float
) -> FloatArray:
    """Median of the clean steps around each window in s; `otherwise_s` where there is none."""
    beside = np.pad(steps.seconds[clean], BESIDE, constant_values=np.inf)
    at, of = np.unique(np.searchsorted(clean, windows), return_inverse=True)
    count = np.minimum(at + BESIDE, len(clean)) - np.maximum(at - BESIDE, 0)
    if not count.all():  # then there is no clean step at all
        return np.full(len(windows), otherwise_s)
    ordered = np.sort(sliding_window_view(beside, 2 * BESIDE)[at], axis=1)
    rows = np.arange(len(at))
    medians: FloatArray = (ordered[rows, (count - 1) // 2] + ordered[rows, count // 2]) / 2
    return medians[of]


def clean_phases(
    marks: Marks, steps: Steps, clean: IntArray, names: tuple[str, ...]
) -> tuple[IntArray, int]:
    """When the phases of clean steps began and the last ended in ns, shape (steps, phases + 1).

    Steps without marks are left out, and those with other phases than most: when their phases began
    is not known. The second number is how many had no marks.

    Args:
        marks: Of the run.
        steps: All of its steps.
        clean: Positions of the clean ones.
        names: Of the phases, in order.
    """
    if len(names) == 1:
        return np.stack([steps.start_ns[clean], steps.end_ns[clean]], axis=1), 0
    phases, _ = marks.phases(steps, clean, names)
    bare = ~np.isin(clean, marks.step[marks.kind == Mark.PHASE])
    return phases.edges_ns, int(bare.sum())
