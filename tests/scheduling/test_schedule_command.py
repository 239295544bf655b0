"""`wattstep schedule`: tasks of a file on devices that are not here, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import wattstep
from tests.refusals import id_in

TASK: dict[str, Any] = {
    "name": "aten::exp", "kind": "elementwise", "shape": "", "reads": [], "writes": [0], "flops": 1000,
    "bytes_moved": 8000,
}  # fmt: skip


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """Sixteen small operations that do not wait for each other, as a file."""
    tasks = [{**TASK, "writes": [number]} for number in range(16)]
    file = tmp_path / "step.json"
    file.write_text(json.dumps({"tasks": tasks, "storage_bytes": [8] * 16}))
    return file


def test_policies_stand_beside_each_other_on_one_screen(step: Path) -> None:
    result = wattstep("schedule", step, "--on", "manycore-8")
    assert result.returncode == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith("  ")}
    assert "100%" in rows["default"]
    assert "co-run" in rows
    assert "Nothing was measured" in result.stdout
    assert "assumed: " in result.stdout


def test_small_independent_operations_gain_by_running_together(step: Path, tmp_path: Path) -> None:
    out = tmp_path / "plans.json"
    result = wattstep("schedule", step, "--on", "equal-8", "--json", "--out", out)
    rows = {row["policy"]: row["figures"] for row in json.loads(result.stdout)["policies"]}
    # Eight at a time on eight cores; one thread each, so without what a team of threads costs.
    assert rows["co-run"]["of_default"]["value"] < 1 / 8
    assert rows["co-run"]["of_default"]["value"] > 1 / 40
    again = wattstep("schedule", out, "--on", "equal-8", "--json", "--policy", "co-run")
    figures = json.loads(again.stdout)["policies"][0]["figures"]
    assert figures["step_time"] == rows["co-run"]["step_time"]


@pytest.mark.parametrize(
    ("words", "id"),
    [
        ((), "needs-device"),
        (("--on", "nowhere"), "unknown-device"),
        (("--on", "equal-9999"), "unknown-device"),
        (("--on", "equal-2", "--policy", "magic"), "unknown-policy"),
        (("--on", "equal-2", "--batch", "0"), "out-of-range"),
        (("--on", "equal-2", "--batch", "16"), "needless-option"),
        (("--on", "equal-2", "--classes", "7"), "needless-option"),
        (("--on", "equal-2", "--image-size", "32"), "needless-option"),
        (("--on", "equal-2", "--input", "3x8x8"), "needless-option"),
        (("--on", "equal-2", "--precision", "banana"), "needless-option"),
        (("--on", "jetson-tx2", "--precision", "banana"), "device-lacks"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(step: Path, words: tuple[str, ...], id: str) -> None:
    result = wattstep("schedule", step, *words, "--json")
    assert result.returncode == 2
    assert id_in(result.stdout) == id
    assert len(result.stderr.splitlines()) == 1


def test_names_of_unknown_origin_steer_no_terminal(step: Path) -> None:
    strange = step.with_name("\x1b[31m[bold]step.json")
    tasks = [{**TASK, "name": "\x1b[31mred", "kind": "\x1b[31mred", "layer": "\x1b[31mred"}]
    for storages, code in (([8], 0), ([], 2)):
        strange.write_text(json.dumps({"tasks": tasks, "storage_bytes": storages}))
        result = wattstep("schedule", strange, "--on", "equal-2", env={"COLUMNS": "40"})
        assert result.returncode == code
        assert "\x1b" not in result.stdout + result.stderr
        assert "[31m[bold]step.json" in result.stdout + result.stderr


def test_a_file_without_tasks_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    file.write_text("{}")
    result = wattstep("schedule", file, "--on", "equal-2", "--json")
    assert (result.returncode, id_in(result.stdout)) == (2, "damaged-tasks")
