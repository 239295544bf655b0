"""A program whose power is known: operations on one thread, on two, and asleep, with the task clock read around each.

Run as a program it is one process that is recorded (attribution_real.py --part load starts it); as
a module it holds what became of it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.attribution.folding import fold, mean_gain
from wattstep.attribution.regression.problem import Kinds, Layout, Sampled
from wattstep.recorded.curves import Curve, add_curves, curve_of_counter

# Name, threads, ms, phase: what a step does in this order. A short one after a long one, the same
# threads in several places, some far below 10 ms.
PROGRAM = (
    ("embed", 1, 3.0, "forward"),
    ("mix", 2, 0.6, "forward"),
    ("wide", 2, 12.0, "forward"),
    ("norm", 1, 0.4, "forward"),
    ("wait-data", 0, 5.0, "forward"),
    ("head", 1, 1.2, "forward"),
    ("loss", 2, 2.0, "backward"),
    ("sync", 0, 0.8, "backward"),
    ("wide-back", 2, 18.0, "backward"),
    ("mix-back", 1, 6.0, "backward"),
    ("io", 0, 11.0, "backward"),
    ("update", 1, 14.0, "optimizer"),
    ("clip", 2, 1.0, "optimizer"),
)
REST = "between"
COARSE_S = 0.01  # blocks of at least that are coarse
EVERY_TRACED = 20  # steps: the others' operation times are not shown to the attribution


class Worker:
    """A second thread that works when it is told to."""

    def __init__(self, first: bool) -> None:
        self._first = first
        self._orders: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        if self._first:
            ahead()
        while True:
            work(self._orders.get())
            self._done.put(None)

    def beside(self, rounds: int) -> None:
        self._orders.put(rounds)
        work(rounds)
        self._done.get()


def work(rounds: int) -> None:
    """Hashing that lets go of the interpreter until it is done."""
    hashlib.pbkdf2_hmac("sha256", b"load", b"known", max(rounds, 1))


def rounds_a_ms() -> float:
    best = min(_timed(work, 5_000) for _ in range(40))
    return 5_000 / (best * 1e3)


def ahead() -> None:
    """This thread before all others, where that is allowed; processes that it starts are not."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _timed(function: Any, *arguments: Any) -> float:
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def perform(worker: Worker, threads: int, ms: float, rate: float) -> None:
    if threads == 0:
        time.sleep(ms * 1e-3)
    elif threads == 1:
        work(round(ms * rate))
    else:
        worker.beside(round(ms * rate))


def read(clocks: list[int]) -> tuple[int, int]:
    """Now, and the CPU time of both threads: of the same clocks as those that are sampled.

    The threads' POSIX clocks leave out what a hypervisor took, which task clocks count.
    """
    cpu = sum(int.from_bytes(os.read(clock, 8), "little") for clock in clocks)
    return time.perf_counter_ns(), cpu


def program(
    folder: Path, steps: int, mixes: int, seed: int, rate: float | None, first: bool
) -> None:
    """Records `steps` of the program, then `mixes` stretches with other shares of each operation."""
    from wattstep.record.recorder import Recorder
    from wattstep.record.sensors.process_cpu import open_task_clocks

    worker, random = Worker(first), np.random.default_rng(seed)
    rate = rate or rounds_a_ms()
    counts = np.concatenate(
        [np.ones((steps, len(PROGRAM)), int), random.integers(0, 4, (mixes, len(PROGRAM)))]
    )
    lengths = 1 + 0.03 * random.standard_normal((len(counts), len(PROGRAM)))
    log = np.zeros((steps, len(PROGRAM) + 1, 2), np.int64)
    recorder = Recorder(folder, interval="1ms", trace="none", warmup=0)
    recorder.start()
    clocks = open_task_clocks(os.getpid())  # now: the sampler would inherit what is open before
    if first:
        ahead()
    time.sleep(0.3)
    for index in range(steps):
        with recorder.step(samples=1):
            phase = ""
            log[index, 0] = read(clocks)
            for number, (_, threads, ms, now) in enumerate(PROGRAM):
                if now != phase:
                    phase = now
                    recorder.phase(phase)
                perform(worker, threads, ms * lengths[index, number], rate)
                log[index, number + 1] = read(clocks)
    edges = []
    for mix in counts[steps:]:
        begin, rounds = time.perf_counter_ns(), 0
        while time.perf_counter_ns() - begin < 1_000_000_000:
            rounds += 1
            for (_, threads, ms, _), times in zip(PROGRAM, mix, strict=True):
                for _ in range(times):
                    perform(worker, threads, ms, rate)
        edges.append((begin, time.perf_counter_ns(), rounds))
    time.sleep(0.3)
    recorder.close()
    np.savez(folder / "log.npz", log=log, counts=counts[steps:], edges=np.array(edges))


