"""Idle time by cause, against timelines cut by hand, and against counting every nanosecond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.attribution.gaps import LAUNCHED, Spans, by_cause, device_gap_spans

NAN = float("nan")
LISTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=6)


def spans(pairs: list[tuple[int, int]]) -> Spans:
    return Spans.of([a for a, _ in pairs], [b for _, b in pairs])


def ns(seconds: dict[str, float]) -> dict[str, int]:
    return {name: round(value * 1e9) for name, value in seconds.items()}


def device_gaps(*step: Any) -> dict[str, float]:
    return {name: gaps.total_s for name, gaps in device_gap_spans(*step).items()}


def test_a_gap_before_a_launch_is_the_hosts_and_after_it_the_devices() -> None:
    # Step 0 to 100. Kernels 20-40 (launched at 10) and 60-70 (launched at 50).
    # Idle: 0-20, 40-60, 70-100. The host runs operations 0-12 and 45-52, loads data 80-100.
    host = {"operations": spans([(0, 12), (45, 52)]), "data": spans([(80, 100)])}
    found = device_gaps(0, 100, spans([(20, 40), (60, 70)]), np.array([10.0, 50.0]), host, "code")
    assert ns(found) == {
        LAUNCHED: 10 + 10,  # 10-20 and 50-60
        "operations": 10 + 5,  # 0-10, 45-50
        "data": 20,
        "code": 5 + 10,  # 40-45, 70-80
    }


def test_work_whose_launch_is_unknown_leaves_the_gap_to_the_host() -> None:
    found = device_gaps(0, 10, spans([(4, 10)]), np.array([NAN]), {}, "code")
    assert ns(found) == {LAUNCHED: 0, "code": 4}


def test_work_that_was_launched_in_time_waited_for_the_device() -> None:
    # The second kernel was launched at 5, while the first still ran.
    found = device_gaps(0, 30, spans([(0, 20), (24, 30)]), np.array([0.0, 5.0]), {}, "code")
    assert ns(found) == {LAUNCHED: 4, "code": 0}


def test_a_device_that_never_rests_has_no_gap() -> None:
    found = device_gaps(0, 30, spans([(-5, 20), (20, 40)]), np.array([-9.0, 5.0]), {}, "code")
    assert ns(found) == {LAUNCHED: 0, "code": 0}


def test_a_step_without_work_is_one_gap() -> None:
    nothing = np.zeros(0)
    found = device_gaps(0, 30, spans([]), nothing, {"data": spans([(0, 10)])}, "code")
    assert ns(found) == {LAUNCHED: 0, "data": 10, "code": 20}


def test_the_first_cause_that_covers_an_instant_takes_it() -> None:
    found = by_cause(spans([(0, 10)]), {"a": spans([(2, 6)]), "b": spans([(4, 8)])}, "left")
    assert ns(found) == {"a": 4, "b": 2, "left": 4}


@given(work=LISTS, first=LISTS, second=LISTS, launched=st.lists(st.integers(0, 80), max_size=6))
def test_causes_add_up_to_the_idle_time(
    work: list[tuple[int, int]],
    first: list[tuple[int, int]],
    second: list[tuple[int, int]],
    launched: list[int],
) -> None:
    kernels = [(a, a + length) for a, length in work]
    at = np.array([*launched, *[NAN] * 6][: len(kernels)], float)
    host = {
        "a": spans([(a, a + n) for a, n in first]),
        "b": spans([(a, a + n) for a, n in second]),
    }
    found = device_gaps(5, 70, spans(kernels), at, host, "code")
    idle = sum(not any(a <= t < b for a, b in kernels) for t in range(5, 70))
    assert sum(ns(found).values()) == idle


@given(one=LISTS, other=LISTS)
def test_sets_of_time_agree_with_counting(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    a, b = ([(s, s + n) for s, n in pairs] for pairs in (one, other))
    mine = {t for s, e in a for t in range(s, e)}
    theirs = {t for s, e in b for t in range(s, e)}

    def seconds(found: Spans) -> int:
        return round(found.total_s * 1e9)

    assert seconds(spans(a).union()) == len(mine)
    assert seconds(spans(a).both(spans(b))) == len(mine & theirs)
    assert seconds(spans(a).without(spans(b))) == len(mine - theirs)
    assert seconds(spans(a).holes(0, 50)) == len(set(range(50)) - mine)


def test_spans_keep_integers_that_doubles_cannot() -> None:
    begin = 1_739_836_029_603_476_647
    found = spans([(begin, begin + 3)]).holes(begin - 1, begin + 4)
    assert found.start_ns.tolist() == [begin - 1, begin + 3]
    assert found.total_s == pytest.approx(2e-9)
