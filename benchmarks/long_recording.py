"""What a long recording takes of the disk and of memory while it goes on, and whether its tables are those of one in a single file.

    python benchmarks/long_recording.py [--steps 5000000] [--keep raw=10min,steps=10min] [--json]

Made steps of 1.7 ms (5 % of noise, a loss each, phases of some) pass through the marker of steps, and
what eight reads give a hundred times a second through the sampler's own journals, as fast as they can be
written; the process that packs is kept up with as it would be at the real pace. The same is then
recorded once more without segments, and all tables of both are compared, value by value; and once with
samples and steps that are thinned, whose totals are compared. What `show` and `report` take of each is told, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wattstep.record import marking
from wattstep.record.marking import StepMarker
from wattstep.record.sampling.child import PACKER_SETTINGS, Journal
from wattstep.record.tracing.schedule import TraceMode
from wattstep.record.tracing.windows import Windows
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.schema.channel import Channel
from wattstep.schema.journal import JOURNAL, TICKS, Mark, samples_name
from wattstep.schema.processes import child_command
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.schema.settings import parse_keep
from wattstep.store.files import create_folder, write_info
from wattstep.store.packing import FOLDER
from wattstep.store.segments import packable, segment_bytes
from wattstep.store.tables import TABLE

STEP_NS, TICK_NS = 1_700_000, 10_000_000
BLOCK = 50_000  # steps that are made at a time
PARTS = 4  # of a recording, memory of which is told one by one
WIDTHS = (
    1,
    2,
    2,
    1,
    4,
    4,
    8,
    3,
)  # values of each read: as many as eight reads of a small machine have
BUSY = 0.25  # of the values that change at a tick; others stand still for long, as frequencies do
MIB = 1 << 20
MEASURING = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
sys.exit(status != 0)
"""


def described(keep: str | None = None) -> RunInfo:
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
        engine="python", batch_size=None, threads=None, precision=None, processor=None, seed=None,
        interval_s=TICK_NS * 1e-9, warmup=3, trace="none", reads=reads, keep=parse_keep(keep),
    )  # fmt: skip


class MadeClock:
    """The clock of the marker: what it is set to, in ns."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now


def sample_rows(
    rng: np.random.Generator, ticks: int, begin: int
) -> Iterator[tuple[str, int, bytes]]:
    """Journal, number of values in a row and rows of so many ticks, for each read and the ticks themselves."""
    due = begin + TICK_NS * np.arange(1, ticks + 1)
    stamped = due + rng.integers(20_000, 90_000, ticks)
    for number, width in enumerate(WIDTHS):
        rows = np.zeros((ticks, 2 + width), "<i8")
        rows[:, 0] = stamped + 9_000 * number + rng.integers(0, 3_000, ticks)
        for n in range(width):
            changes = rng.random(ticks) < (1.0 if n / width < BUSY else 0.001)
            rows[:, 2 + n] = 10**6 + np.cumsum(changes * rng.integers(-5000, 5100, ticks))
        yield samples_name(number), 2 + width, rows.tobytes()
    late = np.stack(
        [due, stamped - due, rng.integers(90_000, 200_000, ticks), np.zeros(ticks, int)]
    )
    yield TICKS, 4, late.T.astype("<i8").tobytes()


def resident(pid: int | str = "self", field: str = "VmRSS") -> float:
    """Memory of a process in MiB, now or at most; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)


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


