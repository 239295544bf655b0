"""Logs of graphics cards: the energy of one alone, and how many they are where no column says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import Run, load

HEADER = "timestamp, power.draw [W], utilization.gpu [%]\n"


def row(t_s: float, watts: float) -> str:
    return f"2026/11/20 10:00:{t_s:06.3f}, {watts:.2f} W, 50 %\n"


def imported(folder: Path, text: str) -> Run:
    (folder / "smi.csv").write_text(text)
    return load(import_run(ImportSettings(telemetry=(folder / "smi.csv",)), folder / "run"))


def logged(rows: Iterable[str]) -> str:
    return HEADER + "".join(rows)


def test_one_gpu_alone_has_its_energy_and_mean_power_and_says_what_is_not_in_them(
    tmp_path: Path,
) -> None:
    run = imported(tmp_path, logged(row(n, 100 + n % 2) for n in range(31)))
    metrics = run.metrics()
    # From 0 to 30 s, up and down between 100 and 101 W.
    assert metrics["recorded_energy"].value == pytest.approx(30 * 100.5)
    assert metrics["mean_power"].value == pytest.approx(100.5)
    for name in ("recorded_energy", "mean_power"):
        assert "of the machine" in metrics[name].reason


@pytest.mark.parametrize("apart_s", [0.0, 0.002])
def test_eight_gpus_without_an_index_are_eight(tmp_path: Path, apart_s: float) -> None:
    run = imported(
        tmp_path,
        logged(row(0.5 * n + apart_s * gpu, 100 + gpu) for n in range(41) for gpu in range(8)),
    )
    rails = run.document()["energy_by_rail"]
    for gpu in range(8):
        assert rails[f"gpu{gpu}.power"]["value"] == pytest.approx(20 * (100 + gpu))
    # 100 + ... + 107 W
    assert run.metrics()["mean_power"].value == pytest.approx(828)
    assert any("8 GPUs in order" in note for note in run.info.notes)


@pytest.mark.parametrize("stamps", ["jittering", "whole seconds"])
def test_one_gpu_without_an_index_stays_one(tmp_path: Path, stamps: str) -> None:
    """Read ten times a second; where the log keeps whole seconds, ten rows have one time."""
    if stamps == "jittering":
        text = logged(row(0.1 * n + 0.01 * (n * 7 % 5), 100) for n in range(60))
    else:
        text = logged(row(n // 10, 100).replace(".000", "") for n in range(60))
    run = imported(tmp_path, text)
    assert run.metrics()["mean_power"].value == pytest.approx(100)
    assert [channel for channel in run.series.channels if "power" in channel] == ["gpu0.power"]


def test_one_part_of_a_machine_alone_has_its_energy_by_rail(tmp_path: Path) -> None:
    (tmp_path / "part.csv").write_text("t_s,gpu [W]\n" + "".join(f"{n},5\n" for n in range(11)))
    settings = ImportSettings(telemetry=(tmp_path / "part.csv",))
    run = load(import_run(settings, tmp_path / "run"))
    assert run.document()["energy_by_rail"]["gpu"]["value"] == pytest.approx(50)
    assert "energy by rail" in run.metrics()["mean_power"].reason
