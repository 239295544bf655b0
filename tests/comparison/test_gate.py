"""Runs against a baseline: exit codes, and what one run can and cannot fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.comparison.made import recorded
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.insight.compare.gate import Gate, hold
from wattstep.insight.compare.sides import gathered


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, slower in (("base", 1.0), ("same", 1.0), ("slow", 1.2), ("fast", 0.8)):
        for n in range(3):
            recorded(folder / name / str(n), slower * (1 + 0.002 * n))
    return folder


def held(
    runs: Path, name: str, tolerance: float = 0.05, strict: bool = False, base: str = "base"
) -> Gate:
    baseline, judged = gathered([[runs / base], [runs / name]])
    return hold(baseline, judged, tolerance=tolerance, strict=strict)


def test_a_regression_beyond_the_tolerance_fails(runs: Path) -> None:
    gate = held(runs, "slow")
    assert gate.metrics["step_time"].outcome == "regression"
    assert gate.metrics["energy_per_step"].outcome == "regression"
    assert gate.exit_code == 1
    assert_says(gate.metrics["step_time"].line, "step_time: regression", "+20 %")


@pytest.mark.parametrize(
    ("name", "options", "verdict"),
    [
        ("slow", {}, ["fail: ", "became worse", "5.0 %"]),
        ("fast", {}, ["pass: ", "no worsening of", "5.0 %"]),
        ("slow", {"tolerance": 0.2}, ["pass: ", "20 %", "cannot be excluded", "with --strict: fail"]),
        ("slow", {"tolerance": 0.2, "strict": True}, ["fail: ", "20 %", "cannot be excluded"]),
    ],
)  # fmt: skip
def test_the_verdict_over_all_metrics_says_what_made_it(
    runs: Path, name: str, options: dict[str, Any], verdict: list[str]
) -> None:
    gate = held(runs, name, **options)
    assert gate.verdict == gate.document()["verdict"]
    assert_says(gate.verdict, "step_time and energy_per_step", *verdict)
    assert gate.verdict.startswith("fail") == bool(gate.exit_code)


def test_a_regression_within_the_tolerance_passes(runs: Path) -> None:
    gate = held(runs, "slow", tolerance=0.25)
    assert gate.metrics["step_time"].outcome == "no regression"
    assert gate.exit_code == 0


@pytest.mark.parametrize("name", ["same", "fast"])
def test_what_is_as_good_or_better_passes_strictly(runs: Path, name: str) -> None:
    gate = held(runs, name, strict=True)
    assert gate.metrics["step_time"].outcome == "no regression"
    assert gate.metrics["peak_memory"].outcome == "not compared"  # neither side has any
    assert gate.exit_code == 0


def test_what_is_not_shown_passes_and_fails_strictly(runs: Path) -> None:
    gate = held(runs, "slow", tolerance=0.2)
    assert gate.metrics["step_time"].outcome == "cannot exclude"
    assert gate.exit_code == 0
    assert held(runs, "slow", tolerance=0.2, strict=True).exit_code == 1


def test_one_run_of_each_can_neither_show_nor_exclude(runs: Path) -> None:
    gate = held(runs, "slow/0", base="base/0")
    assert gate.metrics["step_time"].outcome == "cannot exclude"
    assert gate.exit_code == 0
    assert gate.warnings[0].startswith("one process")
    assert held(runs, "slow/0", base="base/0", strict=True).exit_code == 1


def test_one_run_against_a_baseline_of_several_can_fail(runs: Path) -> None:
    assert held(runs, "slow/0").exit_code == 1
    assert held(runs, "same/1", strict=True).exit_code == 0


def test_what_the_baseline_has_and_the_run_lacks_cannot_be_excluded(
    runs: Path, tmp_path: Path
) -> None:
    for n in range(2):
        recorded(tmp_path / str(n), 1 + 0.002 * n, watts=None)
    baseline, judged = gathered([[runs / "base"], [tmp_path]])
    gate = hold(baseline, judged, tolerance=0.05, strict=False)
    assert gate.metrics["energy_per_step"].outcome == "cannot exclude"
    assert gate.exit_code == 0


def test_other_batches_are_judged_by_the_sample(runs: Path, tmp_path: Path) -> None:
    from wattstep.insight.compare import gate as gate_module

    assert gate_module.BY_SAMPLE == {
        "step_time": "throughput", "energy_per_step": "energy_per_sample",
    }  # fmt: skip
    recorded(tmp_path / "16", batch_size=16)
    baseline, judged = gathered([[runs / "base"], [tmp_path / "16"]])
    with refused("other-configuration", "batch size"):
        hold(baseline, judged, tolerance=0.05, strict=False)


def test_less_throughput_is_a_regression(runs: Path) -> None:
    baseline, judged = gathered([[runs / "base"], [runs / "slow"]])
    gate = hold(baseline, judged, tolerance=0.05, strict=False, metrics=("throughput",))
    assert gate.metrics["throughput"].outcome == "regression"
    assert "+20 %" in gate.metrics["throughput"].line
    back = hold(judged, baseline, tolerance=0.05, strict=False, metrics=("throughput",))
    assert back.metrics["throughput"].outcome == "no regression"
