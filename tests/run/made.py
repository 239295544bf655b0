"""Runs made by hand: their journals are written as a recorder and a sampler write them, with known answers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattstep.records.channel import Channel
from wattstep.records.journal import JOURNAL, OPERATION, OPERATION_FIELDS, OPERATIONS, Mark
from wattstep.records.run_info import PlannedRead, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal

MS = 1_000_000
BEGIN = 1_000_000_000_000
EXTRA = MS // 2  # that tracing adds to each phase of a traced step
WINDOW = 3 * MS  # between a traced step and the next


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A channel and what it reads: the raw integer at a time in ns."""

    channel: Channel
    raw: Callable[[int], int]
    every_ns: int = MS


@dataclass(frozen=True, kw_only=True)
class Made:
    """When the steps of the run were: start, lengths of the phases, traced."""

    path: Path
    steps: Sequence[tuple[int, bool]]
    end: int


def make_run(
    path: Path,
    sampled: Sequence[Sampled],
    *,
    phases: Sequence[tuple[str, int]] = (
        ("data", 2 * MS),
        ("forward", 8 * MS),
        ("backward", 10 * MS),
    ),
    steps: int = 60,
    trace: str = "every:4",
    power_model: dict[str, object] | None = None,
) -> Made:
    """A closed run of equal steps; every sixth one traced, with one operation filling each phase.

    The operation of a phase is called `<phase>-op`, its layer `layer.<phase>`; it starts right
    after the tracer's extra time.
    """
    create_folder(path)
    reads = tuple(
        PlannedRead(
            number=number, sensor="made", path="-", parser="-", every=1, channels=(s.channel,)
        )
        for number, s in enumerate(sampled)
    )
    info = RunInfo(
        state="recording", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.001, warmup=3, trace=trace, device={"cores": 2}, reads=reads,
        power_model=power_model,
    )  # fmt: skip
    write_info(path, info)
    marks = MarkJournal(path / JOURNAL)
    now = BEGIN
    made: list[tuple[int, bool]] = []
    rows: list[bytes] = []
    window = 0
    for index in range(steps):
        traced = trace != "none" and index % 6 == 5
        if traced:
            marks.add(Mark.WINDOW_START, t_ns=now)
        made.append((now, traced))
        marks.add(Mark.STEP_START, int(traced), 4.0, index, 0, now)
        for name, length in phases:
            marks.add(Mark.PHASE, marks.code("phase", name), t_ns=now)
            if traced:
                now += EXTRA
                rows.append(_operation(marks, name, index, window, now, now + length))
            now += length
        marks.add(Mark.STEP_END, 0, 1.0, index, 0, now)
        if traced:
            now += WINDOW
            marks.add(Mark.WINDOW_END, t_ns=now)
            window += 1
    marks.close()
    (path / JOURNAL / OPERATIONS).write_bytes(b"".join(rows))
    for number, one in enumerate(sampled):
        times = range(BEGIN - 20 * MS, now + 20 * MS, one.every_ns)
        rows_of = (struct.pack("<qqq", t_ns, 0, one.raw(t_ns)) for t_ns in times)
        (path / JOURNAL / f"samples-{number:02d}.bin").write_bytes(b"".join(rows_of))
    convert(path)
    return Made(path=path, steps=made, end=now)


def _operation(
    marks: MarkJournal, phase: str, step: int, window: int, start: int, end: int
) -> bytes:
    values = {
        "step": step,
        "window": window,
        "name": marks.code("operation", f"{phase}-op"),
        "kind": marks.code("kind", "other"),
        "layer": marks.code("layer", f"layer.{phase}"),
        "phase": marks.code("phase", phase),
        "shapes": marks.code("shapes", ""),
        "thread": 1,
        "start_ns": start,
        "end_ns": end,
        "parent": -1,
        "flops": -1,
        "bytes": -1,
        "allocated": 0,
        "outermost": 1,
    }
    return OPERATION.pack(*(values[name] for name in OPERATION_FIELDS))


def power(role: str = "power_total", name: str = "board.power") -> Channel:
    """A gauge in mW, as a board's monitor has it."""
    return Channel(
        name=name, unit="W", kind="gauge", domain="soc", role=role, source="made", scale=1e-3
    )


def energy(wrap: int, role: str = "energy_total", name: str = "package.energy") -> Channel:
    """A counter in µJ that starts again from 0, as RAPL has it."""
    return Channel(
        name=name, unit="J", kind="counter", domain="cpu", role=role, source="made", scale=1e-6,
        wrap=wrap,
    )  # fmt: skip


def busy(core: int) -> Channel:
    """Busy time of a core in ticks of 10 ms, as /proc/stat has it."""
    return Channel(
        name=f"cpu{core}.busy_time", unit="s", kind="counter", domain="cpu", role="busy_time",
        source="/proc/stat", scale=0.01, core=core,
    )  # fmt: skip
