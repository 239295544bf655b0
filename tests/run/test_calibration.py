"""A run that was recorded beside an external meter: its figures become the meter's."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.refusals import refused
from tests.run.played import record_played
from typer.testing import CliRunner

import wattstep
from wattstep.cli.calibrate import calibrate as command
from wattstep.cli.calibrate import parse_percent
from wattstep.cli.run import read_calibration
from wattstep.errors import InvalidValueError
from wattstep.schema.figure import Figure

GAIN, OFFSET = 1.2, 3.0
SECONDS = 30
"""The meter sees 1.2 times what the board's sensor says, and 3 W of carrier board besides."""


def power(t_s: float) -> float:
    """Of the recording that is played: 2 to 6 W, another level every 0.7 s, a ripple on it."""
    level = 4 * ((math.floor(t_s / 0.7) * 7919) % 97) / 97
    return 2 + level + 0.2 * ((round(t_s / 0.05) * 104729) % 89) / 89


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run whose sensors are a recording of half a minute, played at once."""
    folder = tmp_path_factory.mktemp("calibration")
    rows = [f"{n * 0.05:.2f},{power(n * 0.05):.4f}" for n in range(SECONDS * 20)]
    header = "time_s,rail.vdd_in [W]"
    (folder / "played.csv").write_text("\n".join([header, *rows]) + "\n")
    target = f"replay:{folder / 'played.csv'},speed=max,board=jetson-tx2"
    record_played(folder / "run", target, len(rows), samples=4)
    return folder


@pytest.fixture
def copy(run_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(run_folder / "run", tmp_path / "run")
    return tmp_path / "run"


def meter_log(path: Path, channel: Any, late_s: float) -> Path:
    """What a meter would have logged: every sample of the run's sensor, by its own clock."""
    t_ns, watts = channel
    rows = [
        f"{(t - t_ns[0]) * 1e-9 + late_s:.4f},{GAIN * w + OFFSET:.4f}"
        for t, w in zip(t_ns, watts, strict=True)
    ]
    path.write_text("\n".join(["seconds,watts", *rows]) + "\n")
    return path


def samples(run: Path) -> Any:
    opened = wattstep.load(run)
    (channel,) = (c for c in opened.series.power_channels())
    return opened.series.raw(channel.name)


def calibrate(*arguments: str) -> Any:

    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


def test_gain_offset_and_the_meters_clock_are_found(copy: Path, tmp_path: Path) -> None:
    log = meter_log(tmp_path / "meter.csv", samples(copy), late_s=12.5)
    out = tmp_path / "calibration.json"
    done = calibrate(str(copy), "--meter", str(log), "--accuracy", "1%", "-o", str(out), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["calibrations"]["total"]
    assert found["gain"] == pytest.approx(GAIN, rel=0.02)
    assert found["offset_w"] == pytest.approx(OFFSET, abs=0.15)
    assert json.loads(out.read_text())["calibrations"]["total"] == found


def test_every_figure_of_energy_carries_the_calibration(copy: Path, tmp_path: Path) -> None:
    before = wattstep.load(copy).series.uncalibrated
    assert not isinstance(before, str)
    log = meter_log(tmp_path / "meter.csv", samples(copy), late_s=0.0)
    assert calibrate(str(copy), "--meter", str(log), "--accuracy", "2%").exit_code == 0
    run = wattstep.load(copy)
    after = run.series.energy
    assert not isinstance(after, str)
    own = before.curve.total[-1]
    seconds = before.curve.covered_ns[-1] * 1e-9
    assert after.curve.total[-1] == pytest.approx(GAIN * own + OFFSET * seconds, rel=0.01)
    assert after.systematic is not None
    assert after.systematic >= 0.02  # at least what the meter's maker admits
    figures = [f for f in run.metrics().values() if isinstance(f, Figure) and f.unit in "JW"]
    known = [f for f in figures if not f.missing]
    assert known
    for figure in known:
        assert figure.systematic == pytest.approx(after.systematic)
        assert figure.status.value == "replayed"
        assert figure.source is not None
        assert "an external meter" in figure.source


def test_a_power_that_did_not_vary_is_refused_in_one_line(copy: Path, tmp_path: Path) -> None:
    log = tmp_path / "flat.csv"
    log.write_text("t,w\n" + "".join(f"{n / 10},5.0\n" for n in range(400)))
    done = calibrate(str(copy), "--meter", str(log))
    assert isinstance(done.exception, InvalidValueError)
    assert "\n" not in str(done.exception)


def test_a_rail_that_is_not_there_is_refused(copy: Path, tmp_path: Path) -> None:
    log = meter_log(tmp_path / "meter.csv", samples(copy), late_s=0.0)
    done = calibrate(str(copy), "--meter", str(log), "--rail", "rail.nobody")
    assert isinstance(done.exception, InvalidValueError)
    assert "rail.nobody" in str(done.exception)


@pytest.mark.parametrize(
    ("text", "id", "named"),
    [
        ("{", "unreadable-calibration", "Expecting"),
        ("[]", "no-calibration", "c.json"),
        ('{"calibrations": {"total": 3}}', "no-calibration", "total"),
        ('{"device": {"model": "another board"}, "calibrations": {}}', "other-board", ""),
    ],
)
def test_a_calibration_of_another_board_or_none_is_refused(
    tmp_path: Path, text: str, id: str, named: str
) -> None:
    (tmp_path / "c.json").write_text(text)
    with refused(id, named):
        read_calibration(tmp_path / "c.json")
    with refused("unreadable-calibration", "none.json"):
        read_calibration(tmp_path / "none.json")


def test_percentages() -> None:
    assert parse_percent("0.5%") == 0.005
    for wrong in ("0.5", "-1%", "100%", "a%"):
        with refused("malformed-percentage", "--accuracy"):
            parse_percent(wrong)
