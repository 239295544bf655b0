"""What tracing costs, from numbers that were put in, and queues played again by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from wattstep.attribution.gpu_idle import UNKNOWN
from wattstep.attribution.undisturbed import (
    Delays,
    Replayed,
    TracingCost,
    Window,
    delays_of,
    fit_host_cost,
    fit_piece_cost,
)
from wattstep.attribution.undisturbed import replay as replay_with

US = 1_000
FREE = TracingCost(
    operation_s=0.0, call_s=0.0, piece_s=0.0, within_s=0.0, host_residual=0.0, device_residual=0.0
)
DELAYS = Delays(launch=10 * US, between=0.0, wake=5 * US)


def window(
    pieces: list[tuple[int, float, float, float]],
    *,
    waits: list[tuple[float, float]] | None = None,
    joins: list[float] | None = None,
    end: float = 0.0,
    backlog: float = 10.0,
    saved: list[tuple[float, float]] | None = None,
) -> Window:
    """A step from 0 µs on, of an idle device.

    Args:
        pieces: Stream, begin of the call, begin and end, in µs.
        waits: Begin and end of calls that wait, in µs.
        joins: When streams are told to wait for another, in µs.
        end: Of the step on the host.
        backlog: By how much the device is behind in clean steps.
        saved: Times of the host in the trace and as they would have been.
    """
    columns = np.array(pieces, np.float64).reshape(-1, 4)
    stream, (call, start, finish) = columns[:, 0].astype(np.int64), columns[:, 1:].T * US
    saved = saved or [(0.0, 0.0)]
    return Window(
        begin_ns=0,
        end_ns=round(end * US),
        reached_ns=10 * US,
        stamps_ns=np.array([a * US for a, _ in saved], np.int64),
        untraced_ns=np.array([b * US for _, b in saved], np.float64),
        waits_ns=(np.array(waits or [], np.float64).reshape(-1, 2) * US).astype(np.int64),
        joins_ns=(np.array(joins or [], np.float64) * US).astype(np.int64),
        start_ns=start.astype(np.int64),
        finish_ns=finish.astype(np.int64),
        stream=stream,
        call_ns=np.where(call < 0, UNKNOWN, call).astype(np.int64),
        followed=np.ones(len(columns), bool),
        backlog_ns=backlog * US,
    )


def replay(step: Window, delays: Delays, cost: TracingCost) -> Replayed:
    """The step, played again by what it needs."""
    return replay_with(step, step.needs(delays.launch), delays, cost)


def told(again: Replayed) -> list[tuple[float, float]]:
    """When each piece runs, in µs."""
    return [(a / US, b / US) for a, b in zip(again.start_ns, again.finish_ns, strict=True)]


# --- cost -----------------------------------------------------------------------------------------


def test_an_operation_and_a_call_have_the_costs_that_were_put_in() -> None:
    operations = np.array([[10.0, 40.0, 8.0]] * 6)
    calls = np.array([[4.0, 10.0, 12.0]] * 6)
    noise = 1e-7 * np.array([[1], [-1], [0], [0], [-1], [1]])
    extra = 2e-6 * operations + 5e-6 * calls + noise
    operation, call, residual = fit_host_cost(extra, operations, calls, np.full((6, 3), 1e-3))
    assert (operation, call) == pytest.approx((2e-6, 5e-6), rel=0.01)
    assert abs(residual) < 1e-3


def test_where_their_numbers_go_together_both_cost_the_same() -> None:
    operations, calls = np.full((3, 2), 30.0), np.full((3, 2), 10.0)
    found = fit_host_cost(np.full((3, 2), 8e-5), operations, calls, np.full((3, 2), 1e-3))
    assert found[:2] == pytest.approx((2e-6, 2e-6))
    assert math.isnan(found[2])  # of three windows


def test_phases_that_are_shorter_when_traced_cost_nothing() -> None:
    counts = np.full((4, 1), 10.0)
    assert fit_host_cost(np.full((4, 1), -1e-5), counts, counts, counts)[:2] == (0.0, 0.0)


def test_without_a_phase_in_which_the_host_never_waits_its_cost_is_not_known() -> None:
    assert all(map(math.isnan, fit_host_cost(*np.zeros((4, 5, 0)))))


def test_a_piece_costs_what_its_phases_are_longer_by_or_what_was_measured() -> None:
    pieces, beside = np.array([[20.0, 5.0]] * 4), np.full((4, 2), 5e-4)
    extra = 1.2e-6 * pieces
    assert fit_piece_cost(extra, pieces, beside) == pytest.approx((1.2e-6, 0.0), abs=1e-12)
    cost, residual = fit_piece_cost(extra, pieces, beside, 1.0e-6)
    assert (cost, residual) == pytest.approx((1.0e-6, 0.2e-6 * 25 / 1e-3))
    cost, residual = fit_piece_cost(*np.zeros((3, 4, 0)), 1.0e-6)
    assert cost == 1.0e-6
    assert math.isnan(residual)


# --- the queue, played again ----------------------------------------------------------------------

# Three kernels of 20 µs, each asked for when the one before is over, 12 µs apart.
HOST_BOUND = [(7, 0, 10, 30), (7, 32, 42, 62), (7, 64, 74, 94)]


def test_delays_are_those_of_the_trace() -> None:
    queued = [(7, 0, 10, 100), (7, 5, 103, 110), (7, 6, 113, 120)]
    found = delays_of([window(HOST_BOUND), window(queued, waits=[(50, 125)])])
    assert (found.launch, found.between, found.wake) == (10 * US, 3 * US, 5 * US)


def test_a_step_that_cost_nothing_is_played_as_it_was() -> None:
    again = replay(window(HOST_BOUND, end=80), DELAYS, FREE)
    assert told(again) == [(10, 30), (42, 62), (74, 94)]
    assert (again.begin_ns, again.end_ns) == (10 * US, 94 * US)


def test_a_host_that_is_faster_untraced_asks_earlier() -> None:
    """Between the calls the tracer took 6 µs of 32; the kernels follow, as long after their calls."""
    saved = [(0, 0), (32, 26), (64, 52), (80, 65)]
    again = replay(window(HOST_BOUND, end=80, saved=saved), DELAYS, FREE)
    assert told(again) == [(10, 30), (36, 56), (62, 82)]
    assert again.end_ns == 82 * US
    assert again.host(np.array([48 * US])) == pytest.approx([39 * US])


def test_a_full_queue_leaves_no_gap() -> None:
    again = replay(window(HOST_BOUND, end=80, backlog=500), DELAYS, FREE)
    assert told(again) == [(500, 520), (520, 540), (540, 560)]
    assert (again.begin_ns, again.end_ns) == (500 * US, 560 * US)


def test_what_tracing_costs_a_piece_is_off_its_length_and_off_what_comes_before_it() -> None:
    queued = [(7, 0, 12, 100), (7, 5, 103, 110)]
    cost = TracingCost(
        operation_s=0.0, call_s=0.0, piece_s=3e-6, within_s=1e-6, host_residual=0.0,
        device_residual=0.0,
    )  # fmt: skip
    again = replay(window(queued), Delays(launch=12 * US, between=3 * US, wake=0.0), cost)
    assert told(again) == [(10, 97), (98, 104)]


def test_a_host_that_waits_goes_on_when_the_device_is_done() -> None:
    """The host waits 40-99 for the kernel that ends at 94, and asks for another at 105."""
    pieces = [(7, 0, 10, 94), (7, 105, 115, 120)]
    step = window(pieces, waits=[(40, 99)], end=110, backlog=60)
    assert told(replay(step, DELAYS, FREE)) == [(60, 144), (165, 170)]


def test_a_stream_that_was_told_to_wait_waits_though_it_need_not_in_the_trace() -> None:
    """A copy of 50 µs in another stream; its kernel was asked for late, and is so no more."""
    pieces = [(20, 0, 10, 60), (7, 100, 110, 300)]
    saved = [(0, 0), (100, 20), (200, 120)]
    step = window(pieces, joins=[90], saved=saved)
    assert told(replay(step, DELAYS, FREE)) == [(10, 60), (60, 250)]
    apart = window(pieces, saved=saved)
    assert told(replay(apart, DELAYS, FREE)) == [(10, 60), (30, 220)]


def test_work_that_began_right_after_another_streams_waits_for_that() -> None:
    pieces = [(20, 0, 10, 60), (7, 5, 61, 300)]
    step = window(pieces, backlog=0)
    assert told(replay(step, DELAYS, FREE)) == [(10, 60), (61, 300)]


def test_all_work_of_a_graph_has_one_call() -> None:
    pieces = [(7, 0, 10, 20), (7, 0, 21, 31), (7, 0, 32, 42)]
    step: Any = window(pieces, backlog=100)
    assert told(replay(step, DELAYS, FREE)) == [(100, 110), (111, 121), (122, 132)]


def test_work_of_an_unknown_call_keeps_its_place_on_the_host() -> None:
    again = replay(window([(7, -1, 40, 50)], saved=[(0, 0), (100, 80)]), DELAYS, FREE)
    assert told(again) == [(32, 42)]


def test_a_step_without_work_lasts_as_long_as_the_host() -> None:
    again = replay(window([], end=80, saved=[(0, 0), (80, 64)]), DELAYS, FREE)
    assert (again.begin_ns, again.end_ns) == (10 * US, 74 * US)
