"""What operations take, against the power of made programs: long ones, and sensors that lie or say nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.made import FIVE, ByPhase, Sampled, make_run, power, told
from tests.wording import assert_says

import wattstep

TABLES = ("operations", "layers", "phases", "kinds")
Ran = Callable[..., tuple[dict[str, Any], Any]]


@pytest.fixture
def ran(truth: Any, tmp_path: Path) -> Ran:
    """Runs operations of some watts and seconds in turn; the document, and its judge."""

    def run(
        watts: Sequence[float], seconds: Sequence[float], sensor: dict[str, Any], *,
        record_s: float = 6.0, seed: int = 3, **program: Any,
    ) -> tuple[dict[str, Any], Any]:  # fmt: skip
        rng = np.random.default_rng(seed)
        made = truth.in_turn(watts, seconds, rng, record_s=record_s)
        happened = truth.run_program(replace(made, **program), rng)
        source = truth.Sensor(**sensor)
        mean_w = happened.step_joules / happened.step_seconds
        truth.write(tmp_path / "run", happened, source, truth.samples(source, happened.curve, rng, mean_w))  # fmt: skip
        document = wattstep.load(tmp_path / "run").document()
        return document, truth.Judge(document, happened, source)

    return run


def energies(judge: Any, *levels: str) -> list[Any]:
    return [o for o in judge.compared if o.quantity == "energy" and o.level in levels]


def refused(document: dict[str, Any], words: str) -> None:
    """Every operation is missing with these words, and the step is still made of what is left."""
    for table in TABLES[:3]:
        for row in document[table]:
            assert row["energy"]["value"] is None
            assert words in row["energy"]["reason"]
    whole = document["metrics"]["energy_per_step"]["value"]
    for table in TABLES:
        assert told(document, table) == pytest.approx(whole, rel=1e-6)


# --- longer than the sensor's window ------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "sensor"),
    [
        (0.020, {}),
        (0.050, {}),
        (0.200, {}),
        (0.150, {"window_s": 0.1, "read_s": 0.1}),
        (0.020, {"delay_s": 0.005}),
    ],
    ids=["20 ms", "50 ms", "200 ms", "150 ms, a window of 100 ms", "20 ms, 5 ms late"],
)
def test_operations_longer_than_the_window_are_told_within_their_interval_and_2_percent(
    ran: Ran, seconds: float, sensor: dict[str, Any]
) -> None:
    """10 W and 2 W in turn; by overlap the first of 20 ms was 160 mJ for 200."""
    _, judge = ran((10.0, 2.0), (seconds, seconds), sensor, record_s=20.0)
    assert not judge.violations
    found = energies(judge, "operations", "layers", "phases")
    assert len(found) == 6
    for one in found:
        assert one.covered, one
        assert one.value == pytest.approx(one.truth, rel=0.02)


def test_a_rest_that_the_cost_of_tracing_hides_has_no_energy_of_exactly_nothing(ran: Ran) -> None:
    """It is 20 µs of each phase; where what is taken off for tracing may be as much, its energy is not known."""
    sensor = {"window_s": 0.1, "read_s": 0.1}
    document, judge = ran((10.0, 2.0), (0.15, 0.15), sensor, record_s=20.0, seed=4)
    time = document["rests"]["framework"]["time"]
    assert time["low"] == 0
    assert time["value"] < 20e-6
    (rest,) = energies(judge, "rests")
    assert rest.value is None
    assert rest.reason


def test_an_operation_alone_in_its_phase_and_layer_has_one_energy_in_all_tables(
    tmp_path: Path,
) -> None:
    path = make_run(tmp_path / "r", [Sampled(channel=power(), raw=ByPhase(FIVE))]).path
    document = wattstep.load(path).document()
    for name in ("data", "forward", "backward"):
        (operation,) = (r for r in document["operations"] if r["name"] == f"{name}-op")
        (layer,) = (r for r in document["layers"] if r["layer"] == f"layer.{name}")
        (phase,) = (r for r in document["phases"] if r["phase"] == name)
        for end in ("value", "low", "high"):
            figures = [row["energy"][end] for row in (operation, layer, phase)]
            assert figures == pytest.approx([figures[0]] * 3, rel=1e-9)


def test_an_operation_that_its_phase_calls_four_times_has_one_energy_in_all_tables(
    truth: Any, ran: Ran
) -> None:
    """8 ms at 10 W, 6 ms at 2 W, under a window of 10 ms: by parts 318 mJ as operation, 278 as its phase."""
    items = [
        call
        for at, (seconds, watts) in enumerate([(0.008, 10.0), (0.006, 2.0)])
        for call in [(at, at, seconds, watts), (2 + at, at, 2e-5, 2.0)] * 4
    ]
    document, judge = ran(
        (10.0, 2.0), (0.032, 0.024), {}, record_s=8.0, kinds=(truth.sequence_of(items),)
    )
    for phase, watts in (("forward", 10.0), ("backward", 2.0)):
        (whole,) = (row for row in document["phases"] if row["phase"] == phase)
        (operation,) = (row for row in document["operations"] if row["phase"] == phase)
        (layer,) = (row for row in document["layers"] if row["layer"] == operation["layer"])
        for row in (operation, layer):
            assert row["energy"]["value"] == pytest.approx(whole["energy"]["value"], rel=2e-3)
        assert whole["energy"]["value"] == pytest.approx(
            watts * (0.032 if watts == 10.0 else 0.024), rel=0.02
        )
    assert all(one.covered for one in energies(judge, "operations", "layers", "phases"))


# --- channels that say nothing of single operations ----------------------------------------------


def test_a_channel_that_never_changes_tells_none_of_17_operations(ran: Ran) -> None:
    watts = np.linspace(2, 10, 17).tolist()
    sensor = {"documented": False, "constant": True}
    document, judge = ran(watts, [0.004] * 17, sensor)
    assert len(document["operations"]) == 17
    refused(document, "samples are equal")
    (step,) = energies(judge, "steps")
    assert step.covered


@pytest.mark.parametrize(
    "sensor",
    [
        {"way": "instant", "refresh_s": 1.0, "noise": 0.05},
        {"way": "instant", "refresh_s": 1.0, "read_s": 1.0},
        {"way": "average", "window_s": 1.0, "read_s": 1.0},
    ],
    ids=["read more often", "an instant", "an average"],
)
def test_a_gauge_of_1_hz_tells_no_operation_of_4_ms_to_5_percent_beside_the_truth(
    ran: Ran, sensor: dict[str, Any]
) -> None:
    """By overlap each of the three had a third of the step to 0.4 %: 23 mJ for 40, 24 and 8."""
    sensor = {**sensor, "documented": False}
    _, judge = ran((10.0, 6.0, 2.0), (0.004,) * 3, sensor, record_s=60.0)
    assert not judge.violations
    for one in energies(judge, "operations"):
        close = one.value is not None and one.high - one.low < 0.1 * one.value
        assert one.covered or not close
        assert one.value is not None or one.reason


def test_of_samples_that_are_fewer_than_steps_and_few_no_delay_is_made_up(ran: Ran) -> None:
    """A value a second for 24 s: of two operations of 4 ms, each had the energy of the other."""
    sensor = {"way": "instant", "refresh_s": 1.0, "documented": False, "noise": 0.01}
    document, judge = ran((10.0, 2.0), (0.004, 0.004), sensor, record_s=24.0)
    refused(document, "how late the")
    (step,) = energies(judge, "steps")
    assert step.covered


def test_a_single_traced_step_tells_no_operation_and_says_so(ran: Ran) -> None:
    document, _ = ran((10.0, 2.0), (0.05, 0.03), {}, traced=(7,))
    refused(document, "one step was")


# --- sensors that lie ----------------------------------------------------------------------------


@pytest.mark.parametrize("documented", [True, False])
def test_of_a_sensor_at_the_end_of_its_range_all_energy_is_missing_and_says_so(
    ran: Ran, documented: bool
) -> None:
    sensor = {"clip": 0.8, "noise": 0.02, "documented": documented}
    document, _ = ran((10.0, 2.0), (0.03, 0.02), sensor, drift=0.05)
    figures = [document["metrics"]["energy_per_step"], document["metrics"]["mean_power"]]
    for figure in [*figures, *(row["energy"] for row in document["operations"])]:
        assert figure["value"] is None
        assert "of its range" in figure["reason"]


@pytest.mark.parametrize(("range_to", "at_end"), [(100.0, False), (9.0, True)])
def test_a_load_that_stands_still_at_its_highest_is_no_end_of_a_range_known_to_go_further(
    ran: Ran, range_to: float, at_end: bool
) -> None:
    """What piles up at 8 W, of 100 W that are documented, is a load: a core at its full, say."""
    sensor = {"clip": 0.8, "noise": 0.02, "range_to": range_to}
    document, _ = ran((10.0, 2.0), (0.03, 0.02), sensor, drift=0.05)
    figure = document["metrics"]["energy_per_step"]
    assert ("at the end" in (figure["reason"] or "")) is at_end
    assert (figure["value"] is None) is at_end


def test_one_sample_of_1_gw_counts_as_a_failed_read_and_is_noted(ran: Ran) -> None:
    document, judge = ran((10.0, 2.0), (0.03, 0.02), {"outlier": True}, record_s=20.0)
    step = document["metrics"]["energy_per_step"]
    assert_says(step["reason"], "1 value(s)", "board.power", "failed reads", "1e+09 W")
    for one in energies(judge, "operations", "steps"):
        assert one.covered, one


@pytest.mark.parametrize("seconds", [0.01, 0.03, 0.1])
def test_behind_an_exponential_average_no_single_operation_is_told(
    ran: Ran, seconds: float
) -> None:
    sensor = {"way": "exponential", "window_s": seconds, "documented": False}
    document, _ = ran((10.0, 2.0), (0.03, 0.05), sensor, record_s=8.0)
    refused(document, "average exponentially")


def test_power_that_goes_on_from_one_operation_into_the_next_is_not_told_of_either(
    ran: Ran,
) -> None:
    document, judge = ran(
        (10.0, 2.0, 6.0, 3.0), (0.03, 0.05, 0.02, 0.03), {}, record_s=12.0, carried_s=0.01
    )
    refused(document, "into the next")
    (step,) = energies(judge, "steps")
    assert step.covered


@pytest.mark.parametrize("seconds", [(0.3, 0.07, 0.5), (0.12, 0.3, 0.09)])
def test_power_that_lingers_for_a_tenth_of_the_window_is_within_the_intervals(
    ran: Ran, seconds: tuple[float, ...]
) -> None:
    """It looks like a delay: were it one, the last operation would get 10 to 30 % less."""
    sensor = {"window_s": 0.1}
    _, judge = ran((10.0, 25.0, 4.0), seconds, sensor, record_s=30.0, carried_s=0.012)
    found = [one for one in energies(judge, "operations", "phases") if one.value is not None]
    assert len(found) >= 3
    for one in found:
        assert one.covered, one


def test_the_right_one_of_two_valleys_of_the_delay_is_found(ran: Ran) -> None:
    """Two and two are alike: a delay of about one operation explains samples nearly as well."""
    watts, seconds = (4.0, 5.0, 13.0, 5.0, 13.0), (0.0268,) * 5
    sensor = {"window_s": 0.1, "noise": 0.05}
    _, judge = ran(watts, seconds, sensor, record_s=60.0, carried_s=0.003, marks="none")
    for one in energies(judge, "operations", "phases"):
        assert one.covered or one.value is None, one
