"""What is left of a training that runs, from journals that are written meanwhile."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.conditions.made import BEGIN_S, Made

from wattstep.conditions.ahead import Ahead, Stretches
from wattstep.conditions.live_power import LivePower
from wattstep.records.channel import Channel
from wattstep.records.journal import JOURNAL
from wattstep.records.settings import parse_power_model


def channel(name, role, unit="W", kind="gauge", domain="system", **more):
    return Channel(
        name=name, unit=unit, kind=kind, domain=domain, role=role, source="made", **more
    )  # fmt: skip


def info(made, **fields):
    known = {"power_model": None, "calibration": None}
    return SimpleNamespace(reads=made.info.reads, **(known | fields))


def trained(made, about, seconds=20, steps=100):
    """Steps of half a second until so long is over; then what is left."""
    ahead = Ahead(made.path, about, made.clock)
    ahead.begin()
    done = 0
    while made.now_s < BEGIN_S + seconds:
        made.sleep(0.5)
        ahead.step(counts=True)
        done += 1
        if ahead.due():
            ahead.look(steps=steps - done)
    return ahead, steps - done


def test_time_and_joules_left_are_those_of_steady_steps(tmp_path):
    made = Made(tmp_path, {channel("meter", "power_total"): lambda t_s: 12})
    ahead, left = trained(made, info(made))
    assert ahead.time.value == pytest.approx(0.5 * left, rel=0.05)
    # It was last worked out up to two seconds ago.
    assert ahead.time.low - 2 < 0.5 * left < ahead.time.high
    assert ahead.energy.value == pytest.approx(12 * ahead.time.value)
    assert "to finish" in ahead.words()
    assert "modelled" not in ahead.words()


def test_a_counter_gives_the_same(tmp_path):
    counter = channel("rapl", "energy_total", "J", "counter", wrap=100, scale=1.0)
    made = Made(tmp_path, {counter: lambda t_s: round(12 * t_s) % 100})
    ahead, _ = trained(made, info(made))
    assert ahead.energy.value / ahead.time.value == pytest.approx(12, rel=0.05)


def test_without_a_sensor_there_is_a_reason_and_no_joules(tmp_path):
    made = Made(tmp_path, {})
    ahead, _ = trained(made, info(made))
    assert "no power sensor" in ahead.unpowered
    assert ahead.energy.missing
    assert "left" in ahead.words()
    assert "J" not in ahead.words()


@pytest.mark.parametrize(
    ("own", "of_children"), [(("process_cpu_time",), 1.5), (("process_cpu_time_coarse",), 3.0)]
)
def test_a_model_gives_joules_of_the_training_that_say_so(tmp_path, own, of_children):
    """A quarter of a core at 6 W, and as much by its children, which perf has counted already."""
    clocks = [
        channel(role, role, "s", "counter", scale=0.01) for role in (*own, "children_cpu_time")
    ]
    made = Made(tmp_path, dict.fromkeys(clocks, lambda t_s: round(25 * t_s)))
    ahead, _ = trained(made, info(made, power_model=parse_power_model("linear:2,6")))
    assert ahead.energy.value / ahead.time.value == pytest.approx(of_children, rel=0.05)
    assert "modelled" in ahead.words()


def test_the_battery_at_the_end_is_what_it_holds_less_the_joules(tmp_path):
    power = channel("battery.bat0.power", "power_total", domain="battery")
    held = channel("battery.bat0.energy", "battery_energy", "J", limit=2000.0)
    made = Made(tmp_path, {power: lambda t_s: 10, held: lambda t_s: 1000 - round(10 * t_s)})
    ahead, _ = trained(made, info(made))
    left = ahead.energy.value
    assert ahead.level.value == pytest.approx((800 - left) / 2000, abs=0.01)
    assert "battery" in ahead.words()
    assert ahead.document()["battery_left"]["status"] == "predicted"


def test_a_battery_that_will_not_last_is_said(tmp_path):
    power = channel("battery.bat0.power", "power_total", domain="battery")
    held = channel("battery.bat0.energy", "battery_energy", "J", limit=2000.0)
    made = Made(tmp_path, {power: lambda t_s: 10, held: lambda t_s: 300 - round(10 * t_s)})
    ahead, _ = trained(made, info(made))
    assert "empty before the end" in ahead.words()


def test_a_battery_that_tells_current_and_charge(tmp_path):
    made = Made(
        tmp_path,
        {
            channel("battery.b.current", "battery_current", "A", domain="battery"): lambda t_s: 2,
            channel("battery.b.voltage", "battery_voltage", "V", domain="battery"): lambda t_s: 4,
            channel("battery.b.charge", "battery_charge", "C", limit=500.0): lambda t_s: 300,
        },
    )
    ahead, _ = trained(made, info(made))
    assert ahead.energy.value / ahead.time.value == pytest.approx(8)
    assert ahead.level.value == pytest.approx((300 * 4 - ahead.energy.value) / (500 * 4))


def test_failed_reads_give_no_joules_instead_of_wrong_ones(tmp_path):
    made = Made(tmp_path, {channel("meter", "power_total"): lambda t_s: None})
    ahead, _ = trained(made, info(made))
    assert ahead.energy.missing
    assert not ahead.time.missing


def test_power_is_that_since_it_was_last_asked(tmp_path):
    made = Made(tmp_path, {channel("meter", "power_total"): lambda t_s: round(10 * t_s)})
    power = LivePower(made.info.reads, made.path / JOURNAL, None, None)
    for expected in (10, 20):
        made.sleep(1)
        assert power.look() == expected
    assert power.look() is None


def test_a_run_that_time_limits_has_that_time_left(tmp_path):
    made = Made(tmp_path, {})
    ahead = Ahead(made.path, info(made), made.clock)
    made.sleep(3)
    ahead.look(seconds=7.0)
    assert ahead.words() == "7 s left"


def test_nothing_is_said_before_it_is_known(tmp_path):
    made = Made(tmp_path, {})
    ahead = Ahead(made.path, info(made), made.clock)
    made.sleep(3)
    ahead.look(steps=50)
    assert ahead.words() == ""
    assert "too few" in ahead.time.reason


def test_a_long_series_is_kept_in_few_means():
    series = Stretches(8)
    for value in range(64):
        series.add(float(value))
    assert len(series.values) < 8
    whole = series.each * len(series.values)
    assert sum(series.values) * series.each == sum(range(whole))
