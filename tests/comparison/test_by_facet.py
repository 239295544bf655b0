"""Runs side by side by one facet: the right ones in a row, with the figures of their reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.refusals import refused
from tests.reports.test_never_recorded import figure, made, on_terminal
from tests.wording import assert_says

from wattstep.api import compare_by
from wattstep.insight.compare.process import process_of
from wattstep.report.html.compared import compared_section
from wattstep.report.terminal.by_facet import print_by_facet
from wattstep.schema.figure import Status
from wattstep.schema.figures import Metrics
from wattstep.schema.run_report import RunReport


def on(engine: str, batch: int, slower: float, moved: float) -> RunReport:
    """A training that moves data for so much of a step."""
    report = made(Status.PREDICTED, batch, slower)
    share = figure(moved, "ratio", Status.PREDICTED)
    metrics = Metrics({**report.metrics, "data_movement_share": share})
    return replace(report, run=f"{engine}-{batch}", engine=engine, metrics=metrics)


def without(report: RunReport) -> RunReport:
    """The same, of which no operations are told."""
    return replace(report, operations=(), metrics=made(Status.PREDICTED).metrics)


RUNS = [
    on("mnn 3.6", 16, 3.0, 0.4), on("mnn 3.6", 4, 2.0, 0.35),
    on("torch 2.13", 4, 1.0, 0.05), on("torch 2.13", 16, 1.5, 0.1),
]  # fmt: skip


def test_engines_stand_beside_torch_batch_by_batch() -> None:
    compared = compare_by("engine", RUNS)
    first, second = (value.partition(" ")[0] for value in compared.values)
    assert (first, second) == ("torch", "mnn")
    assert len(compared.rows) == 2
    of_torch, of_mnn = compared.values
    for (words, cells), batch, slower, moved in zip(
        compared.rows, (4, 16), (2.0, 2.0), (0.35, 0.4), strict=True
    ):
        assert words == f"batch {batch}"
        assert cells[of_mnn].ratios["step_time"].value == pytest.approx(slower)
        assert cells[of_mnn].ratios["peak_memory"].value == pytest.approx(1.0)
        share = cells[of_mnn].figures["data_movement_share"]
        assert share.value == pytest.approx(moved)
        assert share.low == pytest.approx(moved * 0.96)
        assert share.status is Status.PREDICTED
        assert not cells[of_torch].ratios


def test_batches_are_in_their_order_and_blocks_are_of_one_engine() -> None:
    compared = compare_by("batch", RUNS)
    assert [int(value.split()[0]) for value in compared.values] == [4, 16]
    assert len(compared.rows) == 2
    for words, cells in compared.rows:
        paths = {path.name for cell in cells.values() for path in cell.paths}
        assert len({name.partition(" ")[0] for name in paths}) == 1, words


def test_what_was_not_recorded_says_why() -> None:
    compared = compare_by("engine", [without(RUNS[0]), *RUNS[1:]])
    shares = [
        cell.figures["data_movement_share"] for _, cells in compared.rows for cell in cells.values()
    ]
    [lacking] = [share for share in shares if share.missing]
    assert lacking.reason
    assert lacking.reason in on_terminal(lambda console: print_by_facet(compared, console))


def test_it_is_printed_with_ratios() -> None:
    text = on_terminal(lambda console: print_by_facet(compare_by("engine", RUNS), console))
    assert text.count("(2.00×)") >= 2
    assert "35.0 %" in text


def test_the_published_share_of_data_movement_stands_beside_engines_and_says_whose_it_is() -> None:
    compared = compare_by("engine", RUNS)
    [published] = compared.document()["published"]
    assert published["value"] == 0.91  # "almost 91% of training time", as the abstract has it
    text = on_terminal(lambda console: print_by_facet(compared, console))
    assert_says(text, "another device", "91 %", "GPU", "2202.10100")
    section = compared_section([process_of(run) for run in RUNS])
    assert section is not None
    assert "arXiv 2202.10100" in section.tables[-1][1].notes[-1]


def test_where_no_data_movement_is_known_nothing_published_stands_beside_it() -> None:
    assert compare_by("engine", [without(run) for run in RUNS]).document()["published"] == []
    assert compare_by("batch", RUNS).document()["published"] == []


def test_one_value_and_unknown_facets_are_refused() -> None:
    with refused("one-value", "torch"):
        compare_by("engine", [RUNS[2], RUNS[3]])
    with refused("unknown-facet", "weather"):
        compare_by("weather", RUNS)


def test_a_report_of_several_engines_has_them_side_by_side() -> None:
    section = compared_section([process_of(run) for run in RUNS])
    assert section is not None
    _, rows = section.tables[-1]
    heads = [column.key for column in rows.columns]
    assert heads[:3] == ["configuration", "engine", "step_time"]
    shares = [row[heads.index("data_movement_share")] for row in rows.rows]
    for share, value in zip(shares, ("5.00", "35.0", "10.0", "40.0"), strict=True):
        assert f"{value} %" in share.text
