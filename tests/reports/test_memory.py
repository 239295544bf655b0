"""Footprints on a terminal and as a page: every category, every stage, and what failed."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.reports.pages.tree import unpacked
from tests.wording import assert_says, saying

from wattstep.report import memory_tables
from wattstep.report.html.memory import category_chart, render_footprints, write_footprints
from wattstep.report.terminal.memory import print_footprints
from wattstep.schema.footprint import Footprint

MB = 1e6


def figure(value: float | None, status: str = "measured", reason: str | None = None) -> Any:
    keys = ("low", "high", "confidence", "n", "method", "systematic", "source")
    return {"value": value, "unit": "B", "status": status, "reason": reason, **dict.fromkeys(keys)}


def footprint(batch: int = 4, **changed: Any) -> dict[str, Any]:
    parts = {
        "parameters": figure(4 * MB, "counted"),
        "gradients": figure(1 * MB, "counted"),
        "feature_maps": figure(batch * MB, "counted"),
        "library_pages": figure(100 * MB),
        "unexplained": figure(2 * MB, "attributed"),
    }
    whole = sum(part["value"] for part in parts.values())
    stages = {"preparation": 90 * MB, "steady step": whole, "saving": whole + 30 * MB}
    return {
        "workload": "densenet40", "title": "DenseNet40-12", "batch_size": batch, "accumulate": 1,
        "precision": "fp32", "threads": 1, "engine": "torch 2", "memory_limit": None,
        "data": {"name": "photographs", "stand_in": True, "stands_for": "CIFAR-10"},
        "outcome": "measured", "reason": None,
        "peak_memory": figure(whole),
        "memory_breakdown": parts,
        "memory_highest": {"gradients": figure(4 * MB, "counted")},
        "intermediate_data": figure(batch * MB),
        "peak_at": {"phase": "backward", "operation": "aten.mm.default", "layer": "head.1"},
        "stages": [
            {"stage": name, "before": figure(1.0), "peak": figure(size), "after": figure(1.0),
             "failed": None}
            for name, size in stages.items()
        ],
        "checkpoint": figure(8 * MB, "counted"),
        **changed,
    }  # fmt: skip


def made(batch: int = 4, **changed: Any) -> Footprint:
    """The same as reports take it."""
    return Footprint.from_dict(footprint(batch, **changed))


def starved(batch: int) -> Footprint:
    reason = "memory ran out: the kernel killed the process"
    nothing = figure(None, "missing", reason)
    stage = {"before": nothing, "peak": nothing, "after": nothing, "failed": reason}
    return made(
        batch,
        outcome="out of memory",
        reason=f"{reason} (stage: first step)",
        peak_memory=nothing,
        memory_breakdown={},
        memory_highest={},
        intermediate_data=nothing,
        peak_at=None,
        stages=[{"stage": "first step", **stage}],
        checkpoint=nothing,
    )


def printed(footprints: list[Footprint]) -> str:
    stream = io.StringIO()
    print_footprints(footprints, Console(file=stream, width=100), full=True)
    return stream.getvalue()


def test_the_table_has_a_column_for_each_batch_and_a_row_for_each_category() -> None:
    text = printed([made(4), made(64)])
    assert re.search(r"batch\s+4\s+64\s+status", text)
    assert re.search(r"Feature maps\s+4\.00 MB\s+64\.0 MB\s+counted", text)
    assert re.search(r"Peak\s+111 MB\s+171 MB\s+measured", text)
    assert re.search(r"Gradients\s+4\.00 MB", text)  # the most that they take


def test_the_papers_figures_stand_below_ours_where_it_has_some() -> None:
    text = printed([made(4), made(16), made(64)])
    assert re.search(r"The paper's\s+2\.20 GB\s+5\.90 GB", text)
    assert "The paper's" not in printed([made(4, workload="lenet")])


def test_where_the_peak_lies_and_which_stage_is_higher_is_said() -> None:
    text = printed([made(4)])
    assert_says(text, "batch 4: ", "backward, aten.mm.default, layer head.1")
    assert_says(text, "is saving: 30.0 MB")
    assert "a stand-in for CIFAR-10" in text


def test_a_batch_that_ran_out_of_memory_stands_beside_those_that_did_not() -> None:
    text = printed([made(4), starved(64)])
    assert_says(text, "batch 64: memory ran", "(stage: first step)")
    assert re.search(r"Peak\s+111 MB\s+—", text)


def test_whether_it_fits_stands_first() -> None:
    limit = "4 GiB by a memory cgroup v2 without swap"
    limited = [made(4, memory_limit=limit), replace(starved(64), memory_limit=limit)]
    first = printed(limited).strip().splitlines()[:3]
    assert saying(first, "the limit: batch 4.", "not fit: batch 64.")
    assert "the limit: batch 4, 16." in printed([limited[0], made(16, memory_limit=limit)])
    assert_says(printed([starved(64)]), "Does not fit", "this machine: batch 64.")
    assert "it into" not in printed([made(4)])


def test_alone_it_is_shown_as_well() -> None:
    assert "stage: first step" in printed([starved(4)])
    assert "stage: first step" in render_footprints([starved(4)])


def test_precisions_are_tables_of_their_own() -> None:
    groups = memory_tables.by_workload([made(4), made(4, precision="amp"), made(8)])
    assert [[one.batch_size for one in group] for group in groups] == [[4, 8], [4]]


def test_bars_are_made_of_the_categories_and_add_up_to_the_peak() -> None:
    footprints = [made(4), made(64)]
    chart = category_chart(footprints)
    assert chart is not None
    heights = [sum(trace["y"][column] for trace in chart["data"]) for column in (0, 1)]
    assert heights == pytest.approx([(one.peak_memory.value or 0.0) / MB for one in footprints])


def test_every_category_that_is_measured_has_a_name_and_a_colour_of_the_page() -> None:
    from wattstep.engines.torch.allocations import CATEGORIES
    from wattstep.recorded import memory
    from wattstep.recorded.device_memory import KEPT, OUTSIDE, REST

    assert {*CATEGORIES, *memory._METHODS, KEPT, OUTSIDE, REST} == set(memory_tables.CATEGORIES)
    style = Path(memory_tables.__file__).parent / "html" / "templates" / "report.css"
    colors = set(re.findall(r"(--[\w-]+):", style.read_text(encoding="utf-8")))
    assert {known.color for known in memory_tables.CATEGORIES.values()} <= colors


def test_every_stage_has_a_name() -> None:
    from wattstep.train.memory.life import STAGES

    assert tuple(memory_tables.STAGES) == STAGES


def test_a_page_asks_nothing_of_any_network_and_keeps_text_text(tmp_path: Path) -> None:
    path = tmp_path / "new" / "memory.html"
    write_footprints([made(4, title="<script>alert(1)</script>")], path)
    page = path.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "default-src &#39;none&#39;" in page
    charts = unpacked(re.findall(r'id="charts">(.*?)</script>', page, re.DOTALL)[0])
    assert set(charts) == {"chart-1", "chart-2"}


def test_a_footprint_survives_the_way_through_json() -> None:
    for one in (made(4), starved(64)):
        assert Footprint.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    assert set(footprint()) <= set(made().to_dict())
