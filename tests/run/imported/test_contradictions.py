"""Counters of energy that go back, stand still, or contradict the power beside them in the same log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.wording import assert_says, saying

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import Run, load


def log(folder: Path, header: str, row: Callable[[int], str], rows: int = 121) -> Run:
    """A run of a log with a row a second."""
    path = folder / "log.csv"
    path.write_text(header + "\n" + "".join(f"{n},{row(n)}\n" for n in range(rows)))
    return load(import_run(ImportSettings(telemetry=(path,), find_steps=False), folder / "run"))


def watts(n: int) -> float:
    """6 W and 4 W by turns: 5 W over two rows, and the trapezoids between them."""
    return 6.0 if n % 2 else 4.0


BOTH = pytest.mark.parametrize(
    ("header", "used"),
    [("t_s,power [W],energy [J]", "energy"), ("time_s,power_W,energy_J", "meter.energy")],
)


@BOTH
def test_power_and_energy_of_which_one_has_another_unit_are_told_with_what_is_used(
    tmp_path: Path, header: str, used: str
) -> None:
    """120 s at 5 W beside a counter that says 500 W."""
    run = log(tmp_path, header, lambda n: f"{watts(n)},{500 * n}")
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.low, energy.high) == pytest.approx((60_000.0, 600.0, 60_000.0))
    assert_says(energy.reason, "contradict", "500 W", "5 W", f"those of {used}", "whose unit")
    assert saying(run.document()["status_notes"], "contradict", used)


POWER = pytest.mark.parametrize(
    ("header", "used"),
    [("t_s,power [W],energy [J]", "power"), ("time_s,power_W,energy_J", "meter.power")],
)


@POWER
@pytest.mark.parametrize("still", ["begin", "middle", "end"])
def test_a_counter_that_was_stuck_for_a_third_of_the_log(
    tmp_path: Path, header: str, used: str, still: str
) -> None:
    """400 J of 600 J: power counts, figures hold both, and say how long it stood still."""

    def counted(n: int) -> int:
        return 5 * {"begin": max(n - 40, 0), "middle": n - min(max(n - 40, 0), 40), "end": min(n, 80)}[still]  # fmt: skip

    run = log(tmp_path, header, lambda n: f"{watts(n)},{counted(n)}")
    energy, power = run.metrics["recorded_energy"], run.metrics["mean_power"]
    assert (energy.value, energy.low, energy.high) == pytest.approx((600.0, 400.0, 600.0))
    assert_says(energy.reason, "contradict", f"those of {used}", "stood still for 40 s", "both")
    assert power.value == pytest.approx(5.0)


@POWER
def test_a_counter_that_is_stuck_under_load(tmp_path: Path, header: str, used: str) -> None:
    """80 s at 5 W and 45 s at 20 W: 1,300 J, of which the counter has 400 J."""
    cells = [(watts(n), 5.0 * n) for n in range(81)] + [(20 + n % 2 - 0.5, 400) for n in range(45)]
    run = log(tmp_path, header, lambda n: "{},{}".format(*cells[n]), len(cells))
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(1300.0, rel=0.01)
    assert energy.low == pytest.approx(400.0, rel=0.01)


@BOTH
@pytest.mark.parametrize(
    "row",
    [
        # A counter in steps of 10 J, new every 2 s, and at 0.2 W every 50 s.
        lambda n: (
            (watts(n // 2), 5 * n // 10 * 10)
            if n < 80
            else (0.2 + n // 2 % 2 / 100, 400 + (n >= 110) * 10)
        ),
        # Read as it was for 40 s, then as it is.
        lambda n: (watts(n), 5 * n if not 40 <= n < 80 else 200),
        # Both written once more for 40 s.
        lambda n: (watts(n), 5 * n) if n < 80 else (4.0, 400),
        # New every 4 s.
        lambda n: (watts(n // 2), 5 * (n // 4 * 4)),
    ],
)  # fmt: skip
def test_a_counter_that_stands_still_and_loses_nothing(
    tmp_path: Path, header: str, used: str, row: Callable[[int], tuple[float, float]]
) -> None:
    run = log(tmp_path, header, lambda n: "{},{}".format(*row(n)))
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(row(120)[1])
    assert f"({used})" in (energy.source or "")


@BOTH
def test_a_counter_that_says_more_than_power(tmp_path: Path, header: str, used: str) -> None:
    """8 W beside 5 W: less than two times apart, more than samples a second apart can be off."""
    run = log(tmp_path, header, lambda n: f"{watts(n)},{8 * n}")
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.low, energy.high) == pytest.approx((960.0, 600.0, 960.0))
    assert_says(energy.reason, "contradict", "8 W", "5 W", f"those of {used}")
    assert "unit" not in (energy.reason or "")


def test_a_counter_that_was_read_before_and_after_power_alone(tmp_path: Path) -> None:
    """100 J in 120 s, beside 5 W in all of the time between."""
    run = log(
        tmp_path,
        "time_s,power_W,energy_J",
        lambda n: {0: ",0", 120: ",100"}.get(n, f"{watts(n)},"),
    )
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(5.0 * 118, rel=0.01)
    assert energy.low == pytest.approx(100.0 * 118 / 120)
    assert_says(energy.reason, "contradict", "0.833 W", "5 W", "those of meter.power")
    assert "stood still" not in (energy.reason or "")


@pytest.mark.parametrize(
    ("header", "used"),
    [("t_s,power [W],energy [Wh]", "power"), ("time_s,power_W,energy_Wh", "meter.power")],
)
def test_power_beside_a_coarse_counter(tmp_path: Path, header: str, used: str) -> None:
    """600 J, of which a counter in tenths of a watt hour shows 360 J: power has more new values."""
    run = log(tmp_path, header, lambda n: f"{watts(n)},{n // 72 / 10:.1f}")
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(600.0)
    assert f"({used})" in (energy.source or "")
    assert not saying(run.document()["status_notes"], "contradict")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("t_s,power [W],energy [J]", lambda n: f"{watts(n)},{5 * n}"),
        ("t_s,power [W],energy [J]", lambda n: f"{watts(n)},{5.2 * n}"),  # 24 J, one in 25
        ("t_s,power [W],energy [Wh]", lambda n: f"{watts(n)},{7 + n // 100}"),  # one step in 120 s
        ("t_s,power [W],gpu_energy [J]", lambda n: f"{watts(n)},{n / 100}"),  # a part of it
    ],
)
def test_power_and_energy_that_may_both_be_right_are_left_alone(
    tmp_path: Path, header: str, row: Callable[[int], str]
) -> None:
    run = log(tmp_path, header, row)
    assert not saying(run.document()["status_notes"], "contradict")


def test_a_rail_whose_power_and_energy_contradict_each_other_says_so(tmp_path: Path) -> None:
    run = log(
        tmp_path,
        "t_s,power [W],gpu_power [W],gpu_energy [mJ]",
        lambda n: f"{watts(n)},{watts(n) / 2},{2.5 * n}",
    )
    rails = run.document()["energy_by_rail"]
    reasons = {name: rail["reason"] for name, rail in rails.items()}
    assert_says(reasons["gpu_energy"], "contradict", "2.5 W", "0.0025 W", "gpu_power")
    assert "contradict" not in (reasons["power"] or "")


@pytest.mark.parametrize(
    "header",
    [
        "t_s,voltage [V],current [A],power [W]",
        "time_s,voltage_V,current_A,power_W",
        "time_s,Voltage(V),Current(A),Power(W)",
        "time_s,volts,amps,watts",
        "t_s,V [V],I [A],P [W]",
        "t_s,board voltage [V],board current [A],board power [W]",
        "t_s,voltage [mV],current [mA],power [mW]",
        "time_s,voltage_mV,current_mA,power_mW",
    ],
)
@pytest.mark.parametrize(
    ("times", "watts_said"), [(1.0, None), (0.48, None), (1000.0, "6,000 W"), (0.001, "0.006 W")]
)
def test_watts_beside_volts_and_amperes(
    tmp_path: Path, header: str, times: float, watts_said: str | None
) -> None:
    """5 V times 1.2 A are 6 W, or 2.9 W at a power factor of 0.48."""
    milli = 1000.0 if "m" in header.rpartition(",")[2] else 1.0
    run = log(tmp_path, header, lambda n: f"{5 * milli},{1.2 * milli},{6 * times * milli}", 20)
    notes = saying(run.document()["status_notes"], "contradict")
    assert len(notes) == (watts_said is not None)
    if watts_said is not None:
        power = next(c.name for c in run.series.channels.values() if c.unit == "W")
        assert_says(
            notes[0], "makes 6 W", f"{power} says {watts_said}", "1,000", f"those of {power}"
        )


def test_amperes_that_are_nothing_beside_watts(tmp_path: Path) -> None:
    run = log(tmp_path, "t_s,power_W,voltage_V,current_A", lambda n: "6,5,0", 20)
    assert saying(run.document()["status_notes"], "makes 0 W", "6 W")


def test_a_supply_that_is_told_twice_is_one_rail(tmp_path: Path) -> None:
    """Power and energy of the same: 600 J, once."""
    run = log(tmp_path, "t_s,power [W],energy [J]", lambda n: f"{watts(n)},{5 * n}")
    assert run.document()["energy_by_rail"] == {}
    assert run.metrics["recorded_energy"].value == pytest.approx(600.0)
    beside = tmp_path / "beside"
    beside.mkdir()
    header = "t_s,power [W],energy [J],gpu power [W],gpu energy [J],cpu_power [W],cpu_energy [J]"
    run = log(beside, header, lambda n: f"{watts(n)},{5 * n},{watts(n)},{4 * n},{watts(n)},7")
    rails = {name: each["value"] for name, each in run.document()["energy_by_rail"].items()}
    # The CPU's counter stands still: its power is what tells.
    assert rails == pytest.approx({"energy": 600.0, "gpu_energy": 480.0, "cpu_power": 600.0})


def test_letters_are_quantities_in_their_own_units_alone(tmp_path: Path) -> None:
    """50 W of `a` and 2 W of `v` are two rails; `p` and `e` are power and energy of one: 600 J."""
    run = log(tmp_path, "t_s,a [W],v [J],gpu [W]", lambda n: f"50,{2 * n},7")
    rails = {name: each["value"] for name, each in run.document()["energy_by_rail"].items()}
    assert rails == pytest.approx({"a": 6000.0, "v": 240.0, "gpu": 840.0})
    assert not saying(run.document()["status_notes"], "times apart")
    beside = tmp_path / "beside"
    beside.mkdir()
    run = log(beside, "t_s,p [W],e [J]", lambda n: f"{watts(n)},{5 * n}")
    assert list(run.series.rails) == ["e"]


def test_a_counter_that_was_reset_says_so_and_lacks_that_second(tmp_path: Path) -> None:
    """5 J a second, from 0 again after 60 and 100 s: 118 of 120 s are known."""
    run = log(tmp_path, "t_s,energy [J]", lambda n: f"{5 * (n - (n > 60) * 61 - (n > 100) * 40)}")
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(590.0)
    assert_says(energy.reason, "energy", "2 times", "2 s")
    assert saying(run.document()["status_notes"], "2 times", "2 s")
    assert run.metrics["mean_power"].value == pytest.approx(5.0)


def test_a_counter_that_never_moved_is_no_total(tmp_path: Path) -> None:
    alone = log(tmp_path, "t_s,energy [Wh]", lambda n: "12.5").metrics["recorded_energy"]
    assert_says(alone.reason, "energy", "no total")
    beside = tmp_path / "beside"
    beside.mkdir()
    run = log(beside, "t_s,power [W],energy [Wh]", lambda n: f"{watts(n)},12.5")
    assert run.metrics["recorded_energy"].value == pytest.approx(600.0)
    assert "(power)" in run.metrics["recorded_energy"].source
    assert saying(run.document()["status_notes"], "energy", "same value")


def test_a_counter_that_moved_twice_is_bounded_by_its_step(tmp_path: Path) -> None:
    """600 J by a counter in steps of 0.1 Wh: 360 J, give or take as much."""
    run = log(tmp_path, "t_s,energy [Wh]", lambda n: f"{3 + n // 72 / 10:.1f}")
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.low, energy.high) == pytest.approx((360.0, 0.0, 720.0))


@BOTH
def test_power_that_misses_a_burst_in_its_gap_contradicts_no_counter(
    tmp_path: Path, header: str, used: str
) -> None:
    """300 W while power is not read (41 rows), 5 W else: over the time of both they agree."""

    def row(n: int) -> str:
        cell = "" if 40 <= n < 80 else f"{watts(n)}"
        return f"{cell},{5 * n + 295 * min(max(n - 40, 0), 39)}"

    run = log(tmp_path, header, row)
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(120 * 5 + 39 * 295)
    assert (energy.low, energy.high, energy.systematic) == (None, None, None)
    assert not saying(run.document()["status_notes"], "contradict")


@BOTH
def test_a_counter_that_is_off_beside_power_with_a_gap_is_told_over_the_time_of_both(
    tmp_path: Path, header: str, used: str
) -> None:
    """A counter of 10 W beside 5 W: still told, of the 79 s that power was read in."""
    run = log(tmp_path, header, lambda n: f"{'' if 40 <= n < 80 else watts(n)},{10 * n}")
    assert saying(run.document()["status_notes"], "contradict", "10 W", "5 W", "79 s")


@pytest.mark.parametrize("step_s", [1, 3, 10])
def test_the_interval_of_a_counter_that_is_read_more_often_than_it_counts(
    tmp_path: Path, step_s: int
) -> None:
    """100 W for 138.9 s, read ten times a second; the counter goes on once in so many seconds."""
    path = tmp_path / "log.csv"
    rows = (f"{n / 10},{100 * step_s * ((n + 3) // (10 * step_s))}\n" for n in range(1390))
    path.write_text("t_s,energy [J]\n" + "".join(rows))
    run = load(import_run(ImportSettings(telemetry=(path,), find_steps=False), tmp_path / "run"))
    energy = run.metrics["recorded_energy"]
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= 13_890 <= energy.high
    assert energy.high - energy.low == pytest.approx(2 * 100 * step_s)
