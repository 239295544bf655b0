"""A conversion is all or nothing: its process is killed at every place where that could show."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.conftest import table
from tests.store.test_convert import a_busy_run

from wattstep.run import load
from wattstep.store.files import read_info

KILLED = """
import os, signal, sys
from pathlib import Path
from wattstep.store import convert

def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def half_removed(run, name):
    with run.inside(name) as journal:
        journal.remove("marks.bin")
        journal.remove("operations.bin")
    killed()

place = sys.argv[2]
if place == "removing the journal":
    convert.Folder.remove_folder = half_removed
elif place == "renaming the tables":
    rename, seen = convert.Folder.rename, []
    def second(folder, old, new):
        rename(folder, old, new)
        seen.append(old)
        if len(seen) == 2:
            killed()
    convert.Folder.rename = second
elif place == "syncing the folder":
    convert.Folder.sync = killed
else:
    setattr(convert, place, killed)
convert.convert(Path(sys.argv[1]))
"""
PLACES = [
    "step_columns",
    "operation_columns",
    "renaming the tables",
    "syncing the folder",
    "write_info",
    "removing the journal",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_conversion_that_was_killed_is_done_again(tmp_path: Path, place: str) -> None:
    run = a_busy_run(tmp_path / "run").path
    done = subprocess.run([sys.executable, "-c", KILLED, str(run), place], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (run / "journal").is_dir()
    opened = load(run)
    assert opened.info.state == ("closed" if place == "removing the journal" else "recovered")
    assert len(table(run, "steps")) == 12
    assert len(table(run, "operations")) == 20
    assert {path.suffix for path in run.iterdir()} == {".json", ".parquet"}


LOADER = """
import sys
from pathlib import Path
from wattstep.run import load
sys.stdin.readline()
print(len(load(sys.argv[1]).tables.steps().index))
"""


def test_several_processes_may_recover_a_run_at_once(tmp_path: Path) -> None:
    run = a_busy_run(tmp_path / "run").path
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", LOADER, str(run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.write("go\n")
        reader.stdin.flush()
    assert [reader.communicate()[0].strip() for reader in readers] == ["12"] * 4
    assert read_info(run).state == "recovered"
    assert not (run / "journal").exists()
