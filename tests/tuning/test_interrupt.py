"""Ctrl-C at each place of a tune: it ends there, keeps its turns, leaves no process, and the same command goes on."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.tuning.seated import BUSY
from tests.waiting import until

from wattstep.schema.processes import child_command
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings
from wattstep.tune import processes
from wattstep.tune.processes import ScriptBench, WorkloadBench
from wattstep.tune.space import DEFAULT, Candidate, parse_turned
from wattstep.tune.tuning import Question, tune
from wattstep.tune.turns import Ask, Bench, Turn

SETTINGS = TrainingSettings(workload="mlp", trace="none", threads=1)
QUESTION = Question(settings=SETTINGS, turned=parse_turned("optimizer-kernel"))
TURNS = "turns.jsonl"
MADE = {
    "wattstep.tune.seats:main": "tests.tuning.seated:main",
    "wattstep.tune.script_turn:main": "tests.tuning.seated:script",
}


@pytest.fixture(autouse=True)
def made_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Children that make their steps up, waiting for nobody else's; SIGINT as in a terminal."""

    def made(*words: str) -> list[str]:
        return child_command(*(MADE.get(word, word) for word in words))

    monkeypatch.setattr(processes, "child_command", made)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # which has the machine's lock
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(call: Callable[..., Any], numbers: set[int]) -> Callable[..., Any]:
    """The same, with SIGINT to this process alone as these calls of it begin."""
    count = 0

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count in numbers:
            signal.raise_signal(signal.SIGINT)
        return call(*arguments, **named)

    return called


def begin(bench: Bench, candidate: Candidate = DEFAULT) -> Turn:
    return bench.measure(Ask(stage="one by one", round=0, candidate=candidate, steps=1, begin=True))


def interrupt_after_turns(bench: WorkloadBench) -> None:
    """The first Ctrl-C, with two processes open."""
    for name in ("keep", "keep-huge"):
        assert not begin(bench, DEFAULT.with_value("allocator", name)).refused
    raise KeyboardInterrupt


def no_child_is_left() -> bool:
    return not any(map(_is_seated, psutil.Process().children(recursive=True)))


def _is_seated(child: psutil.Process) -> bool:
    try:
        return any("seated" in word for word in child.cmdline())
    except psutil.Error:  # another test's, which has ended
        return False


# A child is waited for while it starts (1) and while it makes its steps; processes are ended before
# the curves, between them, and between rounds of the verdict.
@pytest.mark.parametrize(
    ("place", "number"),
    [("readable", 1), ("readable", 2), ("readable", 7), ("wait", 1), ("wait", 2), ("wait", 5)],
)
def test_interrupted_tune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    folder = tmp_path / "tune"
    owner: Any = processes if place == "readable" else subprocess.Popen
    with monkeypatch.context() as patched:
        patched.setattr(owner, place, interrupting(getattr(owner, place), {number}))
        with pytest.raises(KeyboardInterrupt):
            tune(QUESTION, folder)
    assert no_child_is_left()
    kept = (folder / TURNS).read_bytes()
    tune(QUESTION, folder)
    whole = (folder / TURNS).read_bytes()
    assert whole.startswith(kept)
    assert len(whole) > len(kept)
    asks = [line.partition(b", ")[0] for line in whole.splitlines()]
    assert len(set(asks)) == len(asks)


def test_second_interrupt_while_processes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "wait", interrupting(subprocess.Popen.wait, {1}))
        with pytest.raises(KeyboardInterrupt), WorkloadBench(SETTINGS) as bench:
            interrupt_after_turns(bench)
    assert no_child_is_left()


@pytest.mark.parametrize(
    "made", [WorkloadBench(SETTINGS), ScriptBench(ProfileSettings(script=__file__))]
)
def test_interrupted_turn_of_a_busy_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: WorkloadBench | ScriptBench
) -> None:
    """It is stopped by the same signal, not waited for and killed."""
    busy = tmp_path / "busy"
    ended: list[subprocess.Popen[bytes]] = []
    monkeypatch.setenv(BUSY, str(busy))
    interrupt = processes.SeatedProcess.interrupt

    def interrupted(process: processes.SeatedProcess) -> None:
        ended.append(process.process)
        interrupt(process)

    def stopped(*_: Any) -> bool:
        until(busy.exists)
        signal.raise_signal(signal.SIGINT)
        return False

    monkeypatch.setattr(processes.SeatedProcess, "interrupt", interrupted)
    monkeypatch.setattr(processes, "readable", stopped)
    with pytest.raises(KeyboardInterrupt), made as bench:
        begin(bench)
    assert [child.returncode for child in ended] == [130]


def test_interrupt_while_a_dead_child_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate is not refused for it."""
    monkeypatch.setattr(subprocess.Popen, "wait", interrupting(subprocess.Popen.wait, {1}))
    monkeypatch.setattr(processes, "child_command", lambda *_: child_command("no_such_module:main"))
    with pytest.raises(KeyboardInterrupt), WorkloadBench(SETTINGS) as bench:
        begin(bench)
