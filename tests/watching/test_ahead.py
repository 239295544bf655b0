"""What a training that runs has used and has before it: joules, time and batteries, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.watching.made import BEGIN_NS, Journal, channel
from tests.wording import assert_says

from wattstep.live.eta import Stretches
from wattstep.live.meters import Meters
from wattstep.live.running import Running
from wattstep.live.so_far import LiveForecast
from wattstep.schema.figure import Figure
from wattstep.schema.settings import parse_power_model

METER = channel("meter", "power_total")
POWER = channel("battery.b.power", "power_total", domain="battery")
CURRENT = channel("battery.b.current", "battery_current", "A", domain="battery")
VOLTAGE = channel("battery.b.voltage", "battery_voltage", "V", domain="battery")
CHARGE = channel("battery.b.charge", "battery_charge", "C", limit=500.0)
HELD = channel("battery.b.energy", "battery_energy", "J", limit=2000.0)


def trained(path: Path, values: Any, steps: int = 40, **info: Any) -> LiveForecast:
    """So many of a hundred steps of half a second, with a sample of each channel after each.

    Args:
        path: Of the run.
        values: Of each channel: what it gives after so many seconds.
        steps: That are done.
        info: More of the run.
    """
    run = Journal(path / "run", *values, **{"asked": {"steps": 100}, **info})
    ahead = LiveForecast(run.path, run.info, lambda: run.now_ns * 1e-9)
    for _ in range(steps):
        run.step(0.5)
        for one, value in values.items():
            run.sample(one.name, value((run.now_ns - BEGIN_NS) * 1e-9))
        if ahead.due():
            ahead.look()
    return ahead


def value(ahead: LiveForecast, name: str) -> float:
    found: Figure = ahead.figures[name]
    assert found.value is not None, found.reason
    return found.value


def test_time_and_joules_left_are_those_of_steady_steps(tmp_path: Path) -> None:
    ahead = trained(tmp_path, {METER: lambda t_s: 12})
    assert value(ahead, "time_left") == pytest.approx(30.0)
    assert value(ahead, "energy_left") == pytest.approx(360.0)
    assert ahead.words().startswith("30 s (")
    assert "234 J used, 360 J (" in ahead.words()
    assert ahead.words().endswith("to finish")


def test_parts_of_the_machine_are_no_lack_of_sensors(tmp_path: Path) -> None:
    card = channel("gpu0.power", "power_part", domain="gpu")
    ahead = trained(tmp_path, {card: lambda t_s: 80})
    assert_says(str(ahead.figures["energy_left"].reason), "only parts", "gpu0.power", "no total")


def test_power_and_counter_of_one_card_are_one_rail(tmp_path: Path) -> None:
    power = channel("gpu0.power", "power_part")
    energy = channel("gpu0.energy", "energy_part", "J", "counter")
    run = Journal(tmp_path / "run", power, energy)
    t_ns = np.arange(40) * 500_000_000
    for joules, name in ((40.0 * np.arange(40), energy.name), (np.full(40, 7.0), power.name)):
        known = {one.name: Running(one, 0.5) for one in (power, energy)}
        known[power.name].take(t_ns, np.full(40, 80.0))
        known[energy.name].take(t_ns, joules)
        rails = Meters(run.info, known).rails()
        assert {rail: figure.value for rail, figure in rails.items()} == {name: pytest.approx(80)}


def test_steps_in_which_a_governor_looked_do_not_count(tmp_path: Path) -> None:
    looks = [{"first_step": 0, "last_step": 9}, {"first_step": 20, "last_step": 24}]
    conditions = {"governor": {"looks": looks}}
    asked = {"clean_steps": 60}
    ahead = trained(tmp_path, {METER: lambda t_s: 12}, asked=asked, conditions=conditions)
    # Of the 40 steps 25 count: 35 are left, half a second each.
    assert value(ahead, "time_left") == pytest.approx(17.5)


def test_a_counter_gives_the_same(tmp_path: Path) -> None:
    counter = channel("rapl", "energy_total", "J", "counter", wrap=100, scale=1.0)
    ahead = trained(tmp_path, {counter: lambda t_s: round(12 * t_s) % 100})
    assert value(ahead, "energy_left") == pytest.approx(360.0)
    assert value(ahead, "power") == pytest.approx(12.0)


def test_joules_left_go_by_the_power_of_all_steps_as_the_time_left_does(tmp_path: Path) -> None:
    """10 W and 20 W in turn for 150 s each are 15 W, whatever the last two minutes were."""
    given = {METER: lambda t_s: 10 if t_s % 300 <= 150 else 20}
    ahead = trained(tmp_path, given, 2400, asked={"steps": 4800})
    left = ahead.figures["energy_left"]
    assert left.low is not None
    assert left.high is not None
    assert left.low < 15 * 1200 < left.high
    assert value(ahead, "energy_left") == pytest.approx(15 * 1200, rel=0.1)


def test_without_a_sensor_there_is_a_reason_and_no_joules(tmp_path: Path) -> None:
    ahead = trained(tmp_path, {})
    assert "no power sensor" in ahead.unpowered
    assert ahead.figures["energy_left"].missing
    assert "left" in ahead.words()
    assert "J" not in ahead.words()


@pytest.mark.parametrize(
    ("own", "watts"), [("process_cpu_time", 1.5), ("process_cpu_time_coarse", 3.0)]
)
def test_a_model_gives_joules_of_the_training_that_say_so(
    tmp_path: Path, own: str, watts: float
) -> None:
    """A quarter of a core at 6 W, and as much by its children, which perf has counted already."""
    clocks = [
        channel(role, role, "s", "counter", scale=0.001) for role in (own, "children_cpu_time")
    ]
    given = dict.fromkeys(clocks, lambda t_s: round(250 * t_s))
    ahead = trained(tmp_path, given, power_model=parse_power_model("linear:2,6"))
    assert value(ahead, "power") == pytest.approx(watts)
    assert value(ahead, "energy_left") == pytest.approx(30 * watts)
    assert "modelled" in ahead.words()


def test_failed_reads_give_no_joules_instead_of_wrong_ones(tmp_path: Path) -> None:
    ahead = trained(tmp_path, {METER: lambda t_s: None})
    assert ahead.figures["energy_left"].missing
    assert not ahead.time_left.missing


def test_nothing_is_said_before_it_is_known(tmp_path: Path) -> None:
    run = Journal(tmp_path / "run", asked={"steps": 50})
    ahead = LiveForecast(run.path, run.info)
    assert ahead.words() == ""
    run.step(0.5)
    ahead.look()
    assert ahead.words() == ""
    assert "too few" in (ahead.time_left.reason or "")


def test_a_long_series_is_kept_in_few_means() -> None:
    series = Stretches(8)
    for number in range(64):
        series.add(float(number))
    assert len(series.values) < 8
    whole = series.each * len(series.values)
    assert sum(series.values) * series.each == sum(range(whole))


# --- batteries ------------------------------------------------------------------------------------


def test_the_battery_at_the_end_is_what_it_holds_less_the_joules(tmp_path: Path) -> None:
    given = {POWER: lambda t_s: 10, HELD: lambda t_s: 1000 - round(10 * t_s)}
    ahead = trained(tmp_path, given)
    assert value(ahead, "battery") == pytest.approx(800 / 2000)
    assert value(ahead, "battery_end") == pytest.approx(500 / 2000)
    assert_says(ahead.words(), "battery 40 %", "25 % at")
    assert ahead.document()["battery_left"]["status"] == "predicted"


def test_a_battery_that_will_not_last_is_said(tmp_path: Path) -> None:
    given = {POWER: lambda t_s: 10, HELD: lambda t_s: 300 - round(10 * t_s)}
    assert "empty before" in trained(tmp_path, given).words()


def test_current_is_multiplied_by_the_voltage_of_its_moment(tmp_path: Path) -> None:
    """2 A at 3 V and 1 A at 4 V in turn, ten seconds each: 5 W, where mean times mean is 5.25 W."""

    def busy(t_s: float) -> bool:
        return t_s % 20 <= 10

    given = {
        CURRENT: lambda t_s: 2 if busy(t_s) else 1,
        VOLTAGE: lambda t_s: 3 if busy(t_s) else 4,
    }
    ahead = trained(tmp_path, given, 160, asked={"steps": 320})
    assert value(ahead, "energy") == pytest.approx(5.0 * 80, rel=0.02)
    assert value(ahead, "power") == pytest.approx(4.0)  # of the last two seconds, not 1 A at 3.5 V
    assert value(ahead, "energy_left") == pytest.approx(5.0 * 80, rel=0.03)


def test_coulombs_are_joules_at_the_voltage_that_the_battery_has_now(tmp_path: Path) -> None:
    """300 of 500 C at 4 V, after ten seconds at 5 V."""
    given = {
        CURRENT: lambda t_s: 2,
        VOLTAGE: lambda t_s: 5 if t_s <= 10 else 4,
        CHARGE: lambda t_s: 300,
    }
    ahead = trained(tmp_path, given)
    left = value(ahead, "energy_left")
    assert value(ahead, "battery") == pytest.approx(300 / 500)
    assert value(ahead, "battery_end") == pytest.approx((300 * 4 - left) / (500 * 4))


def test_a_charge_without_a_voltage_is_a_share_and_no_forecast(tmp_path: Path) -> None:
    ahead = trained(tmp_path, {POWER: lambda t_s: 10, CHARGE: lambda t_s: 300})
    assert value(ahead, "battery") == pytest.approx(300 / 500)
    assert "no voltage" in (ahead.figures["battery_end"].reason or "")


def test_joules_and_coulombs_of_two_batteries_add_up_at_a_voltage_alone(tmp_path: Path) -> None:
    other = channel("battery.c.energy", "battery_energy", "J", limit=1000.0)
    given = {POWER: lambda t_s: 10, CHARGE: lambda t_s: 300, other: lambda t_s: 500}
    assert "no voltage" in (trained(tmp_path / "a", given).figures["battery"].reason or "")
    with_volts = trained(tmp_path / "b", {**given, VOLTAGE: lambda t_s: 4})
    assert value(with_volts, "battery") == pytest.approx((300 * 4 + 500) / (500 * 4 + 1000))


def test_a_battery_that_does_not_tell_what_it_holds_when_full_tells_no_share(
    tmp_path: Path,
) -> None:
    other = channel("battery.c.energy", "battery_energy", "J")
    ahead = trained(tmp_path, {HELD: lambda t_s: 500, other: lambda t_s: 500})
    assert "when full" in (ahead.figures["battery"].reason or "")


def test_what_a_replayed_battery_holds_was_replayed(tmp_path: Path) -> None:
    held = channel("battery.b.energy", "battery_energy", "J", limit=2000.0, status="replayed")
    assert trained(tmp_path, {held: lambda t_s: 500}).figures["battery"].status == "replayed"
