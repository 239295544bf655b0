"""Runs of a report compared: the words of `wattstep compare`, and why nothing is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.comparison.made import recorded
from tests.reports.pages.tree import tree
from tests.wording import assert_says, saying

from wattstep.insight.compare.comparing import compare
from wattstep.insight.compare.configuration import check_across
from wattstep.insight.compare.process import Process
from wattstep.insight.compare.sides import gathered, sides_of
from wattstep.report.html.compare import render_comparison
from wattstep.report.html.compared import ComparedSection, compared_section
from wattstep.report.html.report import Reported, read_run, render_report
from wattstep.report.values import plain


def process(path: Path) -> Process:
    found = read_run(path)
    assert isinstance(found, Reported)
    assert found.process is not None
    return found.process


def section(*paths: Path) -> ComparedSection:
    found = compared_section([process(path) for path in paths])
    assert found is not None
    return found


def test_two_configurations_have_the_answer_of_compare(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    paths = [
        recorded(folder / "a1", jitter=40_000), recorded(folder / "a2", jitter=50_000),
        recorded(folder / "b1", 1.5, jitter=40_000, threads=2),
        recorded(folder / "b2", 1.5, jitter=50_000, threads=2),
    ]  # fmt: skip
    found = section(*paths)
    sides = sides_of([folder])
    assert list(found.sentences) == [plain(one) for one in compare(*sides).sentences]
    assert found.sides == [("A (threads 1)", "2 runs"), ("B (threads 2)", "2 runs")]
    _, table = found.tables[0]
    step = dict(zip([column.key for column in table.columns], table.rows[0], strict=True))
    assert step["metric"] == "Step time (mean)"
    assert step["verdict"] == "higher"
    # Steps of 20 and 30 ms, every other one 40 or 50 µs longer.
    assert step["ratio"].number == pytest.approx(30.0225 / 20.0225, rel=1e-5)  # type: ignore[union-attr]


def test_one_configuration_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    found = section(recorded(tmp_path / "a1"), recorded(tmp_path / "a2"))
    assert "one configuration" in found.refusal
    assert not found.tables
    assert not found.warnings


def test_runs_of_a_script_with_other_arguments_are_said_to_differ_in_them(tmp_path: Path) -> None:
    found = section(*(
        recorded(tmp_path / width, options={"script": "t.py", "arguments": f"--width {width}"})
        for width in ("32", "64")
    ))  # fmt: skip
    assert saying(found.warnings, "arguments of", "--width 32 and --width 64")


def test_runs_that_compare_refuses_say_why(tmp_path: Path) -> None:
    other = recorded(tmp_path / "b", device={"model": "another board", "cores": 4})
    found = section(recorded(tmp_path / "a"), other)
    assert_says(found.refusal, "A and B", "the device", "--across")


def test_three_configurations_have_each_pair_with_its_q(tmp_path: Path) -> None:
    paths = [
        recorded(tmp_path / f"t{threads}-{number}", 1.0 + 0.2 * threads,
                 jitter=40_000 + 5_000 * number, threads=threads)
        for threads in (1, 2, 4)
        for number in (1, 2, 3)
    ]  # fmt: skip
    found = section(*paths)
    assert_says(found.sentences[0], "Step time (mean)", "3 of 3 pairs differ")
    heading, table = found.tables[0]
    assert_says(heading, "Step time (mean)", "each pair")
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    assert [(row["first"], row["second"]) for row in rows] == [
        ("A (threads 1)", "B (threads 2)"),
        ("A (threads 1)", "C (threads 4)"),
        ("B (threads 2)", "C (threads 4)"),
    ]
    assert all(float(str(row["q"])) < 0.05 for row in rows)
    # 1.4 / 1.2, 1.8 / 1.2 and 1.8 / 1.4
    assert [row["ratio"].number for row in rows] == pytest.approx(  # type: ignore[union-attr]
        [1.1667, 1.5, 1.2857], rel=1e-3
    )


def test_one_run_of_each_is_never_called_different(tmp_path: Path) -> None:
    paths = [recorded(tmp_path / f"t{n}", float(n), threads=n) for n in (1, 2, 3)]
    assert_says(section(*paths).sentences[0], "3 of 3 pairs", "one run")


def test_a_single_run_has_no_such_section(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a")
    assert compared_section([process(path)]) is None
    found = read_run(path)
    assert isinstance(found, Reported)
    assert 'id="compared"' not in render_report([found])


def test_a_refusal_with_markup_in_it_is_inert(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    paths = [recorded(tmp_path / "a"), recorded(tmp_path / "b", device={"model": script})]
    found = [one for path in paths if isinstance(one := read_run(path), Reported)]
    page = render_report(found)
    assert 'id="compared"' in page
    assert script not in page


def test_a_page_of_two_sides_tells_a_reason_once_and_has_no_empty_column(tmp_path: Path) -> None:
    sides = gathered(
        [[recorded(tmp_path / "a", watts=5.0)], [recorded(tmp_path / "b", watts=None)]]
    )
    page = tree(render_comparison(compare(sides[0], sides[1], check_across(()))))
    told = [
        text
        for element in page.all()
        for text in element.children
        if isinstance(text, str) and "no power sensor was found" in text
    ]
    assert len(told) == 1
    headings = [each.text for each in page.find("th")]
    assert "B against A" in headings
    assert "Energy" not in headings
    assert "Other work" not in headings
