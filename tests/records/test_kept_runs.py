"""Runs that an earlier version wrote open, and tell the same figures."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.records.kept_runs import KEPT, NAMES, NUMBERS, expected, figures_of

import wattstep

KINDS = {"lenet", "killed", "segments", "two-rails", "imported-trace", "imported-log"}


def test_there_is_a_kept_run_of_every_kind() -> None:
    assert set(NAMES) == KINDS
    assert all(expected(name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_run_tells_the_figures_that_it_told_when_it_was_written(
    name: str, tmp_path: Path
) -> None:
    now = figures_of(name, tmp_path)
    for place, figure in expected(name).items():
        assert place in now, place
        assert now[place]["unit"] == figure["unit"], place
        assert now[place]["status"] == figure["status"], place
        for key in NUMBERS:
            near = None if figure[key] is None else pytest.approx(figure[key], rel=1e-9, abs=1e-15)
            assert now[place][key] == near, (place, key)


def test_the_killed_run_is_kept_as_it_was_left() -> None:
    with zipfile.ZipFile(KEPT / "killed.zip") as packed:
        names = packed.namelist()
    assert "killed/journal/marks.bin" in names
    assert not [name for name in names if name.endswith(".parquet")]


@pytest.mark.parametrize("version", [1, 2])
def test_unfinished_runs_of_either_version_open_equal(tmp_path: Path, version: int) -> None:
    shutil.unpack_archive(KEPT / "segments.zip", tmp_path)
    run = tmp_path / "segments"
    document = json.loads((run / "run.json").read_text())
    assert document["schema_version"] == 1  # of the version that began with plain steps and pieces
    (run / "run.json").write_text(json.dumps({**document, "schema_version": version}))
    packed = sorted(path.name for path in (run / "journal").glob("marks.*.parquet"))
    assert packed == [f"marks.{number:04d}.parquet" for number in range(8)]
    steps = wattstep.load(run).tables.steps()
    # The training counted 1095 further steps behind the first; each says its loss, 2 over its number.
    assert steps.index.tolist() == list(range(1096))
    assert steps.loss == pytest.approx(2 / np.arange(1, 1097))
    assert steps.samples.tolist() == [8.0] * 1096
    assert json.loads((run / "run.json").read_text())["schema_version"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_run_holds_no_name_of_where_it_was_made(name: str) -> None:
    with zipfile.ZipFile(KEPT / f"{name}.zip") as packed:
        for one in packed.infolist():
            words = packed.read(one)
            assert not re.search(rb"/proc/\d|/home|/root|/tmp|/work|/Users", words), one.filename
