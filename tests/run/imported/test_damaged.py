"""Damage in what an import has written is said in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.run.imported.made import TOTALS, TRACE, imported, power, step
from tests.run.made import import_made, watts

from wattstep.run import load


@pytest.mark.parametrize(
    "found",
    [
        {"trace": "train.json"},
        {"trace": TRACE, "telemetry": "power.csv"},
        {"trace": TRACE, "alignment": ["by load"]},
        {"trace": TRACE, "alignment": [{"file": "power.csv", "uncertainty_s": "small"}]},
        {"trace": TRACE, "alignment": [{"file": "power.csv", "uncertainty_s": -1}]},
        {"trace": TRACE, "alignment": [{"file": "power.csv", "uncertainty_s": True}]},
    ],
)
def test_a_damaged_description_is_one_line(tmp_path: Path, found: dict[str, Any]) -> None:
    path = import_made(tmp_path / "r", found, steps=[(0, 100)], operations=step(0, 0))
    with refused("damaged-field", "run.json", "imported"):
        load(path)


@pytest.mark.parametrize("total", [None, -1.0, float("nan"), float("inf")])
def test_a_total_that_is_none_is_damage(tmp_path: Path, total: float | None) -> None:
    bad = [{**TOTALS[0], "total_s": total}]
    run = load(import_made(tmp_path / "r", {"trace": TRACE}, totals=bad))
    with refused("no-total", "sgemm"):
        run.operations()


@pytest.mark.parametrize("table", ["summaries", "operations", "samples", "steps"])
def test_a_cut_table_is_damage(tmp_path: Path, table: str) -> None:
    path = import_made(
        tmp_path / "r",
        imported(),
        steps=[] if table == "summaries" else [(0, 100)],
        operations=[] if table == "summaries" else step(0, 0),
        samples=[(watts(), "power.csv", power(100))],
        totals=TOTALS,
    )
    file = path / f"{table}.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with refused("unreadable-table", f"{table}.parquet"):
        load(path).document()
