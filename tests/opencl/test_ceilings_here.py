"""A real device is measured through its process: products right, rows whole, what was found remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.opencl.conftest import Opened

from wattstep.opencl import ceilings
from wattstep.opencl.child import TASKS
from wattstep.opencl.limits import run_limited
from wattstep.opencl.measuring import CONVOLUTIONS, NUMPY, PRODUCTS, TUNED


def test_small_products_convolutions_memory_copies_and_launches(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = len(CONVOLUTIONS) - 1
    wanted = ["tune product 0", "product 0", f"convolution {last}", *TASKS[:3]]
    monkeypatch.setattr(ceilings, "TASKS", wanted)

    def without_end(*asked: Any) -> str:
        return run_limited(*asked[:4])  # a crowded machine may need more than the time

    found = ceilings.measure("0", 20.0, run=without_end)
    assert found.device["name"] == opened.device.name
    rows = {table.name: table.rows for table in found.tables}
    (product,) = rows["products"]
    assert product.label == PRODUCTS[0].label
    assert {TUNED, NUMPY, "naive", "blocked"} <= set(product.figures)
    # On a crowded machine no time may be left for the kernels that are not tuned, and they say so.
    without = {name: figure.reason for name, figure in product.figures.items() if figure.missing}
    assert without.keys().isdisjoint({TUNED, NUMPY})
    assert [reason for reason in without.values() if "are left" not in str(reason)] == []
    assert len(rows["convolutions"]) == 1
    assert len(rows["bandwidth"]) == 6
    assert len(rows["launch"]) == 6
    assert rows["copies"]
    kept = list(Path(ceilings_folder()).glob("*.json"))
    assert len(kept) == 1


def ceilings_folder() -> str:
    from wattstep.store.cache import cache_folder

    return str(cache_folder() / "opencl")
