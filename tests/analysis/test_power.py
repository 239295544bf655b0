"""Energy from a model of the cores and from several rails, against sums by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.wording import assert_says

from wattstep.recorded.clock_error import ClockError
from wattstep.recorded.curves import Curve, curve_of_gauge
from wattstep.recorded.power import (
    EnergySource,
    modelled,
    modelled_machine,
    spoken,
    summed,
)
from wattstep.schema.figure import Status
from wattstep.schema.settings import POWER_MODELS, PowerModel, parse_power_model

S = 1_000_000_000
VCPU = PowerModel(**(parse_power_model("vcpu") or {}))


def busy(share: float, seconds: int = 10) -> Curve:
    t_ns = np.arange(seconds * 100 + 1) * (S // 100)
    return Curve(t_ns=t_ns, total=t_ns * 1e-9 * share, unit="s", covered_ns=t_ns)


def joules(source: EnergySource) -> float:
    return float(source.curve.total[-1])


def test_the_model_s_figures_are_those_of_the_source() -> None:
    assert POWER_MODELS["vcpu"][:2] == (0.74, 3.5)


@pytest.mark.parametrize(
    ("shares", "joule"),
    [
        ([0.0], 7.4),  # 0.74 W for 10 s
        ([1.0], 35.0),  # 3.5 W for 10 s
        ([0.5], 21.2),  # (0.74 + 3.5) / 2 W for 10 s
        ([0.5, 0.5], 42.4),
        ([1.0, 0.0, 0.0, 0.0], 57.2),
    ],
)
def test_energy_of_the_machine_by_the_model_by_hand(shares: list[float], joule: float) -> None:
    source = modelled_machine([busy(share) for share in shares], VCPU)
    assert joules(source) == pytest.approx(joule)
    assert source.status is Status.MODELLED
    assert "vcpu" in source.source
    assert "not measured" in (source.note or "")
    assert "other programs" in (source.note or "")


@pytest.mark.parametrize(("cores", "joule"), [(0.0, 0.0), (0.09, 3.15), (1.0, 35.0), (2.0, 70.0)])
def test_the_training_is_charged_for_its_own_cpu_time_by_hand(cores: float, joule: float) -> None:
    """3.5 W a busy core for 10 s: 2.76 W are dynamic, 0.74 W its share of the idle power."""
    source = modelled(busy(cores), VCPU, "perf")
    assert joules(source) == pytest.approx(joule)
    assert source.status is Status.MODELLED
    assert "power model vcpu: 3.5 W" in source.source
    assert_says(source.source, "0.74 W", "idle power")
    assert "not measured" in (source.note or "")


def test_of_a_busy_core_s_power_the_dynamic_part_is_what_idle_cores_lack() -> None:
    assert VCPU.dynamic_share == pytest.approx(2.76 / 3.5)
    assert (
        PowerModel(name="", idle_watts_a_core=0.0, busy_watts_a_core=0.0, source="").dynamic_share
        == 0
    )


def test_the_model_says_what_it_is_blind_to() -> None:
    # It gives no limit below which energy is missing: it shares by time, and says so.
    source = modelled(busy(0.5), VCPU, "perf")
    assert_says(source.note, "10 ms")
    assert source.carries_s == 0


def test_the_model_counts_no_time_that_was_not_sampled() -> None:
    t_ns = np.array([0, S, 9 * S, 10 * S])
    core = Curve(
        t_ns=t_ns, total=np.array([0.0, 1.0, 1.0, 2.0]), unit="s", covered_ns=np.array([0, S, S, 2 * S])
    )  # fmt: skip
    assert joules(modelled_machine([core], VCPU)) == pytest.approx(7.0)
    assert joules(modelled(core, VCPU, "perf")) == pytest.approx(7.0)


def rail(t_ns: np.ndarray, watts: float, name: str) -> EnergySource:
    curve = curve_of_gauge(t_ns, np.full(len(t_ns), watts), max_gap_ns=S // 5)
    return EnergySource(curve=curve, status=Status.MEASURED, source=name)


def test_rails_are_added_where_all_of_them_were_sampled() -> None:
    """2 W and 3 W, sampled at different times, from 0 to 10 s and from 1 to 12 s."""
    first = rail(np.arange(0, 101) * (S // 10), 2, "a")
    second = rail(np.arange(0, 111) * (S // 10) + S + 12_345_678, 3, "b")
    whole = summed([first, second])
    begin, end = np.array([2 * S]), np.array([9 * S])
    assert whole.curve.difference(begin, end)[0] == pytest.approx(35)
    assert whole.curve.t_ns[0] >= S
    assert whole.curve.t_ns[-1] <= 10 * S
    assert whole.source == "a + b"


def test_a_gap_in_one_rail_is_a_gap_in_the_sum() -> None:
    times = np.arange(0, 101) * (S // 10)
    first = rail(times, 2, "a")
    second = rail(times[(times <= 4 * S) | (times >= 6 * S)], 3, "b")
    gains, covered = summed([first, second]).curve.difference(np.array([0]), np.array([10 * S]))
    assert covered == pytest.approx(0.8)
    assert gains == pytest.approx(5 * 8)


def test_a_time_before_zero_is_spoken_in_the_unit_of_its_size() -> None:
    assert [spoken(t) for t in (-0.0103, 0.0103, -2.0, -5e-6)] == [
        "-10.3 ms",
        "10.3 ms",
        "-2 s",
        "-5 µs",
    ]


# --- how late it may be -------------------------------------------------------------------------


def gauge(**more: object) -> EnergySource:
    t_ns = np.arange(100, dtype=np.int64) * (S // 100)
    watts = np.ones(100)
    made = EnergySource(
        curve=curve_of_gauge(t_ns, watts), status=Status.MEASURED, source="made",
        gauge=(t_ns, watts),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def test_an_average_is_late_by_half_of_its_window_and_what_it_waits_for() -> None:
    assert gauge(window_s=0.1).late_s == pytest.approx((0.05, 0.07))
    assert gauge(window_s=0.1, slow_s=0.5).late_s == pytest.approx((0.05, 0.57))


def test_without_a_documented_window_a_gauge_may_be_late_by_100_ms_or_its_updates() -> None:
    assert gauge().late_s == pytest.approx((0.0, 0.1))
    assert gauge(slow_s=1.0).late_s == pytest.approx((0.0, 1.02))


def test_a_counter_may_wait_and_a_model_has_no_such_delay() -> None:
    assert gauge(gauge=None).late_s == pytest.approx((0.0, 0.02))
    assert gauge(sensed=False).late_s == (0.0, 0.0)


def test_where_clocks_were_aligned_by_the_middle_of_its_values_the_sensor_s_window_is_no_delay() -> (
    None
):
    aligned = ClockError(seconds=0.1, words="apart", centred=True)
    own = gauge(window_s=0.1, clock=ClockError(seconds=0.1, words="apart"))
    assert own.late_s[0] == pytest.approx(0.05)
    assert gauge(window_s=0.1, clock=aligned).late_s[0] == 0.0


def test_a_value_mixes_what_lies_between_reads_in_its_window_or_its_update() -> None:
    assert gauge().mixes_s == pytest.approx(0.1)  # as long as it may average
    assert gauge(sensed=False).mixes_s == pytest.approx(0.01)
    assert gauge(window_s=0.1).mixes_s == pytest.approx(0.1)
    assert gauge(window_s=0.1, slow_s=0.4).mixes_s == pytest.approx(0.4)


def test_a_sensor_is_told_by_regression_whatever_its_clock_and_a_model_by_time() -> None:
    assert gauge().by_regression
    assert gauge(clock=ClockError(seconds=0.1, words="apart")).by_regression
    assert not gauge(sensed=False).by_regression
