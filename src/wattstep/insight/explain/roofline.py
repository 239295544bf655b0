"""Roofline: what each operation achieves, what bounds it, and what of a step is computing or moving data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.device.roofline import FAR_BELOW, Bound, Placed
from wattstep.insight.explain.gaps import not_running_time
from wattstep.insight.explain.operations import (
    Work,
    attributed,
    ceilings_of,
    precision_of,
    time_by_bound,
    under_ceilings,
    work_of,
)
from wattstep.insight.explain.section import Cell, Row, Section, Table
from wattstep.insight.explain.threads import cores_of
from wattstep.run import Run
from wattstep.schema.ceilings import Ceilings, spoken_threads
from wattstep.schema.figure import Figure, Missing, Status, missing

TITLE: Final = "Roofline: computing, moving data, and neither"
NOTED: Final = 0.05  # of a step
NO_FLOPS: Final = (
    "FLOPs are counted for products of matrices, convolutions and what is made of them"
)
ON_DEVICE: Final = "a device does its work: its time on the host says nothing of the rate"
NO_BYTES: Final = "the trace does not tell the sizes of its tensors"
WORDS: Final[Mapping[Bound, str]] = {
    "compute": "bound by computing",
    "memory": "bound by moving data",
    "overhead": f"far below both ceilings (under {100 * FAR_BELOW:.0f} % of the nearer one): the cost of a "
    "call, sizes too small, or arithmetic that is not counted",
    "unknown": "of which neither FLOPs nor bytes are known",
}
COLUMNS: Final = {
    "name": "operation", "layer": "layer", "time": "time", "flops_rate": "FLOP/s",
    "intensity": "FLOP/B", "bound": "bound by", "of_ceiling": "of ceiling",
}  # fmt: skip


def roofline(run: Run) -> Section:
    """Each operation of a mean step under the measured ceilings of the machine that trained."""
    work = work_of(run)
    if isinstance(work, Missing):
        return Section(name="roofline", title=TITLE, reason=work)
    ceilings = ceilings_of(run)
    placed = None if isinstance(ceilings, Missing) else under_ceilings(run, work, ceilings)
    figures = _whole(run, work)
    sentences = []
    if placed is None:
        sentences.append(f"{(words := str(ceilings))[:1].upper()}{words[1:]}.")
        figures |= {f"{bound}_bound_time": missing("s", str(ceilings)) for bound in WORDS}
    else:
        assert isinstance(ceilings, Ceilings)
        bounds = time_by_bound(run, work, placed)
        figures |= {f"{bound}_bound_time": figure for bound, figure in bounds.items()}
        figures |= _at_ceilings(placed) | _ceilings(run, ceilings)
        sentences += _sentences(run, bounds, ceilings)
    cores = cores_of(run)
    if cores.crowded:
        sentences.append(
            "More threads were used than cores were free: times below hold their waits. See processors."
        )
    waited, step = not_running_time(run).value or 0.0, run.breakdown.step_time.value
    if step and waited > NOTED * step:
        sentences.append(
            f"For {100 * waited / step:.0f} % of a step the training ran on no core, which is in the times of "
            "operations, too: on a quiet machine they are closer to their ceilings. See gaps."
        )
    if not np.isfinite(work.flops).any():
        sentences.append("No FLOPs are known of any operation: only moving data can be judged.")
    rows = tuple(_row(run, work, placed, ceilings, at) for at in range(len(work.rows)))
    columns = {**COLUMNS, **({"processor": "processor"} if run.breakdown.others else {})}
    return Section(
        name="roofline",
        title=TITLE,
        sentences=tuple(sentences),
        figures=figures,
        tables=(Table(name="operations", title="Operations", columns=columns, rows=rows),),
    )


def _whole(run: Run, work: Work) -> dict[str, Figure]:
    """Rate of FLOPs of the step as a whole, and the time between its operations."""
    step, flops = run.breakdown.step_time, float(np.nansum(work.flops))
    compensated, inside = run.breakdown.compensated, run.breakdown.is_operation
    windows = len(compensated.unattributed_s)
    own = np.bincount(
        run.breakdown.rows.window[~inside], compensated.time_s[~inside], minlength=windows
    )
    between = attributed(
        run.breakdown,
        own + compensated.unattributed_s.sum(axis=1),
        "time of a step that no operation covers",
    )
    rate = missing("FLOP/s", NO_FLOPS)
    if flops > 0 and step.value:
        rate = _over(flops, step, "FLOP/s", "counted FLOPs of a step over its time")
    return {"achieved_flops": rate, "between_operations_time": between}


def _at_ceilings(placed: Placed) -> dict[str, Figure]:
    least = float(np.nansum(placed.least_s))
    return {
        "time_at_ceilings": Figure(
            value=least, unit="s", status=Status.PREDICTED, n=len(placed.least_s),
            source="counted FLOPs and bytes, measured ceilings",
            method="each operation at the ceiling that binds it, nothing between operations; of "
            "those whose FLOPs or bytes are known",
        )
    }  # fmt: skip


def _ceilings(run: Run, ceilings: Ceilings) -> dict[str, Figure]:
    """The two lines of the roof, as far as they were measured."""
    peak = ceilings.peak(precision_of(run, "convolution"))
    figures = {"peak_flops": peak, "memory_bandwidth": ceilings.memory.best}
    return {name: figure for name, figure in figures.items() if figure is not None}


def _sentences(run: Run, bounds: Mapping[Bound, Figure], ceilings: Ceilings) -> list[str]:
    step = run.breakdown.step_time.value or np.nan
    parts = [
        f"{100 * (figure.value or 0.0) / step:.0f} % in operations {WORDS[bound]}"
        for bound, figure in bounds.items()
        if figure.value
    ]
    left = 1 - sum((figure.value or 0.0) / step for figure in bounds.values())
    lines = [f"Of a step, {'; '.join(parts)}; {100 * max(left, 0.0):.0f} % between operations."]
    peak = ceilings.peak(precision_of(run, "convolution"))
    memory = ceilings.memory.best
    if peak is not None and peak.value and memory.value:
        lines.append(
            f"Ceilings of {spoken_threads(ceilings.threads)} here: "
            f"{peak.value / 1e9:.3g} GFLOP/s, {memory.value / 1e9:.3g} GB/s from memory; computing "
            f"binds above {peak.value / memory.value:.3g} FLOP per byte."
        )
    lines += [f"When the ceilings were measured, {note}." for note in ceilings.notes]
    lines.append(
        "Bytes are those that no program can avoid: each tensor read once, each result written "
        "once; operations that read again what a cache has lost are further from the ceiling than "
        "they look."
    )
    return lines


def _row(run: Run, work: Work, placed: Placed | None, ceilings: Ceilings | Missing, at: int) -> Row:
    row = work.rows[at]
    flops, moved = float(work.flops[at]), float(work.moved[at])
    busy = row.figure("busy_time")
    cells: dict[str, Cell] = {key: row.labels[key] for key in ("name", "kind", "layer", "phase")}
    if "processor" in row.labels:
        cells["processor"] = row.processor
    cells |= {key: row.figure(key) for key in ("calls", "time", "share")}
    cells["flops"] = row.figure("flops") if np.isfinite(flops) else missing("FLOP", NO_FLOPS)
    cells["bytes"] = _bytes(moved)
    if work.asks[at]:
        cells["flops_rate"] = missing("FLOP/s", ON_DEVICE)
        cells["bytes_rate"] = missing("B/s", ON_DEVICE)
    else:
        cells["flops_rate"] = _rate(flops, busy, "FLOP/s", NO_FLOPS)
        cells["bytes_rate"] = _rate(moved, busy, "B/s", NO_BYTES)
    cells["intensity"] = _intensity(flops, moved)
    if placed is None or isinstance(ceilings, Missing):
        reason = str(ceilings)
        return cells | {
            "bound": "", "of_ceiling": missing("ratio", reason), "least_time": missing("s", reason),
        }  # fmt: skip
    cells["bound"] = placed.bound[at]
    cells["level"] = ceilings.level(float(work.touched[at])).name if np.isfinite(moved) else None
    precision = precision_of(run, row.kind)
    cells["least_time"] = least = _least(placed, ceilings, work, at, precision)
    cells["of_ceiling"] = _share(least, busy)
    return cells


def _bytes(moved: float) -> Figure:
    if not np.isfinite(moved):
        return missing("B", NO_BYTES)
    return Figure(
        value=moved, unit="B", status=Status.COUNTED, source="shapes in the trace",
        method="tensors read once, results written once, a step",
    )  # fmt: skip


def _rate(amount: float, time: Figure, unit: str, reason: str) -> Figure:
    if not np.isfinite(amount):
        return missing(unit, reason)
    if not time.value:
        return missing(unit, "the operation takes no time that could be measured")
    return _over(amount, time, unit, "counted amount over measured time")


def _over(amount: float, time: Figure, unit: str, method: str) -> Figure:
    """An exact amount over a time, with the interval of the time turned over."""
    value = time.value
    assert value
    return replace(
        time,
        value=amount / value,
        unit=unit,
        low=amount / time.high if time.high else None,
        high=amount / time.low if time.low else None,
        confidence=time.confidence if time.high and time.low else None,
        method=f"{method}; {time.method}",
    )


def _intensity(flops: float, moved: float) -> Figure:
    if not np.isfinite(flops) or not np.isfinite(moved):
        return missing("FLOP/B", NO_FLOPS if not np.isfinite(flops) else NO_BYTES)
    if moved <= 0:
        return missing("FLOP/B", "the operation moves no bytes")
    return Figure(
        value=flops / moved, unit="FLOP/B", status=Status.COUNTED, source="shapes in the trace"
    )


def _least(placed: Placed, ceilings: Ceilings, work: Work, at: int, precision: str) -> Figure:
    """The time at the ceiling that binds; as sure as the ceiling is."""
    least = float(placed.least_s[at])
    if not np.isfinite(least):
        return missing("s", "neither its FLOPs nor its bytes are known, or no ceiling fits it")
    computes = np.fmax(placed.compute_s[at], -1.0) >= np.fmax(placed.memory_s[at], -1.0)
    level = ceilings.level(float(work.touched[at]))
    ceiling = ceilings.peak(precision) if computes else level.best
    assert ceiling is not None
    assert ceiling.value
    what = f"{precision} arithmetic" if computes else f"{level.name}"
    return Figure(
        value=least,
        unit="s",
        low=None if ceiling.high is None else least * ceiling.value / ceiling.high,
        high=None if ceiling.low is None else least * ceiling.value / ceiling.low,
        status=Status.PREDICTED,
        source=f"measured ceiling of {what}: {ceiling.value / 1e9:.3g} G{ceiling.unit}",
        method=f"counted work at the ceiling, which is the {ceiling.method}",
    )


def _share(least: Figure, time: Figure) -> Figure:
    if least.value is None:
        return missing("ratio", least.reason or "")
    if not time.value:
        return missing("ratio", "the operation takes no time that could be measured")
    low = None if least.low is None or not time.high else least.low / time.high
    high = None if least.high is None or not time.low else least.high / time.low
    return Figure(
        value=least.value / time.value,
        unit="ratio",
        low=low,
        high=high,
        status=Status.ATTRIBUTED,
        source=least.source,
        method="time at the ceiling over measured time; above 1 where the ceiling was measured on "
        "a busier machine, or a nearer cache held the data",
    )
