"""The report of a run is its JSON: documents of earlier versions go in and come out as they were."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from wattstep.run import load
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Figures, Metrics
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport

FIXTURES = Path(__file__).parent.parent / "fixtures"
# Written by the version before reports were typed; of long tables the first rows.
DOCUMENTS = sorted((FIXTURES / "reports").glob("*.json.gz"))


def opened(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def names_in(thing: Any) -> Any:
    """The names of a document in their order, without its values."""
    if isinstance(thing, dict):
        return {name: names_in(part) for name, part in thing.items()}
    return [names_in(part) for part in thing] if isinstance(thing, list) else None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name.partition(".")[0])
def test_a_document_comes_out_of_its_report_as_it_went_in_names_order_and_values(
    path: Path,
) -> None:
    document = opened(path)
    again = RunReport.from_dict(document).to_dict()
    assert again.pop("record") is None  # came later, as did the plan
    assert again.pop("planned") is None
    assert again.pop("schedule") == {}
    assert json.dumps(again) == json.dumps(document)


def test_documents_of_recorded_emulated_and_imported_runs_are_kept() -> None:
    documents = [opened(path) for path in DOCUMENTS]
    assert {one["target"].partition(":")[0] for one in documents} >= {
        "local", "emulate", "imported",
    }  # fmt: skip
    filled = {name for one in documents for name, part in one.items() if part not in (None, [], {})}
    empty = set(documents[0]) - filled
    assert empty <= {"power_model", "step_kinds", "energy_outside", "left_out", "failures"}


def test_a_run_of_today_has_the_names_of_the_document_that_was_written_of_it_before() -> None:
    document = opened(FIXTURES / "reports" / "schema-1.json.gz")
    made = json.loads(json.dumps(load(FIXTURES / "runs" / "schema-1").document()))
    assert made.pop("record")["trace"] == "every:5"  # came later, as did the plan
    assert made.pop("planned") is None
    for later in ("operations_share", "compute_share", "data_movement_share", "launch_share"):
        assert made["metrics"].pop(later)["unit"] == "ratio"
    assert made.pop("schedule") == {}
    for table in ("operations", "layers", "energy_groups", "updates"):
        made[table] = made[table][: len(document[table])]
    assert json.dumps(names_in(made)) == json.dumps(names_in(document))


def test_steps_of_several_kinds_stay_with_their_rows() -> None:
    row = {"name": "mm", "layer": None, "time": _seconds(1.0).to_dict(), "step_kinds": "A, B"}
    share = {"kind": "A", "share": _seconds(0.5).to_dict(), "time": _seconds(1.0).to_dict()}
    document = {"operations": [row], "step_kinds": [{**share, "traced": 3}]}
    again = RunReport.from_dict(document)
    assert again.operations[0].step_kinds == "A, B"
    assert again.step_kinds[0].traced == 3
    made = again.to_dict()
    assert made["operations"] == document["operations"]
    assert made["step_kinds"] == document["step_kinds"]


def test_a_report_needs_nothing_but_what_is_known() -> None:
    report = RunReport(workload="lenet", metrics=Metrics({"step_time": _seconds(2.0)}))
    assert report.to_dict()["metrics"]["step_time"]["status"] == "predicted"
    assert RunReport.from_dict(report.to_dict()).metrics.figure("step_time") == _seconds(2.0)


def test_a_report_of_a_newer_version_loses_what_is_not_known_and_nothing_else() -> None:
    document = {
        **RunReport(workload="lenet").to_dict(),
        "later": 1,
        "channels": [{"name": "a", "new": 2}],
    }
    report = RunReport.from_dict(document)
    assert (report.workload, report.channels[0].name) == ("lenet", "a")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("metrics", {"step_time": {"value": None, "unit": "s", "status": "measured"}}),
        ("metrics", {"step_time": {"value": 1.0, "unit": "s", "status": "guessed"}}),
        ("metrics", [1, 2]),
        ("steps", "many"),
        ("operations", [3]),
        ("energy_groups", [{"name": "conv"}]),
        ("curve", {"bin": 1.0, "begin": [0.0], "throttled": [1.0]}),
        ("failures", [{"part": "timeline"}]),
    ],
)
def test_a_garbled_report_is_refused_and_says_which_part(name: str, part: object) -> None:
    with refused("damaged-report", name):
        RunReport.from_dict({name: part})


# --- figures under names --------------------------------------------------------------------------


def _seconds(value: float) -> Figure:
    return Figure(value=value, unit="s", status=Status.PREDICTED, low=value, high=value + 1)


METRICS = Metrics(
    {
        "step_time": _seconds(2.0),
        "idle_state_ratio": [_seconds(0.0), _seconds(1.0)],
        "memory_breakdown": {"weights": _seconds(3.0)},
    }
)


def test_a_metric_is_a_figure_a_list_or_a_mapping_and_each_is_asked_for_by_its_kind() -> None:
    assert METRICS.figure("step_time") == METRICS["step_time"] == _seconds(2.0)
    assert METRICS.figure("idle_state_ratio") is METRICS.figure("nothing") is None
    assert [figure.value for figure in METRICS.listed("idle_state_ratio")] == [0.0, 1.0]
    assert METRICS.parts("memory_breakdown")["weights"].value == 3.0
    assert METRICS.value("step_time") == 2.0
    assert METRICS.value("nothing") is None
    assert (METRICS.listed("step_time"), METRICS.parts("nothing")) == ((), {})


def test_metrics_in_long_form_have_a_row_for_each_figure() -> None:
    rows = METRICS.rows()
    assert list(rows[0]) == ["metric", "key", "value", "unit", "low", "high", "status"]
    assert [(row["metric"], row["key"], row["value"]) for row in rows] == [
        ("step_time", None, 2.0),
        ("idle_state_ratio", "0", 0.0),
        ("idle_state_ratio", "1", 1.0),
        ("memory_breakdown", "weights", 3.0),
    ]
    assert {row["status"] for row in rows} == {"predicted"}


def test_metrics_become_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = METRICS.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["value"].tolist() == [2.0, 0.0, 1.0, 3.0]


def test_metrics_are_still_called_as_scripts_did() -> None:
    metrics = load(FIXTURES / "runs" / "schema-1").metrics
    assert metrics()["step_time"] == metrics["step_time"]
    assert list(metrics()) == list(metrics)


def test_a_row_of_costs_has_labels_and_figures() -> None:
    row = CostRow.from_dict({"name": "mm", "phase": "forward", "time": _seconds(1.0)})
    assert (row.name, row.layer, row.phase, row.processor) == ("mm", "", "forward", "cpu")
    assert row.time == _seconds(1.0)
    assert row.energy is None
    assert isinstance(row.figures, Figures)
