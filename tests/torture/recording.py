"""Faults of a run that is recorded here, or was: trainer, sampler, collector, converter, files, limits, clocks."""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from tests.faults.conftest import Trainer
from tests.faults.foreign import unclosed_run
from tests.torture.promises import Told, expect, look, refused_or, wait_for
from tests.waiting import PATIENCE_S, gone

import wattstep
from wattstep.run.report import STOPPED

NAMESPACE: Final = ("unshare", "--map-root-user", "--mount")  # in which one may mount


@contextlib.contextmanager
def training(
    rng: random.Random, folder: Path, steps: int = 10**6, target: str = "local"
) -> Iterator[Trainer]:
    """A trainer at work, for a random while."""
    one = Trainer(folder / "run", steps, "sleep", rng.choice(["1ms", "10ms", "50ms"]), target)
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


def kill_collector(rng: random.Random, folder: Path) -> Told:
    """`kill -9` of what runs feeds: only theirs end, up to a second before, and it is told."""
    rows = (f"{n * 0.02:.2f},{1 + n / 1000}\n" for n in range(10_000))
    (folder / "feed.csv").write_text("t_s,power [W]\n" + "".join(rows))
    with training(rng, folder, target=f"replay:{folder / 'feed.csv'}") as one:
        os.kill(one.collector(), signal.SIGKILL)
        killed_ns = one.step()[1]
        one.until(rng.uniform(0.1, 0.5))
        one.process.send_signal(signal.SIGINT)
        last = told_since(one)
        one.process.wait(PATIENCE_S)
    told = look(one.run, last)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    run = wattstep.load(one.run)
    t_ns, value, _ = run.tables.samples().get("power", (np.empty(0), np.empty(0), None))
    expect(np.allclose(value, 1 + np.arange(len(value)) / 1000), "the feed has other values")
    expect(
        "replay" in " ".join(run.info.notes) and "replay" in run.info.lost,
        f"the end of the feed is not told: {run.info.notes}",
    )
    if len(t_ns):
        told.lost_s = max(told.lost_s, (killed_ns - int(t_ns[-1])) * 1e-9)
    return told


DEVICES: Final = {f"sys/class/thermal/thermal_zone{n}": 40_000 + 1_000 * n for n in range(4)}


def pull_cables(rng: random.Random, folder: Path) -> Told:
    """Files of devices give nothing, or no numbers, for a while or for good: theirs is a gap, others go on."""
    root = folder / "root"
    for place, (name, value) in zip("abcd", DEVICES.items(), strict=True):
        (root / name).mkdir(parents=True)
        (root / name / "type").write_text(f"{place}-therm\n")
        (root / name / "temp").write_text(f"{value}\n")
    pulled = rng.sample("abcd", rng.randint(1, 3))
    paths = {place: root / name / "temp" for place, name in zip("abcd", DEVICES, strict=True)}
    with training(rng, folder, target=f"below:{root}") as one:
        before_ns = one.step()[1]
        for place in pulled:
            paths[place].write_bytes(rng.choice([b"", b"\n", b"no device\n", b"\xff\0"]))
        pulled_ns = one.step()[1]
        one.until(rng.uniform(0.2, 0.6))
        back = rng.sample(pulled, rng.randint(0, len(pulled)))
        plugged_ns = one.step()[1]
        for place in back:
            paths[place].write_text("50000\n")
        one.until(rng.uniform(0.2, 0.6))
        one.process.send_signal(signal.SIGINT)
        last = told_since(one)
        one.process.wait(PATIENCE_S)
    told = look(one.run, last, samples=False)  # of a made tree no process is read
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    told.lost_s = 0.0
    samples = wattstep.load(one.run).tables.samples()
    for place, honest in zip("abcd", DEVICES.values(), strict=True):
        t_ns, value, _ = samples[f"thermal.{place}_therm"]
        there = np.isfinite(value)
        expect(
            set(value[there].tolist()) <= {honest / 1000, *([50.0] if place in back else [])},
            f"{place} has values that nobody wrote: {set(value[there].tolist())}",
        )
        if place not in pulled:
            expect(bool(there.all()), f"{place} was not pulled, and lacks samples")
            lost_s = (last[1] - int(t_ns[-1])) * 1e-9
            expect(lost_s < 1.0, f"{place} was not pulled, and ends {lost_s:.2f} s early")
            told.lost_s = max(told.lost_s, lost_s)
        else:
            gap = there & (t_ns > pulled_ns) & (t_ns < plugged_ns)
            expect(not gap.any(), f"{place} has values while it was pulled")
            expect(bool((there & (t_ns < before_ns)).any()), f"{place} lacks what came before")
    return told


def interrupted(one: Trainer) -> Told:
    """What a recording has that Ctrl-C ends: all of its steps."""
    one.process.send_signal(signal.SIGINT)
    last = told_since(one)
    one.process.wait(PATIENCE_S)
    told = look(one.run, last)
    expect(told.lost_steps == 0, f"{told.lost_steps} steps are lost")
    return told


def interrupt(rng: random.Random, folder: Path) -> Told:
    """Ctrl-C at any moment: the run is closed."""
    with training(rng, folder) as one:
        return interrupted(one)


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
    seconds = run.series.steps.seconds[run.series.steps.clean]
    usual_s = float(np.median(seconds)) if len(seconds) else math.inf
    # In a step of the warm-up it is in no figure; of a few steps one may be as long as it likes.
    seen = len(seconds) >= STOPPED and float(seconds.max()) > pause_s
    if pid != sampler and seen and pause_s > max(1.5, 2 * STOPPED * usual_s):
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
    most, seconds = rng.randint(1, 45), rng.uniform(0.1, 0.5)
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
        return interrupted(one)


def six_recorders(rng: random.Random, folder: Path) -> Told:
    """Six record beside each other and end, each in its own way: none loses a step, or its last second."""
    with contextlib.ExitStack() as stack:
        six = [stack.enter_context(training(rng, folder / str(number))) for number in range(6)]
        lasts = []
        for one in six:
            one.process.send_signal(rng.choice([signal.SIGINT, signal.SIGKILL]))
            lasts.append(told_since(one))
            end(one)
    told = [look(one.run, last) for one, last in zip(six, lasts, strict=True)]
    expect(not any(each.lost_steps for each in told), "steps are lost")
    return max(told, key=lambda each: each.lost_s)
