"""A short stretch of each campaign: strangers' folders, faults at random, and a recording of any length."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

MADE = [sys.executable, Path(__file__).parents[2] / "benchmarks" / "long_recording.py"]
MADE += ["--keep", "raw=20s,steps=20s"]


@pytest.mark.parametrize(
    "words",
    [
        ("tests.mutations", "--folders", "12", "--seed", "5"),
        ("tests.torture", "--minutes", "0.1", "--only", "cut"),
        ("tests.torture", "--minutes", "0.1", "--only", "trainer killed"),
        ("tests.torture", "--minutes", "0.1", "--only", "disk"),
    ],
    ids=" ".join,
)
def test_a_campaign_finds_nothing_unexplained(words: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=900
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _long(folder: Path, *words: str) -> subprocess.Popen[Any]:
    """A made recording in small segments, all of whose files are in a folder."""
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder), "WATTSTEP_SEGMENT": "0.25"}
    return subprocess.Popen([*MADE, *words], stdout=subprocess.PIPE, text=True, env=environment)


def test_totals_of_a_thinned_recording_are_those_that_its_maker_added_up(tmp_path: Path) -> None:
    with _long(tmp_path / "made", "--hours", "0.1", "--batch-size", "32", "--json") as made:
        said, _ = made.communicate(timeout=900)

    assert made.returncode == 0
    apart = json.loads(said)["apart from what was made"]
    assert apart["steps"] == round(360 / 1.7e-3)
    assert apart["steps_that_stay"] < apart["steps"] / 2
    assert max(value for name, value in apart.items() if name.startswith("of_")) < 1e-12
    assert not [*(tmp_path / "made").iterdir()]


def test_a_long_recording_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with _long(folder, "--hours", "200") as made:
        deadline = time.monotonic() + 300
        while not [*folder.glob("*/run/journal/*.parquet")] and time.monotonic() < deadline:
            time.sleep(0.05)
        packers = Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()
        made.send_signal(signal.SIGTERM)
        assert made.wait(300) == 128 + signal.SIGTERM

    assert packers
    assert not [pid for pid in packers if Path(f"/proc/{pid}").exists()]
    assert not [*folder.iterdir()]
