"""Tasks as a file are the same once written and read; what is none is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.scheduling.made import machine, task

from wattstep.schedule import policies
from wattstep.schedule.file import read_graph, write_plans
from wattstep.schedule.study import parse_policies, study
from wattstep.schedule.tasks import TaskGraph
from wattstep.schedule.times import MachineTimes

STEP = TaskGraph.of(
    [task("a", writes=(0,), flops=10**7), task("b", reads=(0,), writes=(1,), bytes_moved=100)],
    [8, 16],
)
TASK: dict[str, Any] = {
    "name": "a", "kind": "other", "shape": "", "reads": [], "writes": [0], "flops": 1, "bytes_moved": 1,
}  # fmt: skip


def test_tasks_are_the_same_once_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    plan = policies.find("default")(STEP, MachineTimes(machine(2)), machine(2))
    write_plans(file, STEP, {"default": plan})
    assert read_graph(file) == STEP
    assert json.loads(file.read_text())["plans"]["default"]["placed"][1]["cores"] == [0, 1]


def test_dependencies_follow_from_storages_where_the_file_has_none(tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    tasks = [TASK, {**TASK, "name": "b", "reads": [0], "writes": []}]
    file.write_text(json.dumps({"tasks": tasks, "storage_bytes": [8]}))
    assert read_graph(file).after == ((), (0,))


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"tasks": []},
        {"tasks": [{**TASK, "flops": -1}], "storage_bytes": [8]},
        {"tasks": [{**TASK, "flops": 1.5}], "storage_bytes": [8]},
        {"tasks": [{**TASK, "writes": [3]}], "storage_bytes": [8]},
        {"tasks": [{**TASK, "after": [0]}], "storage_bytes": [8]},
        {"tasks": [{**TASK, "colour": "red"}], "storage_bytes": [8]},
    ],
)
def test_a_file_without_tasks_is_refused(tmp_path: Path, document: object) -> None:
    file = tmp_path / "step.json"
    file.write_text(json.dumps(document))
    with refused("damaged-tasks", "step.json"):
        read_graph(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused("damaged-tasks", "none.json"):
        read_graph(tmp_path / "none.json")


def test_a_study_has_each_policy_beside_the_bounds() -> None:
    where = machine(2)
    names = parse_policies("all")
    assert names == tuple(policies.POLICIES)
    document = study("made", STEP, MachineTimes(where), where, names).to_dict()
    assert [row["policy"] for row in document["policies"]] == list(names)
    for row in document["policies"]:
        step = row["figures"]["step_time"]
        assert step["status"] == "predicted"
        assert step["low"] < step["value"] < step["high"]
        assert row["figures"]["over_bound"]["value"] >= 1 - 1e-9
    with refused("damaged-tasks", "no tasks"):
        study("made", TaskGraph.of([], []), MachineTimes(where), where, names)


@pytest.mark.parametrize("text", ["", ",", "fastest"])
def test_policies_that_there_are_not_are_refused(text: str) -> None:
    with refused("unknown-policy", "critical-path"):
        parse_policies(text)
