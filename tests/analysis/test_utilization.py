"""Equations 1 and 2 of the TX2 paper and the idle state ratio, on curves with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.device.utilization import (
    active_ratio,
    idle_state_ratio,
    idle_windows,
    mean_active_ratio,
)
from wattstep.recorded.curves import Curve

MS = 1_000_000
S = 1_000_000_000


def counter(points: list[tuple[int, float]]) -> Curve:
    t_ns, total = zip(*points, strict=True)
    times = np.array(t_ns, np.int64)
    return Curve(t_ns=times, total=np.array(total, float), unit="s", covered_ns=times - times[0])


def parts(*spans: tuple[int, int]) -> np.ndarray:
    return np.array(spans, np.int64)


def test_utilization_of_a_core_is_active_time_over_total_time() -> None:
    """Equation 1: busy for 0.3 s of the first second and 0.5 s of the second."""
    busy = counter([(0, 0.0), (S, 0.3), (2 * S, 0.8)])
    assert active_ratio(busy, parts((0, S), (S, 2 * S)), "-").value == pytest.approx(0.4)
    assert active_ratio(busy, parts((S, 2 * S)), "-").value == pytest.approx(0.5)


def test_utilization_of_the_processor_is_the_mean_over_its_cores() -> None:
    """Equation 2: cores at 100, 50, 0 and 10 per cent."""
    cores = [counter([(0, 0.0), (S, share)]) for share in (1.0, 0.5, 0.0, 0.1)]
    assert mean_active_ratio(cores, parts((0, S)), "-").value == pytest.approx(0.4)


def test_utilization_counts_only_what_was_sampled() -> None:
    t_ns = np.array([0, S, 3 * S, 4 * S])  # nothing known of the two seconds in the middle
    busy = Curve(
        t_ns=t_ns, total=np.array([0, 0.5, 0.5, 1.0]), unit="s",
        covered_ns=np.array([0, S, S, 2 * S]),
    )  # fmt: skip
    assert active_ratio(busy, parts((0, 4 * S)), "-").value == pytest.approx(0.5)


def test_utilization_outside_of_the_samples_is_missing_with_a_reason() -> None:
    figure = active_ratio(counter([(0, 0.0), (S, 0.3)]), parts((5 * S, 6 * S)), "/proc/stat")
    assert figure.missing
    assert "/proc/stat" in (figure.reason or "")


def test_a_core_is_idle_in_the_windows_in_which_it_does_nothing() -> None:
    """Idle for 30 ms, busy for 20 ms, idle for 50 ms."""
    idle = counter([(0, 0.0), (30 * MS, 0.03), (50 * MS, 0.03), (100 * MS, 0.08)])
    verdicts = idle_windows(idle, parts((0, 100 * MS)), 10 * MS)
    assert list(verdicts) == [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
    figure = idle_state_ratio(idle, parts((0, 100 * MS)), 10 * MS, "-")
    assert figure.value == pytest.approx(0.8)
    assert "10 ms" in (figure.method or "")  # the window is part of the figure


def test_the_ratio_depends_on_its_window() -> None:
    """15 ms idle, 15 ms busy: half of 15 ms windows, none of 30 ms ones."""
    points = [(0, 0.0)]
    for n in range(1, 41):
        points.append((n * 15 * MS, points[-1][1] + (0.015 if n % 2 else 0.0)))
    idle = counter(points)
    assert idle_state_ratio(idle, parts((0, 600 * MS)), 15 * MS, "-").value == pytest.approx(0.5)
    assert idle_state_ratio(idle, parts((0, 600 * MS)), 30 * MS, "-").value == 0


def test_idle_time_that_the_kernel_counts_late_is_carried_back() -> None:
    """One idle period of 40 ms is added to the counter when it ends, at 50 ms."""
    idle = counter([(0, 0.0), (49 * MS, 0.0), (50 * MS, 0.04), (60 * MS, 0.04)])
    verdicts = idle_windows(idle, parts((0, 60 * MS)), 10 * MS)
    assert list(verdicts) == [0, 1, 1, 1, 1, 0]


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_windows_are_idle_as_the_core_was_however_late_it_is_counted(was_idle: list[bool]) -> None:
    """Idle periods are counted at their end only; each window of 10 ms was idle or busy."""
    points, total, period = [(0, 0.0)], 0.0, 0.0
    for n, idle_now in enumerate(was_idle, 1):
        end = n * 10 * MS
        if idle_now:
            period += 0.01
        last = n == len(was_idle) or not was_idle[n]
        if idle_now and last:
            points.append((end - 1, total))
            total, period = total + period, 0.0
        points.append((end, total))
    verdicts = idle_windows(counter(points), parts((0, len(was_idle) * 10 * MS)), 10 * MS)
    assert list(verdicts) == [float(one) for one in was_idle]


def test_a_stretch_shorter_than_the_window_has_no_ratio_and_says_why() -> None:
    figure = idle_state_ratio(counter([(0, 0.0), (S, 1.0)]), parts((0, MS)), 10 * MS, "-")
    assert figure.missing
    assert "10 ms" in (figure.reason or "")


def test_a_core_that_never_works_is_idle_however_late_its_idle_time_is_read() -> None:
    """The last read of the stretch is a tick of 10 ms late: 90 ms of idle time in 100 ms."""
    stretch = parts((0, 1000 * MS))
    late = counter([(n * 50 * MS, n * 0.05 - 0.01 * (n > 18)) for n in range(21)])
    assert idle_state_ratio(late, stretch, 100 * MS, "-").value == pytest.approx(0.9)
    never = counter([(n * 50 * MS, 0.0) for n in range(21)])
    figure = idle_state_ratio(never, stretch, 100 * MS, "-", grows_idle=False)
    assert figure.value == 1.0
    once = counter([(n * 50 * MS, 0.02 * (n >= 5)) for n in range(21)])
    figure = idle_state_ratio(once, stretch, 100 * MS, "-", grows_idle=False)
    assert figure.value == pytest.approx(0.9)
