"""Runs made by hand whose steps differ: kinds that take turns, slow ones, preempted ones; journals as a recorder writes them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattstep.schema.channel import Channel
from wattstep.schema.journal import JOURNAL, OPERATION, OPERATION_FIELDS, OPERATIONS, Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal

US = 1_000
BEGIN = 1_000_000_000_000
WARMUP = 3
EVENT_NS = 2 * US  # what the tracer adds for each operation, before it begins


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a step runs.

    Attributes:
        phases: Name of each phase, and its operations: name and length in ns.
        waited_ns: What a thread is said to have waited for a core, within its operations; None: it
            is not told.
        marked: Whether its phases are marked.
    """

    phases: Sequence[tuple[str, Sequence[tuple[str, int]]]]
    waited_ns: int | None = 0
    marked: bool = True
    watts: Mapping[str, float] = field(default_factory=dict)


def write_steps(
    path: Path,
    steps: Sequence[Step],
    traced: Callable[[int], bool],
    sample_ns: int = 0,
) -> Path:
    """A closed run of these steps.

    Args:
        path: Its folder.
        steps: In order.
        traced: Which of them, by index.
        sample_ns: How often a gauge reads the power of the operation that runs; 0: there is none.
    """
    create_folder(path)
    reads = ()
    if sample_ns:
        gauge = Channel(
            name="board.power", unit="W", kind="gauge", domain="soc", role="power_total",
            source="made", scale=1e-3,
            window_s=sample_ns * 1e-9,
        )  # fmt: skip
        reads = (
            PlannedRead(number=0, sensor="made", path="-", parser="-", every=1, channels=(gauge,)),
        )
    info = RunInfo(
        state="recording", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.001, warmup=WARMUP, trace="auto", device={"cores": 2}, reads=reads,
    )  # fmt: skip
    write_info(path, info)
    marks = MarkJournal(path / JOURNAL)
    now, rows, window = BEGIN, [], 0
    power: list[tuple[int, float]] = []
    for index, step in enumerate(steps):
        mine = traced(index)
        if mine:
            marks.add(Mark.WINDOW_START, t_ns=now)
        marks.add(Mark.STEP_START, int(mine), 4.0, index, 0, now)
        for phase, operations in step.phases:
            if step.marked:
                marks.add(Mark.PHASE, marks.code("phase", phase), t_ns=now)
            for name, length in operations:
                if mine:
                    now += EVENT_NS
                    rows.append(_row(marks, name, phase, index, window, now, now + length))
                power.append((now, step.watts.get(name, 1.0)))
                now += length
        if mine and step.waited_ns is not None:
            marks.add(Mark.WAITED, 1, float(step.waited_ns), t_ns=now)
        marks.add(Mark.STEP_END, 0, 1.0, index, 0, now)
        if mine:
            now += 1000 * US
            marks.add(Mark.WINDOW_END, t_ns=now)
            window += 1
    marks.close()
    (path / JOURNAL / OPERATIONS).write_bytes(b"".join(rows))
    if sample_ns:
        at, read = 0, []
        for t_ns in range(BEGIN, now, sample_ns):
            while at + 1 < len(power) and power[at + 1][0] <= t_ns:
                at += 1
            noise = len(read) * 7919 % 21 - 10  # or two levels would look like a coarse gauge
            read.append(struct.pack("<qqq", t_ns, 0, round(1e3 * power[at][1]) + noise))
        (path / JOURNAL / "samples-00.bin").write_bytes(b"".join(read))
    convert(path)
    return path


def _row(
    marks: MarkJournal, name: str, phase: str, step: int, window: int, start: int, end: int
) -> bytes:
    values = {
        "step": step,
        "window": window,
        "name": marks.code("operation", name),
        "kind": marks.code("kind", "other"),
        "layer": marks.code("layer", "0"),
        "phase": marks.code("phase", phase),
        "shapes": marks.code("shapes", ""),
        "thread": 1,
        "start_ns": start,
        "end_ns": end,
        "parent": -1,
        "flops": 1000,
        "bytes": 10,
        "allocated": 0,
        "outermost": 1,
    }
    return OPERATION.pack(*(values[name] for name in OPERATION_FIELDS))
