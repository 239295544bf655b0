"""A report that was made by hand, of a run that never took place, is told truly by every front."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.refusals import refused

import wattstep
from wattstep.insight.compare.comparing import Comparison
from wattstep.insight.explain import explain_report
from wattstep.insight.observe import observe
from wattstep.insight.observe.evidence import Evidence, observed_of
from wattstep.report.export.export import export_run
from wattstep.report.html.notebook import picture
from wattstep.report.html.report import Reported, render_report
from wattstep.report.json_document import dump
from wattstep.report.terminal.compare import print_comparison
from wattstep.report.terminal.explain import print_section
from wattstep.report.terminal.observe import print_observations
from wattstep.report.terminal.run import print_run
from wattstep.run.three_steps import ThreeSteps
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Figures, Metrics
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport

STATUSES = (Status.PREDICTED, Status.REPLAYED)
STEP_MS, STEP_MJ = 12.5, 37.5


def figure(value: float, unit: str, status: Status, reach: float = 0.04) -> Figure:
    return Figure(
        value=value, unit=unit, low=value * (1 - reach), high=value * (1 + reach), confidence=0.95,
        status=status, source="a model of the board", method="made by hand",
    )  # fmt: skip


def made(status: Status, batch: int = 4, slower: float = 1.0) -> RunReport:
    """A training that was worked out, not run: a step of 12.5 ms and 37.5 mJ."""
    step_s, step_j = STEP_MS * 1e-3 * slower, STEP_MJ * 1e-3 * slower

    def costs(share: float) -> Figures:
        return Figures(
            {
                "time": figure(share * step_s, "s", status),
                "share": figure(share, "ratio", status),
                "energy": figure(share * step_j, "J", status),
            }
        )

    parts = (("forward", 0.3), ("backward", 0.6), ("optimizer", 0.1))
    return RunReport(
        run=f"by-hand-{status.value}-{batch}",
        workload="lenet",
        title="LeNet-5",
        engine="torch 2.13",
        batch_size=batch,
        threads=1,
        precision="fp32",
        processor="cpu",
        device={"model": "a board that is wanted", "cores": 4},
        target=f"{status.value}:by hand",
        notes=(f"this run was never recorded: its figures are {status.value}",),
        metrics=Metrics(
            {
                "step_time": figure(step_s, "s", status),
                "throughput": figure(batch / step_s, "samples/s", status),
                "energy_per_step": figure(step_j, "J", status),
                "energy_per_sample": figure(step_j / batch, "J", status),
                "mean_power": figure(step_j / step_s, "W", status),
                "peak_memory": figure(2e8, "B", status),
                "cpu_core_utilization": [figure(0.9, "ratio", status)] * 4,
                "memory_breakdown": {"parameters": figure(246_824.0, "B", status)},
            }
        ),
        operations=tuple(
            CostRow(
                labels={
                    "name": f"aten::{phase}_work",
                    "layer": "fc1",
                    "phase": phase,
                    "kind": "other",
                },
                figures=costs(share),
            )
            for phase, share in parts
        ),
        layers=(CostRow(labels={"layer": "fc1"}, figures=costs(1.0)),),
        phases=tuple(
            CostRow(labels={"phase": name}, figures=costs(share)) for name, share in parts
        ),
        unattributed={"framework": costs(0.0)},
    )


def on_terminal(draw: Callable[[Console], Any]) -> str:
    stream = io.StringIO()
    draw(Console(file=stream, width=200, no_color=True))
    return stream.getvalue()


@pytest.fixture(params=STATUSES, ids=lambda status: status.value)
def status(request: pytest.FixtureRequest) -> Status:
    found: Status = request.param
    return found


def without_meanings(page: str) -> str:
    """A page without its list of what the words for statuses mean, styles and scripts."""
    for begin, end in (
        ("<script", "</script>"),
        ("<style", "</style>"),
        ('<details class="legend"', "</details>"),
    ):
        while begin in page:
            before, _, rest = page.partition(begin)
            page = before + rest.partition(end)[2]
    return page


def on_the_terminal(report: RunReport, folder: Path) -> str:
    return on_terminal(lambda console: print_run(report, console))


def on_a_page(report: RunReport, folder: Path) -> str:
    return without_meanings(render_report([Reported(report=report), Reported(report=report)]))


def in_a_notebook(report: RunReport, folder: Path) -> str:
    whole = SimpleNamespace(three_steps=ThreeSteps())
    return picture(SimpleNamespace(report=lambda: report, timeline=lambda: whole))


def as_json(report: RunReport, folder: Path) -> str:
    stream = io.StringIO()
    dump({"runs": [report.to_dict()]}, stream)
    found = json.loads(stream.getvalue())["runs"][0]
    assert RunReport.from_dict(found).to_dict() == found
    assert found["metrics"]["step_time"]["value"] == pytest.approx(0.0125)
    return stream.getvalue()


def as_csv(report: RunReport, folder: Path) -> str:
    export_run(report, "csv", folder / "csv")
    text = (folder / "csv" / "metrics.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[1][0] == "step_time"
    assert "0.0125" in rows[1]
    return text + (folder / "csv" / "operation_table.csv").read_text(encoding="utf-8")


def as_parquet(report: RunReport, folder: Path) -> str:
    export_run(report, "parquet", folder / "parquet")
    metrics = pq.read_table(folder / "parquet" / "metrics.parquet").to_pylist()
    assert metrics[0]["value"] == pytest.approx(0.0125)
    operations = pq.read_table(folder / "parquet" / "operation_table.parquet").to_pylist()
    return str(metrics) + str(operations)


def in_sql(report: RunReport, folder: Path) -> str:
    pytest.importorskip("duckdb")
    sql = "SELECT run, metric, value, status FROM metrics WHERE metric = 'step_time'"
    table = wattstep.query(sql, [], reports={"wanted": report})
    assert table["value"].to_pylist() == [pytest.approx(0.0125)]
    both = "SELECT r.workload, o.* FROM runs r JOIN operation_table o USING (run)"
    rows = wattstep.query(both, [], reports={"wanted": report}).to_pylist()
    assert {row["name"] for row in rows} == {row.name for row in report.operations}
    return str(table.to_pylist()) + str(rows)


def compared_with_a_slower_one(report: RunReport, folder: Path) -> str:
    (status,) = {figure.status for _, _, figure in report.metrics.each()}
    slower = made(status, slower=1.5)
    found = wattstep.compare(report, slower)
    assert isinstance(found, Comparison)
    assert found.metrics["step_time"].ratio.value == pytest.approx(1.5)
    assert found.metrics["step_time"].ratio.status is status
    assert len(found.operations.rows) == 3
    return on_terminal(lambda console: print_comparison(found, console))


def explained(report: RunReport, folder: Path) -> str:
    sections = list(explain_report(report))
    assert "backward" in sections[0].sentences[0]
    assert all(section.reason for section in sections[1:])
    return on_terminal(lambda console: [print_section(one, console) for one in sections])


def observed(report: RunReport, folder: Path) -> str:
    (status,) = {figure.status for _, _, figure in report.metrics.each()}
    runs = [observed_of(one) for one in (report, made(status, batch=16, slower=2.0))]
    evidence = Evidence(runs=runs)
    found = list(observe(evidence))
    assert len(found) == 12
    return on_terminal(lambda console: print_observations(found, evidence, console))


FRONTS = (
    on_the_terminal, on_a_page, in_a_notebook, as_json, as_csv, as_parquet, in_sql,
    compared_with_a_slower_one, explained, observed,
)  # fmt: skip


@pytest.mark.parametrize("front", FRONTS, ids=lambda front: front.__name__)
def test_the_status_stands_beside_the_number_and_nothing_says_measured(
    front: Callable[[RunReport, Path], str], status: Status, tmp_path: Path
) -> None:
    text = front(made(status), tmp_path)
    assert status.value in text
    assert "measured" not in text.replace("not measured", "").replace("Not measured", "")


@pytest.mark.parametrize("front", [on_the_terminal, on_a_page, in_a_notebook, explained])
def test_what_was_predicted_is_marked(
    front: Callable[[RunReport, Path], str], tmp_path: Path
) -> None:
    assert f"~ {STEP_MS}" in front(made(Status.PREDICTED), tmp_path)


def test_a_timeline_of_what_was_never_recorded_is_refused(tmp_path: Path) -> None:
    with refused("no-timeline"):
        export_run(made(Status.PREDICTED), "perfetto", tmp_path / "trace")
    assert not list(tmp_path.iterdir())


def test_a_recorded_run_and_one_that_was_never_recorded_stand_in_one_query() -> None:
    pytest.importorskip("duckdb")
    kept = Path(__file__).parents[1] / "fixtures" / "runs" / "schema-1"
    sql = "SELECT run, status, value FROM metrics WHERE metric = 'step_time' ORDER BY run"
    rows = wattstep.query(sql, kept, reports={"wanted": made(Status.PREDICTED)}).to_pylist()
    assert [(row["run"], row["status"]) for row in rows] == [
        ("schema-1", "measured"), ("wanted", "predicted"),
    ]  # fmt: skip
