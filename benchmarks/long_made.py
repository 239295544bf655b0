"""A made recording of any length, written as fast as it can be, and its true totals, added up while it is made.

Steps pass through the marker of steps, samples through the sampler's own journals, and the process that
packs and thins is the real one. The totals are sums of what was made, in integers where it is integers;
nothing that reads or thins recordings has a part in them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.record import device_steps
from wattstep.record.marking import StepMarker
from wattstep.record.sampling.child import PACKER_SETTINGS, Journal
from wattstep.record.tracing.schedule import TraceMode
from wattstep.record.tracing.windows import Windows
from wattstep.schema.channel import Channel
from wattstep.schema.journal import JOURNAL, TICKS, Mark, samples_name
from wattstep.schema.processes import child_command
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.schema.settings import parse_keep
from wattstep.store.files import create_folder, write_info
from wattstep.store.packing import FOLDER
from wattstep.store.segments import packable

Ints = npt.NDArray[np.int64]
STEP_NS, TICK_NS = 1_700_000, 10_000_000
BEGIN_NS = 10**12
WARMUP = 3  # steps that are in no total
BLOCK = 50_000  # steps that are made at a time
RESTS = 20  # blocks, of which one is followed by a rest
PARTS = 4  # of a recording, memory of which is told one by one
PROGRESS_S = 60.0
# Values of each read: as many as eight reads of a small machine have.
WIDTHS = (1, 2, 2, 1, 4, 4, 8, 3)
BUSY = 0.25  # of the values that change at a tick; others stand still for long, as frequencies do
OF_TICKS = ("sampler.lateness", "sampler.busy_time", "sampler.lost_ticks")
MIB = 1 << 20
MEASURING = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
sys.exit(status != 0)
"""


def described(keep: str | None = None, batch_size: int | None = None) -> RunInfo:
    """A run with the reads of `WIDTHS`."""
    reads = tuple(
        PlannedRead(
            number=number, sensor="made", path="-", parser="number", every=1,
            channels=tuple(
                Channel(
                    name=f"made.{number}.{n}", unit="W", kind="gauge", domain="system",
                    role="test", source="made",
                )
                for n in range(width)
            ),
        )
        for number, width in enumerate(WIDTHS)
    )  # fmt: skip
    return RunInfo(
        state="recording", created="2026-11-26T12:00:00+0000", workload="made", title="made",
        engine="python", batch_size=batch_size, threads=None, precision=None, processor=None,
        seed=None, interval_s=TICK_NS * 1e-9, warmup=WARMUP, trace="none", reads=reads,
        keep=parse_keep(keep),
    )  # fmt: skip


# --- what is true -------------------------------------------------------------------------------


@dataclass
class TrueChannels:
    """True totals of the channels of one journal, all raw values that were made; arrays have shape (channels,).

    Attributes:
        names: Of the channels.
        scale: What a raw value is multiplied with.
        reads: Of each.
        least: Lowest value; likewise the highest.
        sums: Sums of the values.
        twice: Twice the integrals over the time in ns, by trapezoids between reads that follow each other.
    """

    names: Sequence[str]
    scale: Sequence[float]
    reads: int = 0
    least: Ints | None = None
    most: Ints | None = None
    sums: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)
    _last: Ints | None = None

    def add(self, t_ns: Ints, values: Ints) -> None:
        """Takes reads, later than all before, shapes (n,) and (n, channels)."""
        least, most = values.min(axis=0), values.max(axis=0)
        self.least = least if self.least is None else np.minimum(self.least, least)
        self.most = most if self.most is None else np.maximum(self.most, most)
        self.reads += len(t_ns)
        rows = np.column_stack([t_ns, values])
        if self._last is not None:
            rows = np.concatenate([self._last, rows])
        self._last = rows[-1:]
        pairs = (rows[1:, 1:] + rows[:-1, 1:]) * np.diff(rows[:, :1], axis=0)
        self.sums = _added(self.sums, values.sum(axis=0))
        self.twice = _added(self.twice, pairs.sum(axis=0))


