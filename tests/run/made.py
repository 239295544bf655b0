"""Runs made by hand: their journals are written as a recorder and a sampler write them, with known answers."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.schema.channel import Channel
from wattstep.schema.journal import JOURNAL, OPERATION, OPERATION_FIELDS, OPERATIONS, Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal
from wattstep.store.writing import write_run

MS = 1_000_000
FIVE = (1000, 4000, 6600)  # mW in phases of 2, 8 and 10 ms: 5 W on the mean
BEGIN = 1_000_000_000_000
EXTRA = MS // 2  # that tracing adds to each phase of a traced step
WINDOW = 3 * MS  # between a traced step and the next


@dataclass
class ByPhase:
    """A raw value for each phase of a step in its order, and `between` steps; `make_run` says when.

    A sensor that shows the same all the time tells nothing of what differs within a step.
    """

    values: Sequence[int]
    between: int = 1000
    noise: int = 20  # at most
    begins: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)

    def since(self, t_ns: int, phase: int | None) -> None:
        """From then on this phase runs; None: none does."""
        self.begins.append(t_ns)
        self.shown.append(self.between if phase is None else self.values[phase])

    def __call__(self, t_ns: int) -> int:
        at = bisect_right(self.begins, t_ns) - 1
        value = self.shown[at] if at >= 0 else self.between
        return value + t_ns // 1000 * 7919 % (2 * self.noise + 1) - self.noise


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
    power_model: Any = None,
    options: Any = None,
    evaluations: Sequence[tuple[int, str, float]] = (),
    losses: Sequence[float] | None = None,
    device: Any = None,
    idle_ns: tuple[int, int] = (0, 0),
    slow: Callable[[int], int] = lambda index: 0,
    beside: tuple[str, int] = ("", 0),
    gap_ns: int = 0,
) -> Made:
    """A closed run of equal steps; every sixth one traced, with one operation filling each phase.

    The operation of a phase is called `<phase>-op`, its layer `layer.<phase>`; it starts right
    after the tracer's extra time. `evaluations` are steps done, measure and value. Every loss is 1
    where `losses` do not say otherwise. `idle_ns` is how long it rests before the first step and
    after the last, `slow` what a step takes longer in its last phase, `beside` the name and length of
    a rest before the first step, `gap_ns` what lies between one step and the next.
    """
    create_folder(path)
    reads = tuple(
        PlannedRead(
            number=number, sensor="made", path="-", parser="-", every=1, channels=(s.channel,)
        )
        for number, s in enumerate(sampled)
    )
    cores: Any = {"cores": 2}
    nothing: Any = {}
    info = RunInfo(
        state="recording", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.001, warmup=3, trace=trace, device=device or cores, reads=reads,
        power_model=power_model, options=options or nothing,
    )  # fmt: skip
    write_info(path, info)
    marks = MarkJournal(path / JOURNAL)
    now = _rest(marks, "idle_before", BEGIN, idle_ns[0])
    now = _rest(marks, *beside[:1], now, beside[1])
    made: list[tuple[int, bool]] = []
    rows: list[bytes] = []
    window = 0
    told = [one.raw for one in sampled if isinstance(one.raw, ByPhase)]

    def since(phase: int | None) -> None:
        for raw in told:
            raw.since(now, phase)

    for index in range(steps):
        for done, measure, value in evaluations:
            if done == index:
                marks.add(Mark.EVALUATION, marks.code("measure", measure), value, done, 0, now)
        traced = trace != "none" and index % 6 == 5
        if traced:
            marks.add(Mark.WINDOW_START, t_ns=now)
        made.append((now, traced))
        marks.add(Mark.STEP_START, int(traced), 4.0, index, 0, now)
        for number, (name, length) in enumerate(phases):
            since(number)
            marks.add(Mark.PHASE, marks.code("phase", name), t_ns=now)
            if traced:
                now += EXTRA
                rows.append(_operation(marks, name, index, window, now, now + length))
            now += length
        now += slow(index)
        marks.add(Mark.STEP_END, 0, 1.0 if losses is None else losses[index], index, 0, now)
        since(None)
        if traced:
            now += WINDOW
            marks.add(Mark.WINDOW_END, t_ns=now)
            window += 1
        now += gap_ns
    now = _rest(marks, "idle_after", now, idle_ns[1])
    marks.close()
    (path / JOURNAL / OPERATIONS).write_bytes(b"".join(rows))
    for number, one in enumerate(sampled):
        times = range(BEGIN - 20 * MS, now + 20 * MS, one.every_ns)
        rows_of = (struct.pack("<qqq", t_ns, 0, one.raw(t_ns)) for t_ns in times)
        (path / JOURNAL / f"samples-{number:02d}.bin").write_bytes(b"".join(rows_of))
    convert(path)
    return Made(path=path, steps=made, end=now)


def _rest(marks: MarkJournal, name: str, now: int, length: int) -> int:
    """A stretch outside of the steps; its end."""
    if length:
        marks.add(Mark.REST_START, marks.code("rest", name), t_ns=now)
        marks.add(Mark.REST_END, t_ns=now + length)
    return now + length


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


def process_cpu() -> Channel:
    """CPU time of the training in ns, as perf has it."""
    return Channel(
        name="process.cpu_time", unit="s", kind="counter", domain="process",
        role="process_cpu_time", source="perf task-clock", scale=1e-9,
    )  # fmt: skip


def told(document: Mapping[str, Any], table: str = "operations", what: str = "energy") -> float:
    """What rows of a table, rests, groups and what is left take of the step together."""
    rests = {name: row for name, row in document["rests"].items() if name != "not_resolved"}
    groups = document["energy_groups"] if (table, what) == ("operations", "energy") else []
    left = document["not_resolved"][table].get(what, {"value": 0.0})["value"]
    rows = [*document[table], *rests.values(), *groups]
    return float(left + sum(row[what]["value"] or 0.0 for row in rows))


# --- runs that other tools recorded --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Worked:
    """An operation of an imported trace; its times are in ms from the first step."""

    name: str
    step: int
    start: float
    end: float
    processor: str = "cpu"
    thread: int = 1
    layer: str = ""
    phase: str = "forward"
    kind: str = "other"
    inside: int | None = None
    allocated: int | None = None
    shapes: str | None = None


def import_made(
    path: Path,
    imported: Any,
    *,
    steps: Sequence[tuple[float, float]] = (),
    operations: Sequence[Worked] = (),
    samples: Sequence[tuple[Channel, str, Sequence[tuple[float, float]]]] = (),
    totals: Sequence[Mapping[str, Any]] = (),
    warmup: int = 0,
    batch: int | None = None,
    interval_s: float = 0.001,
) -> Path:
    """A run as an importer writes it, of which nothing is known but what is given.

    Args:
        path: Its folder.
        imported: What stands in `run.json` of it.
        steps: Begin and end in ms; all are traced.
        operations: In the order of steps; `inside` is the position within the step's.
        samples: Channel, file, and (ms, value) pairs.
        totals: Rows of the table of summaries.
        warmup: First steps that do not count.
        batch: Samples of a step.
        interval_s: Of the samples.
    """
    files = dict.fromkeys(file for _, file, _ in samples)
    reads = tuple(
        PlannedRead(
            number=number, sensor="made log", path=file, parser="imported", every=1,
            channels=tuple(channel for channel, its, _ in samples if its == file),
        )
        for number, file in enumerate(files)
    )  # fmt: skip
    info = RunInfo(
        state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="", batch_size=batch, threads=None, precision=None, processor=None, seed=None,
        interval_s=interval_s, warmup=warmup, trace="imported", reads=reads, imported=imported,
    )  # fmt: skip
    tables: dict[str, list[dict[str, Any]]] = {
        "samples": [_sampled(channel, values) for channel, _, values in samples],
        "steps": [_step_columns(steps, warmup, batch)] if steps else [],
        "operations": [_operation_columns(operations)] if operations else [],
    }
    if totals:
        columns = (
            "name", "kind", "processor", "calls", "total_s", "mean_s", "median_s", "least_s",
            "most_s", "deviation_s",
        )  # fmt: skip
        tables["summaries"] = [{key: [row.get(key) for row in totals] for key in columns}]
    write_run(path, info, tables)
    return path


def _ns(ms: float) -> int:
    return BEGIN + round(ms * MS)


def _sampled(channel: Channel, values: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {
        "t_ns": [_ns(ms) for ms, _ in values],
        "channel": [channel.name] * len(values),
        "value": [None if np.isnan(value) else value for _, value in values],
        "errno": [0] * len(values),
    }


def _step_columns(
    steps: Sequence[tuple[float, float]], warmup: int, batch: int | None
) -> dict[str, Any]:
    count = len(steps)
    nothing = [None] * count
    return {
        "index": list(range(count)),
        "start_ns": [_ns(start) for start, _ in steps],
        "end_ns": [_ns(end) for _, end in steps],
        "cpu_start_ns": nothing,
        "cpu_end_ns": nothing,
        "samples": [batch] * count,
        "loss": nothing,
        "warmup": [index < warmup for index in range(count)],
        "traced": [True] * count,
        "mark_ns": [[]] * count,
        "mark_kind": [[]] * count,
        "mark_name": [[]] * count,
    }


def _operation_columns(operations: Sequence[Worked]) -> dict[str, Any]:
    inside: dict[tuple[int, int], float] = {}
    for each in operations:
        if each.inside is not None:
            key = (each.step, each.inside)
            inside[key] = inside.get(key, 0.0) + each.end - each.start
    first: dict[int, int] = {}
    for position, each in enumerate(operations):
        first.setdefault(each.step, position)
    own = [
        each.end - each.start - inside.get((each.step, position - first[each.step]), 0.0)
        for position, each in enumerate(operations)
    ]
    return {
        **{key: [getattr(each, key) or None for each in operations] for key in ("layer",)},
        **{
            key: [getattr(each, key) for each in operations]
            for key in (
                "name",
                "kind",
                "phase",
                "step",
                "thread",
                "processor",
                "allocated",
                "shapes",
            )
        },
        "window": [each.step for each in operations],
        "start_ns": [_ns(each.start) for each in operations],
        "end_ns": [_ns(each.end) for each in operations],
        "self_ns": [round(length * MS) for length in own],
        "flops": [None] * len(operations),
        "bytes": [None] * len(operations),
        "outermost": [each.inside is None for each in operations],
        "parent": [each.inside for each in operations],
    }


def watts(name: str = "board.power", role: str = "power_total") -> Channel:
    """A gauge of a log, in W already."""
    return Channel(
        name=name, unit="W", kind="gauge", domain="soc", role=role, source="made log, power.csv"
    )
