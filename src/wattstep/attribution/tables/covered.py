"""Length of a step's work, overlapping work counted once."""

from __future__ import annotations

import numpy as np

from wattstep.attribution.traced_rows import TracedRows
from wattstep.schema.arrays import IntArray


def covered_s(rows: TracedRows, which: IntArray, windows: int) -> list[float]:
    """Time in s of each traced step that some of its rows cover together.

    Args:
        rows: All traced rows.
        which: Positions of those that count, in order.
        windows: How many traced steps there are.
    """
    bounds = np.searchsorted(rows.window[which], np.arange(windows + 1))
    covered = [0.0] * windows
    for window in np.flatnonzero(np.diff(bounds)).tolist():
        mine = which[bounds[window] : bounds[window + 1]]
        covered[window] = _union_s(rows.start_ns[mine], rows.end_ns[mine])
    return covered


def _union_s(start_ns: IntArray, end_ns: IntArray) -> float:
    """Length in s of what intervals cover together."""
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], np.maximum.accumulate(end_ns[order])
    begin = np.maximum(start, np.concatenate([start[:1], end[:-1]]))
    return float(np.maximum(end - begin, 0).sum()) * 1e-9