@dataclass
class TrueSteps:
    """True totals of the clean steps that were made, times in ns.

    Attributes:
        made: All steps, those of the warm-up among them.
        lasting_ns: Sum of the times of clean ones.
        gap_ns: Sum of the time between clean steps that nothing named lies between.
        stretches: How many runs of such steps there are.
        losses: Sum of the losses of all.
    """

    made: int = 0
    lasting_ns: int = 0
    gap_ns: int = 0
    stretches: int = 1
    losses: float = 0.0
    _behind_ns: int = 0

    def add(self, lasting: Ints, between: Ints, losses: Any, *, rested: bool) -> None:
        """Takes steps that follow all before, and what lies behind each.

        Args:
            lasting: Times, shape (n,), more of them than the warm-up has; likewise the others.
            between: Time behind each, before the next or a rest.
            losses: Of each.
            rested: Whether a rest began before the first.
        """
        warm = 0 if self.made else WARMUP
        if self.made and not rested:
            self.gap_ns += self._behind_ns
        self.stretches += rested
        self.made += len(lasting)
        self.lasting_ns += int(lasting[warm:].sum())
        self.gap_ns += int(between[warm:-1].sum())
        self._behind_ns = int(between[-1])
        self.losses += float(losses.astype(np.float64).sum())


def _added(sums: list[int], others: Ints) -> list[int]:
    return [a + b for a, b in zip(sums or [0] * len(others), others.tolist(), strict=True)]


@dataclass
class Truth:
    """True totals of a made recording: of its steps, and of its channels by journal."""

    steps: TrueSteps = field(default_factory=TrueSteps)
    journals: dict[str, TrueChannels] = field(default_factory=dict)


def no_truth() -> Truth:
    """Nothing yet, for the journals of `described`."""
    truth = Truth()
    for read in described().reads:
        names = [channel.name for channel in read.channels]
        truth.journals[samples_name(read.number)] = TrueChannels(names, [1.0] * len(names))
    truth.journals[TICKS] = TrueChannels(OF_TICKS, (1e-9, 1e-9, 1.0))
    return truth


# --- making it ----------------------------------------------------------------------------------


class MadeClock:
    """The clock of the marker: what it is set to, in ns."""

    def __init__(self) -> None:
        self.now = BEGIN_NS

    def __call__(self) -> int:
        return self.now


def sample_rows(
    rng: np.random.Generator, ticks: int, begin: int
) -> Iterator[tuple[str, int, Ints]]:
    """Journal, words before the values and rows of so many ticks, for each read and the ticks themselves."""
    due = begin + TICK_NS * np.arange(1, ticks + 1)
    stamped = due + rng.integers(20_000, 90_000, ticks)
    for number, width in enumerate(WIDTHS):
        rows = np.zeros((ticks, 2 + width), "<i8")
        rows[:, 0] = stamped + 9_000 * number + rng.integers(0, 3_000, ticks)
        for n in range(width):
            changes = rng.random(ticks) < (1.0 if n / width < BUSY else 0.001)
            rows[:, 2 + n] = 10**6 + np.cumsum(changes * rng.integers(-5000, 5100, ticks))
        yield samples_name(number), 2, rows
    late = np.stack(
        [due, stamped - due, rng.integers(90_000, 200_000, ticks), np.zeros(ticks, int)]
    )
    yield TICKS, 1, np.ascontiguousarray(late.T, "<i8")


