"""What a child says on its pipe reaches us whole, also around Ctrl-C and a line that its end cut off."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from wattstep.engines.exported.engine import in_child
from wattstep.schema.processes import listen, readable
from wattstep.train.child.child import GuardedChild
from wattstep.train.child.limits import Cage
from wattstep.train.child.verdict import judge

CHILD = """
import os, sys, time
out = int(sys.argv[1])
os.write(out, b'{"n": 1}\\n{"n": 2}\\n{"n"')
time.sleep(0.3)
os.write(out, b': 3}\\n{"n": 4}')
"""


def heard(take: Any, look: Any = lambda silent_s: None, every_s: float = 0.05) -> bool:
    reading, writing = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(writing)], pass_fds=[writing])
    os.close(writing)
    try:
        return listen(reading, take, look, every_s)
    finally:
        child.wait()


def test_lines_come_whole_and_one_that_was_cut_off_is_none() -> None:
    told: list[Any] = []
    looks: list[float] = []
    assert heard(told.append, looks.append) is False
    assert told == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert len(looks) > 3  # also while nothing was said
    assert max(looks) >= 0.05


def test_ctrl_c_is_remembered_and_the_rest_is_still_heard() -> None:
    told: list[Any] = []

    def interrupted(news: dict[str, Any]) -> None:
        told.append(json.dumps(news))
        if news["n"] == 1:
            raise KeyboardInterrupt

    assert heard(interrupted) is True
    assert told == ['{"n": 1}', '{"n": 2}', '{"n": 3}']


def ending() -> int:
    """Entry of a child that ends well."""
    os.write(int(sys.argv[1]), b'{"progress": {"steps": 3}}\n')
    return 0


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SIGINT, as in a terminal, once a child's end is waited for."""
    wait = subprocess.Popen.wait

    def interrupted(child: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        monkeypatch.setattr(subprocess.Popen, "wait", wait)
        signal.raise_signal(signal.SIGINT)
        return child.wait(timeout)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("late")
def test_ctrl_c_while_a_child_ends_well_stops_a_sweep() -> None:
    free = Cage(limit=None, folder=None)
    ended = GuardedChild("tests.fleet.test_listening:ending", [], free).follow(lambda news: None)
    assert (ended.code, ended.steps, ended.interrupted) == (0, 3, True)
    assert judge(ended, free, "", began_s=0.0)[0] == "interrupted"


@pytest.mark.usefixtures("late")
def test_ctrl_c_while_an_export_ends_well_stops_what_it_is_for() -> None:
    with pytest.raises(KeyboardInterrupt):
        in_child("the export", "tests.fleet.test_listening:ending")


def test_a_pipe_with_a_high_number_is_waited_for() -> None:
    """As in a training that holds thousands of files open, which `select` refuses."""
    reading, writing = os.pipe()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    try:
        high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1500)
        assert not readable(high, 0.0)
        os.write(writing, b"x")
        assert readable(high, 10.0)
        os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(reading)
        os.close(writing)
