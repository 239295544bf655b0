"""Samples become equations: what windows of time cover of a step, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattstep.attribution.regression.axis import axis_of
from wattstep.attribution.regression.observed import observe
from wattstep.attribution.regression.problem import Layout, Sampled
from wattstep.attribution.regression.readings import readings

MS = 1_000_000
# A step of 100 ms in two phases; kinds 0, 1 in the first, 2 and both at once in the second.
LAYOUT = Layout(
    edges=np.array([0.0, 0.2, 0.5, 0.8, 1.0]),
    segment=np.array([0, 1, 2, 3, 3]),
    kind=np.array([0, 1, 2, 0, 1]),
    weight=np.array([1.0, 1.0, 1.0, 0.5, 0.5]),
)


def sampled(ends_ms: list[float], **fields: object) -> Sampled:
    """Two steps that touch, the second with a first phase of twice the length, and one far off."""
    edges = np.array([[0, 50, 100], [100, 200, 250], [1000, 1050, 1100]]) * MS
    t_ns = (np.array(ends_ms) * MS).astype(np.int64)
    plain = {"value": np.arange(len(t_ns), dtype=float), "counter": False, "layouts": [LAYOUT]}
    return Sampled(
        t_ns=t_ns, start_ns=edges[:, 0], end_ns=edges[:, -1], edges_ns=edges,
        edges=np.array([0.0, 0.5, 1.0]), **{**plain, **fields},  # type: ignore[arg-type]
    )  # fmt: skip


def shares(process: Sampled, delay: float = 0.0, window: float = 0.0) -> np.ndarray:
    """Time of each kind and, last, between steps, for each window within steps."""
    observed = observe([process], axis_of([process], 3))
    rows = observed.rows(delay, window)
    return np.asarray(rows.weights @ observed.table())


def test_a_moment_sees_what_runs_then() -> None:
    seen = shares(sampled([10, 30, 60, 90]))
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.5, 0.5, 0, 0]]
    assert seen == pytest.approx(np.array(expected))


def test_a_window_sees_what_ran_in_it() -> None:
    # From 10 to 30 ms: half of it kind 0, half kind 1.
    assert shares(sampled([30]), window=0.020) == pytest.approx(np.array([[0.5, 0.5, 0, 0]]))


def test_phases_are_stretched_to_each_step() -> None:
    # The second step's first phase takes 100 ms: kind 0 until 140 ms, kind 1 until 200 ms.
    assert shares(sampled([150]), window=0.020) == pytest.approx(np.array([[0.5, 0.5, 0, 0]]))


def test_a_window_reaches_over_steps_that_touch() -> None:
    # From 80 to 120 ms: 20 ms of both at once, then 20 ms of kind 0.
    assert shares(sampled([120]), window=0.040) == pytest.approx(np.array([[0.75, 0.25, 0, 0]]))


def test_a_window_over_whole_steps_sees_all_of_them() -> None:
    # 0 to 250 ms: kinds 0, 1, 2 take 20 + 10, 30 + 10, 30 ms and 40 + 10, 60 + 10, 30 ms.
    seen = shares(sampled([250 - 1e-6]), window=0.250 - 1e-9)
    assert seen == pytest.approx(np.array([[80 / 250, 110 / 250, 60 / 250, 0]]), rel=1e-6)


def test_the_delay_is_taken_off() -> None:
    assert shares(sampled([30]), delay=0.020) == pytest.approx(np.array([[1, 0, 0, 0]]))


def test_windows_that_reach_outside_are_left_out() -> None:
    process = sampled([5, 30, 255, 600, 1005, 1030])
    observed = observe([process], axis_of([process], 3))
    assert observed.rows(0.0, 0.010).taken.tolist() == [False, True, False, False, False, True]


def test_short_gaps_between_steps_are_a_kind_of_their_own() -> None:
    edges = np.array([[0, 50, 100], [102, 152, 202]]) * MS
    process = Sampled(
        t_ns=np.array([107 * MS]), value=np.array([1.0]), counter=False, start_ns=edges[:, 0],
        end_ns=edges[:, -1], edges_ns=edges, edges=np.array([0.0, 0.5, 1.0]), layouts=[LAYOUT],
    )  # fmt: skip
    # From 97 to 107 ms: 3 ms both at once, 2 ms between, 5 ms kind 0.
    assert shares(process, window=0.010) == pytest.approx(np.array([[0.65, 0.15, 0, 0.2]]))


def test_layouts_are_averaged() -> None:
    other = Layout(
        edges=np.array([0.0, 0.4, 0.5, 1.0]), segment=np.arange(3), kind=np.arange(3),
        weight=np.ones(3),
    )  # fmt: skip
    # At 30 ms one layout has kind 1, the other kind 0.
    seen = shares(sampled([30], layouts=[LAYOUT, other]))
    assert seen == pytest.approx(np.array([[0.5, 0.5, 0, 0]]))


def test_a_counter_s_differences_have_their_own_windows() -> None:
    process = sampled([10, 20, 30], value=np.array([1.0, 1.5, 3.5]), counter=True)
    found = readings(process)
    assert found.watts == pytest.approx([50.0, 200.0])
    assert found.lasted_s == pytest.approx([0.010, 0.010])
    assert shares(process) == pytest.approx(np.array([[1, 0, 0, 0], [0, 1, 0, 0]]))


def test_a_gap_in_a_counter_is_no_difference() -> None:
    process = sampled([10, 20, 30, 40], value=np.array([1.0, 2.0, np.nan, 9.0]), counter=True)
    assert readings(process).watts == pytest.approx([100.0])


def test_values_that_repeat_are_read_once_and_updates_get_even_times() -> None:
    update, read = 0.0101, 0.002
    t_ns = (np.arange(0, 2, read) * 1e9).astype(np.int64)
    made = np.floor((t_ns * 1e-9 + 0.003) / update)
    value = np.sin(made * 1.7) * 3 + 5
    process = Sampled(
        t_ns=t_ns, value=value, counter=False, start_ns=np.array([0]), end_ns=np.array([100 * MS]),
        edges_ns=np.array([[0, 50 * MS, 100 * MS]]), edges=np.array([0.0, 0.5, 1.0]),
        layouts=[LAYOUT],
    )  # fmt: skip
    found = readings(process)
    assert np.diff(found.end_s) == pytest.approx(update, rel=1e-3)
    # Made when 0.003 + t is a multiple of the interval; seen up to a read later.
    off = (found.end_s + 0.003) / update
    assert np.abs(off - np.rint(off)).max() * update < read
    assert len(found.watts) == pytest.approx(2 / update, abs=3)


def test_equal_values_of_a_coarse_sensor_are_no_repeats() -> None:
    rng = np.random.default_rng(0)
    t_ns = (np.arange(2000) * 10 * MS).astype(np.int64)
    process = sampled([0.0], value=np.zeros(1))
    coarse = Sampled(
        t_ns=t_ns, value=np.rint(rng.normal(5, 0.7, 2000)), counter=False,
        start_ns=process.start_ns, end_ns=process.end_ns, edges_ns=process.edges_ns,
        edges=process.edges, layouts=[LAYOUT],
    )  # fmt: skip
    assert len(readings(coarse).watts) == 2000


def test_operations_that_stand_still_for_a_read_or_two_are_no_slow_sensor() -> None:
    rng = np.random.default_rng(7)
    lasting = np.exp(rng.uniform(np.log(4), np.log(24), 16))
    power = rng.uniform(4, 20, 16).round(3)
    ends = np.cumsum(np.tile(lasting, 150) * np.exp(0.1 * rng.standard_normal(16 * 150)))
    t_ns = (np.arange(1, 1200) * 10 * MS).astype(np.int64)
    process = sampled([0.0], value=np.zeros(1))
    standing = Sampled(
        t_ns=t_ns, value=power[np.searchsorted(ends, t_ns / MS) % 16], counter=False,
        start_ns=process.start_ns, end_ns=process.end_ns, edges_ns=process.edges_ns,
        edges=process.edges, layouts=[LAYOUT],
    )  # fmt: skip
    assert len(readings(standing).watts) == 1199


@pytest.mark.parametrize("window", [0.0, 0.012])
def test_groups_are_seen_by_a_memory_as_kinds_are_with_less_than_half_the_weights(
    window: float,
) -> None:
    process = sampled([15, 40, 90, 130, 170, 245, 1030, 1090])
    observed = observe([process], axis_of([process], 3)).forgetting(0.008, window)
    one_by_one, in_mean = (
        each.rows(0.001, 0.0) for each in (observed, replace(observed, grouped=True))
    )
    assert (in_mean.taken == one_by_one.taken).all()
    assert in_mean.taken.sum() >= 5
    table = observed.table()
    expected = np.asarray(one_by_one.weights @ table)
    assert np.asarray(in_mean.weights @ table) == pytest.approx(expected, abs=1e-9)
    assert expected.sum(axis=1) == pytest.approx(np.ones(len(expected)))
    assert (in_mean.step == one_by_one.step).all()
    assert in_mean.position == pytest.approx(one_by_one.position)
    assert in_mean.weights.nnz <= one_by_one.weights.nnz / 2
