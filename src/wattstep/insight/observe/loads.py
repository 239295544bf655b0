"""Loads of GPU and cores at the same moments: how far they lie apart, and whether one is high when the other is low."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wattstep.insight.observe.measuring import (
    WINDOW_NS,
    correlation,
    mean_busy,
    paired_difference,
    parts_of,
)
from wattstep.run import Run
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, missing

MOVES = 0.05  # of full load, standard deviation over windows: a load that moves less is never high or low
STILL = "the load of the {} moves by less than 5 points: it is never high while the other is low"


def measure(run: Run) -> Mapping[str, Figure]:
    """`gap` and `correlation` of the two loads."""
    series = run.series
    gpus, cores = list(series.with_role("gpu_utilization")), series.load_channels
    if not gpus or not cores:
        return {}
    channels = [*gpus, *cores.values()]
    status = series.status(*channels)
    spacing = max(series.refresh(channel).spacing_s for channel in channels)
    gpu = [series.curve(channel) for channel in gpus]
    cpu = list(series.core_busy.values())
    parts, source = parts_of(run, spacing), "load of GPU and cores"
    gap = paired_difference(
        mean_busy(gpu, parts), mean_busy(cpu, parts), parts, "ratio", source, status
    )
    windows = _windows(run, max(WINDOW_NS, round(spacing * 1e9)))
    loads = {"GPU": mean_busy(gpu, windows), "CPU": mean_busy(cpu, windows)}
    still = [name for name, load in loads.items() if not _spread(load) > MOVES]
    together = correlation(loads["GPU"], loads["CPU"], source, status)
    if still and not together.missing:
        together = missing("1", STILL.format(" and ".join(still)))
    return {"gap": gap, "correlation": together}


def _spread(load: FloatArray) -> float:
    """Standard deviation over the windows that were sampled."""
    known = load[np.isfinite(load)]
    return float(known.std()) if len(known) else 0.0


def _windows(run: Run, length_ns: int) -> IntArray:
    """Windows of one length within the counted time; shape (w, 2) in ns."""
    windows = []
    for begin, end in run.series.steps.stretches():
        edges = np.arange(begin, end + 1, length_ns)
        windows.append(np.stack([edges[:-1], edges[1:]], axis=1))
    return np.concatenate(windows) if windows else np.empty((0, 2), np.int64)
