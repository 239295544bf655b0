"""An explanation on a terminal: the advice and a sentence a section, or all sentences, figures, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from wattstep.insight.advise.section import AdviceSection
from wattstep.insight.explain.section import Row, Section, Table
from wattstep.report.terminal.folding import print_table as print_grid
from wattstep.report.values import brief, plain, show
from wattstep.report.wording import metric
from wattstep.schema.figure import Figure

INDENT = (0, 0, 0, 2)
ONLY_A_RUN = "what it saves only a run can tell"
LEAST_GAIN = 0.005  # less is shown as 0 %
EVIDENCE = "evidence: --section NAME for one, --full for all"
MOST_ROWS = 15


def print_brief(
    sections: Sequence[Section], console: Console, said: set[str] | None = None
) -> None:
    """Prints the advice, what each other section comes to, and in one line what cannot be determined.

    Args:
        sections: Of one run.
        console: Where to print.
        said: Sentences that stand above, of other runs: none is printed again.
    """
    said = set() if said is None else said
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    undetermined, as_above = [], []
    for section in sections:
        if isinstance(section, AdviceSection) and section.reason is None:
            _print_advice(section, console)
        elif section.reason is None and section.sentences:
            if _first_time(section.sentences[0], said):
                grid.add_row(section.name, Text(plain(section.sentences[0])))
            else:
                as_above.append(section.name)
        else:
            undetermined.append(section.name)
    if as_above:
        grid.add_row("as above", Text(", ".join(as_above), style="dim"))
    if undetermined:
        names = ", ".join(undetermined)
        grid.add_row("undetermined", Text(f"{names} (why: --section NAME)", style="dim"))
    console.print(Padding(grid, INDENT))
    if _first_time(EVIDENCE, said):
        console.print(Padding(Text(EVIDENCE, style="dim"), INDENT))


def _first_time(sentence: str, said: set[str]) -> bool:
    """True if a sentence was not said yet; from then on it was."""
    if sentence in said:
        return False
    said.add(sentence)
    return True


def saved(gain: Figure) -> str:
    """Gain of a piece of advice in words; one whose interval begins at nothing is a possibility."""
    if gain.missing:
        return ONLY_A_RUN
    verb = "may" if gain.low is not None and gain.low < LEAST_GAIN else "should"
    return f"{verb} save {show(gain).text} of a sample's time"


def _print_advice(section: AdviceSection, console: Console) -> None:
    """What to do, what that saves, why, and how to try it."""
    for number, piece in enumerate(section.pieces, 1):
        title = Text.assemble((f"{number}. {plain(piece.title)}", "bold"), f": {saved(piece.gain)}")
        console.print(Padding(title, INDENT))
        for words in (piece.why, piece.how):
            console.print(Padding(Text(plain(words), style="dim"), (0, 0, 0, 5)))
    if not section.pieces:
        console.print(Padding(Text(plain(section.sentences[0])), INDENT))
    console.print()


def print_section(section: Section, console: Console, said: set[str] | None = None) -> None:
    """Prints one section; long tables end with how many rows were left out.

    Args:
        section: Of one run.
        console: Where to print.
        said: Sentences and reasons that stand above: none is printed again.
    """
    said = set() if said is None else said
    console.print()
    console.print(Text(plain(section.title), style="bold"))
    for sentence in section.sentences:
        if _first_time(sentence, said):
            console.print(Padding(Text(plain(sentence)), INDENT))
    if section.figures:
        console.print(Padding(_figures(section), INDENT))
    for reason, names in _unknown(section).items():
        why = reason if _first_time(reason, said) else "as above"
        console.print(Padding(Text(f"missing: {', '.join(names)}: {why}"), INDENT))
    for table in section.tables:
        if table.rows:
            _print_table(table, console)


def print_undetermined(
    sections: Sequence[Section], console: Console, said: set[str] | None = None
) -> None:
    """Prints the sections that cannot be determined, by the reason; one that stands above is not repeated."""
    said = set() if said is None else said
    titles: dict[str, list[str]] = {}
    for section in sections:
        if section.reason is not None:
            titles.setdefault(plain(section.reason), []).append(plain(section.title))
    for reason, those in titles.items():
        console.print()
        for title in those:
            console.print(Text(title, style="bold"))
        why = reason if _first_time(reason, said) else "as above"
        console.print(Padding(Text(f"cannot be determined: {why}"), INDENT))


def _figures(section: Section) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False)
    for name, figure in section.figures.items():
        known = metric(name)
        shown = show(figure, known.notation)
        if not shown.missing:
            status = Text(shown.status, style="dim")
            grid.add_row(Text(brief(known.label)), Text(shown.text), status)
    return grid


def _unknown(section: Section) -> dict[str, list[str]]:
    """Labels of missing figures by reason, but for reasons that a sentence of the section gives."""
    sentences = " ".join(section.sentences).casefold()
    labels: dict[str, list[str]] = {}
    for name, figure in section.figures.items():
        reason = plain(figure.reason)
        if figure.missing and reason.casefold() not in sentences:
            labels.setdefault(reason, []).append(brief(metric(name).label))
    return labels


def _print_table(table: Table, console: Console) -> None:
    every = _merged(table)
    rows = every[:MOST_ROWS]
    grid = Grid(title=Text(plain(table.title)), title_justify="left", title_style="bold", box=None)
    grid.padding = (0, 1, 0, 0)
    for number, (key, heading) in enumerate(table.columns.items()):
        words = [brief(row[key]) for row in rows if isinstance(row.get(key), str)]
        grid.add_column(
            Text(plain(heading)),
            justify="left" if words or number == 0 else "right",
            overflow="fold",
        )
    name, *others = table.columns
    for row in rows:
        cells = (_cell(row.get(key), whole=key == "reason") for key in others)
        grid.add_row(_cell(row.get(name), whole=True), *cells)
    console.print()
    print_grid(grid, console, indent=2)
    if len(every) > MOST_ROWS:
        left = len(every) - MOST_ROWS
        console.print(Padding(Text(f"and {left} more; --json has them all", style="dim"), INDENT))


def _merged(table: Table) -> Sequence[Row]:
    """Rows of which the same words are said, as one row under all their names; each of these is brief."""
    name, *others = table.columns
    merged: dict[tuple[Any, ...], Row] = {}
    for number, row in enumerate(table.rows):
        words = tuple(row.get(key) for key in others)
        alike = words if words and all(isinstance(each, str) for each in words) else (number,)
        first = merged.get(alike)
        named = row.get(name)
        if isinstance(named, str):
            named = brief(named) if first is None else f"{first[name]}, {brief(named)}"
        merged[alike] = {**row, name: named}
    return tuple(merged.values())


def _cell(value: Any, *, whole: bool) -> Text:
    """A number with its interval below it, or words: of a name those that there is room for."""
    if not isinstance(value, Figure):
        return Text("" if value is None else plain(value) if whole else brief(value))
    shown = show(value)
    if shown.missing or not shown.interval:
        return Text(shown.value)
    # Columns are narrow: "4.7–7.3" instead of "4.7 to 7.3", where no sign could be mistaken.
    ends = shown.interval if "-" in shown.interval else shown.interval.replace(" to ", "–")
    return Text.assemble(shown.value, "\n", (ends, "dim"))
