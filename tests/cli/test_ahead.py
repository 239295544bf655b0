"""What `wattstep run` says is left, and what `explain -s steps` prints, as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys

from wattstep.cli.progress import TrainingProgress
from wattstep.train.progress import Progress


def wattstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattstep", *arguments], capture_output=True, text=True, check=False
    )


def test_what_is_left_stands_in_the_line_and_the_missing_sensor_is_said_once(capsys):
    told = Progress(
        stage="training", share=0.5, steps=9, ahead="12 s left", unpowered="no power sensor"
    )
    with TrainingProgress("made", quiet=False) as progress:
        progress.update(told)
        progress.update(told)
    said = capsys.readouterr().err
    assert "12 s left" in said
    assert said.count("no power sensor") == 1


def test_nothing_of_it_is_said_in_quiet(capsys):
    with TrainingProgress("made", quiet=True) as progress:
        progress.update(Progress(stage="training", ahead="12 s left", unpowered="no power sensor"))
    assert capsys.readouterr().err == ""


def test_a_run_keeps_what_was_foretold_and_explains_its_steps(tmp_path):
    made = wattstep(
        "run", "lenet", "--seconds", "10", "--threads", "1", "--power-model", "vcpu",
        "--out", str(tmp_path), "--name", "it", "--json",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    forecast = json.loads(made.stdout)["runs"][0]["forecast"]
    assert forecast["time_left"]["status"] == "predicted"
    assert forecast["time_came"] > 0
    told = wattstep("explain", str(tmp_path / "it"), "-s", "steps", "--json")
    (section,) = json.loads(told.stdout)["runs"][0]["sections"]
    assert section["tables"]["forecasts"]
    assert wattstep("explain", str(tmp_path / "it"), "-s", "step").returncode == 2
