"""Ceilings of a device are kept for it and its driver, and half a measurement takes no whole one's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.refusals import refused

from wattstep.schema.device_ceilings import CeilingRow, CeilingTable, DeviceCeilings
from wattstep.schema.figure import Missing, counted
from wattstep.store.device_ceilings import find, keep

MALI = {"name": "Mali-G76", "driver": "2.1"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def measured(rows: int, created: str = "first") -> DeviceCeilings:
    row = CeilingRow(
        label="64", figures={"tuned": counted(3.0, "FLOP/s", "a test")}, amount=524288.0
    )
    table = CeilingTable(name="products", title="products", columns=["tuned"], rows=[row] * rows)
    return DeviceCeilings(
        created=created, device=MALI, host={"cpu": "this"}, tables=[table], seconds=2.0, notes=["so"]
    )  # fmt: skip


def test_they_are_found_as_they_were_by_name_and_driver() -> None:
    assert isinstance(find("Mali-G76", "2.1"), Missing)
    assert keep(measured(2))
    assert find("Mali-G76", "2.1") == measured(2)
    assert isinstance(find("Mali-G76", "2.2"), Missing)


def test_fewer_rows_do_not_take_the_place_of_more() -> None:
    keep(measured(2))
    assert not keep(measured(1, "second"))
    assert find("Mali-G76", "2.1") == measured(2)
    assert keep(measured(2, "third"))
    assert find("Mali-G76", "2.1") == replace(measured(2), created="third")


def test_a_file_that_cannot_be_read_counts_as_none_and_is_replaced(cache: Path) -> None:
    keep(measured(2))
    (file,) = cache.rglob("*.json")
    file.write_text(json.dumps({"schema": 1}))
    assert isinstance(find("Mali-G76", "2.1"), Missing)
    assert keep(measured(1))
    with refused("damaged-ceilings"):
        DeviceCeilings.from_dict({"schema": 2})
