"""Cells without a value, failed reads and pauses of a log: gaps, told with their length, in no figure's energy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.wording import assert_says, saying

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import Run, load


def log(folder: Path, header: str, row: Callable[[int], str], rows: int = 121) -> Run:
    """A run of a log with a row a second: 120 s."""
    path = folder / "log.csv"
    path.write_text(header + "\n" + "".join(f"{n},{row(n)}\n" for n in range(rows)))
    return load(import_run(ImportSettings(telemetry=(path,), find_steps=False), folder / "run"))


@pytest.mark.parametrize("header", ["t_s,power [W]", "time_s,power_W"])
@pytest.mark.parametrize(
    ("known", "seconds"),
    [
        (range(0, 61), 60),  # nothing after the middle
        (range(60, 121), 60),  # nothing before it
        ([*range(0, 31), *range(90, 121)], 60),  # nothing in the middle
        ([n for n in range(121) if n % 3], 42),  # one second in three, between two known ones
    ],
)
def test_cells_without_power_are_a_gap_that_is_told(
    tmp_path: Path, header: str, known: list[int], seconds: float
) -> None:
    """4 W and 2 W by turns: between two reads 3 J, in what is missing 0 to 4 W."""
    run = log(tmp_path, header, lambda n: f"{4 - n % 2 * 2}" if n in known else "nan")
    energy = run.metrics["recorded_energy"]
    sampled = sum(n in known and n + 1 in known for n in range(120))
    assert energy.value == pytest.approx(3 * sampled)
    assert (energy.low, energy.high) == pytest.approx(
        (3 * sampled, 3 * sampled + 4 * (120 - sampled))
    )
    assert_says(energy.reason, f"{100 * sampled / 120:.0f} %")
    assert saying(run.document()["status_notes"], f"{120 - sampled} s of 120 s")


def test_a_pause_of_a_log_is_told(tmp_path: Path) -> None:
    """A row a second, none for 60 s of 180 s."""
    path = tmp_path / "log.csv"
    rows = (n for n in range(181) if not 60 < n < 120)
    path.write_text("t_s,power [W]\n" + "".join(f"{n},5\n" for n in rows))
    run = load(import_run(ImportSettings(telemetry=(path,), find_steps=False), tmp_path / "run"))
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.low, energy.high) == pytest.approx((600.0, 600.0, 900.0))
    assert saying(run.document()["status_notes"], "60 s of 180 s")


def test_a_log_that_is_whole_says_nothing(tmp_path: Path) -> None:
    run = log(tmp_path, "t_s,power [W]", lambda n: "5")
    assert run.metrics["recorded_energy"].low is None
    assert not saying(run.document()["status_notes"], "no reading")


def test_rows_of_other_sensors_are_no_failed_reads(tmp_path: Path) -> None:
    """Three sensors by turns, as a table has them that was joined by its times."""
    cells = ("5,,", ",40,", ",,7")
    run = log(tmp_path, "t_s,power [W],temp [°C],gpu [W]", lambda n: cells[n % 3])
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(600.0)
    assert saying(run.document()["status_notes"], "gpu", "40 of 121 rows")


@pytest.mark.parametrize("name", ["power [W]", "power_W"])
@pytest.mark.parametrize("other", ["40", "warm"])
@pytest.mark.parametrize("rows", [(5, None), (5, 5, None), (5, 5, 5, None), (5, None, None)])
def test_two_logs_in_one_table(
    tmp_path: Path, name: str, other: str, rows: tuple[float | None, ...]
) -> None:
    """Power in some rows, something else in the others, which may not even be read, and a name in all."""
    if name == "power [W]" and other == "warm":
        return  # a table of numbers

    def row(n: int) -> str:
        watts = rows[n % len(rows)]
        return f",{other},1" if watts is None else f"{watts},,1"

    run = log(tmp_path, f"time_s,{name},state,board", row)
    last = max(n for n in range(121) if rows[n % len(rows)] is not None)
    assert run.metrics["recorded_energy"].value == pytest.approx(5.0 * last)
    assert not saying(run.document()["status_notes"], "no reading")


@pytest.mark.parametrize("heading", ["power [W],energy [J]", "power_W,energy_J"])
def test_a_counter_in_every_tenth_row_beside_power_in_all(tmp_path: Path, heading: str) -> None:
    run = log(tmp_path, f"time_s,{heading}", lambda n: f"5,{'' if n % 10 else 5 * n}")
    assert run.metrics["recorded_energy"].value == pytest.approx(5.0 * 120)
    assert not saying(run.document()["status_notes"], "no reading")


@pytest.mark.parametrize("heading", ["power [W],energy [J]", "power_W,energy_J"])
@pytest.mark.parametrize("nothing", ["", "--"])
@pytest.mark.parametrize(("every", "joules"), [((3, 7), 5.0 * 119), ((4, 1000), 5.0 * 120)])
def test_sensors_with_turns_of_their_own_in_rows_of_which_most_are_empty(
    tmp_path: Path, heading: str, nothing: str, every: tuple[int, int], joules: float
) -> None:
    """5 W in every third row, a counter in every seventh up to 119 s: neither was read in the others."""
    power, counter = every

    def row(n: int) -> str:
        energy = 5 * n if not n % counter else nothing
        return f"{nothing if n % power else 5},{energy},{1 if n % 4 == 2 else nothing}"

    run = log(tmp_path, f"time_s,{heading},temp [°C]", row)
    assert run.metrics["recorded_energy"].value == pytest.approx(joules)
    assert not saying(run.document()["status_notes"], "no reading")


def test_a_read_that_failed_at_its_turn_is_a_gap(tmp_path: Path) -> None:
    """5 W in every third row but that of 60 s, between 57 and 63 s nothing is known."""
    run = log(
        tmp_path,
        "t_s,power [W],temp [°C]",
        lambda n: f"{'' if n % 3 or n == 60 else 5},{'' if n % 7 else 40}",
    )
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.low, energy.high) == pytest.approx((570.0, 570.0, 600.0))
    assert saying(run.document()["status_notes"], "6 s of 120 s")


@pytest.mark.parametrize("name", ["power [W]", "power_W"])
def test_reads_that_fail_beside_a_column_of_every_row(tmp_path: Path, name: str) -> None:
    run = log(tmp_path, f"time_s,{name},temp [°C]", lambda n: f"{'' if n % 4 == 3 else 5},40")
    energy = run.metrics["recorded_energy"]
    assert (energy.value, energy.high) == pytest.approx((300.0, 600.0))


def test_reads_of_which_every_other_fails_tell_no_energy_and_why(tmp_path: Path) -> None:
    energy = log(tmp_path, "t_s,power [W]", lambda n: "5" if n % 2 else "").metrics[
        "recorded_energy"
    ]
    assert energy.missing
    assert_says(energy.reason, "no two samples")


def test_every_other_read_of_power_beside_a_temperature_in_all_rows(tmp_path: Path) -> None:
    """No row is the temperature's own: the empty cells are failed reads of the power."""
    run = log(tmp_path, "t_s,power [W],temp [°C]", lambda n: f"{'' if n % 2 else 5},40")
    energy = run.metrics["recorded_energy"]
    assert energy.missing
    assert_says(energy.reason, "no two samples")


