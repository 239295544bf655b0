"""Rows from a regression: scaled to the step, missing in the words of their group, groups listed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.wording import assert_says

from wattstep.attribution.regression.outcome import Group, Regression
from wattstep.attribution.tables.layouts import Kind
from wattstep.attribution.tables.regression_input import RegressionResult, kinds_of
from wattstep.attribution.tables.regression_rows import (
    RegressionRows,
    left_over,
    resolved,
    scaled_to,
    together,
)
from wattstep.recorded.curves import curve_of_gauge
from wattstep.recorded.power import EnergySource
from wattstep.schema.figure import Figure, Status

KINDS = (
    Kind("aten::conv2d", "conv2d", "layer1", "forward"),
    Kind("aten::conv2d", "conv2d", "layer2", "forward"),
    Kind("ConvolutionBackward0", "conv2d", "layer2", "backward"),
    Kind("framework", "rest", "", "forward"),
)
SECONDS = np.array([0.01, 0.02, 0.04, 0.01])


def figure(value: float, low: float, high: float, unit: str = "J") -> Figure:
    return Figure(
        value=value, low=low, high=high, unit=unit, status=Status.ATTRIBUTED, method="regression"
    )


def source(status: Status = Status.MEASURED) -> EnergySource:
    t_ns = np.arange(3, dtype=np.int64) * 10**9
    return EnergySource(
        curve=curve_of_gauge(t_ns, np.ones(3)), status=status, source="board.power",
        limit="board.power averages over 422 ms",
    )  # fmt: skip


def group(members: Sequence[int], level: int, energy: Figure, wide: bool = False) -> Group:
    seconds = float(SECONDS[list(members)].sum())
    return Group(
        members=np.array(members), level=level, seconds=seconds,
        power=energy.scaled(1 / seconds, "W"), energy=energy, resolved=not wide,
    )  # fmt: skip


def regression_rows(
    groups: Sequence[Group], status: Status = Status.MEASURED, scale: float = 1.0
) -> RegressionRows:
    """Of a step that takes `scale` times what the groups add up to."""
    each = [figure(e, 0.9 * e, 1.1 * e) for e in (0.1, 0.2, 0.2, 0.05)]

    def combined(members: np.ndarray) -> tuple[Figure, Figure]:
        value = sum(each[m].value or 0.0 for m in members)
        energy = figure(value, 0.9 * value, 1.1 * value)
        return energy.scaled(1 / float(SECONDS[members].sum()), "W"), energy

    nothing = Figure(value=0.0, unit="s", status=Status.ATTRIBUTED)
    regression = Regression(
        groups=groups, kinds=each, step_energy=figure(0.55, 0.5, 0.6), delay=nothing,
        window=nothing, locked="", notes=(), observations=100, time_error=math.nan,
        together=combined,
    )  # fmt: skip
    regression_result = RegressionResult(
        regression=regression, kinds=KINDS, levels=kinds_of(KINDS), processes=(), seconds=SECONDS
    )
    whole = scale * sum(each.energy.value or 0.0 for each in groups)
    return RegressionRows(regression_result, source(status), whole, np.arange(len(KINDS)), "made")


MERGED = (
    group([0], 0, figure(0.1, 0.09, 0.11)),
    group([1, 2], 1, figure(0.41, 0.38, 0.44)),
    group([3], 0, figure(0.05, 0.01, 0.09), wide=True),
)


def test_what_was_told_apart_has_its_energy_scaled_to_make_the_step() -> None:
    energy, power = regression_rows(MERGED, scale=1.05).apart(np.array([0]))
    assert energy.value == pytest.approx(0.105)
    assert power.value == pytest.approx(10.5)
    assert (energy.low, energy.high) == pytest.approx((0.09, 0.1155))  # before and after
    assert "scaled by 1.0500" in (energy.method or "")
    assert energy.status is Status.ATTRIBUTED


def test_a_part_of_a_group_is_missing_in_the_words_of_the_group() -> None:
    energy, power = regression_rows(MERGED).apart(np.array([1]))
    assert_says(
        energy.reason, "not resolvable", "1 other of conv2d in layer2", "410 mJ (380 to 440)"
    )
    assert power.reason == energy.reason


@pytest.mark.parametrize(
    ("level", "words"),
    [(1, "conv2d in layer1"), (2, "conv2d"), (3, "layer1"), (4, "the forward phase"), (5, "the step")],
)  # fmt: skip
def test_a_group_is_called_by_what_its_members_share(level: int, words: str) -> None:
    made = regression_rows([group([0, 1, 2, 3], level, figure(1.5, 1.4, 1.6))])
    energy, _ = made.apart(np.array([0]))
    assert_says(energy.reason, "not resolvable", f"3 others of {words}", "1.5 J (1.4 to 1.6)")


def test_a_group_as_a_whole_has_an_energy() -> None:
    energy, _ = regression_rows(MERGED).apart(np.array([1, 2]))
    assert energy.value == pytest.approx(0.4)  # of the kinds each by itself


def test_a_layer_that_cuts_a_group_is_told_from_its_own_draws() -> None:
    energy, power = regression_rows(MERGED).figures(np.array([0, 1]))
    assert energy.value == pytest.approx(0.3)
    assert power.value == pytest.approx(0.3 / 0.03)


def test_an_interval_that_is_too_wide_makes_no_figure() -> None:
    wide = [group([k], 0, figure(0.1, 0.0, 0.3), wide=True) for k in range(4)]
    made = regression_rows(wide)
    made._of.regression.__dict__["together"] = lambda members: (
        figure(1.0, 0.2, 2.0, "W"), figure(0.1, 0.02, 0.2),
    )  # fmt: skip
    energy, power = made.figures(np.array([0]))
    assert_says(energy.reason, "not resolvable", "20 to 200 mJ", "board.power", "422 ms")
    assert power.missing


def test_of_a_modelled_power_everything_stays_modelled() -> None:
    energy, power = regression_rows(MERGED, Status.MODELLED).apart(np.array([0]))
    assert {energy.status, power.status} == {Status.MODELLED}


def test_groups_are_listed_with_what_they_hold_the_costliest_first() -> None:
    rows = regression_rows(MERGED).groups(np.array([1, 2, 3]))
    assert [row.name for row in rows] == ["conv2d in layer2", "framework"]
    assert rows[0].members == (
        "aten::conv2d of layer2 in forward", "ConvolutionBackward0 of layer2 in backward",
    )  # fmt: skip
    assert rows[0].level == "kind in layer"
    assert rows[0].energy.value == pytest.approx(0.41)
    assert rows[0].time.value == pytest.approx(0.06)
    assert [row.resolved for row in rows] == [True, False]


def test_what_is_scaled_says_that_all_of_it_makes_the_step_and_nothing_of_integration() -> None:
    for energy in (row.energy for row in regression_rows(MERGED).groups(np.array([1, 2, 3]))):
        assert "add up to" in (energy.method or "")
        assert "integrat" not in (energy.method or "")


def test_energies_of_parts_of_groups_go_by_time_and_make_the_whole() -> None:
    made = regression_rows(MERGED)
    assert made.energy_of(np.arange(4)) == pytest.approx(0.56)
    assert made.energy_of(np.array([2])) == pytest.approx(0.41 * 2 / 3)


@pytest.mark.parametrize(("whole", "found"), [(1.0, 3.0), (3.0, 1.0), (0.0, 1.0), (1.0, 0.0)])
def test_a_regression_that_contradicts_integration_is_not_believed(
    whole: float, found: float
) -> None:
    assert "not believed" in str(scaled_to(whole, found))


def test_a_filler_whose_regression_contradicts_integration_tells_nothing_and_says_why() -> None:
    assert regression_rows(MERGED).reason is None
    assert "not believed" in (regression_rows(MERGED, scale=3.0).reason or "")


def test_one_scale_is_in_every_figure_of_a_filler() -> None:
    """Operations, sums and groups: what one table says of an energy, all others say."""
    made = regression_rows(MERGED, scale=1.1)
    (energy, _), (alone, _) = made.apart(np.array([0])), made.figures(np.array([0]))
    assert energy.value == alone.value == pytest.approx(0.11)
    rows = made.groups(np.array([1, 2, 3]))
    assert [row.energy.value for row in rows] == pytest.approx([0.451, 0.055])
    reason = made.apart(np.array([1]))[0].reason or ""
    assert "together 451 mJ" in reason


def test_what_is_left_is_in_one_sum_and_rounding_leaves_nothing() -> None:
    whole = figure(1.0, 0.9, 1.1)
    left = left_over(whole, 0.75)
    assert left is not None
    assert (left.value, left.low, left.high) == pytest.approx((0.25, 0.225, 0.275))
    assert left_over(whole, 1.0 - 1e-12) is None


def test_resolved_is_half_an_interval_within_a_fifth() -> None:
    assert resolved(figure(1.0, 0.8, 1.2))
    assert not resolved(figure(1.0, 0.79, 1.22))
    assert not resolved(Figure(value=1.0, unit="J", status=Status.ATTRIBUTED))


def test_kinds_are_each_there_once() -> None:
    assert together([np.array([2, 1]), np.array([1, 5])]).tolist() == [1, 2, 5]
    assert together([]).tolist() == []
