"""The time-energy front of a sweep, as a table and a plot."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from tests.wording import assert_says

from wattstep.report.front import fronts
from wattstep.report.html.front_chart import front_chart
from wattstep.report.html.sweep import render_sweep
from wattstep.report.terminal.sweep import print_sweep
from wattstep.schema.figure import Figure, Status
from wattstep.schema.sweep_report import SweepReport


def figure(value: float, unit: str) -> dict[str, Any]:
    return Figure(value=value, unit=unit, status=Status.MEASURED, source="x").to_dict()


def outcome(state: str, rate: float, joules: float) -> dict[str, Any]:
    configuration = {
        "workload": "lenet", "batch_size": 4, "threads": None, "precision": "fp32",
        "repeat": 1, "device": None, "state": state,
    }  # fmt: skip
    evidence = dict.fromkeys(
        ("exit_code", "signal", "said", "kernel", "oom_kills", "cgroup_peak", "last_resident",
         "peak_resident")
    )  # fmt: skip
    return {
        "name": f"lenet {state}", "configuration": configuration, "status": "trained",
        "reason": "", "evidence": {**evidence, "steps": 3, "notes": []}, "run": None, "limit": "",
        "started": 0.0, "ended": 1.0, "cooled": 0.0, "temperature": None, "worker": None,
        "attempts": 1, "machine": {}, "versions": {}, "finite": True,
        "figures": {
            "throughput": figure(rate, "samples/s"), "energy_per_sample": figure(joules, "J"),
            "mean_power": figure(rate * joules, "W"), "step_time": figure(4 / rate, "s"),
        },
    }  # fmt: skip


def sweep(*outcomes: dict[str, Any]) -> SweepReport:
    axes = {
        "workloads": ["lenet"], "batches": [4], "threads": [None], "precisions": ["fp32"],
        "devices": [None], "states": [o["configuration"]["state"] for o in outcomes],
        "repeats": [1],
    }  # fmt: skip
    document = {
        "sweep": {
            "path": "s", "schema": 1, "settings": {}, "axes": axes, "machine": {},
            "sessions": [1.0], "duration": 1.0, "paper": None,
        },
        "outcomes": list(outcomes),
    }  # fmt: skip
    return SweepReport.from_dict(document)


DOCUMENT = sweep(
    outcome("clock=600MHz", 100, 0.02),
    outcome("clock=1200MHz", 200, 0.03),
    outcome("clock=900MHz", 90, 0.025),
)


def test_the_front_names_what_none_beats_in_both() -> None:
    (front,) = fronts(DOCUMENT)
    assert [(p.title, p.on_front) for p in front.points] == [
        ("clock=1200MHz", True), ("clock=600MHz", True), ("clock=900MHz", False)
    ]  # fmt: skip
    assert front.points[0].seconds == 1 / 200
    best, other = front_chart(front)["data"]
    assert best["x"] == [5.0, 10.0]  # ms
    assert len(other["x"]) == 1


def test_without_energy_there_is_no_front() -> None:
    silent = outcome("clock=600MHz", 100, 0.02)
    silent["figures"]["energy_per_sample"] = Figure(
        value=None, unit="J", status=Status.MISSING, reason="no sensor"
    ).to_dict()
    assert fronts(sweep(silent, outcome("clock=1GHz", 1, 1))) == []


def test_the_front_stands_in_the_report_and_on_the_terminal() -> None:
    page = render_sweep(DOCUMENT)
    assert "energy: lenet" in page
    assert "clock=1200MHz" in page
    answer = (
        "Quickest in these runs: clock=1200MHz, 5.00 ms a sample. "
        "Cheapest: clock=600MHz, 20.0 mJ a sample."
    )
    assert answer in page
    console = Console(record=True, width=120)
    print_sweep(DOCUMENT, console)
    text = console.export_text()
    assert "lenet: time and" in text
    assert answer in text
    assert text.count("yes") >= 2


def test_one_way_that_is_best_in_both_is_named_once() -> None:
    (front,) = fronts(sweep(outcome("a", 200, 0.02), outcome("b", 100, 0.03)))
    assert_says(front.answer, "Quickest and cheapest", "a, 5.00 ms", "20.0 mJ")
