"""When windows come: as soon as it may, never above the budget, at last once a minute."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.record.tracing.schedule import (
    BUDGET,
    ENOUGH,
    LEAST_CLEAN,
    STARTUP_BUDGET,
    WANTED,
    Schedule,
    TraceMode,
)

MINUTE_NS = 60 * 10**9


@pytest.mark.parametrize(
    ("text", "every", "tracing"),
    [("auto", None, True), ("none", None, False), ("every:1", 1, True), ("every:250", 250, True)],
)
def test_a_mode_reads_its_three_forms(text: str, every: int | None, tracing: bool) -> None:
    mode = TraceMode.parse(text)
    assert (mode.every, mode.tracing) == (every, tracing)


@pytest.mark.parametrize(
    "text",
    ["", "Auto", "all", "every", "every:", "every:0", "every:-1", "every:1.5", "every:x", "5"],
)
def test_a_mode_refuses_anything_else_and_names_the_forms(text: str) -> None:
    with refused("malformed-trace-mode", "auto, none, every:N"):
        TraceMode.parse(text)


def windows(mode: str, clean_ns: int, window_ns: int, steps: int, warmup: int = 3) -> list[int]:
    """Steps that a schedule traces, where clean steps and windows always take the same."""
    schedule = Schedule(TraceMode.parse(mode), warmup)
    traced = []
    for index in range(steps):
        if index >= schedule.next_step:
            traced.append(index)
            schedule.after_window(index, window_ns)
        elif index >= warmup:
            schedule.clean_step(clean_ns)
    return traced


def test_nothing_is_traced_where_nothing_is_wanted() -> None:
    assert windows("none", 10**6, 10**6, 1000) == []
    assert Schedule(TraceMode.parse("none"), 3).next_step == math.inf


@pytest.mark.parametrize("every", [2, 4, 9])
def test_every_n_leaves_n_steps_between_on_average_and_half_of_them_at_least(every: int) -> None:
    gaps = np.diff(windows(f"every:{every}", 10**6, 5 * 10**6, 20_000)) - 1
    assert gaps.min() == every - every // 2
    assert gaps.max() == every + every // 2
    assert gaps.mean() == pytest.approx(every, rel=0.05)


@pytest.mark.parametrize("period", [2, 3, 5, 10])
@pytest.mark.parametrize("mode", ["auto", *(f"every:{n}" for n in (1, 2, 3, 4, 9, 19))])
def test_steps_that_take_turns_are_all_traced_about_as_often(mode: str, period: int) -> None:
    """Windows in lock step with the training would show one kind of step and no other."""
    traced = np.array(windows(mode, 10**7, 2 * 10**7, 40 * period * 20))
    shares = np.bincount(traced % period, minlength=period) / len(traced)
    error = math.sqrt((1 - 1 / period) / period / len(traced))
    assert np.abs(shares - 1 / period).max() < 4 * error


def test_the_same_steps_are_traced_every_time() -> None:
    assert windows("every:4", 10**6, 10**6, 400) == windows("every:4", 10**6, 10**6, 400)


@given(
    clean_ns=st.integers(100_000, 10**9),
    extra_ns=st.integers(0, 50_000_000),
    warmup=st.integers(0, 10),
)
def test_no_warm_up_step_and_no_settling_step_is_traced(
    clean_ns: int, extra_ns: int, warmup: int
) -> None:
    traced = windows("auto", clean_ns, clean_ns + extra_ns, 500, warmup)
    assert traced[0] >= warmup + LEAST_CLEAN
    assert all(b - a > LEAST_CLEAN for a, b in itertools.pairwise(traced))


@settings(max_examples=20, deadline=None)
@given(clean_ns=st.integers(200_000, 10**8), extra_ns=st.integers(0, 20_000_000))
def test_what_windows_cost_stays_within_the_budget(clean_ns: int, extra_ns: int) -> None:
    """Over many runs, so much clean time passes between two windows that the extra is its share."""
    between = np.zeros(2 * WANTED)
    for seed in range(100):
        schedule = Schedule(TraceMode.parse("auto"), 0, seed)
        for _ in range(31):
            schedule.clean_step(clean_ns)
        index = 100
        for number in range(1, 2 * WANTED):
            schedule.after_window(index, clean_ns + extra_ns)
            between[number] += (schedule.next_step - index - 1) * clean_ns / 100
            index = int(schedule.next_step)
    for number in range(1, 2 * WANTED):
        share = STARTUP_BUDGET if number < WANTED else BUDGET
        assert extra_ns <= share * between[number] * 1.15  # the mean of 100
        # and no later than it must be
        assert between[number] - 2 * clean_ns <= 1.15 * max(
            extra_ns / share, LEAST_CLEAN * clean_ns
        )


def test_there_are_ten_windows_within_the_first_hundred_steps_of_fifty_milliseconds() -> None:
    assert len(windows("auto", 50_000_000, 55_000_000, 100)) >= WANTED


def test_a_long_run_has_at_most_a_window_a_minute_once_there_are_enough() -> None:
    clean = 100_000_000
    traced = windows("auto", clean, clean + 1_000_000, 60_000)
    late = traced[ENOUGH:]
    assert late
    assert all((b - a) * clean >= MINUTE_NS for a, b in itertools.pairwise(late))


def test_a_typical_step_is_the_median_of_the_last_ones() -> None:
    schedule = Schedule(TraceMode.parse("auto"), 0)
    assert schedule.typical_ns == 0
    for duration in (5, 1, 100):
        schedule.clean_step(duration)
    assert schedule.typical_ns == 5
