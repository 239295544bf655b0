"""Faults at random moments, for so many minutes, and what became of each: `make torture MINUTES=30`.

Trainer, sampler, converter, sweep and server are killed, stopped and starved, disks fill up at random bytes,
files are cut anywhere. Afterwards the run opens or is refused by name, has lost no more than is promised,
says so where a figure lacks something, and no process is left. docs/torture.md says what is promised of each.

    python -m tests.torture --minutes 2 --only "disk"
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.faults.conftest import Trainer
from tests.faults.foreign import unclosed_run
from tests.waiting import PATIENCE_S, gone

import wattstep
from wattstep.errors import WattstepError
from wattstep.run.report import STOPPED
from wattstep.store.lock import is_recording

MARK: Final = "WATTSTEP_TORTURED"  # in the environment of all that a fault starts
LAST_SECOND_NS: Final = 10**9
NAMESPACE: Final = ("unshare", "--map-root-user", "--mount")  # in which one may mount
PYTHON: Final = (sys.executable, "-m", "wattstep")


@dataclass(kw_only=True)
class Told:
    """What became of one fault.

    Attributes:
        opened: Whether the run could be read afterwards; else it was refused by name.
        lost_steps: Steps that the trainer had told and the run lacks.
        lost_s: Time before the fault of which there are no samples.
    """

    opened: bool
    lost_steps: int = 0
    lost_s: float = 0.0


@dataclass(kw_only=True)
class Row:
    """All faults of one sort."""

    times: int = 0
    opened: int = 0
    refused: int = 0
    lost_steps: int = 0
    lost_s: float = 0.0
    unexplained: list[str] = field(default_factory=list)


class UnexplainedError(AssertionError):
    """A promise that was not kept."""


def expect(kept: bool, words: str) -> None:
    """A promise.

    Raises:
        UnexplainedError: It was not kept.
    """
    if not kept:
        raise UnexplainedError(words)


# --- what is looked at ----------------------------------------------------------------------------


def look(run: Path, last: tuple[int, int] = (-1, 0), *, samples: bool = True) -> Told:
    """Opens a run after a fault, and holds it against what its trainer told.

    Args:
        run: Its folder.
        last: Index and end of the last step that was told.
        samples: Whether they are promised up to the last second.
    """
    expect(not is_recording(run), "it counts as recording still")
    opened = wattstep.load(run)
    steps = opened.tables.steps()
    index = steps.index.tolist()
    expect(index == list(range(len(index))), f"steps are {index[:3]} ... {index[-3:]}")
    document = opened.document()
    expect(document["failures"] == [], f"failures: {document['failures']}")
    expect(not (run / "journal").exists(), "its journal is left")
    lost_s = 0.0
    for name, (t_ns, _, _) in opened.tables.samples().items():
        if name == "process.resident_memory" and len(t_ns) and last[1]:
            lost_s = max((last[1] - int(t_ns[-1])) * 1e-9, 0.0)
    if samples and last[1]:
        expect(lost_s < LAST_SECOND_NS * 1e-9, f"{lost_s:.2f} s of samples are lost")
    return Told(opened=True, lost_steps=max(last[0] + 1 - len(index), 0), lost_s=lost_s)


def refused_or(run: Path, last: tuple[int, int] = (-1, 0)) -> Told:
    """As `look`; a run that is refused in one line counts as kept, too."""
    try:
        return look(run, last, samples=False)
    except WattstepError as error:
        expect("\n" not in str(error), f"more than a line: {error}")
        return Told(opened=False)


def left_behind(mark: str) -> list[str]:
    """Processes of a fault that still live."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()[:80]!r}")
    return [each for each in found if not gone(int(each.split()[0]))]


# --- the faults -----------------------------------------------------------------------------------


@contextlib.contextmanager
def training(rng: random.Random, folder: Path, steps: int = 10**6) -> Iterator[Trainer]:
    """A trainer at work, for a random while."""
    one = Trainer(folder / "run", steps, "sleep", rng.choice(["1ms", "10ms", "50ms"]))
    try:
        one.until(rng.uniform(0.0, 1.5))
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def told_since(one: Trainer) -> tuple[int, int]:
    """The last step that a trainer told before it ended."""
    assert one.process.stdout is not None
    for line in one.process.stdout.read().splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
            one.last = (int(words[0]), int(words[1]))
    return one.last


