"""The figures of Cai et al.: what is published of them, beside runs of their networks on any engine."""

from __future__ import annotations

import html

import pytest
from tests.reports import synthetic
from tests.reports.pages.paper import made
from tests.reports.synthetic import figure

from wattstep.report.html.page import Plots
from wattstep.report.html.paper.cai import CAI_FIGURES
from wattstep.report.html.paper.published import CAI, published, workloads_of
from wattstep.report.html.paper.readings import Reading, Readings
from wattstep.report.html.paper.section import cai_section, published_table
from wattstep.report.html.report import render_report
from wattstep.report.values import Shown
from wattstep.workloads import names

# Of a phone with a Snapdragon 855, all cores, batch 1 to 32: ms of a step, and MB at batch 1, 16 and 32.
MS = {
    "GoogLeNet": (286, 388, 567, 958, 1764, 3421),
    "AlexNet": (605, 782, 963, 1472, 2392, 4385),
}
MB = {"GoogLeNet": (238, 1638, 2969), "AlexNet": (786, 1638, 2662)}
BATCHES = (1, 2, 4, 8, 16, 32)


def trained(batch: int, workload: str = "googlenet", engine: str = "mnn 3.6.1") -> Reading:
    """A step takes 0.1 s a sample and 0.2 s beside."""
    metrics = made.metrics(batch / 4, step_time=figure(0.2 + 0.1 * batch, "s"))
    return made.run(workload, batch, engine=engine, metrics=metrics)


def test_published_are_the_logs_numbers() -> None:
    times = {
        model: tuple(round(1e3 * one.value) for one in published("cai-time") if one.model == model)
        for model in MS
    }
    assert times == MS
    sizes = {
        model: tuple(
            (one.batch, round(one.value / 1e6))
            for one in published("cai-memory")
            if one.model == model
        )
        for model in MB
    }
    assert sizes == {
        model: tuple(zip((1, 16, 32), each, strict=True)) for model, each in MB.items()
    }
    assert [one.batch for one in published("cai-time")] == [*BATCHES, *BATCHES]
    assert all("Snapdragon 855" in one.label and one.place for one in published("cai-time"))


def test_their_networks_are_workloads_of_the_suite() -> None:
    assert workloads_of(CAI) <= set(names())
    assert len(workloads_of(CAI)) == 5


def test_runs_on_engines_are_lines_of_their_own_and_the_published_stand_beside() -> None:
    readings = Readings(
        runs=[
            trained(batch, engine=engine)
            for engine in ("mnn 3.6.1", "torch 2.13")
            for batch in (4, 16)
        ]
    )
    section = cai_section(readings, Plots())
    assert section is not None
    by_title = {each["title"]: each for each in section["figures"]}
    assert list(by_title) == [
        "Time of a step by batch size", "Memory of the process by batch size",
        "Energy of a step by batch size",
    ]  # fmt: skip
    assert section["drawn"] == 3
    assert len(section["letters"]) == 2  # engines
    table = published_table("cai-time", readings)
    keys = [column.key for column in table.columns]
    here: dict[tuple[object, object], list[str]] = {}
    for row in table.rows:
        cells = dict(zip(keys, row, strict=True))
        if isinstance(shown := cells.get("here"), Shown):
            here.setdefault((cells["batch"], cells["value"]), []).append(shown.value)
    assert here == {("4", "567 ms"): ["600 ms"] * 2, ("16", "1,764 ms"): ["1.80 s"] * 2}


@pytest.mark.parametrize("workload", ["lenet", "googlenet"])
def test_one_batch_size_draws_nothing(workload: str) -> None:
    assert cai_section(Readings(runs=[trained(4, workload)]), Plots()) is None


def test_other_networks_have_no_part() -> None:
    assert cai_section(Readings(runs=[trained(b, "resnet8") for b in (4, 16)]), Plots()) is None
    assert cai_section(Readings(), Plots()) is None


def test_without_being_asked_for_they_stand_there_where_all_can_be_drawn() -> None:
    readings = Readings(runs=[trained(batch) for batch in (4, 16)])
    assert cai_section(readings, Plots(), asked=False) is None
    assert len(CAI_FIGURES) == 4


def test_a_page_has_them_with_their_source() -> None:
    runs = [
        synthetic.reported(document=made.document("lenet", batch), timeline=made.timeline())
        for batch in (4, 16)
    ]
    page = html.unescape(render_report(runs))
    assert 'id="cai"' in page
    assert "EMDL 2021" in page
    assert 'id="cai-memory" open' in page
    assert 'id="cai-cores"' not in page
