"""An export is written in one piece or not at all, never over something else, and says what it wrote."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line import wattstep
from tests.exporting.made import Did, write_made
from tests.refusals import refused
from tests.run.made import Sampled as MadeSamples
from tests.run.made import import_made, make_run, power
from tests.small_disks import disk_of
from tests.wording import assert_says

from wattstep.report.export import FORMATS
from wattstep.report.export.export import export_run, targets

RECORDED = Path(__file__).parents[2] / "tests/fixtures/runs/schema-1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_made(tmp_path / "mine")


@pytest.mark.parametrize("to", FORMATS)
def test_json_says_what_was_written(to: str, run: Path, tmp_path: Path) -> None:
    done = wattstep("export", run, "--to", to, "--json", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["exports"]
    path = tmp_path / told["path"]
    assert told["path"] == f"mine{FORMATS[to].suffix}"
    files = [path] if path.is_file() else list(path.iterdir())
    assert told["bytes"] == sum(file.stat().st_size for file in files)
    assert told["counts"]["operations"] == 8
    assert (told["run"], told["to"]) == (str(run), to)
    assert done.stderr == ""


@pytest.mark.parametrize("to", FORMATS)
def test_what_is_there_is_replaced_only_when_asked(to: str, run: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    export_run(run, to, target)
    before = {path: path.stat().st_ino for path in [target, *target.glob("*")]}
    with refused("export-exists", "-o", "--force"):
        export_run(run, to, target)
    assert {path: path.stat().st_ino for path in [target, *target.glob("*")]} == before
    export_run(run, to, target, force=True)
    assert target.stat().st_ino != before[target]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]  # nothing beside it


def test_force_never_removes_what_no_export_wrote(run: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("dear")
    (home / "steps.csv").write_text("mine too")
    with refused("not-an-export", "'thesis.tex'"):
        export_run(run, "csv", home, force=True)
    with refused("export-is-a-folder"):
        export_run(run, "perfetto", home, force=True)
    with refused("export-is-a-run"):
        export_run(run, "parquet", run, force=True)
    assert (home / "thesis.tex").read_text() == "dear"
    assert (run / "run.json").exists()


def test_each_of_several_runs_has_a_file_of_its_own(tmp_path: Path) -> None:
    for place in ("a/one", "b/one", "b/two"):
        write_made(tmp_path / place, (), {})
    done = wattstep("export", "a", "b", "--to", "chrome", "-o", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["one-2.json", "one.json", "two.json"]
    assert [row["run"] for row in json.loads(done.stdout)["exports"]] == ["a/one", "b/one", "b/two"]


def test_names_that_are_numbered_take_no_others_place() -> None:
    runs = [Path("a/x"), Path("b/x-2"), Path("c/x")]
    found = [path.name for path in targets(runs, "csv", Path("out"))]
    assert found == ["x-csv", "x-2-csv", "x-3-csv"]


def test_a_damaged_run_is_told_of_and_the_others_are_written(tmp_path: Path) -> None:
    write_made(tmp_path / "runs/good", (), {})
    write_made(tmp_path / "runs/bad", (), {})
    (tmp_path / "runs/bad/operations.parquet").write_bytes(b"PAR1 no")
    done = wattstep("export", "runs", "--to", "perfetto", "--json", cwd=tmp_path)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert [row["run"] for row in document["exports"]] == ["runs/good"]
    assert document["damaged"][0]["run"] == "runs/bad"
    assert_says(done.stderr, "left out", "operations.parquet of runs/bad")
    assert [path.name for path in (tmp_path / "export").iterdir()] == ["good.perfetto-trace"]
    alone = wattstep("export", "runs/bad", "--to", "csv", cwd=tmp_path)
    assert alone.returncode == 2
    assert alone.stderr.count("\n") == 1
    assert not (tmp_path / "bad-csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere", "--to", "csv"), "nowhere: there is no such run"),
        (("mine", "--to", "excel"), "--to 'excel': there are perfetto, chrome, csv, parquet"),
        (("mine", "--to", "parquet", "-o", "a.zip"), "-o a.zip: it is a folder of Parquet files"),
    ],
)
def test_bad_input_is_one_line_and_2(
    arguments: tuple[str, ...], said: str, run: Path, tmp_path: Path
) -> None:
    done = wattstep("export", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"wattstep: {said}")
    assert done.stderr.count("\n") == 1


def test_a_run_that_was_never_closed_is_recovered_and_says_so(tmp_path: Path) -> None:
    script = (
        "import os, sys, wattstep\n"
        "recorder = wattstep.Recorder(sys.argv[1], trace='none').start()\n"
        "for _ in range(20):\n"
        "    with recorder.step(samples=1): pass\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "killed")], check=False)
    assert (tmp_path / "killed/journal").exists()
    found = export_run(tmp_path / "killed", "csv", tmp_path / "out")
    assert found.written.counts["steps"] == 20
    assert json.loads((tmp_path / "killed/run.json").read_text())["state"] == "recovered"


def test_recorded_imported_and_emulated_runs_are_exported(tmp_path: Path) -> None:
    make_run(tmp_path / "made", [MadeSamples(channel=power(), raw=lambda t_ns: 5000)])
    import_made(tmp_path / "imported", {"trace": {"format": "Kineto trace", "file": "a.json"}},
                steps=[(0, 1), (1, 2)])  # fmt: skip
    import_made(tmp_path / "totals", {"trace": {"format": "nvprof CSV", "file": "a.csv"}}, totals=[
        {"name": "gemm", "kind": "kernel", "processor": "gpu0", "calls": 3, "total_s": 0.5}])  # fmt: skip
    for run in (tmp_path / "made", tmp_path / "imported", tmp_path / "totals", RECORDED):
        for to in FORMATS:
            export_run(run, to, tmp_path / f"{run.name}.{to}")
    assert (tmp_path / "totals.csv/summaries.csv").read_text().splitlines()[1].startswith('"gemm"')


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of(tmp_path / "small", "200k") as folder:
        yield folder


@pytest.mark.parametrize(
    "name", ["a.perfetto-trace", "a.json", "a.json.gz", "csv", "a.zip", "parquet"]
)
def test_a_full_disk_leaves_nothing_half(name: str, small_disk: Path, tmp_path: Path) -> None:
    many = [Did(name=f"{os.urandom(24).hex()}", start=n, end=n + 1) for n in range(15_000)]
    run = write_made(tmp_path / "run", many, {})
    to = {"a": "perfetto", "csv": "csv", "parquet": "parquet"}[name.partition(".")[0]]
    to = {"json": "chrome", "zip": "csv"}.get(name.partition(".")[2].partition(".")[0], to)
    with refused("export-failed", os.strerror(errno.ENOSPC)):
        export_run(run, to, small_disk / "new" / name)
    assert list(small_disk.iterdir()) == []


def test_a_folder_without_permission_is_one_clear_line(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused("export-not-a-folder"):
        export_run(run, "csv", tmp_path / "file" / "out")


def test_names_reach_the_terminal_without_control_characters(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "evil\x1b[31m")
    done = wattstep("export", "evil\x1b[31m", "--to", "chrome", cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


def test_a_progress_that_is_told_never_falls_and_ends_below_all(run: Path, tmp_path: Path) -> None:
    for to in FORMATS:
        told: list[float] = []
        export_run(run, to, tmp_path / to, on_progress=lambda stage, share, t=told: t.append(share))  # type: ignore[misc]
        assert told == sorted(told)
        assert 0 <= told[0] <= told[-1] <= 1


def test_an_unknown_format_is_refused_before_the_run_is_read(tmp_path: Path) -> None:
    with refused("unknown-format", "perfetto", "chrome", "csv", "parquet"):
        export_run(tmp_path / "nowhere", "excel", tmp_path / "out")
    with refused("no-such-run", "nowhere"):
        export_run(tmp_path / "nowhere", "csv", tmp_path / "out")
