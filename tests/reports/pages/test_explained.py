"""A run's explanation in its report: the words of `wattstep explain`, unless that takes too long."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from tests.comparison.made import recorded
from tests.wording import assert_says

from wattstep.insight.explain import explain
from wattstep.report.html import explained
from wattstep.report.html.report import Reported, read_run, render_report
from wattstep.run import load


def test_the_report_has_the_sentences_of_explain(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a")
    found = read_run(path, explained=True)
    assert isinstance(found, Reported)
    page = html.unescape(render_report([found]))
    sections = list(explain(load(path)))
    assert sections
    for section in sections:
        if section.name == "advice":
            (table,) = [each for each in section.tables if each.name == "advice"]
            assert all(f"<strong>{row['do']}</strong>" in page for row in table.rows)
            assert all(row["how"] in page for row in table.rows)
            continue
        if section.name != "gpu":  # that no work ran on one another section says already
            assert f"<h4>{section.title}</h4>" in page
        # Pages get shared: a run is named in them without its place.
        assert all(
            text.replace(str(path), path.name).rstrip(".").lower() in page.lower()
            for text in section.sentences
        )
        assert str(path) not in page


def test_a_run_that_was_not_explained_has_no_such_section(tmp_path: Path) -> None:
    found = read_run(recorded(tmp_path / "a"))
    assert isinstance(found, Reported)
    assert '<section class="why">' not in render_report([found])


def test_a_large_run_says_the_command_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explained, "MOST_INSTANCES", 10)  # the run has 30
    found = read_run(recorded(tmp_path / "a"), explained=True)
    assert isinstance(found, Reported)
    page = render_report([found])
    assert_says(page, "30 operations were recorded")
    assert "wattstep explain a" in page
