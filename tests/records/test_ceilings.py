"""Ceilings as a record: round trips, and what is no such record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.explaining.made import ceilings, measured
from tests.refusals import refused

from wattstep.schema.ceilings import Ceilings, Level


def test_ceilings_round_trip() -> None:
    one = ceilings(threads=3, matrix_product_bf16=1e9)
    assert Ceilings.from_dict(one.to_dict()) == one


def test_those_of_before_are_of_torch() -> None:
    document = ceilings().to_dict()
    assert document.pop("engine") == "torch 2.13.0"
    assert Ceilings.from_dict({**document, "torch": "2.13.0"}) == ceilings()


def test_the_peak_is_the_highest_of_its_precision() -> None:
    one = ceilings(flops=20e9, convolution_fp32=30e9, matrix_product_bf16=90e9)
    peak = one.peak("fp32")
    assert peak is not None
    assert peak.value == 30e9
    assert one.peak("fp8") is None


def test_what_touches_more_than_a_cache_finds_it_in_memory() -> None:
    figure = measured(1e9, "B/s")
    small = Level(name="L2", size=1000, copy=figure, triad=figure)
    large = Level(name="memory", size=10**6, copy=figure, triad=figure)
    one = Ceilings(**{**vars(ceilings()), "levels": (small, large)})
    assert [one.level(size).name for size in (10, 1000, 1001, 10**9)] == [
        "L2", "L2", "memory", "memory",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "document", [None, [], {}, {"schema": 99}, {**ceilings().to_dict(), "levels": []},
                 {**ceilings().to_dict(), "compute": {"a": {"value": 1}}}]
)  # fmt: skip
def test_what_is_no_record_is_refused(document: Any) -> None:
    with refused("damaged-ceilings"):
        Ceilings.from_dict(document)
