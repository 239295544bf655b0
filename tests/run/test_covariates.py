"""What surrounded the steps of a run: how much of it there was, from when on it counts, and what cannot be determined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.run.made import BEGIN, MS, Made, Sampled, make_run

from wattstep.run import Run, load
from wattstep.run.covariates import (
    FAULT_S,
    Covariate,
    Unwatched,
    covariates,
    slow_ones,
)
from wattstep.schema.channel import Channel


def counter(role: str, scale: float = 1.0, name: str = "made") -> Channel:
    return Channel(
        name=name, unit="s", kind="counter", domain="process", role=role, source="made", scale=scale
    )


def run_with(path: Path, *sampled: Sampled, **more: object) -> tuple[Run, Made]:
    made = make_run(path / "r", sampled, **more)  # type: ignore[arg-type]
    return load(made.path), made


def named(run: Run) -> dict[str, Covariate | Unwatched]:
    known, unknown = covariates(run.series, run.conditions, run.tables.marks)
    return {one.name: one for one in [*known, *unknown]}


def covariate_of(run: Run, name: str) -> Covariate:
    found = named(run)[name]
    assert isinstance(found, Covariate), found
    return found


def interval(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end in ms since the first step."""
    return tuple(np.array([BEGIN + ms * MS for ms in ends]) for ends in zip(*pairs, strict=True))  # type: ignore[return-value]


