"""Cool-down: back to where it began, never for ever, and not where nothing can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.wording import assert_says

from wattstep.sweep.cooling import MOST_S, BetweenRuns, Cooled, cool_down, hottest_zone


def zones(root: Path, *millidegrees: int) -> Path:
    for number, value in enumerate(millidegrees):
        folder = root / f"sys/class/thermal/thermal_zone{number}"
        folder.mkdir(parents=True)
        (folder / "type").write_text("cpu\n")
        (folder / "temp").write_text(f"{value}\n")
    return root


def test_the_hottest_zone_counts_and_broken_ones_do_not(tmp_path: Path) -> None:
    assert hottest_zone(zones(tmp_path, 41_000, 52_500, -274_000)) == 52.5
    assert hottest_zone(tmp_path / "nothing") is None


def test_it_waits_until_the_zone_is_within_two_degrees_of_before() -> None:
    temperatures = iter([60.0, 50.0, 42.1, 42.0, 20.0])
    slept: list[float] = []
    cooled = cool_down("auto", 40.0, read=lambda: next(temperatures), sleep=slept.append)
    assert (cooled.temperature, cooled.seconds, cooled.note) == (42.0, 3.0, "")
    assert sum(slept) == 3.0


def test_what_never_cools_is_measured_hot_and_says_so() -> None:
    slept: list[float] = []
    cooled = cool_down("auto", 40.0, read=lambda: 70.0, sleep=slept.append)
    assert sum(slept) == MOST_S
    assert_says(cooled.note, "70.0 °C after 300 s", "40.0 °C")


@pytest.mark.parametrize(("rule", "seconds"), [("none", 0.0), ("auto", 0.0), ("7.5", 7.5)])
def test_without_a_temperature_only_seconds_are_waited(rule: str, seconds: float) -> None:
    slept: list[float] = []
    cooled = cool_down(rule, None, read=lambda: None, sleep=slept.append)
    assert (sum(slept), cooled.temperature) == (seconds, None)


def test_between_the_runs_of_a_command_it_cools_to_where_the_first_began() -> None:
    zone = [40.0]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        zone[0] -= 5

    cooling = BetweenRuns("auto", read=lambda: zone[0], sleep=sleep)
    assert cooling.before_next(lambda: waits.append(zone[0])) is None  # the first begins at once
    zone[0] = 55.0
    cooled = cooling.before_next(lambda: waits.append(zone[0]))
    assert cooled == Cooled(seconds=3.0, temperature=40.0)
    assert waits == [55.0, 50.0, 45.0]


def test_where_there_is_nothing_to_wait_for_between_runs_nothing_is_said() -> None:
    for rule, zone in (("none", 80.0), ("auto", None)):
        cooling = BetweenRuns(rule, read=lambda zone=zone: zone, sleep=lambda seconds: None)  # type: ignore[misc]
        assert [cooling.before_next(lambda: None) for _ in range(3)] == [None] * 3
