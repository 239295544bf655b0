"""Settings of all tests: short by default, thorough with --hypothesis-profile=long."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("short")

# What fails inside of a part of an answer is raised, here and in processes that tests start: where
# users get a line in its place, a test fails.
os.environ.setdefault("WATTSTEP_STRICT", "1")

# With a thread for each core, every operation waits for whichever of them something else keeps from
# its core: on four cores of which one is taken, sixty times as long as with three threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Started in the background (nohup make test &), a shell has SIGINT ignored, and what the tests
# start would inherit that: a test that sends Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BOARDS = Path(__file__).parent / "fixtures" / "boards"


def unpack_board(name: str, root: Path) -> Path:
    """Writes the tree of a board below a folder: a line "path: text" is a file, "a -> b" a link."""
    for line in (BOARDS / f"{name}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        link, arrow, target = line.partition(" -> ")
        name, _, text = line.partition(": ")
        path = root / (link if arrow else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            path.symlink_to(target)
        else:
            end = "" if text.endswith("\\0") else "\n"
            path.write_text(text.replace("\\0", "\0") + end)
    return root


@pytest.fixture
def board_tree(tmp_path: Path) -> Callable[[str], Path]:
    """A function that makes the tree of a board and returns its root."""
    return lambda name: unpack_board(name, tmp_path / name)
