"""Runs as tables on a terminal, at 80 columns and without colour, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from wattstep.records.failures import Failures
from wattstep.reports import conditions, machines, wording
from wattstep.reports.conditions import TextTable
from wattstep.reports.pages.thermal import sentences
from wattstep.reports.several import summary_of_all
from wattstep.reports.tables import Column, Table, costs, groups, seconds, table
from wattstep.reports.values import BYTES_NOTE, Shown, brief, is_figure, plain, show
from wattstep.reports.wording import Document

_TOP_OPERATIONS = 12
_MOST_STRETCHES = 12
_MOST_WORDS = 400  # characters of evidence
_TEXT_WIDTH = 12  # layers and phases; what is over is left to the name of the operation
_STYLES = {
    "modelled": "yellow",
    "predicted": "magenta",
    "replayed": "cyan",
    "attributed": "green",
    "missing": "dim",
}


def print_run(document: Document, console: Console) -> None:
    """Prints one run: what ran and where, its figures, what cost most, and what is not known.

    Args:
        document: A run document.
        console: Where to print.
    """
    for name, print_part in _PARTS.items():
        _guarded(name, partial(print_part, document, console), console)


def print_runs(documents: Sequence[Document], console: Console) -> None:
    """Prints each run, and below several of them one table that compares them."""
    for document in documents:
        print_run(document, console)
    if len(documents) > 1:
        _guarded("Comparison", partial(_print_comparison, documents, console), console)


def _guarded(name: str, print_part: Callable[[], None], console: Console) -> None:
    """Prints a part, or that it failed."""
    failures = Failures()
    failures.guard(name, print_part, None)
    for failure in failures:
        text = plain(f"{failure.part}: failed inside: {failure.reason}")
        _print_note(text, console, mark="!", style="bold yellow")


def _print_head(document: Document, console: Console) -> None:
    console.print()
    console.print(Text(wording.title(document), style="bold"))
    for line in (
        " · ".join(wording.setting(document)),
        " · ".join(machines.machine(document)),
        wording.data(document) and f"data: {wording.data(document)}",
        wording.imported_from(document) and f"imported: {wording.imported_from(document)}",
        wording.steps(document),
        document.get("run") and f"run: {plain(document['run'])}",
    ):
        if line:
            console.print(Padding(Text(line), (0, 0, 0, 2)))
    for caution in wording.cautions(document):
        style = "bold yellow" if caution.grave else ""
        _print_note(caution.text, console, mark="!", style=style)


def _print_metrics(document: Document, console: Console) -> None:
    rows = list(_metric_rows(document))
    if not rows:
        return
    grid = _grid("Metrics")
    grid.add_column("metric", ratio=5)
    grid.add_column("value", justify="right", no_wrap=True, min_width=12)
    grid.add_column("interval, or why missing", ratio=6)
    grid.add_column("status", no_wrap=True, min_width=10)
    for name, value, interval, status in rows:
        grid.add_row(Text(brief(name)), Text(value), Text(interval), _status(status))
    console.print(grid)
    _print_note(BYTES_NOTE, console)


def _metric_rows(document: Document) -> Iterator[tuple[str, str, str, str]]:
    """Every figure of the metrics as name, value, interval and status: the missing ones last."""
    metrics = document.get("metrics") or {}
    names = [name for name in wording.HEADLINES if name in metrics]
    names += [name for name in metrics if name not in names]
    known = {name: wording.metric_of(document, name) for name in names}
    rows = [row for name in names for row in _figures(known[name], metrics[name])]
    yield from (row for row in rows if row[3] != "missing")
    yield from (row for row in rows if row[3] == "missing")


def _figures(known: wording.Metric, thing: Any) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(thing, Mapping) and is_figure(thing):
        yield _metric_row(known.label, show(thing, known.notation))
    elif isinstance(thing, Mapping):
        for key, figure in thing.items():
            yield _metric_row(f"{known.label}: {plain(key)}", show(figure, known.notation))
    elif thing:
        yield _list_row(known.label, [show(figure, known.notation) for figure in thing])


def _metric_row(name: str, shown: Shown) -> tuple[str, str, str, str]:
    return name, shown.value, shown.reason if shown.missing else shown.interval, shown.status


def _list_row(name: str, shown: Sequence[Shown]) -> tuple[str, str, str, str]:
    """A list in one row: there may be many cores."""
    statuses = list(dict.fromkeys(each.status for each in shown))
    if statuses == ["missing"]:
        return _metric_row(name, shown[0])
    if len(statuses) == 1:
        return name, f"{len(shown)} cores", ", ".join(each.value for each in shown), statuses[0]
    listed = "; ".join(f"{each.text} ({each.status})" for each in shown)
    return name, f"{len(shown)} cores", listed, "mixed"


def _print_course(document: Document, console: Console) -> None:
    found = sentences(document)
    if found:
        _print_title("In the course of the run", console)
    for sentence in found:
        _print_note(sentence, console, mark="-")


def _print_operations(document: Document, console: Console) -> None:
    operations = document.get("operations") or ()
    top = sorted(operations, key=seconds, reverse=True)[:_TOP_OPERATIONS]
    if not top:
        return
    of = wording.operations_of(document)
    name = f"Operations that cost most time, {len(top)} of {len(operations)}, {of}"
    texts = {"name": "operation", "layer": "layer", "phase": "phase", "processor": "processor"}
    texts["step_kinds"] = "steps"
    figures = {"time": "time", "share": "share", "energy": "energy"}
    _print_table(name, table(top, texts, figures), console)
    for note in document.get("operations_notes") or ():
        _print_note(plain(note), console)


def _print_groups(document: Document, console: Console) -> None:
    found = document.get("energy_groups") or ()
    if found:
        name = f"Energy known together only, {min(len(found), _TOP_OPERATIONS)} of {len(found)}"
        _print_table(name, groups(found[:_TOP_OPERATIONS]), console)


def _print_rests(document: Document, console: Console) -> None:
    rests = document.get("rests") or {}
    rows = [{"name": wording.rest_name(name), **figures} for name, figures in rests.items()]
    if rows:
        _print_table("Rests: what no operation covers", costs(rows, name="rest"), console)
        if "energy_per_step_with_idle" in (document.get("metrics") or {}):
            _print_note(f"Rests are what operations leave. {wording.whole_step(document)}", console)
    beside = document.get("rests_outside_steps") or {}
    rows = [{"name": name, **figures} for name, figures in beside.items()]
    if rows:
        in_all = {"total": "time in all", "energy": "energy in all"}
        shown = table(rows, {"name": "beside the steps"}, in_all)
        _print_table("Beside the steps, in all", shown, console)


def _print_conditions(document: Document, console: Console) -> None:
    found = conditions.sentences(document)
    if found:
        _print_title("Conditions", console)
    for sentence in found:
        _print_note(sentence, console, mark="-")
    _print_texts(conditions.stretches(document), console, _MOST_STRETCHES)
    _print_texts(conditions.power_channels(document), console)


def _print_texts(shown: TextTable | None, console: Console, most: int | None = None) -> None:
    if shown is None:
        return
    grid = _grid("")
    grid.title = None
    for heading in shown.headings:
        grid.add_column(heading, overflow="fold")
    for row in shown.rows[:most]:
        grid.add_row(*(Text(brief(cell, _MOST_WORDS)) for cell in row))
    console.print()
    console.print(grid)
    more = 0 if most is None else len(shown.rows) - most
    if more > 0:
        _print_note(f"and {more:,} more, in the report and in the JSON document", console, "-")


def _print_missing(document: Document, console: Console) -> None:
    absent = document.get("missing") or ()
    if absent:
        _print_title("Not measured, and why", console)
    for entry in absent:
        _print_note(f"{plain(entry['what'])}: {plain(entry['reason'])}", console, mark="-")


def _print_recording(document: Document, console: Console) -> None:
    cost = document.get("recording") or {}
    if not cost:
        return
    grid = _grid("What recording cost")
    grid.add_column("what", ratio=5)
    grid.add_column("value", ratio=6)
    grid.add_column("status", no_wrap=True, min_width=10)
    for name, thing in cost.items():
        shown = show(thing) if is_figure(thing) else None
        value = plain(thing) if shown is None else shown.text
        status = Text("") if shown is None else _status(shown.status)
        grid.add_row(Text(brief(wording.label(name))), Text(value), status)
    console.print(grid)


def _print_comparison(documents: Sequence[Document], console: Console) -> None:
    rows = [
        {"run": title, **metrics}
        for title, metrics in zip(
            wording.titles(documents), wording.side_by_side(documents), strict=True
        )
    ]
    figures = {
        name: wording.metric_of({"metrics": rows[0]}, name).label.lower()
        for name in wording.compared(documents)
    }
    _print_table("Comparison", table(rows, {"run": "run"}, figures), console)
    for sentence in summary_of_all(documents):
        _print_note(sentence, console, mark="-")


def _print_table(name: str, shown: Table, console: Console) -> None:
    grid = _grid(name)
    for column in shown.columns:
        grid.add_column(
            _heading(column),
            justify="right" if column.numeric else "left",
            no_wrap=column.numeric,
            overflow="fold",
            max_width=None if column.numeric or column is shown.columns[0] else _TEXT_WIDTH,
        )
    for row in shown.rows:
        grid.add_row(*(_cell(c, cell) for c, cell in zip(shown.columns, row, strict=True)))
    console.print(grid)
    for note in shown.notes:
        _print_note(note, console, mark="-")


def _heading(column: Column) -> Text:
    if not column.status:
        return Text(brief(column.label))
    return Text.assemble(column.label, "\n", (column.status, _STYLES.get(column.status, "")))


def _cell(column: Column, cell: str | Shown | None) -> Text:
    if cell is None or isinstance(cell, str):
        return Text(brief(cell or ""))
    if column.mixed and not cell.missing:
        return Text.assemble(cell.value, "\n", _status(cell.status))
    return Text("missing" if cell.missing else cell.value, style=_STYLES.get(cell.status, ""))


def _status(status: str) -> Text:
    return Text(status, style=_STYLES.get(status, ""))


def _grid(name: str) -> RichTable:
    return RichTable(
        title=Text(f"\n{name}", style="bold"),
        title_justify="left",
        title_style="not italic",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        show_edge=False,
    )


def _print_title(name: str, console: Console) -> None:
    console.print()
    console.print(Text(name, style="bold"))


def _print_note(text: str, console: Console, mark: str = "", style: str = "") -> None:
    """A note that keeps its indent where it wraps."""
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=2, justify="right")
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=style), Text(text, style=style or "dim"))
    console.print(grid)


_PARTS: Mapping[str, Callable[[Document, Console], None]] = {
    "Head": _print_head,
    "Metrics": _print_metrics,
    "Course": _print_course,
    "Operations": _print_operations,
    "Groups": _print_groups,
    "Rests": _print_rests,
    "Conditions": _print_conditions,
    "Missing": _print_missing,
    "Recording": _print_recording,
}