def end(one: Trainer) -> None:
    """Waits until a killed trainer and its sampler are gone."""
    one.process.wait()
    until = time.monotonic() + PATIENCE_S
    while one._children(b"") and time.monotonic() < until:
        time.sleep(0.02)


def kill_trainer(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of the trainer: every told step is there, samples up to the last second."""
    with training(rng, folder) as one:
        sampler = one.sampler()
        one.process.kill()
        last = told_since(one)
        end(one)
        wait_for(lambda: gone(sampler), "the sampler lives on")
    told = look(one.run, last)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def kill_all(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of trainer and sampler, either first."""
    with training(rng, folder) as one:
        pids = [one.process.pid, one.sampler()]
        rng.shuffle(pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        last = told_since(one)
        end(one)
    told = look(one.run, last)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def kill_sampler(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of the sampler, up to three times: the training goes on, the gap is told."""
    with training(rng, folder) as one:
        killed = []
        for _ in range(rng.randint(1, 3)):
            pid = one.until_other(*killed)
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            one.until(rng.uniform(0.0, 0.4))
        one.process.send_signal(signal.SIGINT)
        last = told_since(one)
        one.process.wait(PATIENCE_S)
    told = look(one.run, last, samples=False)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    info = wattstep.load(one.run).info
    expect(bool(info.gaps or info.lost), "the gap is not told")
    return told


def interrupt(rng: random.Random, folder: Path) -> Told:
    """Ctrl-C at any moment: the run is closed."""
    with training(rng, folder) as one:
        one.process.send_signal(signal.SIGINT)
        last = told_since(one)
        one.process.wait(PATIENCE_S)
    told = look(one.run, last)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def suspend(rng: random.Random, folder: Path) -> Told:
    """Trainer or sampler stands still for a while, as on a laptop that is closed: of seconds it is told."""
    with training(rng, folder) as one:
        sampler = one.sampler()
        pid = rng.choice([one.process.pid, sampler])
        pause_s = rng.choice([rng.uniform(0.05, 1.5), rng.uniform(2.0, 4.0)])
        os.kill(pid, signal.SIGSTOP)
        time.sleep(pause_s)
        os.kill(pid, signal.SIGCONT)
        one.until(rng.uniform(0.1, 0.5))
        one.process.send_signal(signal.SIGINT)
        last = told_since(one)
        one.process.wait(PATIENCE_S)
    told = look(one.run, last, samples=False)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    run = wattstep.load(one.run)
    notes = " ".join(run.document()["status_notes"])
    if pid == sampler and pause_s > 1.5:
        expect(
            "nothing was sampled for" in notes,
            f"{pause_s:.1f} s without samples are not told: {notes}",
        )
    usual_s = float(np.median(run.tables.steps().seconds))
    if pid != sampler and pause_s > max(1.5, 2 * STOPPED * usual_s):
        expect(
            "was the process stopped" in notes, f"a step of {pause_s:.1f} s is not told: {notes}"
        )
    return told


def set_clock(rng: random.Random, folder: Path) -> Told:
    """The wall clock is set while it records, forward or back: no step is lost or longer, and it is told."""
    ahead_s = rng.choice([-1, 1]) * rng.choice([5.0, 3600.0, 1e6, 1.5e9])
    ended = scripted(folder, lambda: None, rng.uniform(0.5, 1.5), ahead_s)
    expect(ended.returncode == 0, f"clock set by {ahead_s:g} s: {ended.stderr[-300:]}")
    told = look(folder / "run")
    run = wattstep.load(folder / "run")
    steps = run.tables.steps()
    expect(len(steps.index) > 0, "no step was recorded")
    lasted_s = float(steps.end_ns[-1] - steps.start_ns[0]) * 1e-9
    expect(
        lasted_s < PATIENCE_S and bool((steps.seconds > 0).all()),
        f"steps last {lasted_s:.1f} s in all",
    )
    notes = " ".join(run.document()["status_notes"])
    expect("time of day went" in notes, f"a clock set by {ahead_s:g} s is not told: {notes}")
    return told


def few_inodes(rng: random.Random, folder: Path) -> Told:
    """A file system in which so many files can be made: it records, or says in one line why not."""
    most, seconds = rng.randint(1, 25), rng.uniform(0.1, 0.5)
    place = folder / "small"
    place.mkdir()
    # The file system lives as long as the process that mounted it: what lies there is copied out.
    words = (
        f"mount -t tmpfs -o nr_inodes={most},size=64m none {place} || exit 99\n"
        f'"$@"; ended=$?; [ -e {place}/run ] && cp -r {place}/run {folder}/run; exit $ended'
    )
    command = [
        *NAMESPACE,
        "sh",
        "-c",
        words,
        "sh",
        sys.executable,
        "-c",
        SCRIPT,
        str(place / "run"),
        str(seconds),
        "0",
    ]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False
    )
    expect(ended.returncode != 99, f"nothing can be mounted: {ended.stderr[-200:]}")
    return after_script(ended, folder, most)


def fill_disk(rng: random.Random, folder: Path) -> Told:
    """No file may grow beyond a random number of bytes: the training ends as it would, steps are a beginning."""
    most = rng.choice(
        [rng.randint(1, 5_000), rng.randint(200_000, 400_000), rng.randint(1, 3_000_000)]
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    ended = scripted(folder, limit, seconds=rng.uniform(0.3, 1.5))
    return after_script(ended, folder, most)


def starve(rng: random.Random, folder: Path) -> Told:
    """Few descriptors, or little memory: it records, or says in one line why not."""
    kind, most = rng.choice(
        [
            (resource.RLIMIT_NOFILE, rng.randint(8, 40)),
            (resource.RLIMIT_AS, rng.randint(120, 500) << 20),
            (resource.RLIMIT_NPROC, rng.randint(1, 30)),
        ]
    )

    def limit() -> None:
        resource.setrlimit(kind, (most, most))

    ended = scripted(folder, limit, seconds=rng.uniform(0.1, 0.5))
    return after_script(ended, folder, most)


SCRIPT: Final = """
import sys, time, wattstep
wall_ns, set_at, ahead_ns = time.time_ns, float("inf"), round(float(sys.argv[3]) * 1e9)
time.time_ns = lambda: wall_ns() + (ahead_ns if time.monotonic() > set_at else 0)
time.time = lambda: time.time_ns() * 1e-9
trained = False
try:
    with wattstep.Recorder(sys.argv[1], interval="1ms") as recorder:
        begin = time.monotonic()
        end = begin + float(sys.argv[2])
        set_at = (begin + end) / 2
        while time.monotonic() < end:
            with recorder.step(samples=1):
                for name in ("forward", "backward", "optimizer"):
                    recorder.phase(name)
                time.sleep(0.0005)
        trained = True
except wattstep.WattstepError as error:
    print(f"refused: {error}", file=sys.stderr)
    sys.exit(3 if not trained else 4)
except (MemoryError, ImportError):
    sys.exit(5)
print("trained")
"""


def scripted(
    folder: Path, limit: Callable[[], None], seconds: float, ahead_s: float = 0.0
) -> subprocess.CompletedProcess[str]:
    """Somebody's script under a limit, for so many seconds, after half of which its wall clock is set."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder / "run"), str(seconds), str(ahead_s)],
        capture_output=True, text=True, timeout=PATIENCE_S * 2, preexec_fn=limit, check=False,
    )  # fmt: skip


def after_script(ended: subprocess.CompletedProcess[str], folder: Path, most: int) -> Told:
    """Outcome of a script that was given too little."""
    run = folder / "run"
    words = ended.stderr.strip().splitlines() or [""]
    if ended.returncode in (3, 5):  # before it trained
        return Told(opened=False) if not (run / "run.json").exists() else refused_or(run)
    expect(
        ended.returncode == 0, f"limit {most}: it ended with {ended.returncode}: {words[-1][:200]}"
    )
    told = refused_or(run)
    expect(told.opened, f"limit {most}: what was recorded cannot be read")
    return told


def kill_converter(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of who closes a run, at any moment, twice: what is there is the same afterwards."""
    run = folder / "run"
    unclosed_run(run)
    shutil.copytree(run, folder / "other")
    before = wattstep.load(folder / "other").tables.table("steps")
    for _ in range(2):
        code = f"from wattstep.store.convert import convert; from pathlib import Path; convert(Path({str(run)!r}))"
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.0, 0.8))
        child.kill()
        child.wait()
    told = look(run)
    expect(wattstep.load(run).tables.table("steps").equals(before), "steps have changed")
    return told


def cut_files(rng: random.Random, folder: Path) -> Told:
    """One to three files end anywhere: the run is refused, or what is read is a part of what was."""
    run = folder / "run"
    unclosed_run(run)
    if rng.random() < 0.5:
        wattstep.load(run)
    shutil.copytree(run, folder / "other")
    whole = wattstep.load(folder / "other").tables.table("steps", ["index", "start_ns", "end_ns"])
    files = sorted(each for each in run.rglob("*") if each.is_file())
    for path in rng.sample(files, rng.randint(1, 3)):
        os.truncate(path, rng.randint(0, path.stat().st_size))
    told = refused_or(run)
    if told.opened:
        part = wattstep.load(run).tables.table("steps", ["index", "start_ns", "end_ns"])
        expect(part.equals(whole.slice(0, len(part))), "a step is another than it was")
    return told


def two_recorders(rng: random.Random, folder: Path) -> Told:
    """A second recorder into the same folder is refused, and the first goes on."""
    with training(rng, folder) as one:
        ended = scripted(folder, lambda: None, seconds=0.1)
        expect(ended.returncode == 3, f"the second ended with {ended.returncode}")
        one.until(0.1)
        one.process.send_signal(signal.SIGINT)
        last = told_since(one)
        one.process.wait(PATIENCE_S)
    told = look(one.run, last)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def started_server(store: Path) -> subprocess.Popen[str]:
    """A server of a store, on a port that it tells."""
    return subprocess.Popen(
        [*PYTHON, "serve", str(store), "--port", "0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def told_by(server: subprocess.Popen[str]) -> dict[str, Any]:
    """What a server says of itself when it listens."""
    assert server.stdout is not None
    text = ""
    while not text.endswith("}\n") and (line := server.stdout.readline()):
        text += line
    told: dict[str, Any] = json.loads(text)
    return told


def kill_server(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of a server at work leaves no child, and the store as it was."""
    unclosed_run(folder / "runs" / "one")
    wattstep.load(folder / "runs" / "one")
    child = started_server(folder / "runs")
    try:
        port = told_by(child)["port"]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as asked:
            asked.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            time.sleep(rng.uniform(0.0, 1.5))
    finally:
        child.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        child.communicate()
    return look(folder / "runs" / "one")


def kill_server_child(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of a server's child at work: the server goes on, says it in one line, and shows the page after."""
    store = folder / "runs"
    unclosed_run(store / "one")
    wattstep.load(store / "one")
    server = started_server(store)
    try:
        url = told_by(server)["url"].rstrip("/")
        (listed,) = json.loads(asked(url, "/api/runs")[1])["runs"]
        page = f"/runs/{listed['id']}"
        asked(url, page)
        time.sleep(rng.uniform(0.0, 1.0))
        children = Path(f"/proc/{server.pid}/task").glob("*/children")
        pids = [int(pid) for each in children for pid in each.read_text().split()]
        for pid in pids[: rng.randint(1, 2)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = asked(url, "/")[0]
        expect(status == 200, f"the list has status {status}")

        def shown() -> bool:
            status = asked(url, page)[0]
            expect(status in (200, 202, 422), f"the page has status {status}")
            return status == 200

        wait_for(shown, "the page of the run does not come again")
    finally:
        server.terminate()
        server.communicate()
    return look(store / "one")


def asked(url: str, page: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"{url}{page}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def kill_sweep(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of a sweep at any moment; the same command again finishes it, each configuration once."""
    words = [
        *PYTHON, "sweep", "--workloads", "lenet", "--batch", "1,2", "--threads", "1", "--steps", "6",
        "--trace", "none", "--out", str(folder / "sweep"), "--quiet",
    ]  # fmt: skip
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.5, 25.0))
    child.kill()
    child.wait()
    again = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    expect(again.returncode == 0, f"again: {again.stderr[-200:]}")
    from wattstep.sweep.folder import load_sweep

    outcomes = load_sweep(folder / "sweep").outcomes
    names = sorted(each.configuration.name for each in outcomes)
    expect(len(names) == len(set(names)) == 2, f"configurations: {names}")
    runs = [each.run for each in outcomes if each.run]
    return [look(folder / "sweep" / run) for run in runs if run][-1]


def wait_for(done: Callable[[], bool], words: str) -> None:
    """Waits for something that is promised."""
    until = time.monotonic() + PATIENCE_S
    while not done():
        expect(time.monotonic() < until, words)
        time.sleep(0.02)


# How often each comes, beside the others.
FAULTS: Final[dict[str, tuple[Callable[[random.Random, Path], Told], int]]] = {
    "trainer killed": (kill_trainer, 4),
    "trainer and sampler killed": (kill_all, 4),
    "sampler killed": (kill_sampler, 3),
    "Ctrl-C": (interrupt, 2),
    "converter killed": (kill_converter, 3),
    "sweep killed": (kill_sweep, 1),
    "server killed": (kill_server, 1),
    "server's child killed": (kill_server_child, 1),
    "disk full at a random byte": (fill_disk, 4),
    "files cut at random": (cut_files, 6),
    "descriptors, memory or processes exhausted": (starve, 3),
    "inodes exhausted": (few_inodes, 2),
    "suspended and resumed": (suspend, 2),
    "clock set": (set_clock, 1),
    "two recorders at once": (two_recorders, 1),
}


def torture(minutes: float, seed: int, only: str | None = None) -> dict[str, Row]:
    """Faults in random order until the time is over; what became of them.

    Args:
        minutes: How long.
        seed: Of the order, and of each fault.
        only: Part of the name of the faults that count; None: all.
    """
    names = [name for name in FAULTS if only is None or only.lower() in name.lower()]
    weights = [FAULTS[name][1] for name in names]
    rng = random.Random(seed)
    rows = {name: Row() for name in names}
    until = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < until:
        name = rng.choices(names, weights)[0]
        one(name, rows[name], f"{seed} {number}")
        number += 1
    return rows


def one(name: str, row: Row, seed: str) -> None:
    """One fault; what became of it goes into its row."""
    row.times += 1
    os.environ[MARK] = mark = seed.replace(" ", "-")
    with tempfile.TemporaryDirectory(prefix="wattstep-torture-") as made:
        try:
            told = FAULTS[name][0](random.Random(f"{name} {seed}"), Path(made))
            wait_for(lambda: not left_behind(mark), f"left behind: {left_behind(mark)}")
        except Exception as error:
            words = (
                str(error)
                if isinstance(error, UnexplainedError)
                else traceback.format_exc(limit=-4)
            )
            row.unexplained.append(f"{name}, {seed}: {words}")
            print(row.unexplained[-1], file=sys.stderr, flush=True)
            return
    row.opened += told.opened
    row.refused += not told.opened
    row.lost_steps = max(row.lost_steps, told.lost_steps)
    row.lost_s = max(row.lost_s, told.lost_s)


def table(rows: dict[str, Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| fault | times | opened again | refused by name | steps lost, most | samples lost, most | unexplained |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {row.times} | {row.opened} | {row.refused} | {row.lost_steps} | {row.lost_s:.2f} s | "
        f"{len(row.unexplained)} |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints the table; exit code 1 where something is unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="faults whose name holds this")
    given = parser.parse_args()
    os.environ.setdefault("WATTSTEP_FAIL_LOUDLY", "1")
    rows = torture(given.minutes, given.seed, given.only)
    print(table(rows), flush=True)
    sys.exit(1 if any(row.unexplained for row in rows.values()) else 0)


if __name__ == "__main__":
    main()