class PackerMemory(threading.Thread):
    """The most that the packer and what it started took, by parts of a recording.

    Args:
        pid: Of the packer.

    Attributes:
        part: Of the recording, that goes on.
        most: Resident memory in MiB, and what of it is no page of a file, in each part.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.part, self.ended = pid, 0, threading.Event()
        self.most = [[0.0, 0.0] for _ in range(PARTS)]

    def run(self) -> None:
        """Looks a hundred times a second."""
        while not self.ended.wait(0.01):
            now = [
                sum(resident(pid, field) for pid in _family(self.pid))
                for field in ("VmHWM", "RssAnon")
            ]
            self.most[self.part] = [*map(max, zip(self.most[self.part], now, strict=True))]


class Packer:
    """The process that packs closed segments, watched.

    Args:
        folder: Of the journals.
    """

    def __init__(self, folder: Path) -> None:
        command = child_command("long_packer:main", str(os.getpid()))
        descriptor = os.open(folder, os.O_RDONLY)
        self._process = subprocess.Popen(
            command, start_new_session=True, pass_fds=(FOLDER,), env={**os.environ, **PACKER_SETTINGS},
            preexec_fn=lambda: os.dup2(descriptor, FOLDER),
        )  # fmt: skip
        os.close(descriptor)
        self._folder = folder
        self.memory = PackerMemory(self._process.pid)
        self.memory.start()

    def is_behind(self) -> bool:
        """Whether more segments wait than would at the real pace."""
        return len(packable(os.listdir(self._folder))) > 2  # noqa: PTH208 - names are enough

    def end(self) -> None:
        """Ends it and what it started."""
        self.memory.ended.set()
        self.memory.join()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def facts(self) -> dict[str, str]:
        """What it took, by parts."""
        most = self.memory.most
        return {
            "packer_mib": " ".join(f"{each[0]:.0f}" for each in most),
            "packer_without_pages_of_files_mib": " ".join(f"{each[1]:.0f}" for each in most),
        }


def record(
    run: Path,
    steps: int,
    segment: int,
    keep: str | None = None,
    batch_size: int | None = None,
) -> tuple[dict[str, Any], Truth]:
    """Writes the journals of a made run, packed meanwhile where it has segments, and closes it.

    Args:
        run: Its folder.
        steps: How many.
        segment: Bytes from which on a journal goes on in a new file; 0: never.
        keep: As the option of that name has it.
        batch_size: Samples of each step; None: not known.

    Returns:
        What it took, and what is true of it.
    """
    create_folder(run)
    write_info(run, described(keep, batch_size))
    folder = run / JOURNAL
    clock = MadeClock()
    setattr(device_steps, "perf_counter_ns", clock)  # noqa: B010
    marker = StepMarker(0, WARMUP, lambda: None, _failed)
    marker.open(folder, segment)
    windows = Windows(
        TraceMode.parse("none"), WARMUP, marker, os.open(os.devnull, os.O_WRONLY), _note,
        lambda: None, os.getpid(),
    )  # fmt: skip
    marker.start(windows, own_clock=False)
    if batch_size is not None:
        marker.samples = batch_size
    packer = Packer(folder) if segment else None
    truth = no_truth()
    memory: list[float] = []
    changes: list[float] = []
    disk, said, begun_s, before = 0, time.monotonic(), time.monotonic(), os.times()
    map_chunk = StepMarker._map

    def timed_map(self: StepMarker, base: int) -> None:
        begun = time.perf_counter()
        map_chunk(self, base)
        if segment and base >= segment:
            changes.append(time.perf_counter() - begun)

    StepMarker._map = timed_map  # type: ignore[method-assign]
    try:
        for first in _made(marker, clock, folder, steps, segment, truth):
            memory.append(resident())
            disk = max(disk, size_of(folder))
            if packer is not None:
                packer.memory.part = PARTS * first // steps
                while packer.is_behind():
                    time.sleep(0.02)
                    disk = max(disk, size_of(folder))
            if time.monotonic() > said + PROGRESS_S:
                said = time.monotonic()
                hours = (clock.now - BEGIN_NS) / 3.6e12
                print(
                    f"{hours:,.1f} h made in {(said - begun_s) / 60:,.0f} min, "
                    f"{size_of(folder) / MIB:,.0f} MiB on the disk, {memory[-1]:,.0f} MiB of memory",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
        marker.close()
    finally:
        StepMarker._map = map_chunk  # type: ignore[method-assign]
        if packer is not None:
            packer.end()
    left, after = size_of(folder), os.times()
    conversion_s, conversion_mib = taken(
        child_command("wattstep.store.convert:main", str(run), "closed")
    )
    tables = size_of(run)
    quarters = [each for each in np.array_split(memory, PARTS) if len(each)]
    facts = {
        "hours": (clock.now - BEGIN_NS) / 3.6e12,
        # Journals go when all tables are there.
        "disk_peak_mib": max(disk, left + tables) / MIB,
        "disk_at_the_end_mib": left / MIB,
        "tables_mib": tables / MIB,
        "trainer_growth_mib": " ".join(f"{max(each) - memory[0]:.1f}" for each in quarters),
        "changes": len(changes),
        "median_change_ms": float(np.median(changes)) * 1e3 if changes else 0.0,
        "longest_change_ms": max(changes, default=0.0) * 1e3,
        **({} if packer is None else packer.facts()),
        "making_cpu_s": sum(after[:2]) - sum(before[:2]),
        "packing_cpu_s": sum(after[2:4]) - sum(before[2:4]),
        "conversion_cpu_s": conversion_s,
        "conversion_mib": conversion_mib,
    }
    return facts, truth


def _made(
    marker: StepMarker, clock: MadeClock, folder: Path, steps: int, segment: int, truth: Truth
) -> Iterator[int]:
    """Makes steps and samples of the same time, block by block; the number of the first step of each."""
    journals: dict[str, Journal] = {}
    rng = np.random.default_rng(1)
    for first in range(0, steps, BLOCK):
        count = min(BLOCK, steps - first)
        lasting = rng.normal(STEP_NS, 0.05 * STEP_NS, count).astype(np.int64)
        between = rng.integers(20_000, 40_000, count)
        losses = rng.lognormal(0.0, 0.3, count).astype(np.float32)
        begun = clock.now
        _mark(marker, clock, lasting, between, losses)
        rested = first % (RESTS * BLOCK) == BLOCK
        truth.steps.add(lasting, between, losses, rested=rested)
        if first % (RESTS * BLOCK) == 0:  # a rest that lies over a segment's end now and then
            marker.add(Mark.REST_START, marker.code("rest", "evaluation"), t_ns=clock.now)
            clock.now += 10**9
            accuracy = marker.code("measure", "accuracy")
            marker.add(Mark.EVALUATION, accuracy, first / steps, marker.index, t_ns=clock.now)
        elif rested:
            marker.add(Mark.REST_END, t_ns=clock.now)
        ticks = (clock.now - begun) // TICK_NS
        for name, header, rows in sample_rows(rng, ticks, begun):
            truth.journals[name].add(rows[:, 0], rows[:, header:])
            width = rows.shape[1]
            if name not in journals:
                journals[name] = Journal(str(folder / name), width, segment)
            journal, data = journals[name], rows.tobytes()
            journal.rows += [data[at : at + 8 * width] for at in range(0, len(data), 8 * width)]
            journal.flush()
        yield first


def _mark(marker: StepMarker, clock: MadeClock, lasting: Ints, between: Ints, losses: Any) -> None:
    """Marks steps that follow each other."""
    for length, rest, loss in zip(lasting.tolist(), between.tolist(), losses.tolist(), strict=True):
        begins = marker.begin()
        marker.mark("forward")
        clock.now += length // 3
        marker.mark("backward")
        clock.now += length - length // 3
        marker.end(begins, loss)
        clock.now += rest


# --- what it takes ------------------------------------------------------------------------------


def resident(pid: int | str = "self", field: str = "VmRSS") -> float:
    """Memory of a process in MiB, now or at most; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)


def size_of(folder: Path) -> int:
    """Bytes that its files take on the disk."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += size_of(Path(entry))
                continue
            try:
                total += entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue  # packed meanwhile
    return total


def taken(command: Sequence[str]) -> tuple[float, float]:
    """CPU time in s and memory in MiB that a command takes; a child's begins with its parent's."""
    small = subprocess.Popen(
        [sys.executable, "-c", MEASURING, *command], stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        words, _ = small.communicate()
    except BaseException:  # Ctrl-C and SIGTERM, too
        os.killpg(small.pid, signal.SIGKILL)
        small.wait()
        raise
    if small.returncode:
        raise SystemExit(f"{command[-1]}: ended with {small.returncode}")
    cpu_s, mib = map(float, words.split())
    return cpu_s, mib


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *map(int, children)]


def _failed(error: OSError) -> None:
    raise error


def _note(text: str) -> None:
    raise SystemExit(text)
