"""`wattstep demo`: a real training's power, told from the package alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.reports.pages.tree import tree
from tests.wording import assert_says

from wattstep.cli.demo import RECORDING, demo
from wattstep.insight.explain import explain
from wattstep.run import load

ROOT = Path(__file__).parents[2]


def test_the_demo_tells_the_truth_of_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,564 steps of 213 ms, 3.69 J each (published beside the recording); VDDQ is 15 % of the total."""
    demo(out=tmp_path)
    told = " ".join(capsys.readouterr().out.split())
    assert_says(told, "15 % too much")
    assert "MIT" in told
    (run,) = tmp_path.glob("*/run.json")
    assert f"run: {run.parent}" in told
    page = tree((tmp_path / "report.html").read_text())
    assert page.find("h1")[0].text.startswith("VGG9 on CIFAR-10")
    (credit,) = [each.text for each in page.all() if "credit" in each.classes]
    notice = (RECORDING.parent / "NOTICE").read_text()
    for owed in ("vgg9_cifar10_train.csv", "AmazingDD/Jetson-Energy-Monitor", "2025 Yu Di", "MIT"):
        assert owed in credit
        assert owed in notice
    (steps,) = explain(load(run.parent), ["steps"])
    assert_says(steps.sentences[0], "counted by", "period")
    assert steps.figures["step_period_by_marks"].missing


def test_the_readme_s_first_output_is_what_the_demo_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    demo(out=tmp_path)
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [each for each in readme.split("```") if each.startswith("\nVGG9 on CIFAR-10")]
    shown = [" ".join(line.split()) for line in block.splitlines()]
    for line in shown:
        told = line in ("...", "") or line.startswith("report: file:///")
        assert told or any(each.startswith(line) for each in printed), line


def test_the_demo_says_each_thing_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo(out=tmp_path)
    page = tree((tmp_path / "report.html").read_text())
    seen = [each.text for each in page.all() if each.tag in ("p", "li", "dd")]
    for told in (" ".join(capsys.readouterr().out.split()), " ".join(seen)):
        assert len(re.findall("by the period", told)) == 1


def test_its_joules_are_replayed_and_hold_the_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo(out=tmp_path, json=True)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    joules, seconds = run["metrics"]["energy_per_step"], run["metrics"]["step_time"]
    assert joules["status"] == "replayed"
    assert joules["low"] < 3.69 < joules["high"]
    assert seconds["low"] < 0.2132 < seconds["high"]
    statuses = {each["name"]: each["status"] for each in run["channels"]}
    assert set(statuses.values()) == {"replayed"}
