"""The agent's own schedule, which lives in its one file, beside the one of the recorder."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from wattstep.agent import wattstep_agent
from wattstep.tracing.schedule import ENOUGH, LEAST_CLEAN, Schedule, TraceMode

MODES = st.one_of(st.sampled_from(["auto", "none"]), st.integers(1, 500).map("every:{}".format))
STEPS_NS = st.integers(1, 10**11)


def both(mode: str, warmup: int) -> tuple[Schedule, wattstep_agent.Schedule]:
    """The recorder's schedule, and the agent's of the same settings."""
    wanted = TraceMode.parse(mode)
    trace = mode if wanted.every is None else "auto"
    return Schedule(wanted, warmup), wattstep_agent.Schedule(trace, wanted.every, warmup)


def traced(
    schedule: Any, note: Callable[[int], None], warmup: int, clean_ns: int, window_ns: int
) -> list[int]:
    """Steps that it traces, of 300 where clean ones and windows always take the same."""
    found = []
    for index in range(300):
        if index >= schedule.next_step:
            found.append(index)
            schedule.after_window(index, window_ns)
        elif index >= warmup:
            note(clean_ns)
    return found


@given(mode=MODES, warmup=st.integers(0, 20), clean_ns=STEPS_NS, window_ns=STEPS_NS)
@example(mode="auto", warmup=3, clean_ns=10**9, window_ns=10**9)
@example(mode="none", warmup=0, clean_ns=10**9, window_ns=10**9)
def test_where_all_steps_take_the_same_both_trace_the_same_ones(
    mode: str, warmup: int, clean_ns: int, window_ns: int
) -> None:
    schedule, agents = both(mode, warmup)
    steps = traced(schedule, schedule.clean_step, warmup, clean_ns, window_ns)
    assert traced(agents, agents.clean.append, warmup, clean_ns, window_ns) == steps
    assert bool(steps) == (mode != "none")


@given(
    mode=MODES.filter(lambda mode: mode != "none"),
    warmup=st.integers(0, 20),
    rounds=st.lists(st.tuples(st.lists(STEPS_NS, max_size=40), STEPS_NS), min_size=1, max_size=8),
)
@example(mode="auto", warmup=0, rounds=[([10**9], 10**9 + 1)])
@example(mode="auto", warmup=0, rounds=[([], 10**9)])
@example(mode="auto", warmup=0, rounds=[([2, 4], 1000)])
def test_where_steps_differ_both_decide_alike(
    mode: str, warmup: int, rounds: list[tuple[list[int], int]]
) -> None:
    """Clean steps, then a window, again and again until there are more windows than any rule needs."""
    schedule, agents = both(mode, warmup)
    assert agents.next_step == schedule.next_step == warmup + LEAST_CLEAN
    for clean, window_ns in itertools.islice(itertools.cycle(rounds), ENOUGH + 5):
        for duration_ns in clean:
            schedule.clean_step(duration_ns)
            agents.clean.append(duration_ns)
        index = int(schedule.next_step)
        schedule.after_window(index, window_ns)
        agents.after_window(index, window_ns)
        assert agents.next_step == schedule.next_step


@given(st.lists(STEPS_NS, min_size=1, max_size=40))
@example([2, 4])
@example([5, 1, 3])
def test_a_typical_step_is_the_median_of_the_last_31(clean: list[int]) -> None:
    schedule = wattstep_agent.Schedule("auto", None, 0)
    assert schedule.typical_ns == 0
    schedule.clean.extend(clean)
    assert schedule.typical_ns == statistics.median(clean[-31:])


@given(warmup=st.integers(0, 20), every=st.none() | st.integers(1, 500))
def test_layers_are_timed_in_the_steps_that_would_be_traced(warmup: int, every: int | None) -> None:
    """Mode "layers" is one of the agent alone; "none" stays none, whatever else is said."""
    layers = wattstep_agent.Schedule("layers", every, warmup)
    auto = wattstep_agent.Schedule("auto", every, warmup)
    assert layers.next_step == auto.next_step
    assert wattstep_agent.Schedule("none", every, warmup).next_step == math.inf
