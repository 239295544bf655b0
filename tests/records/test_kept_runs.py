"""Runs that an earlier version wrote open, and tell the same figures."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from tests.records.kept_runs import KEPT, NAMES, NUMBERS, expected, figures_of

KINDS = {"lenet", "killed", "two-rails", "imported-trace", "imported-log"}


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


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_run_holds_no_name_of_where_it_was_made(name: str) -> None:
    with zipfile.ZipFile(KEPT / f"{name}.zip") as packed:
        for one in packed.infolist():
            words = packed.read(one)
            assert not re.search(rb"/proc/\d|/home|/root|/tmp|/work|/Users", words), one.filename