def growing(from_ms: int, until_ms: int, per_ms: int) -> Callable[[int], int]:
    """A counter that grows by so much a ms from one time to another."""
    return lambda t: max(0, min((t - BEGIN) // MS, until_ms) - from_ms) * per_ms


def test_the_rate_is_what_a_counter_gained_in_a_second(tmp_path: Path) -> None:
    channel = counter("core_wait", scale=1e-9)
    run, _ = run_with(tmp_path, Sampled(channel=channel, raw=growing(100, 110, 400_000)))
    waits = covariate_of(run, "core_wait")
    assert waits.seen(*interval((100, 110), (95, 115), (200, 210))) == pytest.approx([0.4, 0.2, 0])
    assert waits.every_s == pytest.approx(1e-3)
    assert np.isnan(waits.seen(*interval((10**6, 10**6 + 5)))).all()  # after the last sample


def test_an_interval_of_no_length_has_the_rate_of_its_moment(tmp_path: Path) -> None:
    channel = counter("core_wait", scale=1e-9)
    run, _ = run_with(tmp_path, Sampled(channel=channel, raw=growing(100, 110, 400_000)))
    assert covariate_of(run, "core_wait").seen(*interval((105, 105))) == pytest.approx([0.4])


def test_a_wait_counts_that_makes_an_interval_half_as_long_again(tmp_path: Path) -> None:
    """4 ms of waiting: enough for what usually takes 8 ms, however long it then took."""
    channel = counter("core_wait", scale=1e-9)
    run, _ = run_with(tmp_path, Sampled(channel=channel, raw=growing(100, 110, 400_000)))
    waits = covariate_of(run, "core_wait")
    calm = [(200, 210), (300, 310), (400, 410)]
    spans = interval((100, 110), (100, 150), (105, 110), *calm)
    assert waits.holds(*spans, 7.9e-3).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert waits.holds(*spans, 8.1e-3).tolist() == [0.0] * 6


def test_of_short_intervals_the_whole_time_between_two_reads_counts(tmp_path: Path) -> None:
    """Read every 10 ms: 2 ms of waiting somewhere in these are enough for 0.1 ms."""
    channel = counter("core_wait", scale=1e-9)
    sampled = Sampled(channel=channel, raw=growing(100, 110, 200_000), every_ns=10 * MS)
    run, _ = run_with(tmp_path, sampled)
    waits = covariate_of(run, "core_wait")
    assert waits.every_s == pytest.approx(10e-3)
    assert waits.holds(*interval((103, 104), (150, 151)), 1e-3).tolist() == [1.0, 0.0]


def test_faults_count_by_the_most_that_they_take(tmp_path: Path) -> None:
    """1,000 faults take at most 3 ms."""
    channel = counter("minor_faults")
    run, _ = run_with(tmp_path, Sampled(channel=channel, raw=growing(100, 110, 100)))
    faults = covariate_of(run, "minor_faults")
    assert pytest.approx(3e-3) == 1000 * FAULT_S
    spans = interval((100, 110), (200, 210))
    assert faults.holds(*spans, 5.9e-3).tolist() == [1.0, 0.0]
    assert faults.holds(*spans, 6.1e-3).tolist() == [0.0, 0.0]


def test_what_goes_on_all_the_time_counts_only_beyond_twice_as_much(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path, Sampled(channel=counter("core_wait", 1e-9), raw=lambda _: 0))
    waits = covariate_of(run, "core_wait")
    assert waits.limit(np.array([0.3] * 15 + [0.5] + [0.7] * 4)) == pytest.approx(0.6)
    assert waits.limit(np.zeros(9)) == waits.least
    assert waits.limit(np.array([np.nan])) == waits.least
    assert np.isnan(waits.holds(*interval((10**6, 10**6 + 5)), 1e-3)).all()


def test_what_was_not_sampled_or_gave_nothing_has_a_reason(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path)
    found = named(run)
    for name in ("core_wait", "minor_faults", "memory_pressure", "other_processes", "steal"):
        assert isinstance(found[name], Unwatched)
        assert "not sampled" in found[name].reason
    assert isinstance(found["throttled"], Unwatched)
    assert isinstance(found["garbage_collection"], Unwatched)


def test_a_clock_below_nine_tenths_of_the_usual_is_low(tmp_path: Path) -> None:
    channel = Channel(
        name="cpu0.frequency", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source="made", core=0,
    )  # fmt: skip

    def raw(t_ns: int) -> int:
        return 1_500_000_000 if 300 <= (t_ns - BEGIN) // MS < 400 else 2_000_000_000

    run, _ = run_with(tmp_path, Sampled(channel=channel, raw=raw))
    low = covariate_of(run, "low_frequency")
    assert low.holds(*interval((310, 330), (500, 520)), 20e-3).tolist() == [1.0, 0.0]


def test_a_step_that_waited_for_its_data_is_told_apart(tmp_path: Path) -> None:
    run, made = run_with(tmp_path, steps=60)
    data = covariate_of(run, "slow_data")
    assert data.leaves_out == "data"
    steps = run.series.steps
    assert np.nansum(data.seen(steps.start_ns, steps.end_ns)) == 0
    outside = np.array([made.end + 5 * MS])
    assert np.isnan(data.seen(outside, outside)).all()


def test_slow_ones_are_beyond_one_and_a_half_medians_and_the_usual_spread() -> None:
    assert slow_ones(np.array([1, 1, 1, 1.4, 1.6, 1])).tolist() == [False] * 4 + [True, False]
    spread = np.array([1, 2, 3, 4, 5, 6, 7])
    assert not slow_ones(spread).any()


def test_steps_after_a_traced_one_are_known(tmp_path: Path) -> None:
    run, made = run_with(tmp_path, steps=24)
    near = covariate_of(run, "after_window")
    starts = np.array([start for start, _ in made.steps])
    held = near.seen(starts, starts + MS)
    # Steps 5, 11, 17, 23 are traced: from the sixth on each is within five of one.
    assert held[:6].tolist() == [0.0] * 6
    assert held[6:11].tolist() == [1.0] * 5


def test_a_rest_that_has_just_ended_is_known(tmp_path: Path) -> None:
    run, made = run_with(tmp_path, idle_ns=(50 * MS, 0))
    after = covariate_of(run, "after_rest")
    starts = np.array([start for start, _ in made.steps])
    held = after.seen(starts, starts + MS)
    assert held[0] == 1.0
    assert held[1:].sum() == 0


def test_what_others_took_is_seen_by_the_half_second(tmp_path: Path) -> None:
    """The training has one core; from 600 to 1100 ms another process has the other."""
    own = counter("process_cpu_time", 1e-9, "process.cpu_time")
    system = counter("system_busy_time", 0.01, "system.busy_time")
    steal = counter("system_steal_time", 0.01, "system.steal_time")
    run, _ = run_with(
        tmp_path,
        Sampled(channel=own, raw=lambda t: t - BEGIN + 20 * MS),
        Sampled(
            channel=system,
            raw=lambda t: (t - BEGIN + 20 * MS) // (10 * MS) + growing(600, 1100, 1)(t) // 10,
        ),
        Sampled(channel=steal, raw=lambda t: growing(0, 500, 1)(t) // 50),
        steps=80,
    )
    others, host = covariate_of(run, "other_processes"), covariate_of(run, "steal")
    rates = others.seen(*interval((845, 855), (1400, 1410)))
    assert rates == pytest.approx([1.0, 0.0], abs=0.06)
    assert host.seen(*interval((245, 255), (1000, 1010))) == pytest.approx([0.2, 0.0], abs=0.06)
