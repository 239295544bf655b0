"""What doctor shows of a target: its channels, its total, and what must be known of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.cli.doctor import _show, _total, doctor
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
    assert_says(sensors["cpu"]["reason"], "bench.csv", "replayed")
    assert sensors["process_memory"]["present"]
    assert found["target"] == "replay:bench.csv"
    assert found["total"]["status"] == "replayed"
    assert "power" in found["total"]["source"]
    assert_says(found["notes"][0], "replayed from bench.csv", "power does not")
    assert str(log.parent) not in json.dumps(found)


def test_doctor_says_whose_sensors_they_are_and_what_makes_the_total(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(target=f"replay:{log}", full=True)
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "sensors: recording bench.csv (plain CSV" in shown
    assert_says(shown, "does not belong")
    assert_says(shown, "in all (replayed)", "column power", "replayed from bench.csv")
    # In columns, or in a line where these have no room, which goes with the machine's numbers.
    between = r"(?: | \(smallest change )250 mW(?: |, new value every )"
    assert re.search(rf" gpu:? [23](\.\d+)? W{between}(50|49\.\d|50\.\d) ?ms", shown), shown


def test_a_target_that_nobody_knows_is_refused_at_once() -> None:
    with refused("unknown-target", "'replays:x'"):
        diagnose(target="replays:x")


def test_doctor_does_not_point_to_itself() -> None:
    total = {"source": None, "note": NO_SENSOR}
    assert_says(_total(total), "no power sensor", "--power-model vcpu")
    assert "doctor" not in _total(total)


def _diagnosis(cores: int) -> Any:
    """Of a machine of so many cores: three channels a core, a sensor of power, and ten that are absent."""

    def channel(name: str, unit: str, value: float) -> dict[str, Any]:
        return {"name": name, "unit": unit, "note": "", "value": value, "resolution_seen": None,
                "update_interval": 0.2, "read_cost": 2e-5}  # fmt: skip

    def sensor(name: str, channels: list[Any], reason: str | None = None) -> dict[str, Any]:
        return {"name": name, "description": f"what {name} tells", "present": reason is None,
                "reason": reason, "channels": channels}  # fmt: skip

    busy = [channel(f"cpu{n}.{what}_time", "s", 1e4) for n in range(cores) for what in "abc"]
    clocks = [channel(f"cpu{n}.frequency", "Hz", 1e9 + 1e8 * n) for n in range(cores)]
    absent = [
        sensor(f"absent{n}", [], f"no /sys/class/number{n} on this machine") for n in range(10)
    ]
    return {
        "device": {"cpu": "processor", "cores": cores, "memory": 8e9, "virtual": False},
        "notes": [], "target": "local", "processors": [], "disk_bytes_an_hour": 25.5e6,
        "total": {"source": "ina3221", "status": "measured", "note": None},
        "sensors": [sensor("cpu", busy), sensor("frequency", clocks),
                    sensor("ina3221", [channel("VDD_IN", "W", 4.25)]), *absent],
        "sampler": {"interval": "10 ms", "scheduling": "FIFO priority, own session"},
    }  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_a_machine_of_many_cores_takes_one_screen_and_in_full_every_channel(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    _show(_diagnosis(cores=64), full=False)
    brief = capsys.readouterr().out
    assert len(brief.splitlines()) <= 20
    text = " ".join(brief.split())
    assert "7.30 GHz" in text  # of 64 cores in one row
    assert "what ina3221 tells: VDD_IN 4.25 W" in text
    assert "Not here: absent0, absent1, " in text
    _show(_diagnosis(cores=64), full=True)
    full = capsys.readouterr().out
    assert all(f"cpu{n}.frequency" in full for n in range(64))
    assert "/sys/class/number9" in " ".join(full.split())
    assert max(map(len, full.splitlines())) <= width


def test_what_the_total_leaves_out_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    leaves_out = "the total is A + B; leaves out the carrier board"
    diagnosis = _diagnosis(cores=1)
    diagnosis["total"]["note"] = leaves_out
    (rail,) = diagnosis["sensors"][2]["channels"]
    diagnosis["sensors"][2]["channels"] = [
        {**rail, "name": "A", "note": f"feeds the GPU; {leaves_out}"},
        {**rail, "name": "B", "note": leaves_out},
    ]
    _show(diagnosis, full=False)
    text = " ".join(capsys.readouterr().out.split())
    assert text.count(leaves_out) == 1
    assert "A: feeds the GPU" in text
