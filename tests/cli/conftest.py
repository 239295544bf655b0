"""The command line where nothing is yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import Command, wattstep


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs a command in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def run(*arguments: object) -> tuple[int, str, str]:
        done = wattstep(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run
