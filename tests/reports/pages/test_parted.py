"""Steps of several runs drawn beside each other: parts in one order and colour, and no rank."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reports.pages.tree import tree
from tests.reports.synthetic import document, figure, reported

from wattstep.report.html.parted import parted
from wattstep.report.html.report import render_report
from wattstep.schema.run_report import RunReport


def report(
    title: str, phases: dict[str, float], joules: dict[str, float], **more: Any
) -> RunReport:
    """A run whose step is made of these phases: their shares of the time, and energies in J."""
    rows = [
        {
            "phase": name,
            "time": figure(share, "s", "attributed"),
            "share": figure(share, "ratio", "attributed"),
            **({"energy": figure(joules[name], "J", "modelled")} if name in joules else {}),
        }
        for name, share in phases.items()
    ]
    whole = document(title=title, workload=title, phases=rows, rests={}, kinds=[], **more)
    return RunReport.from_dict(whole)


A = report(
    "A", {"backward": 0.7, "forward": 0.295, "data": 0.005}, {"backward": 3.0, "forward": 1.0}
)
B = report("B", {"game": 0.5, "forward": 0.2, "backward": 0.3}, {})


def test_every_run_has_its_parts_in_the_same_order_and_colours_whatever_their_size() -> None:
    (by_phase,) = parted([A, B])
    assert by_phase.by == "phase"
    drawn = {
        (bar.run.partition(" ")[0], bar.of): [(name, share) for name, share, _ in bar.segments]
        for bar in by_phase.bars
    }
    assert list(drawn) == [("A", "time"), ("A", "energy"), ("B", "time")]
    time = drawn["A", "time"]
    # Of the data's half a percent nobody sees a colour.
    assert [name for name, _ in time] == ["forward", "backward", "others"]
    assert [share for _, share in time] == pytest.approx([0.295, 0.7, 0.005])
    assert [share for _, share in drawn["A", "energy"]] == pytest.approx([0.25, 0.75])
    assert [name for name, _ in drawn["B", "time"]] == ["forward", "backward", "game"]
    colors = {(name, color) for bar in by_phase.bars for name, _, color in bar.segments}
    assert len(colors) == len({name for name, _ in colors}) == len({one for _, one in colors}) == 4
    assert [name for name, _ in by_phase.key] == ["forward", "backward", "game", "others"]
    assert by_phase.statuses == ("attributed", "modelled")


def test_what_one_run_alone_has_stands_beside_nothing_and_is_not_drawn() -> None:
    assert parted([A, report("B", {}, {})]) == []


def test_a_page_of_unrelated_runs_draws_their_steps_and_ranks_none() -> None:
    titles = ("LeNet", "ResNet")
    runs = [reported(document=document(title=title, workload=title)) for title in titles]
    page = tree(render_report(runs, paper=False))
    (section,) = [one for one in page.all() if "parted" in one.classes]
    bars = [one for one in section.all() if "bar" in one.classes]
    shown = [bar.text for bar in bars if "time" in bar.classes]
    by = ("phase", "kind")
    assert [one.text.split()[1] for one in section.find("h4")] == list(by)
    assert len(shown) == len(titles) * len(by)
    assert all(text.startswith(title) for text, title in zip(shown, titles * len(by), strict=True))
    assert "not ranked" in page.text
