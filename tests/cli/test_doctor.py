"""What doctor shows of a target: its channels, its total, and what must be known of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from wattstep.cli.doctor import _total, doctor
from wattstep.recorded.series import NO_SENSOR
from wattstep.train.doctor import diagnose


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Power that changes every 50 ms by 0.25 W, for ten seconds."""
    path = tmp_path / "bench.csv"
    rows = (f"{n / 20},{4 + n % 6 / 4},{2 + n % 6 / 4}\n" for n in range(200))
    path.write_text("t_s,power [W],gpu [W]\n" + "".join(rows))
    return path


def test_a_replayed_recording_is_diagnosed_like_a_machine(log: Path) -> None:
    found = diagnose(seconds=1.0, target=f"replay:{log}")
    sensors: dict[str, Any] = {sensor["name"]: sensor for sensor in found["sensors"]}
    power, gpu = sensors["replay"]["channels"]
    assert (power["name"], gpu["name"]) == ("power", "gpu")
    assert power["status"] == "replayed"
    assert power["update_interval"] == pytest.approx(0.05, rel=0.01)
    assert power["resolution_seen"] == pytest.approx(0.25)
    assert not sensors["cpu"]["present"]
    assert sensors["cpu"]["reason"] == "not sampled: the sensors of bench.csv are replayed"
    assert sensors["process_memory"]["present"]
    assert found["target"] == "replay:bench.csv"
    assert found["total"]["status"] == "replayed"
    assert "power" in found["total"]["source"]
    assert found["notes"][0].startswith("sensors replayed from bench.csv: its power does not")
    assert str(log.parent) not in json.dumps(found)


def test_doctor_says_whose_sensors_they_are_and_what_makes_the_total(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(target=f"replay:{log}")
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "sensors: recording bench.csv (plain CSV, machine not known)" in shown
    assert "its power does not belong to this training" in shown
    assert "power in all (replayed): column power of plain CSV, replayed from bench.csv" in shown
    assert re.search(r" gpu [23](\.\d+)? W 250 mW (50|49\.\d|50\.\d) ?ms", shown), shown


def test_a_target_that_nobody_knows_is_refused_at_once() -> None:
    with refused("unknown-target", "'replays:x'"):
        diagnose(target="replays:x")


def test_doctor_does_not_point_to_itself() -> None:
    total = {"source": None, "note": NO_SENSOR}
    assert _total(total) == (
        "no total of power: no power sensor was found: --power-model vcpu models power"
    )
