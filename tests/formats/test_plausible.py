"""Values that nothing can have are left out where they are few, and refused where they are many."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

import wattstep
from wattstep.formats.registry import read_log
from wattstep.importing.importer import ImportSettings, import_run


def meter(path: Path, values: list[str], heading: str = "power_W") -> Path:
    path.write_text(f"time_s,{heading}\n" + "".join(f"{n},{v}\n" for n, v in enumerate(values)))
    return path


@pytest.mark.parametrize("cell", ["1e308", "1e12", "-1e9"])
def test_one_value_that_nothing_can_have_is_a_gap_and_told(tmp_path: Path, cell: str) -> None:
    values = ["5.0"] * 400
    values[200] = cell
    _, recording = read_log(meter(tmp_path / "meter.csv", values))
    (name,) = recording.value
    assert np.isnan(recording.value[name]).sum() == 1
    assert np.nanmax(recording.value[name]) == 5.0
    assert sum(recording.ignored.values()) == 1
    assert_says(" ".join(recording.notes), name, "1 values", "W")


@pytest.mark.parametrize("cell", ["1e308", "1e12"])
def test_a_log_of_such_values_is_refused_and_leaves_nothing(tmp_path: Path, cell: str) -> None:
    path = meter(tmp_path / "meter.csv", [cell] * 50)
    with refused("unreadable-telemetry", "meter.csv", "W"):
        import_run(ImportSettings(telemetry=(path,)), tmp_path / "runs" / "run")
    assert [each.name for each in tmp_path.iterdir()] == ["meter.csv"]


def test_a_line_ten_years_later_takes_no_memory(tmp_path: Path) -> None:
    lines = [f"{n / 10},{5 + n % 13 // 5}.5\n" for n in range(100)]
    path = tmp_path / "log.csv"
    path.write_text("t_s,power [W]\n" + "".join(lines) + "315360000,5\n")
    import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wattstep.load(tmp_path / "run").document()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB


@pytest.mark.parametrize(
    ("heading", "cell"),
    [("power [kW]", "1e5"), ("temp [°C]", "-300"), ("clock [GHz]", "1e6"), ("supply [V]", "1e7")],
)
def test_each_unit_has_its_limits(tmp_path: Path, heading: str, cell: str) -> None:
    values = [*["1"] * 200, cell]
    path = tmp_path / "log.csv"
    path.write_text(
        f"t_s,{heading},other\n" + "".join(f"{n},{v},1\n" for n, v in enumerate(values))
    )
    _, recording = read_log(path)
    assert sum(int(np.isnan(each).sum()) for each in recording.value.values()) == 1


def test_a_counter_that_falls_as_often_as_it_rises_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "t_s,energy [J],total_energy [J],left [Wh]\n"
        + "".join(f"{n},{5 + n % 2},{n % 50},{50 - n // 40}\n" for n in range(200))
    )
    _, recording = read_log(path)
    kinds = {channel.name: (channel.kind, channel.role) for channel in recording.channels}
    assert kinds == {
        "energy": ("gauge", "unknown"),  # energy of each interval
        "total_energy": ("counter", "energy_part"),  # reset three times
        "left": ("gauge", "unknown"),  # of a battery, which only falls
    }
    assert len(recording.notes) == 2
    assert_says(recording.notes[0], "energy", 99, 199)
    assert_says(recording.notes[1], "left", 4, 199)


@pytest.mark.parametrize("cell", ["1e-320", "1e-200", "0"])
def test_power_whose_square_is_no_number_is_0(tmp_path: Path, cell: str) -> None:
    values = ["0", cell] * 40
    path = tmp_path / "log.csv"
    rows = "".join(f"{n},{v},{v},\n" for n, v in enumerate(values))
    path.write_text(f"t_s,power [W],clock [GHz],temp [°C]\n{rows}")
    with np.errstate(all="raise", under="ignore"):
        import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")
        run = wattstep.load(tmp_path / "run")
        run.document()
    assert not run.series.raw("power")[1].any()


@pytest.mark.parametrize("cell", ["0", "1e9"])
def test_a_single_read_of_a_counter_that_goes_on_from_before_is_a_gap(
    tmp_path: Path, cell: str
) -> None:
    values = [str(500_000 + 4 * n) for n in range(400)]
    values[200] = cell
    _, recording = read_log(meter(tmp_path / "meter.csv", values, "energy_J"))
    (name,) = recording.value
    assert np.flatnonzero(np.isnan(recording.value[name])).tolist() == [200]
    assert np.nanmax(recording.value[name]) - np.nanmin(recording.value[name]) == 4 * 399


def test_a_counter_that_begins_again_keeps_all_its_reads(tmp_path: Path) -> None:
    values = [str(500_000 + 4 * n) for n in range(200)] + [str(4 * n) for n in range(200)]
    _, recording = read_log(meter(tmp_path / "meter.csv", values, "energy_J"))
    (name,) = recording.value
    assert not np.isnan(recording.value[name]).any()
