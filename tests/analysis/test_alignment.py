"""Maps of clocks: from offsets and marks, beyond their knots, and as JSON."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.importing.clocks.alignment import ClockMap, from_marks, from_offset

SECOND = 10**9
EPOCH = 1_790_000_000 * SECOND


def test_an_offset_and_a_rate_are_exact_to_the_nanosecond() -> None:
    found = from_offset(-3.25, rate=1.00002, at_ns=EPOCH, uncertainty_s=0.001)
    # 1000 s later the other clock has gone 0.02 s further: -3.25 + 1000.02.
    assert found.map([EPOCH, EPOCH + 1000 * SECOND]).tolist() == [
        EPOCH - 3_250_000_000,
        EPOCH - 3_250_000_000 + 1_000_020_000_000,
    ]
    assert found.uncertainty_at(EPOCH + 5).tolist() == 1_000_000


def test_the_uncertainty_grows_beyond_the_knots_by_that_of_the_rate() -> None:
    found = from_offset(0, rate_uncertainty=1e-4, uncertainty_s=0.01)
    assert found.uncertainty_at([-100 * SECOND, 0, 100 * SECOND]).tolist() == [
        20_000_000,
        10_000_000,
        20_000_000,
    ]


def test_between_knots_it_is_linear() -> None:
    found = ClockMap(
        from_ns=np.array([0, 100]), to_ns=np.array([1000, 1300]),
        uncertainty_ns=np.array([10, 30]), rate=1.0, rate_uncertainty=0.0, method="marks",
    )  # fmt: skip
    assert found.map([-10, 0, 50, 100, 110]).tolist() == [990, 1000, 1150, 1300, 1310]
    assert found.uncertainty_at([50, 100, 500]).tolist() == [20, 30, 30]


@pytest.mark.parametrize(("offset", "rate"), [(float("nan"), 1.0), (1e12, 1.0), (0.0, 2.0)])
def test_what_no_clock_does_is_refused(offset: float, rate: float) -> None:
    with pytest.raises(InvalidValueError):
        from_offset(offset, rate=rate)


# --- marks -------------------------------------------------------------------------------------


def marks(seconds: list[float], ppm: float = 50, ahead_s: float = 7.5) -> np.ndarray:
    at = np.array(seconds)
    there = at * (1 + ppm * 1e-6) + ahead_s
    return np.column_stack([np.rint(at * 1e9), np.rint(there * 1e9)]).astype(np.int64)


def test_two_marks_tell_offset_and_rate() -> None:
    found = from_marks(marks([0, 1000]))
    assert found.rate == pytest.approx(1.00005, abs=1e-9)
    assert found.map(500 * SECOND) == 500 * SECOND + 7_500_000_000 + 25_000_000


def test_one_mark_tells_an_offset_and_allows_for_the_rate_of_a_crystal() -> None:
    found = from_marks([[10 * SECOND, 12 * SECOND, 1_000_000]])
    assert found.map(15 * SECOND) == 17 * SECOND
    assert found.uncertainty_at(110 * SECOND) == 1_000_000 + 10_000_000  # 100 ppm of 100 s
    assert_says(found.notes[0], "one mark", "rate")


@pytest.mark.parametrize("wrong_by_s", [-30.0, -0.5, 0.2, 5.0])
def test_one_wrong_mark_is_left_out_and_named(wrong_by_s: float) -> None:
    pairs = marks([0, 100, 200, 300, 400, 500])
    pairs[2, 1] += round(wrong_by_s * 1e9)
    found = from_marks(pairs)
    right = from_marks(np.delete(pairs, 2, axis=0))
    assert found.map([0, 250 * SECOND]).tolist() == right.map([0, 250 * SECOND]).tolist()
    assert any("200.000 s" in note and "left out" in note for note in found.notes)


def test_a_clock_whose_rate_changes_is_followed_from_mark_to_mark() -> None:
    at = np.arange(0, 1001, 100)
    ahead = 40e-6 * at**2 / 1000  # 40 ms at the end: the rate grows by 80 ppm
    pairs = np.column_stack([at * SECOND, at * SECOND + np.rint(ahead * 1e9)]).astype(np.int64)
    found = from_marks(np.column_stack([pairs, np.full(len(at), 100_000)]))
    assert len(found.from_ns) == len(at)
    middle = 450 * SECOND
    assert abs(int(found.map(middle)) - middle - 8_100_000) <= found.uncertainty_at(middle)


def test_marks_that_contradict_each_other_are_refused() -> None:
    with refused("contradicting-marks", "1000 ppm"):
        from_marks([[0, 0], [SECOND, 5 * SECOND]])
    with refused("no-marks"):
        from_marks(np.empty((0, 2)))


def test_errors_of_marks_are_in_the_uncertainty() -> None:
    random = np.random.default_rng(3)
    inside = 0
    for _ in range(50):
        pairs = marks(np.sort(random.uniform(0, 600, 8)).tolist())
        pairs[:, 1] += np.rint(random.normal(0, 2e6, 8)).astype(np.int64)
        found = from_marks(pairs)
        truth = 300 * SECOND + 7_500_000_000 + 15_000_000
        inside += abs(int(found.map(300 * SECOND)) - truth) <= found.uncertainty_at(300 * SECOND)
    assert inside >= 45