def test_watts_and_volts_of_one_sensor_between_rows_of_another(tmp_path: Path) -> None:
    run = log(tmp_path, "t_s,power [W],v [V],temp [°C]", lambda n: ",,40" if n % 2 else "5,5,")
    assert run.metrics["recorded_energy"].value == pytest.approx(600.0)


def test_power_of_a_battery_that_may_have_been_charged_in_a_gap(tmp_path: Path) -> None:
    """60 s at 5 W, a second to -6 W, 19 s at that, 40 s of nothing: 300 - 0.5 - 114 J, and -240 to 200 J."""
    cells = {**dict.fromkeys(range(61), "5"), **dict.fromkeys(range(61, 81), "-6")}
    energy = log(tmp_path, "t_s,power [W]", lambda n: cells.get(n, "")).metrics["recorded_energy"]
    assert energy.value == pytest.approx(185.5)
    assert (energy.low, energy.high) == pytest.approx((-54.5, 385.5))
    assert_says(energy.method, "the lowest", "the highest")


@pytest.mark.parametrize(
    ("odd", "begins", "energy", "says"),
    [
        ({120: 5e8}, 0, 595, "megawatt"),  # the last read
        ({0: 0.0}, 1e9, 595, "megawatt"),  # the first one, of a counter that has counted for years
        ({60: 5e8, 61: 5e8}, 0, 585, "left out"),  # up, and back again
        (dict.fromkeys(range(60, 70), 0.0), 1e9, 600 - 55, "megawatt"),
    ],
)
def test_steps_of_a_counter_of_more_than_a_megawatt_are_gaps(
    tmp_path: Path, odd: dict[int, float], begins: float, energy: float, says: str
) -> None:
    """5 J a second, but for odd reads: what is counted up to them and from them on is left out."""
    run = log(tmp_path, "t_s,energy [J]", lambda n: f"{odd.get(n, begins + 5 * n)}")
    found = run.metrics["recorded_energy"]
    assert found.value == pytest.approx(energy)
    assert_says(found.reason, says)


def test_a_coarse_counter_keeps_its_steps(tmp_path: Path) -> None:
    """Hundredths of a kilowatt hour, read every 10 ms: 3.6 MW between two reads, 720 W on the whole."""
    path = tmp_path / "log.csv"
    rows = (f"{n / 100:.2f},{36_000 * (n // 5000)}\n" for n in range(20_001))
    path.write_text("time_s,energy [J]\n" + "".join(rows))
    run = load(import_run(ImportSettings(telemetry=(path,), find_steps=False), tmp_path / "run"))
    energy = run.metrics["recorded_energy"]
    assert energy.value == pytest.approx(4 * 36_000)
    assert not saying(run.document()["status_notes"], "megawatt")
