"""The live view fits every terminal, says what is modelled, and takes no orders from names."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from wattstep.live.snapshot import Snapshot
from wattstep.report.terminal.glyphs import bar, brief, course
from wattstep.report.terminal.live import Screen, draw
from wattstep.schema.figure import Figure, Status, missing

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eevil\u2066\r\n\x00" + "x" * 10_000


def figure(value: float, unit: str, status: Status = Status.MEASURED, **more: Any) -> Figure:
    return Figure(value=value, unit=unit, status=status, **more)


def snapshot(name: str = "lenet", cores: int = 4, **more: Any) -> Snapshot:
    modelled = Status.MODELLED
    figures = {
        "step_time": figure(0.0042, "s", low=0.0041, high=0.0043),
        "last_step_time": figure(0.004, "s"),
        "throughput": figure(950.0, "samples/s"),
        "loss": figure(1.25, ""),
        "power": figure(12.3, "W", modelled),
        "energy": figure(148.0, "J", modelled),
        "time_left": figure(8.1, "s", Status.PREDICTED, low=7.9, high=8.4),
        "energy_left": figure(98.0, "J", Status.PREDICTED, low=95.0, high=101.0),
        "battery": figure(0.63, "ratio"),
        "battery_end": figure(0.4, "ratio", Status.PREDICTED),
        "cpu_utilization": figure(0.75, "ratio"),
        "resident_memory": figure(3.12e8, "B"),
        "peak_memory": figure(3.4e8, "B"),
        "system_memory": figure(3e9, "B"),
        "total_memory": figure(2.4e10, "B"),
        "recording_cost": figure(0.006, "cores"),
        "lateness": figure(1e-4, "s"),
        "lost_ticks": figure(0, "count", Status.COUNTED),
        "disk_used": figure(1.2e7, "B"),
        "disk_free": figure(2e11, "B"),
    }
    known: dict[str, Any] = {
        "run": f"runs/{name}", "state": "recording", "workload": name, "setting": ("batch 4", name),
        "stage": "training", "elapsed": figure(61.0, "s"), "steps": 9120, "total": 15000,
        "share": 0.608, "figures": figures,
        "cores": tuple(figure(n / cores, "ratio") for n in range(cores)),
        "gpus": {name: figure(0.4, "ratio")},
        "rails": {name: figure(4.3, "W"), "b": missing("W", name)},
        "temperatures": {name: figure(62.1, "°C"), "z": figure(50.0, "°C")},
        "frequencies": {name: figure(1.2e9, "Hz")}, "limits": {name: 95.0},
        "evaluations": {name: figure(0.9, "")}, "throttling": (name,), "problems": (name, name),
        "absent": {"thermal": name},
        "history": {"step_time": (None, 1.0, 2.0), "power": tuple(float(n) for n in range(120)),
                    "temperature": (60.0, 61.0)},
    }  # fmt: skip
    return Snapshot(**{**known, **more})


def printed(snapshot: Snapshot, width: int, height: int, *, ascii_only: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(draw(snapshot, Screen(width=width, height=height, ascii_only=ascii_only)))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("name", ["lenet", HOSTILE, "深度学习" * 50])
@pytest.mark.parametrize("cores", [1, 6, 16, 128])
@pytest.mark.parametrize(("width", "height"), [(40, 24), (80, 24), (120, 40), (20, 4), (500, 100)])
def test_it_fits(name: str, cores: int, width: int, height: int) -> None:
    for ascii_only in (False, True):
        drawn = draw(
            snapshot(name, cores), Screen(width=width, height=height, ascii_only=ascii_only)
        )
        lines = drawn.split("\n")
        assert len(lines) <= height
        assert max(line.cell_len for line in lines) <= width
        assert drawn.plain.isascii() or not ascii_only


def test_names_steer_no_terminal() -> None:
    said = printed(snapshot(HOSTILE), 120, 60)
    assert "\x1b" not in said
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u2066]", said)
    assert max(len(line) for line in said.splitlines()) <= 120


def test_what_no_sensor_gave_says_so_without_colour() -> None:
    said = printed(snapshot(), 80, 30)
    assert "≈ 12.3 W modelled" in said
    assert "~ 8.10 s" in said
    assert "step 9,120 of 15,000" in said
    assert "63.0 %" in said


def test_what_is_missing_is_there_once_with_its_reason() -> None:
    figures = {"power": missing("W", "no power sensor was found"), "energy": missing("J", "none")}
    whole = snapshot(temperatures={}, absent={"thermal": "no zone is here"})
    said = printed(replace(whole, figures={**whole.figures, **figures}), 100, 40)
    assert said.count("no power sensor") == 1
    assert said.count("no zone is") == 1
    assert not re.search(r"power +0", said)


def test_what_matters_most_stays_on_a_low_screen() -> None:
    said = printed(snapshot(problems=("the sampler was lost",)), 80, 8)
    assert all(word in said for word in ("lenet", "done", "step ", "power", "CPU", "THROTTLED"))


def test_a_run_that_has_told_nothing_yet_is_drawn() -> None:
    said = printed(Snapshot(run="runs/it", state="waiting"), 80, 24)
    assert "waiting" in said


def test_no_colour_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    console.print(draw(snapshot(), Screen(width=80, height=24)))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", said)


def test_bars_and_courses() -> None:
    assert bar(0.5, 4) == "██░░"
    assert bar(7.0, 4) == "████"
    assert course([1.0, 2.0, None, 3.0], 4) == "▁▅ █"
    assert course([None, None], 4) == ""
    assert course([100.0, 100.4], 2) != "▁█"  # noise is no mountain range
    assert len(course([float(n) for n in range(100)], 10)) == 10


def test_a_long_name_is_cut_and_says_so() -> None:
    assert brief("abcdef", 4) == "abc…"
    assert brief("abcd", 4) == "abcd"


def test_the_picture_of_the_readme_refers_to_no_network() -> None:
    picture = Path(__file__).parents[3] / "docs" / "live.svg"
    text = picture.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "@font-face" not in text
