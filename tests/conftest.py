"""Settings of all tests: short by default, thorough with --hypothesis-profile=long."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.tiers import LONG, MAY_RERUN, SMOKE, SYSTEM, TIERS, listed, tiers_of

settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("short")

# What fails inside of a part of an answer is raised, here and in processes that tests start: where
# users get a line in its place, a test fails.
os.environ.setdefault("WATTSTEP_FAIL_LOUDLY", "1")

# With a thread for each core, every operation waits for whichever of them something else keeps from
# its core: on four cores of which one is taken, sixty times as long as with three threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the caller's terminal is like: with COLUMNS=80 a piped page folds, and sentences that tests look for break.
for variable in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(variable, None)

# Started in the background (nohup make test &), a shell has SIGINT ignored, and what the tests
# start would inherit that: a test that sends Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tier`: the tests of one target of the Makefile."""
    parser.addoption("--tier", choices=TIERS, help="the tests of one target: see tests/tiers.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Passes over files in which no test is of the tier: importing them takes longer than some tests."""
    if collection_path.is_dir() or not collection_path.is_relative_to(TESTS):
        return None
    tier = config.getoption("--tier")
    if tier is None or collection_path.suffix != ".py":
        return None
    place, source = collection_path.relative_to(TESTS).as_posix(), collection_path.read_text()
    return True if tier not in tiers_of(place, source) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests as `tiers.py` says, and leaves out those of other tiers."""
    for item in items:
        place = item.path.relative_to(TESTS).as_posix()
        test = f"{place}::{getattr(item, 'originalname', item.name)}"
        if listed(test, SYSTEM):
            item.add_marker(pytest.mark.system)
        if test in LONG:
            item.add_marker(pytest.mark.long)
        if test in SMOKE:
            item.add_marker(pytest.mark.smoke)
        if test in MAY_RERUN:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=2))
    if (tier := config.getoption("--tier")) is not None:
        of_tier = [tier in tiers_of_marks(item) for item in items]
        config.hook.pytest_deselected(items=[*compress(items, map(not_, of_tier))])
        items[:] = compress(items, of_tier)


def tiers_of_marks(item: pytest.Item) -> tuple[str, ...]:
    """The tiers of a test."""
    if item.get_closest_marker("long") is not None:
        return ("long",)
    if item.get_closest_marker("system") is None:
        return ("test",)
    return ("test", "system") if item.get_closest_marker("smoke") else ("system",)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many tests were run again, and which."""
    again = [report.nodeid for report in terminalreporter.getreports("rerun")]
    terminalreporter.write_line(
        f"run again: {len(again)} (tests/tiers.py names {len(MAY_RERUN)} that may be)"
    )
    for name in dict.fromkeys(again):
        terminalreporter.write_line(f"  {name}")


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, for the tests of one file."""
    from playwright.sync_api import sync_playwright
    from tests.chromium import launched

    with sync_playwright() as driver:
        chromium = launched(driver)
        yield chromium
        chromium.close()


@pytest.fixture
def board_tree(tmp_path: Path) -> Callable[[str], Path]:
    """A function that makes the tree of a board and returns its root."""
    return lambda name: unpack_board(name, tmp_path / name)
