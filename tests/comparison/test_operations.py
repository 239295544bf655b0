"""Operations of two sides: pairing, false discovery, what appeared and disappeared, and what cannot be determined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.comparison.made import canary, figure, process
from tests.wording import assert_says

from wattstep.insight.compare.drift import Drift, drift_between
from wattstep.insight.compare.operations import compare_operations
from wattstep.insight.compare.process import Process
from wattstep.schema.figure import Status, missing

STILL = Drift(parts={})


def row(name: str, time: float, reach: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "layer": "l", "phase": "forward", "time": figure(time, reach),
        "energy": missing("J", "no sensor"), **more,
    }  # fmt: skip


def side(tables: list[list[dict[str, Any]]]) -> list[Process]:
    return [process(operations=table) for table in tables]


def test_operations_are_paired_whatever_their_order() -> None:
    a = side([[row("x", 1.0 + d), row("y", 5.0 + d)] for d in (0, 0.01, 0.02)])
    b = side([[row("y", 6.0 + d), row("x", 1.0 + d)] for d in (0, 0.01, 0.02)])
    found = compare_operations(a, b, STILL)
    by_name = {each.key["name"]: each.quantities["time"] for each in found.rows}
    assert by_name["x"].verdict == "not shown"
    assert by_name["y"].verdict == "higher"
    assert by_name["y"].ratio.value == pytest.approx(6 / 5, rel=0.01)
    assert by_name["y"].difference.value == pytest.approx(1.0)
    assert [each.key["name"] for each in found.differing("time")] == ["y"]
    assert found.tested == {"time": 2, "energy": 0}


def test_the_same_name_in_another_layer_is_another_operation() -> None:
    a = side([[row("x", 1.0), row("x", 2.0, layer="m")]])
    b = side([[row("x", 1.0), row("x", 2.0, layer="n")]])
    found = compare_operations(a, b, STILL)
    assert [each.key["layer"] for each in found.only_a] == ["m"]
    assert [each.key["layer"] for each in found.only_b] == ["n"]
    assert len(found.rows) == 1


def test_what_only_some_processes_have_is_listed_and_not_tested() -> None:
    a = side([[row("x", 1.0), row("rare", 1.0)], [row("x", 1.1)]])
    b = side([[row("x", 1.0), row("rare", 1.0)], [row("x", 1.1), row("rare", 1.0)]])
    found = compare_operations(a, b, STILL)
    assert [(each.key["name"], each.processes) for each in found.unsteady] == [("rare", (1, 2))]
    assert found.only_a == found.only_b == ()


def test_of_many_equal_operations_hardly_any_is_called_different() -> None:
    random = np.random.default_rng(3)
    claimed = 0
    for _ in range(20):

        def made() -> list[Process]:
            return side([
                [row(f"op{n}", float(np.exp(0.05 * random.standard_normal()))) for n in range(100)]
                for _ in range(3)
            ])  # fmt: skip

        claimed += bool(compare_operations(made(), made(), STILL).differing("time"))
    # Each tested alone, five of a hundred would be; 5 % of campaigns may hold one.
    assert claimed <= 4


def test_a_difference_is_found_among_many_that_are_none() -> None:
    random = np.random.default_rng(4)

    def made(factor: float) -> list[Process]:
        return side([
            [row(f"op{n}", (factor if n < 5 else 1.0) * float(np.exp(0.01 * random.standard_normal())))
             for n in range(100)]
            for _ in range(5)
        ])  # fmt: skip

    found = compare_operations(made(1.0), made(1.2), STILL).differing("time")
    names = {each.key["name"] for each in found}
    assert {f"op{n}" for n in range(5)} <= names
    assert len(names) <= 7


def test_an_operation_without_length_has_a_difference_and_no_ratio() -> None:
    a, b = side([[row("x", 0.0, 0.0)]]), side([[row("x", 1.0, 0.1)]])
    quantity = compare_operations(a, b, STILL).rows[0].quantities["time"]
    assert quantity.verdict == "not compared"
    assert_says(quantity.ratio.reason, "no ratio")
    assert quantity.difference.value == 1.0


def test_energy_that_is_missing_is_not_compared_and_says_why() -> None:
    a, b = side([[row("x", 1.0, 0.1)]]), side([[row("x", 1.0, 0.1)]])
    quantity = compare_operations(a, b, STILL).rows[0].quantities["energy"]
    assert quantity.verdict == "not compared"
    assert quantity.ratio.reason == "no sensor"


def test_steps_of_different_sizes_are_compared_by_sample() -> None:
    a = [process(operations=[row("x", 4.0, 0.1)], samples=4.0)]
    b = [process(operations=[row("x", 8.0, 0.1)], samples=8.0)]
    quantity = compare_operations(a, b, STILL).rows[0].quantities["time"]
    assert quantity.a.value == quantity.b.value == 1.0
    assert quantity.ratio.value == 1.0


def test_other_work_under_the_same_name_is_told() -> None:
    calls = {"calls": figure(2, unit="count"), "flops": figure(1e6, unit="FLOP")}
    more = {"calls": figure(3, unit="count"), "flops": missing("FLOP", "not counted")}
    a, b = side([[row("x", 1.0, **calls)]]), side([[row("x", 1.0, **more)]])
    assert compare_operations(a, b, STILL).rows[0].work == "calls 2 and 3"


def test_intervals_of_tables_hold_few_traced_steps_already_and_are_taken_as_they_are() -> None:
    def width(windows: int) -> float:
        table = [row("x", 1.0, 0.1)]
        table[0]["time"] = replace(figure(1.0, 0.1), n=windows)
        ratio = (
            compare_operations(side([table]), side([table]), STILL).rows[0].quantities["time"].ratio
        )
        assert ratio.low is not None
        assert ratio.high is not None
        return ratio.high - ratio.low

    assert width(4) == width(1000)


def test_a_run_without_operations_gives_the_reason() -> None:
    a, b = side([[row("x", 1.0)]]), [process(no_operations="tracing was off (--trace none)")]
    found = compare_operations(a, b, STILL)
    assert found.rows == ()
    assert_says(found.reason, "none in B", "--trace none")


def test_a_machine_that_changed_hides_differences_that_it_may_explain() -> None:
    a = side([[row("x", 1.0 + d)] for d in (0, 0.001, 0.002)])
    b = side([[row("x", 1.1 + d)] for d in (0, 0.001, 0.002)])
    drift = drift_between([canary((1, 1))] * 3, [canary((1.2, 1.2))] * 3)
    assert compare_operations(a, b, STILL).rows[0].quantities["time"].verdict == "higher"
    assert compare_operations(a, b, drift).rows[0].quantities["time"].verdict == "not shown"


def test_the_difference_of_an_operation_is_widened_as_its_ratio_is() -> None:
    drift = drift_between([canary((1.0, 1.0))], [canary((1.5, 1.5))])
    found = compare_operations(side([[row("x", 1.0, 0.01)]]), side([[row("x", 1.4, 0.01)]]), drift)
    time = found.rows[0].quantities["time"]
    assert time.verdict == "not shown"
    assert time.difference.low is not None
    assert time.difference.low < 0  # 1.4 s on the faster machine would have been 0.93 s
    assert time.difference.low == pytest.approx(1.4 / 1.5 - 1.0, abs=0.03)


def powered(watts: float, joules: float, **more: Any) -> Process:
    power = figure(watts, 0.01, "W", systematic=more.pop("systematic", None))
    if "status" in more:
        power = replace(power, status=more.pop("status"))
    operations = [row("x", 1.0, 0.01, energy=figure(joules, 0.001, "J"))]
    return process({"mean_power": power}, operations=operations, **more)


def test_modelled_energy_of_operations_is_not_held_against_measured_or_another_model() -> None:
    a, b = powered(1.0, 1.0), powered(2.0, 2.0, status=Status.MODELLED)
    energy = compare_operations([a], [b], STILL).rows[0].quantities["energy"]
    assert_says(energy.ratio.reason, "A is measured", "B modelled")
    a, b = (
        powered(1.0, 1.0, status=Status.MODELLED, info={"power_model": {"name": name}})
        for name in ("vcpu", "linear")
    )
    found = compare_operations([a], [b], STILL)
    energy = found.rows[0].quantities["energy"]
    assert_says(energy.ratio.reason, "A and B", "different models")
    assert energy.verdict == "not compared"
    assert found.tested == {"time": 1, "energy": 0}
    assert found.rows[0].quantities["time"].verdict == "not shown"


def test_energies_of_operations_by_two_sensors_differ_beyond_the_errors_of_both_only() -> None:
    a = powered(1.0, 1.00, systematic=0.08)
    b = powered(1.0, 1.09, systematic=0.06, sensors="another")
    energy = compare_operations([a], [b], STILL).rows[0].quantities["energy"]
    assert energy.ratio.systematic == pytest.approx(0.10)
    assert energy.verdict == "not shown"
    same = powered(1.0, 1.09, systematic=0.06)
    found = compare_operations([a], [same], STILL).rows[0].quantities["energy"]
    assert found.verdict == "differs here"
