"""Ceilings that were kept are found again by machine, version and threads alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.explaining.made import DEVICE, TORCH, ceilings
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import DamagedRunError
from wattstep.schema.figure import Missing
from wattstep.store.ceilings import find, keep, read, write

ENGINE = f"torch {TORCH}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_what_was_kept_is_found() -> None:
    one, two = ceilings(threads=1), ceilings(threads=2)
    keep(one)
    keep(two)
    assert find({**DEVICE, "memory": 1}, ENGINE, 2) == two


def test_those_measured_later_take_the_place_of_earlier_ones() -> None:
    keep(ceilings(flops=1e9))
    keep(ceilings(flops=2e9))
    found = find(DEVICE, ENGINE, 1)
    assert not isinstance(found, Missing)
    assert found == ceilings(flops=2e9)


def test_why_none_fits_is_said() -> None:
    assert_says(find(DEVICE, ENGINE, 1), "no ceilings")
    keep(ceilings(threads=1))
    assert_says(str(find(DEVICE, ENGINE, 4)), "threads (1)", "used 4")
    assert_says(str(find(DEVICE, "torch 9.9", 1)), f"torch {TORCH}", "used 9.9")
    assert_says(str(find({**DEVICE, "cpu": "other"}, ENGINE, 1)), "cpu: processor", "run's: other")
    assert "does not say" in str(find(DEVICE, "torch", 1))
    assert "does not say" in str(find(DEVICE, ENGINE, None))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = keep(ceilings())
    path.write_text("{")
    with pytest.raises(DamagedRunError, match=path.name):
        find(DEVICE, ENGINE, 1)
    with refused("unreadable-ceilings"):
        read(tmp_path / "nothing.json")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused("unwritable-ceilings"):
        write(ceilings(), tmp_path / "file" / "ceilings.json")