# --- what became of it ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """One process: its CPU time at 1 ms, its steps, and what its own clocks say.

    Attributes:
        curve: CPU time in s.
        edges_ns: Of the phases of clean steps.
        layouts: Of the traced ones.
        seconds: Mean of each operation over clean steps in s, shape (k,); the rest comes last.
        truth: CPU time in s, likewise.
        mixes: Of stretches of other mixes: counts of operations in a round; begin, end and rounds.
    """

    curve: Curve
    edges_ns: np.ndarray
    layouts: list[Layout]
    edges: np.ndarray
    seconds: np.ndarray
    truth: np.ndarray
    mixes: tuple[np.ndarray, np.ndarray]


def recorded(folder: Path, joules: bool = False) -> Recorded:
    """What a process left behind.

    Args:
        folder: Of its run.
        joules: The machine's counters of energy instead of the task clock; what they gained while
            each operation ran is then the truth, which says little of what is shorter than 10 ms.
    """
    from wattstep.run import load

    run, found = load(folder), np.load(folder / "log.npz")
    log = found["log"].astype(np.int64)
    whole = _joules(run) if joules else run.series.one("process_cpu_time")
    if whole is None:
        raise SystemExit("perf's task clock was not sampled: see wattstep doctor")
    steps = run.series.steps
    traced = np.arange(len(log)) % EVERY_TRACED == EVERY_TRACED // 2
    phases, _ = run.tables.marks.phases(steps, np.flatnonzero(~traced), None)
    shares = phases.durations_s.sum(axis=0)
    edges = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
    of_traced, _ = run.tables.marks.phases(steps, np.flatnonzero(traced), phases.names)
    length = float(phases.durations_s.sum(axis=1).mean())
    layouts = [
        _layout(one, begin, edges)
        for one, begin in zip(log[traced, :, 0], of_traced.edges_ns, strict=True)
    ]
    times = np.diff(log[~traced, :, 0], axis=1).mean(axis=0) * 1e-9
    cpu = np.diff(log[~traced, :, 1], axis=1).mean(axis=0) * 1e-9
    if joules:
        cpu = gained_by(whole, log[~traced, :, 0])
    gained = mean_gain(whole, phases.edges_ns[:, 0], phases.edges_ns[:, -1]) or 0.0
    return Recorded(
        curve=whole,
        edges_ns=phases.edges_ns,
        layouts=layouts,
        edges=edges,
        seconds=np.append(times, length - times.sum()),
        truth=np.append(cpu, gained - cpu.sum()),
        mixes=(found["counts"], found["edges"]),
    )


def _joules(run: Any) -> Curve:
    """Energy that counters of the machine (RAPL) counted."""
    channels = list(run.series.with_role("energy_total"))
    if not channels:
        raise SystemExit(f"no counter of energy here: {run.info.absent.get('rapl', 'none found')}")
    return add_curves([run.series.curve(channel) for channel in channels])


def gained_by(curve: Curve, cuts_ns: np.ndarray) -> np.ndarray:
    """What a curve gains between the cuts of each step, mean over the steps, shape (k,)."""
    gains, _ = curve.difference(cuts_ns[:, :-1].ravel(), cuts_ns[:, 1:].ravel())
    return np.nanmean(gains.reshape(len(cuts_ns), -1), axis=0)


def _layout(log: np.ndarray, traced: np.ndarray, edges: np.ndarray) -> Layout:
    """Operations of a traced step on the mean clean step, phase by phase in proportion."""
    inner = np.interp(log - traced[0], traced - traced[0], edges)
    cuts = np.concatenate([[0.0], inner, [1.0]])
    kinds = np.concatenate([[len(PROGRAM)], np.arange(len(PROGRAM)), [len(PROGRAM)]])
    there = np.diff(cuts) > 0
    kept = np.append(cuts[:-1][there], 1.0)
    n = int(there.sum())
    return Layout(edges=kept, segment=np.arange(n), kind=kinds[there], weight=np.ones(n))


def sampled(process: Recorded, every: int, seed: int) -> Sampled:
    """The process as a counter read every so many milliseconds, on dithered ticks."""
    t_ns, value = decimated(process.curve, every, seed)
    return Sampled(
        t_ns=t_ns, value=value, counter=True, start_ns=process.edges_ns[:, 0],
        end_ns=process.edges_ns[:, -1], edges_ns=process.edges_ns, edges=process.edges,
        layouts=process.layouts,
    )  # fmt: skip


def decimated(curve: Curve, every: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Every n-th sample, give or take 5 % of the time between them, as the sampler dithers."""
    if every == 1:
        return curve.t_ns, curve.total
    random = np.random.default_rng(seed)
    ticks = np.arange(curve.t_ns[0], curve.t_ns[-1], every * 1_000_000)
    ticks = ticks + random.uniform(-0.05, 0.05, len(ticks)) * every * 1e6
    at = np.unique(np.clip(np.searchsorted(curve.t_ns, ticks), 0, len(curve.t_ns) - 1))
    return curve.t_ns[at], curve.total[at]


