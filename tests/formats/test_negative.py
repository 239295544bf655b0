"""Power below 0: refused where it is all that there is; elsewhere its channel is left out, or kept where it is noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.formats.recording import Recording
from wattstep.formats.registry import read_log
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import load


def log(path: Path, header: str, *values: float) -> Path:
    """A log of 60 rows, a second apart, all alike."""
    cells = ",".join(map(str, values))
    path.write_text(f"t_s,{header}\n" + "".join(f"{n},{cells}\n" for n in range(60)))
    return path


def read(path: Path) -> Recording:
    return read_log(path)[1]


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("power [W]", (-5.0,)),
        ("power [W]", (-0.02,)),
        ("power_W", (-5.0,)),
        ("voltage_V,current_A", (5.0, -1.0)),
        ("cpu [W],gpu [W],temp [°C]", (-5.0, -3.0, 40.0)),
    ],
)
def test_a_log_of_nothing_but_power_below_0_is_refused(
    tmp_path: Path, header: str, values: tuple[float, ...]
) -> None:
    path = log(tmp_path / "turned.csv", header, *values)
    with refused("unreadable-telemetry", "turned.csv", "60 of 60", "sign"):
        import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_sensor_that_nothing_is_connected_to_costs_no_other_channel(tmp_path: Path) -> None:
    recording = read(log(tmp_path / "log.csv", "power [W],adc [W]", 5.0, -0.02))
    assert set(recording.value["power"]) == {5.0}
    assert set(recording.value["adc"]) == {-0.02}
    assert saying(recording.notes, "adc", "-0.02 W", "kept")


def test_a_turned_rail_is_left_out_by_name_and_the_others_are_not(tmp_path: Path) -> None:
    recording = read(log(tmp_path / "log.csv", "power [W],gpu [W]", 5.0, -3.0))
    assert set(recording.value["power"]) == {5.0}
    assert np.isnan(recording.value["gpu"]).all()
    assert saying(recording.notes, "gpu", "60 of 60", "left out")
    assert sum(recording.ignored.values()) == 60


def test_a_total_that_lacks_a_turned_rail_is_none(tmp_path: Path) -> None:
    """An NVIDIA Jetson's total is made of its rails."""
    path = log(
        tmp_path / "log.csv", "VDD_GPU_SOC [W],VDD_CPU_CV [W],VIN_SYS_5V0 [W]", 3.0, -2.0, 1.0
    )
    settings = ImportSettings(telemetry=(path,), board="jetson-agx-orin", find_steps=False)
    energy = load(import_run(settings, tmp_path / "run")).metrics["recorded_energy"]
    assert energy.missing
    assert_says(energy.reason, "no total", "vdd_cpu_cv")


def test_power_of_either_sign_is_netted_and_told(tmp_path: Path) -> None:
    """40 s of 5 W from a battery, then 20 s in which it takes up 3 W."""
    path = tmp_path / "log.csv"
    rows = "".join(f"{n},{5 if n <= 40 else -3}\n" for n in range(61))
    path.write_text(f"t_s,power [W]\n{rows}")
    run = load(import_run(ImportSettings(telemetry=(path,), find_steps=False), tmp_path / "run"))
    energy = run.metrics["recorded_energy"].value
    assert energy == pytest.approx(40 * 5 + 1 - 19 * 3)  # and a second between the two
    assert saying(run.document()["status_notes"], "20 of 61", "-3 W")


def test_noise_about_0_is_not_worth_a_word(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t_s,power [W]\n0,-0.01\n" + "".join(f"{n},5\n" for n in range(1, 50)))
    recording = read(path)
    assert recording.value["power"].min() == -0.01
    assert recording.notes == ()
