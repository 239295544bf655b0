"""Three steps in full: what was sampled, which phase ran, and the operations of a traced step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from wattstep.analysis.breakdown import compact
from wattstep.analysis.curves import Curve
from wattstep.analysis.steps import IntArray
from wattstep.records.figure import Status
from wattstep.records.journal import Mark
from wattstep.run.operations import RunBreakdown
from wattstep.run.reading import Tables
from wattstep.run.row_labels import NO_LAYER
from wattstep.run.series import Series

SHOWN = 3
RAIL = "rail_power"
LEAST_SAMPLES = 8  # where three steps hold fewer samples, more of their surroundings are shown
MOST_OPERATIONS = 5000


def make_timeline(tables: Tables, series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    """JSON-ready; times in s from the first step shown."""
    steps = series.steps
    marks = tables.marks
    phased = np.intersect1d(breakdown.clean, marks.step[marks.kind == Mark.PHASE])
    # A short run on a busy machine may have no three clean steps in a row.
    untraced = np.flatnonzero(~steps.traced & ~steps.warmup)
    rows = max((_three(each) for each in (phased, breakdown.clean, untraced)), key=len)
    if not len(rows):
        note = steps.absent or "no clean step to show"
        return {"steps": [], "channels": [], "operations": [], "note": note}
    base, end = int(steps.start_ns[rows[0]]), int(steps.end_ns[rows[-1]])
    margin = max(0, round(tables.info.interval_s * 1e9 * LEAST_SAMPLES) - (end - base)) // 2
    note = ""
    if margin:
        note = (
            "these steps are shorter than the sampling interval: samples around them are shown too"
        )
    return {
        "steps": [
            {
                "index": int(steps.index[row]),
                "start": (int(steps.start_ns[row]) - base) * 1e-9,
                "end": (int(steps.end_ns[row]) - base) * 1e-9,
                "traced": bool(steps.traced[row]),
                "phases": _phases(marks, row, int(steps.end_ns[row]), base),
            }
            for row in rows
        ],
        "channels": _channels(series, base - margin, end + margin, base),
        "operations": _operations(breakdown),
        "operations_note": "one traced step, with the tracer's own cost still in it",
        "note": note,
    }


def _three(clean: IntArray) -> IntArray:
    """Three of these steps in a row, as near to the middle as there are any."""
    for offset in sorted(range(len(clean) - SHOWN + 1), key=lambda n: abs(n - len(clean) // 2)):
        if clean[offset + SHOWN - 1] - clean[offset] == SHOWN - 1:
            return clean[offset : offset + SHOWN]
    return clean[:1]


def _phases(marks: Any, row: int, end_ns: int, base: int) -> list[dict[str, Any]]:
    mine = (marks.step == row) & (marks.kind == Mark.PHASE)
    starts = [int(t) for t in marks.t_ns[mine]]
    ends = [*starts[1:], end_ns][: len(starts)]
    return [
        {"name": name, "start": (start - base) * 1e-9, "end": (stop - base) * 1e-9}
        for name, start, stop in zip(marks.name[mine], starts, ends, strict=True)
    ]


def _channels(series: Series, begin: int, end: int, base: int) -> list[dict[str, Any]]:
    rows = []
    idle = bool(series.core_idle)
    roles = ("idle_residency",) if idle else ("busy_time", "core_utilization")
    status = series.status_of(*roles)
    for core, curve in sorted((series.core_idle or series.core_busy).items()):
        name = f"core {core} busy"
        row = _rate(name, "core_utilization", core, curve, begin, end, base, int(idle))
        rows.append({**row, **_weak(status)})
    if series.process_cpu is not None:
        curve, _ = series.process_cpu
        row = _rate("training process", "process_cpu", None, curve, begin, end, base, 0)
        rows.append({**row, "unit": "cores"})
    for channel in series.with_role("resident_memory"):
        t_ns, value = series.raw(channel.name)
        inside = (t_ns >= begin) & (t_ns <= end) & np.isfinite(value)
        points = [
            [(int(t) - base) * 1e-9, float(v)]
            for t, v in zip(t_ns[inside], value[inside], strict=True)
        ]
        rows.append(_row("resident memory", "B", "resident_memory", None, points))
    rows += _gpus(series, begin, end, base)
    energy = series.energy
    if not isinstance(energy, str):
        power = _rate("power", "power", None, energy.curve, begin, end, base, 0)
        rows.append({**power, "unit": "W", "status": energy.status.value})
    rows += _rails(series, begin, end, base)
    return [row for row in rows if row["points"]]


def _gpus(series: Series, begin: int, end: int, base: int) -> list[dict[str, Any]]:
    return [
        {
            **_rate(channel.name, "gpu_utilization", None, series.curve(channel), begin, end, base, 0),
            **_weak(Status(channel.status)),
        }
        for channel in series.with_role("gpu_utilization")
    ]  # fmt: skip


def _rails(series: Series, begin: int, end: int, base: int) -> list[dict[str, Any]]:
    """The power of each rail that is a part of the whole, with the part that it feeds."""
    return [
        {
            **_rate(name, RAIL, None, source.curve, begin, end, base, 0),
            "unit": "W",
            "domain": series.channels[name].domain,
            "status": source.status.value,
        }
        for name, source in series.rails.items()
        if series.channels[name].role in ("power_part", "energy_part")
    ]


def _weak(status: Status) -> dict[str, str]:
    """What no sensor saw while it ran says so."""
    return {} if status is Status.MEASURED else {"status": status.value}


def _rate(
    name: str, role: str, core: int | None, curve: Curve, begin: int, end: int, base: int, sign: int
) -> dict[str, Any]:
    """Rate of a curve between its samples; for idle time (`sign` 1) one minus it."""
    inside = np.flatnonzero((curve.t_ns >= begin) & (curve.t_ns <= end))
    points = []
    for before, after in pairwise(inside):
        length = (curve.t_ns[after] - curve.t_ns[before]) * 1e-9
        rate = float(curve.total[after] - curve.total[before]) / float(length)
        value = min(max(1 - rate, 0.0), 1.0) if sign else rate
        if role == "core_utilization":
            value = min(value, 1.0)
        points.append([(int(curve.t_ns[after]) - base) * 1e-9, value])
    return _row(name, "ratio", role, core, points)


def _row(name: str, unit: str, role: str, core: int | None, points: list[Any]) -> dict[str, Any]:
    return {"name": name, "unit": unit, "role": role, "core": core, "points": points}


def _operations(breakdown: RunBreakdown) -> list[dict[str, Any]]:
    """Operations of the traced step in the middle, outermost ones and those inside them."""
    if breakdown.reason is not None:
        return []
    rows = breakdown.rows
    there, _ = compact(rows.window)  # an imported step may hold no operation
    window = int(there[(len(there) - 1) // 2])
    chosen = np.flatnonzero(rows.window == window)
    names, phases = breakdown.label("name"), breakdown.label("phase")
    streams = _streams(breakdown, chosen)
    base = int(rows.start_ns[chosen[0]])
    depth: dict[int, int] = {}
    shown = []
    for row in chosen.tolist():
        parent = int(rows.parent[row])
        level = depth.get(parent, -1)
        depth[row] = level if rows.scope[row] else level + 1
        if rows.scope[row]:
            continue
        shown.append(
            {
                "name": names.of(row),
                "layer": rows.layers[rows.layer[row]] or NO_LAYER,
                "phase": phases.of(row),
                "thread": streams.get(int(rows.thread[row]), breakdown.thread(row)),
                "depth": depth[int(row)],
                "start": (int(rows.start_ns[row]) - base) * 1e-9,
                "end": (int(rows.end_ns[row]) - base) * 1e-9,
            }
        )
    shown.sort(key=lambda operation: operation["depth"])
    return shown[:MOST_OPERATIONS]


def _streams(breakdown: RunBreakdown, chosen: IntArray) -> dict[int, str]:
    """What threads that are no CPU's are called: "gpu0", and "gpu0.1" for its next stream."""
    processors = breakdown.label("processor")
    found: dict[int, str] = {}
    count: dict[str, int] = {}
    for row in chosen.tolist():
        name, thread = processors.of(row), int(breakdown.rows.thread[row])
        if name in breakdown.others and thread not in found:
            number = count.setdefault(name, 0)
            found[thread] = f"{name}.{number}" if number else name
            count[name] += 1
    return found
