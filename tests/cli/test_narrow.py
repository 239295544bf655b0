"""On a narrow terminal columns are folded, never letters."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from tests.command_line import wattstep
from tests.comparison.made import recorded

from wattstep.report.terminal.folding import print_table
from wattstep.report.terminal.summary import SCREEN

LONG = "squeezenet-20261124-141230-335d"  # as a run is named where nobody names it
WIDE = 400  # columns: nothing is folded


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three batch sizes, one of them with a long name."""
    home = tmp_path_factory.mktemp("home")
    for name, batch in (("a", 4), ("b", 16), (LONG, 64)):
        recorded(home / "runs" / name, batch / 4, batch_size=batch, jitter=1000, cpu=0.9)
    return home


def words(text: str) -> set[str]:
    """Words of an output, without rules and bars, and without commas: columns become lists."""
    return {word.strip(",:.") for word in text.split() if not re.fullmatch(r"[─█▓▒░]+", word)}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "command",
    [
        "show runs/a",
        "show runs/a --full",
        "show runs",
        "show runs/a --steps 1000 --price 0.3",
        "explain runs/a",
        "explain runs/a --full",
        "compare runs/a runs/b --across batch --full",
        "compare runs --across batch",
        "compare runs/a --baseline runs/b --across batch",
        "observe runs/a runs/b",
        "observe runs/a runs/b --full",
        "runs list",
        "query --tables",
        "devices",
        "devices jetson-tx2",
        "boards",
        "boards jetson-tx2",
        "data",
    ],
)
def test_no_word_is_broken(command: str, width: int, home: Path) -> None:
    narrow, wide = (
        wattstep(*command.split(), cwd=home, env={"COLUMNS": str(columns)})
        for columns in (width, WIDE)
    )
    assert narrow.returncode == wide.returncode == 0, narrow.stderr + wide.stderr
    assert words(narrow.stdout) - words(wide.stdout) == set()


def test_a_list_of_runs_has_its_headings_and_each_run_its_path_on_one_line(home: Path) -> None:
    for width in (60, 80, 120):
        lines = wattstep("runs", "list", cwd=home, env={"COLUMNS": str(width)}).stdout.splitlines()
        assert lines[0].split()[:4] == ["date", "workload", "step", "time"]
        assert sum(line.endswith(f"runs/{LONG}") for line in lines) == 1


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_result_is_one_screen_however_much_there_is_to_say(
    width: int, home: Path, tmp_path: Path
) -> None:
    notes = [
        f"something number {n} went wrong, which takes a line or more to tell" for n in range(9)
    ]
    title = "A network of a long name, " * 4
    recorded(tmp_path / "noted", by_phase=True, cpu=0.9, notes=notes, title=title)
    for run in (home / "runs" / "a", tmp_path / "noted"):
        shown = wattstep(
            "show", run, "--steps", 1000, "--price", 0.3, env={"COLUMNS": str(width)}
        ).stdout
        assert len(shown.splitlines()) <= SCREEN
        for name in (
            "Step time",
            "Energy per step",
            "Peak memory",
            "by phase",
            "costliest",
            "run: ",
        ):
            assert name in shown
    assert "more: wattstep show RUN --full" in shown


def test_keys_of_metrics_are_words(home: Path) -> None:
    shown = wattstep("show", "runs/a", "--full", cwd=home).stdout
    metrics = shown.partition("Metrics")[2].partition("Operations that cost")[0]
    assert metrics
    assert not re.search("[a-z]_[a-z]", metrics)


def names(figure: str, rows: int) -> Table:
    table = Table("name", "first figure", "second figure", "third figure", box=None)
    for number in range(rows):
        table.add_row(f"a_name_that_is_long_{number}", figure, figure, figure)
    return table


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70, 200])
def test_a_table_takes_the_lines_that_it_needs_and_breaks_no_word(width: int) -> None:
    stream = StringIO()
    print_table(names("12.5 ms", 5), Console(file=stream, width=width), indent=2)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert stream.getvalue().count("12.5 ms") == 15  # no number is parted from its unit
    assert len(lines) <= 5 * 4 + 3
    assert all(f"a_name_that_is_long_{number}" in stream.getvalue() for number in range(5))
