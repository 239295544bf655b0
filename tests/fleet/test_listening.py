"""What a child says on its pipe reaches us whole, also around Ctrl-C and a line that its end cut off."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
from typing import Any

from wattstep.schema.processes import listen, readable

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