def size_of(folder: Path) -> int:
    """Bytes that its files take on the disk."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue  # packed meanwhile
    return total


def record(run: Path, steps: int, segment: int, keep: str | None = None) -> dict[str, Any]:
    """Writes the journals of a made run, packed meanwhile where it has segments."""
    create_folder(run)
    write_info(run, described(keep))
    folder = run / JOURNAL
    clock = MadeClock()
    setattr(marking, "perf_counter_ns", clock)  # noqa: B010
    marker = StepMarker(0, 3, lambda: None, _failed)
    marker.open(folder, segment)
    windows = Windows(
        TraceMode.parse("none"), 3, marker, os.open(os.devnull, os.O_WRONLY), _note, lambda: None,
        os.getpid(),
    )  # fmt: skip
    marker.start(windows, own_clock=False)
    journals: dict[str, Journal] = {}
    packer = None
    if segment:
        command = child_command("wattstep.store.packing:main", str(os.getpid()))
        descriptor = os.open(folder, os.O_RDONLY)
        packer = subprocess.Popen(
            command, start_new_session=True, pass_fds=(FOLDER,), env={**os.environ, **PACKER_SETTINGS},
            preexec_fn=lambda: os.dup2(descriptor, FOLDER),
        )  # fmt: skip
        os.close(descriptor)
    rng = np.random.default_rng(1)
    disk = 0
    watched = None if packer is None else PackerMemory(packer.pid)
    if watched is not None:
        watched.start()
    memory: list[float] = []
    changes: list[float] = []
    map_chunk = StepMarker._map

    def timed_map(self: StepMarker, base: int) -> None:
        begun = time.perf_counter()
        map_chunk(self, base)
        if segment and base >= segment:
            changes.append(time.perf_counter() - begun)

    StepMarker._map = timed_map  # type: ignore[method-assign]
    for first in range(0, steps, BLOCK):
        count = min(BLOCK, steps - first)
        if watched is not None:
            watched.part = PARTS * first // steps
        lasting = rng.normal(STEP_NS, 0.05 * STEP_NS, count).astype(np.int64)
        between = rng.integers(20_000, 40_000, count)
        losses = rng.lognormal(0.0, 0.3, count).astype(np.float32)
        begun = clock.now
        for length, rest, loss in zip(
            lasting.tolist(), between.tolist(), losses.tolist(), strict=True
        ):
            begins = marker.begin()
            marker.mark("forward")
            clock.now += length // 3
            marker.mark("backward")
            clock.now += length - length // 3
            marker.end(begins, loss)
            clock.now += rest
        if first % (20 * BLOCK) == 0:  # a rest that lies over a segment's end now and then
            marker.add(Mark.REST_START, marker.code("rest", "evaluation"), t_ns=clock.now)
            clock.now += 10**9
            accuracy = marker.code("measure", "accuracy")
            marker.add(Mark.EVALUATION, accuracy, first / steps, marker.index, t_ns=clock.now)
        elif first % (20 * BLOCK) == BLOCK:
            marker.add(Mark.REST_END, t_ns=clock.now)
        ticks = (clock.now - begun) // TICK_NS
        for name, width, rows in sample_rows(rng, ticks, begun):
            journal = journals.setdefault(name, Journal(str(folder / name), width, segment))
            journal.rows += [rows[at : at + 8 * width] for at in range(0, len(rows), 8 * width)]
            journal.flush()
        memory.append(resident())
        while True:
            disk = max(disk, size_of(folder))
            if packer is None or len(packable(path.name for path in folder.iterdir())) <= 2:
                break
            time.sleep(0.05)
    marker.close()
    if packer is not None and watched is not None:
        watched.ended.set()
        watched.join()
        os.killpg(packer.pid, signal.SIGKILL)
        packer.wait()
    left = size_of(folder)
    StepMarker._map = map_chunk  # type: ignore[method-assign]
    conversion_s, conversion_mib = taken(
        child_command("wattstep.store.convert:main", str(run), "closed")
    )
    return {
        "hours": (clock.now - 10**12) / 3.6e12,
        "disk_peak_mib": disk / MIB,
        "disk_at_the_end_mib": left / MIB,
        "tables_mib": size_of(run) / MIB,
        "trainer_growth_mib": max(memory[len(memory) // 4 :]) - memory[len(memory) // 4],
        "changes": len(changes),
        "median_change_ms": float(np.median(changes)) * 1e3 if changes else 0.0,
        "longest_change_ms": max(changes, default=0.0) * 1e3,
        **(
            {}
            if watched is None
            else {
                "packer_mib": " ".join(f"{each[0]:.0f}" for each in watched.most),
                "packer_without_pages_of_files_mib": " ".join(
                    f"{each[1]:.0f}" for each in watched.most
                ),
            }
        ),
        "conversion_cpu_s": conversion_s,
        "conversion_mib": conversion_mib,
    }


def told(run: Path, command: str, *options: str) -> dict[str, float]:
    """CPU time and memory that a command about a run takes."""
    cpu_s, mib = taken([sys.executable, "-m", "wattstep", command, str(run), *options])
    return {f"{command}_cpu_s": cpu_s, f"{command}_mib": mib}


def taken(command: Sequence[str]) -> tuple[float, float]:
    """CPU time in s and memory in MiB that a command takes; a child's begins with its parent's."""
    small = subprocess.run(
        [sys.executable, "-c", MEASURING, *command], stdout=subprocess.PIPE, text=True, check=True
    )
    cpu_s, mib = map(float, small.stdout.split())
    return cpu_s, mib


def compared_totals(one: Path, other: Path) -> dict[str, float]:
    """How far totals of samples of the second run are from those of the first, at most, relative to them.

    Raises:
        SystemExit: They had another number of reads, least or most value, or steps.
    """
    whole, thinned = (Series(Tables(run)) for run in (one, other))
    integrals, sums = 0.0, 0.0
    for name, channel in whole.channels.items():
        a, b = whole.totals(name), thinned.totals(name)
        assert a is not None
        assert b is not None
        if (a.reads, a.least, a.most) != (b.reads, b.least, b.most):
            raise SystemExit(f"{name} differs")
        sums = max(sums, abs(b.total / a.total - 1))
        energies = [float(series.curve(channel).total[-1]) for series in (whole, thinned)]
        integrals = max(integrals, abs(energies[1] / energies[0] - 1))
    return {
        "channels": len(whole.channels),
        "of_integrals": integrals,
        "of_sums": sums,
        **compared_steps(whole.steps, thinned.steps),
    }


def compared_steps(whole: Steps, thinned: Steps) -> dict[str, float]:
    """How far totals of thinned steps are from those of all of them, at most, relative to them.

    Raises:
        SystemExit: They are other steps, or clean time is another.
    """
    if whole.recorded != thinned.recorded or whole.counted.count != thinned.counted.count:
        raise SystemExit("steps differ")
    if not np.array_equal(whole.stretches(), thinned.stretches()):
        raise SystemExit("clean time differs")
    off = 0.0
    for name in ("seconds", "gap_s"):
        a, b = (float(getattr(steps.counted, name).sum()) for steps in (whole, thinned))
        off = max(off, abs(b / a - 1))
    losses = float(whole.loss.sum())
    others = float(thinned.loss.sum())
    if (stretches := thinned.thinned) is not None:
        others += float(stretches.loss_sum.sum())
    return {
        "steps": whole.recorded,
        "steps_that_stay": len(thinned.index),
        "of_times_of_steps": off,
        "of_losses": abs(others / losses - 1),
    }


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


def compared(one: Path, other: Path) -> dict[str, int]:
    """Rows of each table, all of which are the same in both; samples channel by channel.

    Raises:
        SystemExit: They differ.
    """
    rows = {}
    for path in sorted(one.glob(f"*{TABLE}")):
        if path.stem == "samples":
            names = sorted(channel.name for read in described().reads for channel in read.channels)
            pairs: Iterator[Any] = (
                tuple(
                    pq.read_table(run / path.name, columns=["t_ns", "value", "errno"],
                                  filters=pc.field("channel") == name)
                    for run in (one, other)
                )
                for name in [*names, "sampler.lateness", "sampler.busy_time", "sampler.lost_ticks"]
            )  # fmt: skip
        else:
            pairs = zip(
                *(pq.ParquetFile(run / path.name).iter_batches(1 << 16) for run in (one, other)),
                strict=True,
            )
        rows[path.stem] = 0
        for a, b in pairs:
            if not a.equals(b):
                raise SystemExit(f"{path.stem} differs")
            rows[path.stem] += len(a)
    return rows


def main() -> None:
    """Records both, compares them, and says what each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=5_000_000)
    parser.add_argument("--keep", default="raw=10min,steps=10min")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wattstep-long-"))
    try:
        results: dict[str, Any] = {
            "segments": record(folder / "segments", arguments.steps, segment_bytes()),
            "one file": record(folder / "one", arguments.steps, 0),
        }
        results["equal rows"] = compared(folder / "segments", folder / "one")
        shutil.rmtree(folder / "one")
        thinned = record(folder / "thinned", arguments.steps, segment_bytes(), arguments.keep)
        results[f"thinned, {arguments.keep}"] = thinned
        results["totals apart"] = compared_totals(folder / "segments", folder / "thinned")
        for name in ("segments", "thinned"):
            page = str(folder / "page.html")
            results[f"told of {name}"] = {
                **told(folder / name, "show"), **told(folder / name, "report", "--output", page)
            }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        print(json.dumps(results))
        return
    for name, facts in results.items():
        print(name)
        for key, value in facts.items():
            print(
                f"  {key.replace('_', ' '):20} {f'{value:,.1f}' if abs(value) >= 0.05 or not value else f'{value:.1e}'}"
                if isinstance(value, float)
                else f"  {key:20} {value if isinstance(value, str) else f'{value:,}'}"
            )


if __name__ == "__main__":
    main()
