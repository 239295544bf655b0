"""A comparison on a terminal: nothing is cut off at 80 or 120 columns, and the answer comes first."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.comparison.made import recorded
from tests.wording import assert_says

from wattstep.insight.compare.answer import between, change, percent, signed_percent
from wattstep.insight.compare.comparing import compare
from wattstep.insight.compare.gate import hold
from wattstep.insight.compare.matrix import compare_all
from wattstep.insight.compare.sides import gathered, sides_of
from wattstep.report.terminal.compare import print_comparison, print_gate, print_matrix
from wattstep.schema.figure import Figure, Status


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for threads in (1, 2, 4, 8, 16):
        for n in range(2):
            recorded(folder / f"{threads}-{n}", 1 / threads + 0.002 * n, threads=threads)
    return folder


def printed(print_it: object, thing: object, width: int) -> list[str]:
    stream = StringIO()
    print_it(thing, Console(file=stream, width=width))  # type: ignore[operator]
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in stream.getvalue()
    return lines


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_says_the_answer_before_the_tables(runs: Path, width: int) -> None:
    a, b = gathered([[runs / "1-0", runs / "1-1"], [runs / "2-0", runs / "2-1"]])
    lines = printed(print_comparison, compare(a, b, frozenset(["threads"])), width)
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("A (threads 1): 2 runs: 1-0, 1-1")
    assert text.index("B takes 49 % to 51 % less") < text.index("Metrics")
    assert "-50 %" in text
    assert "Operations that differ" not in text
    stream = StringIO()
    print_comparison(compare(a, b, frozenset(["threads"])), Console(file=stream, width=width), True)
    assert "forward-op, forward, layer.forward" in " ".join(stream.getvalue().split())


@pytest.mark.parametrize("width", [80, 120])
def test_a_matrix_that_does_not_fit_becomes_a_list_of_pairs(runs: Path, width: int) -> None:
    text = "\n".join(printed(print_matrix, compare_all(sides_of([runs])), width))
    assert ("Each pair" in text) == (width == 80)
    assert ("Each row" in text) == (width == 120)
    assert "B (threads 2)" in text
    assert "*" in text


def test_a_gate_is_one_line_a_metric_however_narrow(runs: Path) -> None:
    baseline, judged = gathered([[runs / "2-0", runs / "2-1"], [runs / "1-0", runs / "1-1"]])
    gate = hold(baseline, judged, tolerance=0.05, strict=False, across=frozenset(["threads"]))
    stream = StringIO()
    print_gate(gate, Console(file=stream, width=80))
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("step_time")]
    assert len(lines) == 1
    assert "regression" in lines[0]


def ratio(low: float, high: float) -> Figure:
    middle = (low * high) ** 0.5
    return Figure(value=middle, unit="ratio", low=low, high=high, status=Status.MEASURED)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.85, 0.88, "12 % to 15 % less"),
        (1.012, 1.034, "1.2 % to 3.4 % more"),
        (1.2001, 1.2002, "20 % more"),
        (2.5, 3.25, "2.5 to 3.2 times the"),
    ],
)
def test_a_change_is_told_by_its_interval(low: float, high: float, words: str) -> None:
    assert change(ratio(low, high)) == words


def test_an_interval_around_one_is_told_by_both_ends() -> None:
    assert_says(between(ratio(0.97, 1.04)), "3.0 % less", "4.0 % more")
    assert_says(between(ratio(0.5, 4.0)), "50 % less", "4 times as much")


def test_percentages_have_two_digits_and_many_times_are_told_as_such() -> None:
    assert [percent(x) for x in (0.123, 0.0312, 0.0025, 0.0)] == ["12 %", "3.1 %", "0.25 %", "0 %"]
    assert [signed_percent(x) for x in (0.87, 1.024, 5.8, 1e6)] == [
        "-13 %", "+2.4 %", "×5.8", "×100 or more",
    ]  # fmt: skip


def test_a_change_of_many_times_is_told_as_such_even_where_it_begins_small() -> None:
    assert change(ratio(1.16, 3.54)) == "1.2 to 3.5 times the"
    assert change(ratio(1.16, 1.5)) == "16 % to 50 % more"
