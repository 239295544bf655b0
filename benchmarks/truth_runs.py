"""A program that ran, written to disk as a recorder writes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from truth_programs import WARMUP, Happened, Row, Step
from truth_sensors import Sensor
from wattstep.records.journal import Mark
from wattstep.records.run_info import PlannedRead, RunInfo
from wattstep.sensors.context_switches import switch_channel
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
    """Each stretch of the forward phase within one layer."""
    rows, items = happened.program.rows, happened.program.kinds[step.kind]
    found = []
    named = [n for n, row in enumerate(items.row) if rows[row].name]
    named = [n for n in named if rows[items.row[n]].phase == "forward"]
    for before, n, after in zip([None, *named], named, [*named[1:], None], strict=False):
        row = rows[items.row[n]]
        if before is None or _where(rows, items, before) != _where(rows, items, n):
            found.append((BEGIN_NS + int(step.edges_ns[n]), int(Mark.LAYER_START), row.layer))
        if after is None or _where(rows, items, after) != _where(rows, items, n):
            found.append((BEGIN_NS + int(step.edges_ns[n + 1]), int(Mark.LAYER_END), row.layer))
    return found


def _where(rows: tuple[Row, ...], items: Any, at: int) -> tuple[str, int]:
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
    """One row for each operation of each traced step; outside of them stands what tracing costs."""
    program = happened.program
    found: list[tuple[Row, int, int, int, int]] = []
    window = 0
    for index, step in enumerate(happened.steps):
        if not step.traced:
            continue
        for n, row in enumerate(program.kinds[step.kind].row):
            if program.rows[row].name:
                start, end = BEGIN_NS + step.edges_ns[n : n + 2]
                found.append((program.rows[row], index, window, int(start), int(end)))
        window += 1
    count = len(found)
    nothing = [None] * count
    return {
        "name": [row.name for row, *_ in found],
        "kind": [row.kind for row, *_ in found],
        "layer": [row.layer for row, *_ in found],
        "phase": [row.phase for row, *_ in found],
        "step": [step for _, step, *_ in found],
        "window": [window for _, _, window, *_ in found],
        "thread": [1] * count,
        "processor": ["cpu"] * count,
        "start_ns": [start for *_, start, _ in found],
        "end_ns": [end for *_, end in found],
        "self_ns": [end - start for *_, start, end in found],
        "shapes": [""] * count,
        "flops": nothing,
        "bytes": nothing,
        "allocated": [0] * count,
        "outermost": [True] * count,
        "parent": nothing,
    }
