"""A short stretch of each campaign: strangers' folders (`make fuzz`) and faults at random (`make torture`)."""

from __future__ import annotations

import subprocess
import sys

import pytest


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