def kinds() -> Kinds:
    names = [name for name, *_ in PROGRAM] + [REST]
    threads = [f"{count} threads" for _, count, *_ in PROGRAM] + [REST]
    phases = [phase for *_, phase in PROGRAM] + [REST]
    keys: tuple[list[Any], ...] = (
        names,
        list(zip(threads, phases, strict=True)),
        threads,
        phases,
        phases,
        [0] * len(names),
    )
    return Kinds(
        names=names,
        levels=[np.array([key.index(one) for one in key]) for key in keys],
        level_names=("operation", "kind in layer", "kind", "layer", "phase", "step"),
    )


def overlapped(process: Recorded, every: int, seed: int) -> np.ndarray:
    """Plain overlap attribution: what the folded curve gains while an operation runs."""
    t_ns, value = decimated(process.curve, every, seed)
    start, end = process.edges_ns[:, 0], process.edges_ns[:, -1]
    length = float((end - start).mean()) * 1e-9
    folded = fold(curve_of_counter(t_ns, value, unit="s"), start, end, length)
    assert folded is not None
    shares = np.zeros(len(PROGRAM) + 1)
    for layout in process.layouts:
        gains = np.diff(np.interp(layout.edges * length * 1e9, folded.t_ns, folded.total))
        shares += np.bincount(
            layout.kind, layout.weight * gains[layout.segment], minlength=len(shares)
        )
    return shares / len(process.layouts)


def by_whole_runs(processes: list[Recorded], every: int, seed: int) -> np.ndarray:
    """One equation a stretch: its energy is the sum of its operations', each as often as it ran."""
    from scipy.optimize import nnls

    rows, energies = [], []
    for process in processes:
        counts, edges = process.mixes
        t_ns, value = decimated(process.curve, every, seed)
        ends = np.interp(edges[:, :2] - t_ns[0], t_ns - t_ns[0], value)
        rows.append(counts * edges[:, 2:])
        energies.append(np.diff(ends, axis=1)[:, 0])
    each, _ = nnls(np.concatenate(rows), np.concatenate(energies))
    return np.append(each, np.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--mixes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--rate", type=float, help="rounds a millisecond, the same of all processes"
    )
    parser.add_argument("--first", action="store_true")
    arguments = parser.parse_args()
    program(
        arguments.folder,
        arguments.steps,
        arguments.mixes,
        arguments.seed,
        arguments.rate,
        arguments.first,
    )
    print(json.dumps({"recorded": str(arguments.folder)}))


if __name__ == "__main__":
    main()
