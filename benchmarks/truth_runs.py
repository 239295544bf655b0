"""A program that ran, written to disk as a recorder writes a run."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from truth_programs import WARMUP, Happened, Items, Row, Step
from truth_sensors import Sensor
from wattstep.record.sensors.context_switches import switch_channel
from wattstep.schema.journal import Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.writing import write_run

Array = np.ndarray[Any, Any]
BEGIN_NS = 1_000_000_000_000
LAYER_EVERY = 3
SWITCHES_EVERY_S = 0.1


def write(
    folder: Path, happened: Happened, sensor: Sensor, sampled: tuple[Array, Array]
) -> None:  # fmt: skip
    """Writes run.json and the tables.

    Args:
        folder: Of the run, which must not be there.
        happened: What ran.
        sensor: What was read.
        sampled: Times in s and values.
    """
    channel, switches = sensor.channel, switch_channel(
        "process.main_thread.nonvoluntary_switches", "process", "nonvoluntary_switches", "made"
    )  # fmt: skip
    reads = tuple(
        PlannedRead(number=n, sensor="made", path="-", parser="-", every=1, channels=(each,))
        for n, each in enumerate((channel, switches))
    )
    info = RunInfo(
        state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=sensor.read_s, warmup=WARMUP, trace="auto", device={"cores": 4}, reads=reads,
    )  # fmt: skip
    tables = {
        "samples": [_series(channel.name, *sampled), _series(switches.name, *_switches(happened))],
        "steps": [_steps(happened)],
        "spans": [_spans(happened)],
        "operations": [_operations(happened)],
    }
    write_run(folder, info, tables)


def _series(name: str, t: Array, value: Array) -> dict[str, Any]:
    return {
        "t_ns": BEGIN_NS + np.rint(t * 1e9).astype(np.int64),
        "channel": [name] * len(t),
        "value": value,
        "errno": np.zeros(len(t), np.int16),
    }


def _switches(happened: Happened) -> tuple[Array, Array]:
    """How often the thread had to yield: once a second, and every 10 ms while it was held up."""
    t = np.arange(0.05, happened.curve.t[-1], SWITCHES_EVERY_S)
    count = np.floor(t)
    for step in happened.steps:
        if step.stalled_ns:
            begin, end = step.edges_ns[[0, -1]] * 1e-9
            share = np.clip((t - begin) / (end - begin), 0, 1)
            count += np.floor(share * step.stalled_ns * 1e-7)
    return t, count


def _steps(happened: Happened) -> dict[str, Any]:
    steps = happened.steps
    count = len(steps)
    start = np.array([step.edges_ns[0] for step in steps]) + BEGIN_NS
    end = np.array([step.edges_ns[-1] for step in steps]) + BEGIN_NS
    spent = end - start - np.array([step.stalled_ns for step in steps])
    cpu_end = 10**9 + np.cumsum(spent)
    marks = [_marks(happened, index) for index in range(count)]
    return {
        "index": np.arange(count),
        "start_ns": start,
        "end_ns": end,
        "cpu_start_ns": cpu_end - spent,
        "cpu_end_ns": cpu_end,
        "samples": np.full(count, 4.0),
        "loss": np.ones(count),
        "warmup": np.arange(count) < WARMUP,
        "traced": [step.traced for step in steps],
        "mark_ns": [[t for t, _, _ in of] for of in marks],
        "mark_kind": [[kind for _, kind, _ in of] for of in marks],
        "mark_name": [[name for _, _, name in of] for of in marks],
    }


def _marks(happened: Happened, index: int) -> list[tuple[int, int, str]]:
    """Time, kind and name of what a step carries; a traced one always has its phases."""
    program, step = happened.program, happened.steps[index]
    often = {"all": True, "layers": True, "some": index % LAYER_EVERY == 0, "none": False}
    if not (step.traced or often[program.marks]):
        return []
    items = program.kinds[step.kind]
    begins = np.flatnonzero(np.diff(items.turn, prepend=-1))
    found = [
        (BEGIN_NS + int(step.edges_ns[at]), int(Mark.PHASE), program.phases[items.turn[at]])
        for at in begins
    ]
    if program.marks == "layers" and not step.traced and index % LAYER_EVERY == 0:
        found += _layer_marks(happened, step)
    return sorted(found, key=lambda mark: mark[0])


def _layer_marks(happened: Happened, step: Step) -> list[tuple[int, int, str]]:
    """Begin and end of each stretch of the forward phase within one layer."""
    rows, items = happened.program.rows, happened.program.kinds[step.kind]
    found = []
    for inside in _layer_stretches(rows, items):
        layer = rows[items.row[inside[0]]].layer
        begin, end = step.edges_ns[inside[0]], step.edges_ns[inside[-1] + 1]
        found.append((BEGIN_NS + int(begin), int(Mark.LAYER_START), layer))
        found.append((BEGIN_NS + int(end), int(Mark.LAYER_END), layer))
    return found


def _layer_stretches(rows: tuple[Row, ...], items: Items) -> list[list[int]]:
    """Operations of the forward phase that follow each other in one layer, by their position."""
    named = [n for n, row in enumerate(items.row) if rows[row].phase == "forward"]
    named = [n for n in named if rows[items.row[n]].name]
    return [list(inside) for _, inside in groupby(named, key=lambda n: _where(rows, items, n))]


def _where(rows: tuple[Row, ...], items: Items, at: int) -> tuple[str, int]:
    return rows[items.row[at]].layer, int(items.turn[at])


def _spans(happened: Happened) -> dict[str, Any]:
    windows = happened.windows_ns
    return {
        "start_ns": [BEGIN_NS + start for start, _ in windows],
        "end_ns": [BEGIN_NS + end for _, end in windows],
        "kind": ["window"] * len(windows),
        "name": ["tracing"] * len(windows),
    }


def _operations(happened: Happened) -> dict[str, Any]:
    """A row for each operation of each traced step; outside of them stands what tracing costs.

    Where clean steps carry marks of layers, the code of the modules is a row as well, which holds
    the operations of its layer, as a tracer has it.
    """
    found: list[dict[str, Any]] = []
    window = 0
    for index, step in enumerate(happened.steps):
        if not step.traced:
            continue
        own = {"step": index, "window": window}
        found += [{**row, **own} for row in _traced_rows(happened, step)]
        window += 1
    columns = {name: [row[name] for row in found] for name in (found[0] if found else ())}
    count = len(found)
    nothing = [None] * count
    return {
        **columns,
        "thread": [1] * count,
        "processor": ["cpu"] * count,
        "shapes": [""] * count,
        "flops": nothing,
        "bytes": nothing,
        "allocated": [0] * count,
    }


def _traced_rows(happened: Happened, step: Step) -> list[dict[str, Any]]:
    """Rows of one traced step in the order of time, modules before what runs in them."""
    program = happened.program
    items = program.kinds[step.kind]
    modules = {}
    if program.marks == "layers":
        modules = {each[0]: each for each in _layer_stretches(program.rows, items)}
    found: list[dict[str, Any]] = []
    module, until = -1, -1
    for n, which in enumerate(items.row):
        if n in modules:
            module, until = len(found), modules[n][-1]
            inside = modules[n]
            start, end = (int(step.edges_ns[at]) for at in (n, until + 1))
            held = sum(int(np.diff(step.edges_ns[m : m + 2])[0]) for m in inside)
            row = program.rows[which]
            found.append(
                {
                    "name": "module code", "kind": "scope", "layer": row.layer, "phase": row.phase,
                    "start_ns": BEGIN_NS + start, "end_ns": BEGIN_NS + end,
                    "self_ns": end - start - held, "outermost": False, "parent": None,
                }
            )  # fmt: skip
        row = program.rows[which]
        if row.name:
            start, end = (BEGIN_NS + int(at) for at in step.edges_ns[n : n + 2])
            found.append(
                {
                    "name": row.name, "kind": row.kind, "layer": row.layer, "phase": row.phase,
                    "start_ns": start, "end_ns": end, "self_ns": end - start, "outermost": True,
                    "parent": module if n <= until else None,
                }
            )  # fmt: skip
    return found
