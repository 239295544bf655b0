"""Folders that a process holds: the next one removes what a killed one left, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from wattstep.schema.processes import child_command, tidied_at_sigterm
from wattstep.store.held import HeldFolder


def test_a_folder_is_held_while_its_process_lives_and_removed_after_it(tmp_path: Path) -> None:
    with HeldFolder(tmp_path, ".x-") as first, HeldFolder(tmp_path, ".x-") as second:
        assert first.is_dir()
        assert second.is_dir()
        (first / "inside").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    others = [tmp_path / name for name in (".x-foreign", ".y-0")]  # not made by us, of another name
    for folder in others:
        folder.mkdir()
    (tmp_path / ".x-file").touch()
    (tmp_path / ".x-link").symlink_to(others[1])
    (others[1] / "held").touch()
    code = (
        "import os, sys; from pathlib import Path; from wattstep.store.held import HeldFolder;"
        "print(HeldFolder(Path(sys.argv[1]), '.x-').path.name, flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    left = tmp_path / killed.stdout.strip()
    assert (left / "held").exists()
    with HeldFolder(tmp_path, ".x-") as mine:
        assert not left.exists()
        names = sorted(each.name for each in tmp_path.iterdir())
        assert names == sorted([mine.name, ".x-foreign", ".y-0", ".x-file", ".x-link"])


def test_sigterm_ends_what_tidies_up_by_an_exception(tmp_path: Path) -> None:
    command = child_command("tests.store.test_held:terminated", str(tmp_path))
    ended = subprocess.run(command, check=False, timeout=600)
    assert ended.returncode == 143  # as a shell says of SIGTERM
    assert list(tmp_path.iterdir()) == []


def terminated() -> int:
    """Of a process that SIGTERM ends while it holds a folder."""
    with tidied_at_sigterm(), HeldFolder(Path(sys.argv[1]), ".x-"):
        os.kill(os.getpid(), signal.SIGTERM)
    return 0
