"""A plan's file gives a run its settings, and a file that is none of this wattstep is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.planning.made import device, plan
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.cli.run import follow_plan
from wattstep.plan.file import PLANNED, read_plan, write_plan
from wattstep.plan.space import DIMENSIONS
from wattstep.run.report import compare_planned
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Metrics
from wattstep.schema.report_rows import PlanCompared
from wattstep.schema.run_report import RunReport, json_of


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    write_plan(plan(device(), budget="200 s"), path, classes=None, image_size=32)
    return path


def test_what_is_written_is_read(written: Path) -> None:
    made = plan(device(), budget="200 s").chosen
    assert made is not None
    read = read_plan(written)
    assert read.workload == "made"
    assert read.settings == {
        "batch_size": made.configuration.batch,
        "accumulate": made.configuration.accumulate,
        "processor": "cuda",
        "precision": "fp32",
        "image_size": 32,
    }
    assert read.planned["device"] == "made"
    assert read.planned["mode"] == "half"
    figure = Figure.from_dict(read.planned["figures"]["step_time"])
    assert figure == made.figures["step_time"]
    assert figure.status is Status.PREDICTED


def test_no_plan_writes_no_file(tmp_path: Path) -> None:
    with refused("nothing-to-plan", "plan.json"):
        write_plan(
            plan(device(), budget="1 s"), tmp_path / "plan.json", classes=None, image_size=None
        )
    assert not list(tmp_path.iterdir())


def _changed(path: Path, *keys: str, to: Any) -> None:
    document = json.loads(path.read_bytes())
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    if to is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = to
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("keys", "to", "id", "naming"),
    [
        (("wattstep_plan",), 2, "other-plan-schema", "schema 2"),
        (("wattstep_plan",), None, "unreadable-plan", "no plan"),
        (("wattstep_plan",), "1", "unreadable-plan", "no plan"),
        (("settings",), None, "damaged-plan", "'settings' is missing"),
        (("settings", "batch_size"), [4], "damaged-plan", "batch_size"),
        (("settings",), [], "damaged-plan", "settings are no"),
        (("settings", "batch_size"), None, "damaged-plan", "settings.batch_size"),
        (("settings", "out"), "elsewhere", "damaged-plan", "settings have out"),
        (("settings", "mode"), "15W", "damaged-plan", "settings have mode"),
        (("settings", "loader_workers"), 2, "damaged-plan", "settings have loader_workers"),
        (("settings", "accumulate"), "two", "damaged-plan", "settings.accumulate is 'two'"),
        (("settings", "threads"), True, "damaged-plan", "settings.threads is True"),
        (("settings", "channels_last"), 1, "damaged-plan", "settings.channels_last is 1"),
        (("settings", "precision"), 16, "damaged-plan", "settings.precision is 16"),
        (("predicted", "step_time"), None, "damaged-plan", "step_time"),
        (("predicted", "step_time", "low"), "soon", "damaged-plan", "step_time has no numbers"),
        (("predicted", "step_time", "status"), "sworn", "damaged-plan", "sworn"),
        (("predicted", "step_time", "status"), "measured", "damaged-plan", "not predicted"),
        (("predicted", "step_time", "unit"), "ms", "damaged-plan", "'ms', not in s"),
        (("predicted", "step_time", "low"), 1e9, "damaged-plan", "outside its interval"),
    ],
)
def test_a_file_that_is_no_plan_of_this_wattstep_is_refused(
    written: Path, keys: tuple[str, ...], to: Any, id: str, naming: str
) -> None:
    _changed(written, *keys, to=to)
    with refused(id, written.name, naming):
        read_plan(written)


def test_dimensions_of_a_search_can_stand_in_a_plan() -> None:
    assert {each.name for each in DIMENSIONS} - {"mode"} <= set(PLANNED)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"3"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with refused("unreadable-plan", "plan.json"):
        read_plan(path)
    with refused("unreadable-plan", "gone.json"):
        read_plan(tmp_path / "gone.json")


def test_options_on_the_command_line_win_with_a_note(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {"accumulate": 3, "processor": "cpu", "image_size": None}
    names, batch, _, facts = follow_plan(
        written, None, "4", "fp32", given, lambda name: name in ("accumulate", "precision")
    )
    own = read_plan(written).settings
    assert names == ["made"]
    assert batch == str(own["batch_size"])
    assert given == {"accumulate": 3, "processor": "cuda", "image_size": 32}
    (changed,) = facts["changed"]
    assert_says(changed, "accumulate 3", own["accumulate"])
    assert_says(capsys.readouterr().err, "--accumulate 3", "the plan's")


def test_a_plan_of_another_workload_is_refused(written: Path) -> None:
    with refused("plan-of-another-workload", "made", "lenet"):
        follow_plan(written, ["lenet"], "4", "fp32", {}, lambda name: False)


def _measured(value: float, unit: str) -> Figure:
    return Figure(value=value, unit=unit, status=Status.MEASURED)


def test_a_run_sets_predicted_beside_measured(written: Path) -> None:
    planned = read_plan(written).planned
    predicted = Figure.from_dict(planned["figures"]["step_time"])
    assert predicted.low is not None
    assert predicted.high is not None
    metrics = Metrics(
        {
            "step_time": _measured((predicted.low + predicted.high) / 2, "s"),
            "mean_power": _measured(1000.0, "W"),
        }
    )
    compared = compare_planned(planned, metrics)
    assert compared is not None
    by_name = {row.metric: row for row in compared.rows}
    assert by_name["step_time"].inside is True
    assert by_name["mean_power"].inside is False
    assert by_name["energy_per_step"].inside is None  # the run has none
    assert by_name["energy_per_step"].measured.missing
    assert compare_planned({}, metrics) is None
    report = RunReport(workload="made", planned=compared)
    assert RunReport.from_dict(report.to_dict()).planned == compared
    assert PlanCompared.from_dict(json_of(compared)) == compared
