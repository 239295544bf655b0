"""The twelve observations on a terminal: the answer first, in any width, with its marks and its reasons."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from rich.console import Console
from tests.observations.made import figure, observed, series
from tests.wording import assert_says

from wattstep.insight.observe import observe
from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.insight.observe.evidence import Evidence, Observed
from wattstep.report.terminal.observe import print_observations, written
from wattstep.schema.figure import Status


def printed(runs: Sequence[Observed], width: int, *names: str, full: bool = True) -> str:
    stream = io.StringIO()
    evidence = Evidence(runs=runs)
    console = Console(file=stream, width=width)
    print_observations(list(observe(evidence, names)), evidence, console, full)
    return stream.getvalue()


RUNS = [
    *series("lenet", "throughput", {4: 100.0, 64: 400.0}, threads=1),
    *series("lenet", "throughput", {4: 100.0, 64: 80.0}, threads=2),
    *series("dqn", "energy_per_step", {4: 1.0, 64: 6.0}, unit="J", status=Status.MODELLED),
]


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = printed(RUNS, width)
    assert max(map(len, text.splitlines())) <= width


def test_the_overview_comes_first_and_verdicts_on_a_model_are_marked() -> None:
    lines = printed(RUNS, 120, full=False).splitlines()
    heading = "12 observations on 18 runs: 1 holds; 1 does not hold; 10 cannot be tested here"
    assert heading in lines[0]
    assert any("[A] threads 1" in line for line in lines)
    energy = next(line for line in lines if "Energy grows" in line)
    assert_says(energy, "holds (on modelled")


def test_what_can_be_told_takes_one_screen_and_the_rest_one_line() -> None:
    lines = printed(RUNS, 120, full=False).splitlines()
    assert len(lines) <= 24
    (rest,) = [line for line in lines if line.startswith("cannot be tested here: ")]
    assert rest.strip() == f"{UNTESTABLE}: 1, 2, 3, 4, 5, 6, 7, 9, 11, 12"


def test_what_was_said_of_an_earlier_observation_is_not_said_again() -> None:
    text = printed(RUNS, 1000)
    sentences = [part.strip() for part in re.split(r"(?<=[.;]) |\n", text)]
    long = [each for each in sentences if len(each.split()) > 5]
    assert sorted(each for each in set(long) if long.count(each) > 1) == []
    assert "As for observation 1." in text


def test_what_is_undecided_is_said_once_with_what_would_decide_it() -> None:
    # One process of each batch size: nothing tells how processes differ.
    runs = [
        *series("lenet", "throughput", {4: [100.0], 64: [101.0]}),
        *series("lenet", "energy_per_step", {4: [1.0], 64: [15.0]}, unit="J", threads=2),
    ]
    text = " ".join(printed(runs, 120, full=False).split())
    assert "2 are undecided" in text
    assert text.count("undecided in lenet [") == 2
    assert text.count("more runs: ") == text.count("on one process") == 1


def test_what_speaks_against_an_observation_stands_first_with_the_papers_numbers() -> None:
    text = printed(RUNS, 120, "10")
    assert text.index("lenet [B]  ") < text.index("lenet [A]  ")
    assert "0.80 ×" in text or "0.800 ×" in text
    assert "ResNet50, batch 4 to 64, exponent: 0.65" in text
    assert "above 0.02" in text


def test_what_cannot_be_tested_says_why_and_shows_no_number() -> None:
    text = printed(RUNS, 120, "12")
    assert "wattstep daily" in text
    assert "✓" not in text


def test_names_of_runs_cannot_steer_the_terminal() -> None:
    text = printed([observed("evil\x1b[2Jname"), observed("[red]x[/red]")], 120, "10")
    assert "\x1b[2J" not in text


@pytest.mark.parametrize(
    ("value", "notation", "words"),
    [
        (figure(0.131, 0.02), "points", ("+13.1 pt", "+11.1 to +15.1")),
        (figure(2.5, 0.5), "times", ("2.50 ×", "2.00 to 3.00")),
        (figure(-0.001, 0.002, "1"), "unit", ("0.00", "0.00 to 0.00")),
        (figure(0.5, None, "1", Status.MODELLED), "unit", ("≈ 0.50", "")),
    ],
)
def test_figures_are_written_by_their_notation(
    value: object, notation: str, words: tuple[str, str]
) -> None:
    assert written(value, notation) == words  # type: ignore[arg-type]
