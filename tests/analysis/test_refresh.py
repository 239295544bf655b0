"""What samples can carry: the true update interval, the quantum and the share of repeats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wording import assert_says

from wattstep.recorded.refresh import Refresh, refresh, resolution_of, written_unit
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Status


def sampled(
    update_s: float,
    every_s: float,
    *,
    seconds: float = 60.0,
    resolution: float = 0.0,
    noise: float = 0.3,
    seed: int = 0,
) -> tuple[IntArray, FloatArray]:
    """A source that holds each value for `update_s`, read every `every_s` with a little jitter."""
    rng = np.random.default_rng(seed)
    count = int(seconds / update_s) + 2
    values = 5 + noise * rng.standard_normal(count)
    if resolution:
        values = np.rint(values / resolution) * resolution
    reads = int(seconds / every_s)
    times = (np.arange(reads) + 0.1 * rng.random(reads)) * every_s
    at = np.minimum((times / update_s).astype(int), count - 1)
    return (times * 1e9).astype(np.int64), values[at]


def found(t_ns: IntArray, value: FloatArray, least: float = 0.0) -> Refresh:
    return refresh(t_ns, value, "made", least)


@pytest.mark.parametrize("update_s", [0.007, 0.1, 0.422, 1.0])
@pytest.mark.parametrize("resolution", [0.0, 0.0385, 0.4])
def test_the_update_interval_is_found_whether_values_repeat_by_chance_or_not(
    update_s: float, resolution: float
) -> None:
    """With steps of 0.4 W and a noise of 0.3 W, one update in three repeats the value before it."""
    every_s = 0.001 if update_s < 0.01 else 0.01
    seen = found(*sampled(update_s, every_s, resolution=resolution))
    assert seen.slower
    assert seen.interval.value == pytest.approx(update_s, rel=0.01)
    assert seen.interval.low is not None
    assert seen.interval.high is not None
    assert seen.interval.low <= update_s <= seen.interval.high
    assert seen.repeated > 1 - 1.05 * every_s / update_s
    assert seen.resolution == (pytest.approx(resolution, rel=1e-6) if resolution else None)


def test_a_source_that_gives_two_values_for_three_reads_is_slower_than_these() -> None:
    """As the counter of a GPU, which is dear to ask for: a new value every 100 ms, read every 60."""
    assert found(*sampled(0.1, 0.06)).slower
    assert not found(*sampled(0.1, 0.09)).slower


@pytest.mark.parametrize("seed", range(8))
def test_intervals_from_two_to_fifty_reads_hold_the_truth(seed: int) -> None:
    """Each read comes up to a tenth of its period late; the truth is drawn at random."""
    update_s = 0.01 * float(np.exp(np.random.default_rng(seed).uniform(np.log(2.2), np.log(50))))
    seen = found(*sampled(update_s, 0.01, resolution=0.4, seed=seed))
    assert seen.interval.value == pytest.approx(update_s, rel=0.02)


@pytest.mark.parametrize("update_s", [0.001, 0.007])
def test_of_a_source_faster_than_its_reads_only_a_bound_is_known(update_s: float) -> None:
    seen = found(*sampled(update_s, 0.01))
    assert not seen.slower
    assert seen.interval.low == 0
    assert seen.interval.value == pytest.approx(0.01, rel=0.01)
    assert "bound" in (seen.interval.method or "")
    assert seen.repeated == 0


def test_repeats_by_chance_do_not_make_a_fast_source_slow() -> None:
    """Steps of 0.4 W: every third read repeats a value, and two reads may lie between updates."""
    seen = found(*sampled(0.007, 0.01, resolution=0.4))
    assert 0.25 < seen.repeated < 0.45
    assert not seen.slower
    assert seen.interval.value == pytest.approx(0.02, rel=0.01)


def test_a_source_between_one_and_two_reads_is_told_by_values_that_repeat_once_and_never_twice() -> (
    None
):
    seen = found(*sampled(0.015, 0.01))
    assert seen.interval.value == pytest.approx(0.015, rel=0.01)


def test_a_value_that_hardly_changes_has_no_interval_and_says_how_often_it_changed() -> None:
    t_ns = np.arange(1000, dtype=np.int64) * 10_000_000
    seen = found(t_ns, np.where(t_ns < 5 * 10**9, 3.0, 3.4))
    assert seen.interval.value is None
    assert_says(seen.interval.reason, "1 times", "9.99 s")
    assert seen.resolution is None
    assert_says(found(t_ns[:1], np.ones(1)).interval.reason, "two samples")


def test_failed_reads_and_holes_are_no_updates() -> None:
    t_ns, value = sampled(0.1, 0.01)
    value = value.copy()
    value[1000:1100] = np.nan
    hole = np.concatenate([np.arange(3000), np.arange(4003, len(t_ns))])
    seen = found(t_ns[hole], value[hole])
    assert seen.interval.value == pytest.approx(0.1, rel=0.01)


def test_a_replayed_channel_has_a_replayed_interval() -> None:
    t_ns, value = sampled(0.1, 0.01)
    assert refresh(t_ns, value, "made", 0.0, Status.REPLAYED).interval.status is Status.REPLAYED


def test_a_quantum_is_found_through_rounding_to_milliwatts_and_a_voltage_that_moves() -> None:
    """0.4 W as 80 mA at 5 V, give or take half a per cent, in whole milliwatts."""
    rng = np.random.default_rng(1)
    volts = 5 * (1 + 0.005 * rng.standard_normal(2000))
    watts = np.rint(0.08 * rng.integers(1, 6, 2000) * volts * 1e3) * 1e-3
    resolution = resolution_of(watts, 0.001)
    assert resolution == pytest.approx(0.4, rel=0.02)


def test_values_without_a_common_step_have_the_unit_of_their_integers_or_none() -> None:
    noise = np.random.default_rng(2).standard_normal(2000)
    assert resolution_of(noise) is None
    assert resolution_of(np.rint(noise * 1e3) * 1e-3, 0.001) == pytest.approx(0.001)


# Input power of a Jetson Orin NX in mW, and when, in ms: tegrastats asked for 5 ms, in
# justincdavis/jetsontools, orinnx_16gb basic (MIT): the whole record.
ORIN_NX = (
    (0.0, 5793),
    (10.2, 5793),
    (20.7, 5793),
    (31.6, 5793),
    (42.4, 5793),
    (53.6, 5793),
    (64.8, 5793),
    (75.9, 5752),
    (86.9, 5752),
    (98.0, 5752),
    (109.1, 5712),
    (120.2, 5712),
    (131.1, 5712),
    (142.4, 5712),
    (153.5, 5671),
    (164.5, 5671),
    (175.6, 5671),
    (186.6, 5671),
    (197.6, 5671),
    (208.7, 5631),
    (219.8, 5631),
    (230.7, 5631),
    (242.1, 5631),
    (253.1, 5631),
    (264.2, 5631),
    (275.1, 5590),
    (286.3, 5590),
    (297.3, 5590),
    (308.4, 5590),
    (319.5, 5590),
    (330.2, 5590),
    (341.3, 5550),
    (352.6, 5550),
    (363.7, 5550),
    (374.9, 5550),
    (385.7, 5550),
    (396.8, 5550),
    (407.9, 5550),
    (419.2, 5550),
    (430.0, 5509),
    (441.0, 5509),
    (452.1, 5509),
    (463.2, 5509),
    (474.3, 5509),
    (485.4, 5509),
    (496.4, 5469),
    (507.6, 5469),
    (518.6, 5469),
    (529.7, 5469),
    (540.8, 5469),
    (552.1, 5469),
    (563.2, 5469),
    (574.2, 5469),
    (585.2, 5428),
    (596.3, 5428),
    (607.4, 5428),
    (618.3, 5428),
    (629.4, 5428),
    (640.4, 5428),
    (651.5, 5428),
    (662.6, 5428),
    (673.5, 5428),
    (684.5, 5428),
    (695.6, 5428),
    (706.6, 5428),
    (717.7, 5428),
    (728.8, 5428),
    (739.8, 5428),
    (750.9, 5428),
    (761.9, 5388),
    (773.1, 5388),
    (786.2, 5388),
    (797.7, 5388),
    (808.8, 5388),
    (819.9, 5388),
    (831.0, 5388),
    (842.0, 5388),
    (853.1, 5388),
    (864.2, 5388),
    (875.5, 5388),
    (886.6, 5388),
    (897.5, 5388),
    (908.5, 5388),
    (919.6, 5388),
    (930.7, 5388),
    (941.7, 5388),
    (952.4, 5388),
    (963.5, 5388),
    (974.7, 5388),
    (985.5, 5388),
    (996.5, 5388),
)


def test_a_real_orin_nx_steps_by_forty_milliwatts_and_is_read_more_often_than_it_changes() -> None:
    """By hand: 10 changes in 92 lines, of 40 or 41 mW each."""
    t_ns = np.array([round(t * 1e6) for t, _ in ORIN_NX], np.int64)
    value = np.array([mw for _, mw in ORIN_NX]) * 1e-3
    seen = found(t_ns, value, 0.001)
    assert seen.resolution == pytest.approx(0.0405, abs=0.0006)
    assert seen.repeated == pytest.approx(1 - 10 / 90, abs=0.002)
    assert seen.spacing_s == pytest.approx(0.0111, abs=0.0001)
    assert seen.slower


EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    steps=st.lists(st.integers(1, 10**9), max_size=60),
    values=st.lists(st.sampled_from([0.0, 0.4, 0.8, 1.2, 7.0, float("nan"), -3.1]), max_size=60),
)
def test_any_samples_give_an_interval_that_holds_its_value_or_none(
    steps: list[int], values: list[float]
) -> None:
    count = min(len(steps), len(values))
    t_ns = np.cumsum(np.array(steps[:count], np.int64))
    seen = found(t_ns, np.array(values[:count], np.float64))
    figure = seen.interval
    if figure.value is None:
        assert figure.reason
    else:
        assert figure.low is not None
        assert figure.high is not None
        assert 0 <= figure.low <= figure.value <= figure.high
    assert 0 <= seen.repeated <= 1
    assert seen.resolution is None or seen.resolution > 0


@pytest.mark.parametrize(
    ("values", "unit"),
    [([1.931, 0.231, 0.154], 1e-3), ([2.035e9, 3.45e8, 1.42e9], 1e6), ([0.17, 0.9], 1e-2)],
)
def test_the_unit_that_a_log_is_written_in_is_told_from_its_values(
    values: list[float], unit: float
) -> None:
    assert written_unit(np.array([*values, np.nan, 0.0])) == pytest.approx(unit)
    assert written_unit(np.array([math.pi, math.e])) == 0.0
    assert written_unit(np.array([np.nan, 0.0])) == 0.0


@pytest.mark.parametrize(
    ("values", "unit"),
    [([20, 30, 90], 1.0), ([20, 30, 40, 60, 70, 90, 110], 10.0), ([0.5, 0.7], 0.01)],
)
def test_a_few_round_values_are_no_unit_that_a_log_is_written_in(
    values: list[float], unit: float
) -> None:
    """By itself, 10 W for 20, 30, and 90 made every energy of theirs uncertain by 10 %."""
    assert written_unit(np.array(values, float)) == pytest.approx(unit)


@pytest.mark.parametrize("levels", [(1, 3, 9), (3, 9), (20, 30, 90), (1, 5, 9), (2, 5, 9, 14)])
def test_the_levels_of_a_load_are_no_step_of_its_sensor(levels: tuple[float, ...]) -> None:
    """A square wave between a few powers says nothing of how fine its sensor is."""
    values = np.random.default_rng(0).choice(levels, 2000).astype(float)
    assert resolution_of(values) is None
    assert resolution_of(values, 0.01) == 0.01


@pytest.mark.parametrize("levels", [(0, 1, 2), (7, 8, 9, 10), (5, 6, 7, 8, 10)])
def test_multiples_in_a_row_and_five_levels_are_those_of_a_sensor(
    levels: tuple[int, ...],
) -> None:
    values = 0.4 * np.random.default_rng(0).choice(levels, 2000)
    assert resolution_of(values) == pytest.approx(0.4)
