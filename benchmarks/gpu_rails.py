"""Energy of kernels and host operations by rail, against made programs of known power on a GPU and its host.

    python benchmarks/gpu_rails.py --programs 40

Each program has a host that loads data, asks for kernels and waits for the device; kernels, host
operations and idle time each have a power on the GPU's, the CPU's and the memory's rail. The rails
are sampled more slowly than steps are long. What `wattstep` says of each operation is held against
what it took; beside it stands what sharing each rail among everything that ran says of the same.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np

import wattstep
from wattstep.attribution.tables.traced_steps import TracedSteps
from wattstep.run.run import Run
from wattstep.schema.channel import Channel, Domain
from wattstep.schema.journal import (
    DEVICE_OPERATION,
    DEVICE_OPERATION_FIELDS,
    DEVICE_OPERATIONS,
    JOURNAL,
    OPERATION,
    OPERATION_FIELDS,
    OPERATIONS,
    Mark,
    samples_name,
)
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.convert import convert
from wattstep.store.files import create_folder, write_info
from wattstep.store.marks import MarkJournal

BEGIN = 1_000_000_000_000
MS = 1_000_000
LATENCY_NS = 6_000
EVENT_NS = 15_000  # what the tracer adds before each operation of the host
WINDOW_NS = 3 * MS
RAILS: tuple[tuple[str, Domain, str], ...] = (
    ("rail.IN", "system", "power_total"),
    ("rail.GPU", "gpu", "power_part"),
    ("rail.CPU", "cpu", "power_part"),
    ("rail.MEM", "memory", "power_part"),
)
STREAM = 1 << 50
BEYOND_W = 1.5  # that the total draws beyond its rails
Key = tuple[str, str]  # rail, name of a row or rest


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that runs once a step.

    Attributes:
        name: Of the operation; the kernel's is "kernel NAME".
        host_ms: How long the host is in it.
        host_w: On the CPU's rail, over that of an idle host.
        kernel_ms: How long its kernel lasts; 0: it has none.
        kernel_w: On the GPU's rail, over that of an idle GPU.
        size: Bytes moved.
        phase: Where it is.
    """

    name: str
    host_ms: float
    host_w: float
    kernel_ms: float = 0.0
    kernel_w: float = 0.0
    size: float = 0.0
    phase: str = "forward"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A training of known power.

    Attributes:
        parts: Of a step, in order; the first loads the data.
        idle_w: Of the GPU's, the CPU's and the memory's rail.
        joules_a_byte: Of memory, over its idle draw.
        window_s: What the sensor averages over, and how often it is read.
        seconds: How long it is recorded.
    """

    parts: tuple[Part, ...]
    idle_w: tuple[float, float, float]
    joules_a_byte: float
    window_s: float = 0.1
    seconds: float = 40.0


def random_program(rng: np.random.Generator, window_s: float) -> Program:
    """Three to six kernels of 0.5 to 6 ms, 3 to 30 W, and a host that loads for 2 to 6 ms."""
    count = int(rng.integers(3, 7))
    parts = [Part(name="load", host_ms=rng.uniform(2, 6), host_w=rng.uniform(2, 8), phase="data",
                  size=rng.uniform(1, 8) * 1e6)]  # fmt: skip
    for number in range(count):
        parts.append(
            Part(
                name=f"op{number}",
                host_ms=rng.uniform(0.05, 0.3),
                host_w=rng.uniform(1, 6),
                kernel_ms=rng.uniform(0.5, 6),
                kernel_w=rng.uniform(3, 30),
                size=rng.uniform(1, 60) * 1e6,
                phase="forward" if number < count / 2 else "backward",
            )
        )
    return Program(
        parts=tuple(parts),
        idle_w=(rng.uniform(1, 4), rng.uniform(0.5, 1.5), rng.uniform(0.3, 1.0)),
        joules_a_byte=rng.uniform(1e-10, 4e-10),
        window_s=window_s,
    )


@dataclass
class Happened:
    """What a program did.

    Attributes:
        truth: Joules a clean step of each row or rest, by rail and name; of memory, over its idle
            draw.
        step: Joules a clean step by rail.
    """

    truth: dict[Key, float] = field(default_factory=dict)
    step: dict[str, float] = field(default_factory=dict)


class _Rail:
    """Power over time as changes that add up."""

    def __init__(self, idle_w: float) -> None:
        self.idle_w = idle_w
        self.changes: list[tuple[int, float]] = []

    def draw(self, begin: int, end: int, watts: float) -> None:
        self.changes += [(begin, watts), (end, -watts)]

    def until(self, t_ns: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        """Joules since the beginning."""
        at = np.array(sorted(self.changes) or [(BEGIN, 0.0)], dtype=np.float64)
        watts = np.cumsum(at[:, 1])
        joules = np.concatenate([[0.0], np.cumsum(watts[:-1] * np.diff(at[:, 0])) * 1e-9])
        gained = np.interp(t_ns, at[:, 0], joules)
        return np.asarray(gained + (t_ns - BEGIN) * 1e-9 * self.idle_w)


def record(path: Path, program: Program, rng: np.random.Generator, every: int = 12) -> Happened:
    """The run of a program, as a recorder writes it, and what really happened."""
    create_folder(path)
    reads = tuple(
        PlannedRead(
            number=number, sensor="made", path="-", parser="-", every=1,
            channels=(Channel(name=name, unit="W", kind="gauge", domain=domain, role=role,
                              source="made", scale=1e-3, window_s=program.window_s),),
        )
        for number, (name, domain, role) in enumerate(RAILS)
    )  # fmt: skip
    write_info(
        path,
        RunInfo(
            state="recording", created="2026-11-24T12:00:00+0000", workload="made", title="made",
            engine="torch", batch_size=4, threads=1, precision="fp32", processor="cuda", seed=0,
            interval_s=program.window_s, warmup=3, trace="auto", device={"cores": 4}, reads=reads,
        ),
    )  # fmt: skip
    marks = MarkJournal(path / JOURNAL)
    gpu, cpu, memory = rails = [_Rail(watts) for watts in program.idle_w]
    happened, clean, gaps = Happened(), [], {"data": 0.0, "framework": 0.0}
    host_rows, device_rows = [], []
    now, index, window = BEGIN + 500 * MS, 0, 0
    while now < BEGIN + program.seconds * 1e9:
        traced = index >= 3 and index % every == 0
        if traced:
            marks.add(Mark.WINDOW_START, t_ns=now)
        begin = device = now
        marks.add(Mark.STEP_START, int(traced), 4.0, index, 0, begin)
        marks.add(Mark.PHASE, marks.code("phase", "data"), t_ns=begin)
        phase_at, phase = begin, "data"
        mine: dict[Key, float] = {}
        busy = {"data": 0, "framework": 0}
        rows, work = [], []
        for part in program.parts:
            if part.phase != phase:
                phase, phase_at = part.phase, max(now, device)
                marks.add(Mark.PHASE, marks.code("phase", phase), t_ns=phase_at)
            now += 10_000 + (EVENT_NS if traced else 0)
            length = round(part.host_ms * MS * rng.lognormal(0.0, 0.03))
            cpu.draw(now, now + length, part.host_w)
            mine["rail.CPU", part.name] = (part.host_w + cpu.idle_w) * length * 1e-9
            rows.append((part, now, now + length))
            now += length
            joules = part.size * program.joules_a_byte
            if not part.kernel_ms:
                memory.draw(now - length, now, joules / (length * 1e-9))
                mine["rail.MEM", part.name] = joules
                continue
            start = max(device, now + LATENCY_NS)
            device = start + round(part.kernel_ms * MS * rng.lognormal(0.0, 0.01))
            lasted = device - start
            gpu.draw(start, device, part.kernel_w)
            memory.draw(start, device, joules / (lasted * 1e-9))
            mine["rail.GPU", f"kernel {part.name}"] = (part.kernel_w + gpu.idle_w) * lasted * 1e-9
            mine["rail.MEM", f"kernel {part.name}"] = joules
            work.append((part, start, device, len(rows) - 1))
            busy["framework"] += lasted
        waits, now = now, max(now, device) + 5_000
        rows.append((Part(name="cudaDeviceSynchronize", host_ms=0, host_w=0), waits, now))
        mine["rail.CPU", "cudaDeviceSynchronize"] = cpu.idle_w * (now - waits) * 1e-9
        marks.add(Mark.STEP_END, 0, 1.0, index, 0, now)
        if traced:
            host_rows += [_row(marks, *row, index, window) for row in rows]
            device_rows += [_row(marks, *row[:3], index, window, row[3], len(work)) for row in work]
            now += WINDOW_NS
            marks.add(Mark.WINDOW_END, t_ns=now)
            window += 1
        elif index >= 3:
            clean.append((begin, now))
            loads = rows[0]
            data_ns = loads[2] + 10_000 - begin  # up to the mark of the next phase, nearly
            gaps["data"] += data_ns
            gaps["framework"] += now - begin - data_ns - busy["framework"]
            for key, value in mine.items():
                happened.truth[key] = happened.truth.get(key, 0.0) + value
        now += 50_000
        index += 1
    marks.close()
    (path / JOURNAL / OPERATIONS).write_bytes(b"".join(host_rows))
    (path / JOURNAL / DEVICE_OPERATIONS).write_bytes(b"".join(device_rows))
    happened.truth = {key: value / len(clean) for key, value in happened.truth.items()}
    for name, seconds in gaps.items():
        happened.truth["rail.GPU", name] = gpu.idle_w * seconds * 1e-9 / len(clean)
    window_ns = round(program.window_s * 1e9)
    times = np.arange(BEGIN, now + 2 * window_ns, window_ns)
    told = {}
    for (name, *_), rail in zip(RAILS[1:], rails, strict=True):
        told[name] = (rail.until(times) - rail.until(times - window_ns)) / program.window_s
        ends = rail.until(np.array(clean).ravel()).reshape(-1, 2)
        happened.step[name] = float(np.diff(ends).mean())
    told["rail.IN"] = np.sum(list(told.values()), axis=0) + BEYOND_W
    happened.step["rail.IN"] = sum(happened.step.values()) + BEYOND_W * float(
        np.diff(np.array(clean), axis=1).mean() * 1e-9
    )
    for number, (name, *_) in enumerate(RAILS):
        noisy = told[name] * 1e3 + rng.normal(0, 3, len(times))
        (path / JOURNAL / samples_name(number)).write_bytes(
            b"".join(
                struct.pack("<qqq", int(t), 0, round(v)) for t, v in zip(times, noisy, strict=True)
            )
        )
    convert(path)
    return happened


def _row(
    marks: MarkJournal,
    part: Part,
    start: int,
    end: int,
    step: int,
    window: int,
    launch: int | None = None,
    rows: int = 0,
) -> bytes:
    on_gpu = launch is not None
    call = part.name.startswith("cuda")
    values = {
        "step": step,
        "window": window,
        "name": marks.code("operation", f"kernel {part.name}" if on_gpu else part.name),
        "kind": marks.code("kind", "runtime call" if call else "other"),
        "layer": marks.code("layer", f"layer.{part.name}"),
        "phase": marks.code("phase", part.phase),
        "shapes": marks.code("shapes", ""),
        "thread": STREAM + 7 if on_gpu else 1,
        "start_ns": start,
        "end_ns": end,
        "parent": -1,
        "flops": -1,
        "bytes": -1 if on_gpu or call else round(part.size),
        "allocated": 0,
        "outermost": 1,
        "processor": marks.code("processor", "gpu0"),
        "launch": launch,
        "rows": rows,
    }
    if on_gpu:
        return DEVICE_OPERATION.pack(*(values[name] for name in DEVICE_OPERATION_FIELDS))
    return OPERATION.pack(*(values[name] for name in OPERATION_FIELDS))


# --- what is said of it -----------------------------------------------------------------------------


@dataclass
class Score:
    """How often intervals held what was true, by rail.

    Attributes:
        told: Figures that have an interval.
        held: Those whose interval held the truth.
        missing: Figures that say why they are none.
        astray: Figures above 0 of what the rail does not feed.
        errors: Relative errors of those that were told and are not next to nothing.
        unlike: The most by which rows, rests and what is left differ from the step, relative.
    """

    told: int = 0
    held: int = 0
    missing: int = 0
    astray: int = 0
    errors: list[float] = field(default_factory=list)
    unlike: float = 0.0

    @property
    def words(self) -> str:
        """For a row of a table."""
        share = f"{100 * self.held / self.told:.1f} %" if self.told else "-"
        middle = f"{100 * float(np.median(self.errors)):.1f} %" if self.errors else "-"
        return f"{self.held} of {self.told} ({share}), {self.missing} not told, {self.astray} astray, median error {middle}"


def judge(run: Run, happened: Happened, program: Program, scores: dict[str, Score]) -> None:
    """Holds the figures of a run against the truth."""
    document = run.document()
    rests = document["rests"]
    for name, *_ in RAILS:
        score = scores.setdefault(name, Score())
        rows = [(row["name"], row) for row in document["operations"]]
        rows += [(rest, row) for rest, row in rests.items() if rest != "not_resolved"]
        whole = sum(row["energy_by_rail"][name]["value"] or 0.0 for _, row in rows)
        left = document["not_resolved"]["operations"].get("energy_by_rail", {}).get(name)
        off = whole + (left["value"] if left else 0.0) - happened.step[name]
        score.unlike = max(score.unlike, abs(off) / happened.step[name])
        for row_name, row in rows:
            truth = _truth(happened, program, name, row_name, row["time"]["value"])
            figure = row["energy_by_rail"][name]
            if truth is None:  # a rest, or what the rail does not feed
                score.astray += bool(figure["value"]) and row_name not in rests
                continue
            if figure["value"] is None or figure["low"] is None:
                score.missing += 1
                continue
            score.told += 1
            slack = 1e-9 + 1e-3 * truth  # samples are whole mW
            score.held += figure["low"] - slack <= truth <= figure["high"] + slack
            if truth > 0.01 * happened.step[name]:
                score.errors.append(abs(figure["value"] / truth - 1))


def _truth(
    happened: Happened, program: Program, rail: str, name: str, seconds: float
) -> float | None:
    """Joules of a row in a clean step; None of a rest whose truth was not kept, or what takes none."""
    memory_j = happened.truth.get(("rail.MEM", name), 0.0) + program.idle_w[2] * seconds
    if rail == "rail.MEM":
        return memory_j
    if rail != "rail.IN":
        return happened.truth.get((rail, name))
    fed = [happened.truth.get((part, name)) for part in ("rail.GPU", "rail.CPU")]
    known = [joules for joules in fed if joules is not None]
    # Between operations the CPU draws what nothing was kept of.
    if not known or name in ("data", "framework"):
        return None
    return sum(known) + memory_j + BEYOND_W * seconds


def campaign(
    programs: int, seed: int, window_s: float, folder: Path
) -> dict[str, dict[str, Score]]:
    """The scores of both ways, by rail."""
    scores: dict[str, dict[str, Score]] = {"by domain": {}, "among all": {}}
    for number in range(programs):
        rng = np.random.default_rng(seed + number)
        program = random_program(rng, window_s)
        path = folder / f"{number}"
        happened = record(path, program, rng)
        judge(wattstep.load(path), happened, program, scores["by domain"])
        with mock.patch.object(TracedSteps, "side", return_value="all"):
            judge(wattstep.load(path), happened, program, scores["among all"])
    return scores


def main() -> None:
    """Prints the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, default=0.1, help="of the sensors, in s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = campaign(options.programs, options.seed, options.window, Path(folder))
    print(f"{options.programs} programs, sensors that average over {options.window * 1e3:g} ms")
    for way, scores in found.items():
        for rail, score in scores.items():
            print(
                f"{way:10} {rail:9} {score.words}; step off by {100 * score.unlike:.2f} % at most"
            )


if __name__ == "__main__":
    main()
