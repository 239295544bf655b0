"""Runs of other tools on a page and on a terminal: what they are of, and how well their clocks fit."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.reports import synthetic
from tests.reports.pages.test_report import Page
from tests.reports.pages.tree import unpacked
from tests.run.made import Worked, import_made, watts
from tests.wording import assert_says

from wattstep.attribution.tables.totals import NO_TIMES
from wattstep.recorded.imported import NO_TRACE
from wattstep.report.html.report import Reported, render_report, write_report
from wattstep.report.terminal.run import print_runs
from wattstep.run import Run, load

TRACE = {"file": "train.json", "format": "Kineto trace", "steps": "marked"}
POWER = {"file": "power.csv", "format": "plain CSV"}
ALIGNED = [{"file": "power.csv", "method": "by load", "uncertainty_s": 0.012}]
KERNEL = {"name": "sgemm", "kind": "kernel", "processor": "gpu0", "calls": 3, "total_s": 0.6}


def operations(count: int) -> list[Worked]:
    """A CPU operation from 10 to 50 ms of each step of 100 ms, a kernel from 50 to 90."""
    rows = []
    for n in range(count):
        rows.append(Worked(name="aten::mm", step=n, start=100 * n + 10, end=100 * n + 50))
        rows.append(
            Worked(
                name="sgemm", step=n, start=100 * n + 50, end=100 * n + 90, processor="gpu0",
                thread=7, layer="fc",
            )
        )  # fmt: skip
    return rows


def power(count: int) -> list[tuple[float, float]]:
    return [(float(t), 10 + (t * 37 % 101) * 0.001) for t in range(100 * count + 1)]


def made(path: Path, kind: str) -> Run:
    """One of the four kinds of imported runs."""
    steps = [(100.0 * n, 100.0 * n + 100) for n in range(8)]
    more: dict[str, Any] = {}
    if kind in ("both", "trace", "unmarked"):
        more |= {"steps": steps, "operations": operations(8)}
    if kind == "unmarked":
        more |= {"steps": [(0.0, 800.0)], "operations": [
            Worked(name="aten::mm", step=0, start=10, end=50), *operations(1)[1:],
        ]}  # fmt: skip
    if kind in ("both", "telemetry", "unmarked"):
        more["samples"] = [(watts(), "power.csv", power(8))]
    if kind == "totals":
        more["totals"] = [KERNEL]
    imported: dict[str, dict[str, Any]] = {
        "both": {"trace": TRACE, "telemetry": [POWER], "alignment": ALIGNED},
        "unmarked": {
            "trace": {**TRACE, "steps": "whole"}, "telemetry": [POWER], "alignment": ALIGNED,
        },
        "trace": {"trace": TRACE},
        "telemetry": {"telemetry": [POWER]},
        "totals": {"trace": {"file": "prof.csv", "format": "nvprof summary"}},
    }  # fmt: skip
    return load(import_made(path / kind, imported[kind], **more))


def page_of(run: Run) -> Page:
    return Page(
        render_report(
            [
                Reported(
                    report=run.report(),
                    timeline=run.timeline(),
                    three_steps=run.timeline().three_steps,
                )
            ]
        )
    )


def printed(*runs: Run) -> str:
    stream = io.StringIO()
    print_runs([run.report() for run in runs], Console(file=stream, width=300, color_system=None))
    return stream.getvalue()


KINDS = ("both", "trace", "unmarked", "telemetry", "totals")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_not_known_looks_like_a_value(tmp_path: Path, kind: str) -> None:
    run = made(tmp_path, kind)
    page = page_of(run)
    for text in (page.text, printed(run)):
        assert not re.search(r"\b(nan|NaN|None|null|inf)\b", text), kind
    # The charts are data of the page: they hold no such number either.
    assert "NaN" not in json.dumps(unpacked(page.scripts[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_says_which_files_it_rests_on(tmp_path: Path, kind: str) -> None:
    run = made(tmp_path, kind)
    expected = {
        "both": "Kineto trace (train.json) and plain CSV (power.csv)",
        "unmarked": "Kineto trace (train.json) and plain CSV (power.csv)",
        "trace": "Kineto trace (train.json)",
        "telemetry": "plain CSV (power.csv)",
        "totals": "nvprof summary (prof.csv)",
    }[kind]
    assert f"other tools: {expected}." in page_of(run).text
    assert f"imported: {expected}\n" in re.sub(r" +\n", "\n", printed(run))
    assert "was trained" not in page_of(run).text


def test_the_alignment_is_one_line_on_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    run = made(tmp_path, "both")
    line = "The clock of power.csv was aligned to ± 12.0 ms by load."
    assert printed(run).count(line) == 1
    assert page_of(run).text.count(line) == 1
    assert run.document()["imported"]["alignment"] == ALIGNED


def test_an_alignment_of_unknown_quality_is_said_to_be_so(tmp_path: Path) -> None:
    run = made(tmp_path, "both")
    unknown = [{"file": "power.csv", "method": "by wall clock", "uncertainty_s": None}]
    document = run.document()
    document["imported"] = {**document["imported"], "alignment": unknown}
    text = Page(render_report([synthetic.reported(document=document)])).text
    assert_says(text, "clock of power.csv", "how exactly")


def test_traced_steps_are_told_from_clean_ones(tmp_path: Path) -> None:
    text = printed(made(tmp_path, "both"))
    assert_says(text, "8 steps recorded", "0 warmup, 8 traced")
    assert_says(text, "All steps", "profiler's own cost")
    page = page_of(made(tmp_path / "page", "both")).text
    assert "own cost in" in page
    assert "not traced" not in page


def test_the_processor_of_operations_is_a_column_where_there_is_more_than_the_cpu(
    tmp_path: Path,
) -> None:
    run = made(tmp_path, "both")
    assert "processor" in printed(run)
    assert re.search(r"sgemm +fc +forward +gpu0 +40\.0 ms +40\.0 %", printed(run))
    assert "fc forward gpu0 40.0 ms" in page_of(run).text
    assert "GPU time 40.0 ms measured" in page_of(run).text


def test_a_recording_without_steps_is_not_called_a_step(tmp_path: Path) -> None:
    telemetry = made(tmp_path, "telemetry")
    text = page_of(telemetry).text
    told = text[: text.index("The paper's figures")].lower()
    assert told.count(NO_TRACE) == 1
    assert "no steps" in printed(telemetry)
    assert "took 8.04 J" in text
    assert "Mean power over" in text
    assert "the whole recording." in text
    for kind in ("totals", "unmarked"):
        shown = printed(made(tmp_path, kind))
        assert "the whole recording" in shown
        assert "for one step" not in shown
    assert "the time goes" in page_of(made(tmp_path / "again", "unmarked")).text


def test_totals_say_that_they_are_totals(tmp_path: Path) -> None:
    text = page_of(made(tmp_path, "totals")).text
    assert_says(text, "went to sgemm", "600 ms of the recording", "100 %")
    assert "Energy" in text.partition(f" missing: {NO_TIMES}")[0]


def test_imported_runs_stand_beside_each_other(tmp_path: Path) -> None:
    runs = [made(tmp_path, kind) for kind in KINDS]
    path = tmp_path / "report.html"
    write_report(
        [
            Reported(
                report=run.report(), timeline=run.timeline(), three_steps=run.timeline().three_steps
            )
            for run in runs
        ],
        path,
    )
    text = Page(path.read_text(encoding="utf-8")).text
    assert "5 runs" in text
    assert not re.search(r"\b(nan|None)\b", text)
    assert "Comparison" in printed(*runs)
