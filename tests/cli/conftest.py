"""The command line where nothing is yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import Command, wattstep


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs a command in an empty folder, as in a pipe; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        done = wattstep(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def command(piped: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Likewise, in 110 columns."""
    monkeypatch.setenv("COLUMNS", "110")
    return piped
