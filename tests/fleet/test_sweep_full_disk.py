"""A sweep onto a disk that is full: a real one of four megabytes; one clear line, and it continues."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_disks import disk_of
from tests.wording import assert_says

from wattstep.sweep.folder import read_outcomes


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of(tmp_path / "small", "4m") as folder:
        yield folder


def fill(path: Path, *, but: int) -> None:
    """Takes the whole disk, then lets go of `but` bytes."""
    with path.open("wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass
        os.truncate(file.fileno(), max(file.seek(0, os.SEEK_END) - but, 0))


def sweep(out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattstep", "sweep", "--workloads", "lenet", "--batch", "1,2",
         "--threads", "1", "--steps", "2", "--warmup", "1", "--cooldown", "none", "--quiet",
         "--out", str(out)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def test_on_a_full_disk_a_sweep_ends_in_one_line_and_goes_on_when_there_is_room(
    small_disk: Path,
) -> None:
    filler, out = small_disk / "filler", small_disk / "swept"
    for room in (4096, 64 * 1024):  # not enough for the sweep's own files; for a run's beginning
        fill(filler, but=room)
        done = sweep(out)
        assert done.returncode == 2, (room, done.stderr)
        assert "Traceback" not in done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith("wattstep: "), (room, done.stderr)
        assert os.strerror(errno.ENOSPC) in last
        assert_says(last, "the same command")
        assert not any(one.final for one in read_outcomes(out, print).values())
        filler.unlink()

    done = sweep(out)
    assert done.returncode == 0, done.stderr
    assert [one.status for one in read_outcomes(out, pytest.fail).values()] == ["trained"] * 2
