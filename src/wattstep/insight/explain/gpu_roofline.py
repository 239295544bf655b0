"""Kernels under the ceilings of the device that trained: computing binds them, or memory, or their FLOPs are not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep import devices
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.device.roofline import place
from wattstep.errors import InvalidValueError
from wattstep.insight.explain.operations import moved_by_row
from wattstep.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Missing
from wattstep.schema.operation_kinds import DENSE

# In which precision dense kernels compute, by that of the run; all others of a run in fp32.
_DENSE_IN: Final[Mapping[str, str]] = {"tf32": "tf32", "amp": "bf16", "amp-fp16": "fp16"}
_ALL_IN: Final = ("fp32", "bf16")


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Ceilings of a GPU.

    Attributes:
        peak: FLOP/s by precision.
        bandwidth: Bytes in a second.
        source: Where they stand, in words.
    """

    peak: Mapping[str, float]
    bandwidth: float
    source: str


def gpu_ceilings(run: Run) -> Ceilings | Missing:
    """Ceilings of the GPU that trained, from the table of its board; or why there are none."""
    board = run.info.device.get("board")
    if not board:
        return Missing("no device's table is known for this machine")
    try:
        device = devices.find(board)
    except InvalidValueError:
        return Missing(f"there is no device's table for {board}")
    processor = device.processors.get("gpu")
    if processor is None or processor.bandwidth is None or not processor.peak:
        return Missing(f"the table of {board} has no ceilings of a GPU")
    return Ceilings(
        peak={name: value.value for name, value in processor.peak.items()},
        bandwidth=processor.bandwidth.value,
        source=f"ceilings of {device.name} (wattstep devices {device.called})",
    )


def bound_by_compute(run: Run, ceilings: Ceilings, rows: IntArray) -> tuple[BoolArray, BoolArray]:
    """Which kernels computing binds, and of which that can be told: FLOPs and bytes are known.

    A kernel has those of the innermost operation around its launch whose FLOPs are counted, for both
    are of all that this launched.

    Args:
        run: Whose traced rows they are.
        ceilings: Of the GPU.
        rows: Work on it.
    """
    breakdown = run.breakdown
    asker = _counted(breakdown, breakdown.launch[rows])
    flops = np.where(asker >= 0, breakdown.numbers("flops")[asker], np.nan)
    moved = np.where(asker >= 0, moved_by_row(breakdown)[asker], np.nan)
    peak = _peaks(run, ceilings, asker)
    bandwidth = np.full(len(rows), ceilings.bandwidth)
    placed = place(np.ones(len(rows)), flops, moved, peak, bandwidth)
    known = np.isfinite(placed.compute_s) & np.isfinite(placed.memory_s)
    return known & (placed.compute_s >= placed.memory_s), known


def _counted(breakdown: RunBreakdown, launch: IntArray) -> IntArray:
    """The innermost row around each that has FLOPs, -1 for none."""
    flops, parent = breakdown.numbers("flops"), breakdown.rows.parent
    at = launch.astype(np.int64, copy=True)
    while len(without := np.flatnonzero((at >= 0) & ~np.isfinite(flops[at]))):
        at[without] = parent[at[without]]
    return at


def _peaks(run: Run, ceilings: Ceilings, asker: IntArray) -> FloatArray:
    """FLOP/s at most for the operation that asked for each kernel; NaN where not known."""
    precision = run.info.precision or ""
    dense = np.isin(run.breakdown.label("kind").texts.astype(str), DENSE)
    of_dense = _DENSE_IN.get(precision, precision)
    others = precision if precision in _ALL_IN else "fp32"
    peaks = [ceilings.peak.get(name, np.nan) for name in (others, of_dense)]
    is_dense = dense[run.breakdown.label("kind").code[asker]]
    return np.where(is_dense, peaks[1], peaks[0]).astype(np.float64)
