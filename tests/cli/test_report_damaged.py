"""wattstep report of several runs of which some are damaged: the others are shown, and it says which."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.command_line import wattstep
from tests.refusals import id_in
from tests.reports.pages.tree import tree

WHOLE = Path(__file__).parents[1] / "fixtures" / "runs" / "schema-1"


def cut_table(run: Path) -> None:
    table = run / "steps.parquet"
    table.write_bytes(table.read_bytes()[: table.stat().st_size // 2])


def garble_description(run: Path) -> None:
    (run / "run.json").write_bytes(b'{"schema": \xff\x00 "<script>')


def empty(run: Path) -> None:
    for file in run.iterdir():
        file.unlink()


FAULTS: Mapping[str, Callable[[Path], None]] = {
    "cut-table": cut_table,
    "garbled-description": garble_description,
    "empty": empty,
}


def report(folder: Path, *runs: str) -> subprocess.CompletedProcess[str]:
    return wattstep("report", *runs, "-o", "page.html", "--json", cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("whole", *FAULTS):
        shutil.copytree(WHOLE, tmp_path / name)
    for name, damage in FAULTS.items():
        damage(tmp_path / name)
    return tmp_path


def test_damaged_runs_are_listed_with_their_reasons_and_the_others_are_shown(folder: Path) -> None:
    done = report(folder, *FAULTS, "whole")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [Path(run["run"]).name for run in document["runs"]] == ["whole"]
    assert {each["run"] for each in document["damaged"]} == set(FAULTS)
    root = tree((folder / "page.html").read_text(encoding="utf-8"))
    box = next(each for each in root.all() if "unreadable" in each.classes)
    for each in document["damaged"]:
        assert each["run"] in box.text
        assert " ".join(each["problem"].split()) in box.text
    assert "steps.parquet" in box.text
    articles = root.find("article")
    assert len(articles) == 1
    assert "Step time" in articles[0].text
    told = [line for line in done.stderr.splitlines() if "left out" in line]
    assert len(told) == len(FAULTS)
    assert "Traceback" not in done.stderr


def test_where_every_run_is_damaged_one_line_says_so_and_no_page_is_written(folder: Path) -> None:
    done = report(folder, "cut-table", "garbled-description")
    assert (done.returncode, id_in(done.stdout)) == (2, "damaged-run")
    lines = [line for line in done.stderr.splitlines() if line.startswith("wattstep:")]
    assert len(lines) == 1
    assert "cut-table" in lines[0]
    assert not (folder / "page.html").exists()
