"""Runs as tables on a terminal, at 80 columns and without colour, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from wattstep.report import conditions, machines, wording
from wattstep.report.conditions import TextTable
from wattstep.report.html.thermal import sentences
from wattstep.report.memory_tables import CACHE, CATEGORIES, category
from wattstep.report.planned import planned_table, planned_title
from wattstep.report.several import summary_of_all
from wattstep.report.tables import Column, Row, Table, costs, groups, seconds, table
from wattstep.report.terminal.folding import has_room, print_table
from wattstep.report.values import BYTES_NOTE, Shown, brief, plain, show
from wattstep.schema.failures import Failures
from wattstep.schema.figure import Figure
from wattstep.schema.figures import Entry
from wattstep.schema.run_report import RunReport

_TOP_OPERATIONS = 12
_MOST_STRETCHES = 12
_MOST_WORDS = 400  # characters of evidence
STYLES = {
    "modelled": "yellow",
    "predicted": "magenta",
    "replayed": "cyan",
    "attributed": "green",
    "missing": "dim",
}


def print_run(report: RunReport, console: Console, said: set[str] | None = None) -> None:
    """Prints one run: what ran and where, its figures, what cost most, and what is not known.

    Args:
        report: Of the run.
        console: Where to print.
        said: Notes and reasons that stand above, of other runs, too: none is printed again.
    """
    said = set() if said is None else said
    for name, print_part in _PARTS.items():
        _guarded(name, partial(print_part, report, console, said), console)


def print_runs(reports: Sequence[RunReport], console: Console) -> None:
    """Prints each run, and below several of them one table that compares them."""
    said: set[str] = set()
    for report in reports:
        print_run(report, console, said)
    if len(reports) > 1:
        _guarded("Comparison", partial(print_comparison, reports, console, said), console)


def _guarded(name: str, print_part: Callable[[], None], console: Console) -> None:
    """Prints a part, or that it failed."""
    failures = Failures()
    failures.guard(name, print_part, None)
    for failure in failures:
        text = plain(f"{failure.part}: failed inside: {failure.reason}")
        _print_note(text, console, mark="!", style="bold yellow")


def _print_head(report: RunReport, console: Console, said: set[str]) -> None:
    console.print()
    console.print(Text(wording.title(report), style="bold"))
    for line in (
        " · ".join(wording.setting(report)),
        " · ".join(machines.machine(report.device)),
        wording.data(report) and f"data: {wording.data(report)}",
        wording.imported_from(report) and f"imported: {wording.imported_from(report)}",
        wording.steps(report),
        report.run and f"run: {plain(report.run)}",
    ):
        if line:
            console.print(Padding(Text(line), (0, 0, 0, 2)))
    for caution in wording.cautions(report):
        style = "bold yellow" if caution.grave else ""
        _print_note(caution.text, console, mark="!", style=style, said=said)


def _print_metrics(report: RunReport, console: Console, said: set[str]) -> None:
    rows = _metric_rows(report)
    if not rows:
        return
    grid = _grid("Metrics")
    grid.add_column("metric")
    grid.add_column("value", justify="right", no_wrap=True)
    grid.add_column("interval")
    grid.add_column("status", no_wrap=True)
    for name, value, interval, status in rows:
        if status != "missing":
            grid.add_row(Text(brief(name)), Text(value), Text(interval), _status(status))
    print_table(grid, console)
    for reason, names in _unknown(rows).items():
        why = "as above" if reason in said else reason
        said.add(reason)
        _print_note(f"missing: {', '.join(names)}: {why}", console, mark="-")
    _print_note(BYTES_NOTE, console, said=said)


def _metric_rows(report: RunReport) -> list[tuple[str, str, str, str]]:
    """Every figure of the metrics as name, value, interval or why it is missing, and status."""
    metrics = report.metrics
    names = [name for name in wording.HEADLINES if name in metrics]
    names += [name for name in metrics if name not in names]
    rows = [
        row for name in names for row in _figures(wording.metric_of(report, name), metrics[name])
    ]
    by_rail = wording.Metric(label="Energy by rail", meaning="")
    return [*rows, *_figures(by_rail, report.energy_by_rail)]


def _unknown(rows: Sequence[tuple[str, str, str, str]]) -> dict[str, list[str]]:
    """Names of the missing metrics by reason."""
    names: dict[str, list[str]] = {}
    for name, _, reason, status in rows:
        if status == "missing":
            names.setdefault(reason, []).append(brief(name))
    return names


def _figures(known: wording.Metric, thing: Entry) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(thing, Figure):
        yield _metric_row(known.label, show(thing, known.notation))
    elif isinstance(thing, Mapping):
        for key, figure in thing.items():
            name = f"{known.label}: {_key(key)}"
            yield _metric_row(name, show(figure, known.notation))
    elif thing:
        yield _list_row(known.label, [show(figure, known.notation) for figure in thing])


def _key(key: object) -> str:
    """Key of a metric of several figures in words: of memory its category; a name, as of a rail, as it is."""
    name = plain(key)
    if name in CACHE:
        return CACHE[name][0].lower()
    return category(name).label.lower() if name in CATEGORIES else name


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


def _print_planned(report: RunReport, console: Console, said: set[str]) -> None:
    grid = planned_grid(report)
    if grid is not None:
        console.print(grid)


def planned_grid(report: RunReport) -> RichTable | None:
    """What the plan of a run predicted beside what came; None where it followed none."""
    texts = planned_table(report)
    if texts is None:
        return None
    grid = _grid(planned_title(report))
    for heading in texts.headings:
        right = heading in ("predicted", "this run")
        grid.add_column(heading, justify="right" if right else "left", overflow="fold")
    for metric, predicted, came, status, inside in texts.rows:
        grid.add_row(
            Text(brief(metric)),
            Text(predicted, style=STYLES["predicted"]),
            Text(came),
            _status(status),
            Text(inside, style="bold yellow" if inside == "no" else ""),
        )
    return grid


def _print_course(report: RunReport, console: Console, said: set[str]) -> None:
    _print_list("In the course of the run", sentences(report), console, said)


def _print_operations(report: RunReport, console: Console, said: set[str]) -> None:
    top = sorted(report.operations, key=seconds, reverse=True)[:_TOP_OPERATIONS]
    if not top:
        return
    of = wording.operations_of(report)
    name = f"Operations that cost most time, {len(top)} of {len(report.operations)}, {of}"
    texts = {"name": "operation", "layer": "layer", "phase": "phase", "processor": "processor"}
    texts["step_kinds"] = "steps"
    figures = {"time": "time", "share": "share", "energy": "energy"}
    _print_table(name, table([row.to_dict() for row in top], texts, figures), console, said)
    for note in report.operations_notes:
        _print_note(plain(note), console, said=said)


def _print_groups(report: RunReport, console: Console, said: set[str]) -> None:
    energies = report.energy_groups
    if energies:
        name = (
            f"Energy known together only, {min(len(energies), _TOP_OPERATIONS)} of {len(energies)}"
        )
        _print_table(name, groups(energies[:_TOP_OPERATIONS]), console, said)


def _print_unattributed(report: RunReport, console: Console, said: set[str]) -> None:
    rows: list[Row] = [
        {"name": wording.unattributed_name(name, report), **figures}
        for name, figures in report.unattributed.items()
    ]
    if rows:
        shown = costs(rows, name="unattributed")
        _print_table("Unattributed: what no operation covers", shown, console, said)
        if "energy_per_step_with_idle" in report.metrics:
            _print_note(wording.whole_step(report), console)
    rows = [{"name": name, **vars(span)} for name, span in report.outside_steps.items()]
    if rows:
        in_all = {"total": "time in all", "energy": "energy in all"}
        shown = table(rows, {"name": "beside the steps"}, in_all)
        _print_table("Beside the steps, in all", shown, console, said)


def _print_conditions(report: RunReport, console: Console, said: set[str]) -> None:
    lines = [*conditions.sentences(report), *conditions.counted_twice(report)]
    _print_list("Conditions", lines, console, said)
    _print_texts(conditions.stretches(report), console, _MOST_STRETCHES)
    _print_texts(conditions.power_channels(report), console)


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
    print_table(grid, console)
    more = 0 if most is None else len(shown.rows) - most
    if more > 0:
        _print_note(f"and {more:,} more, in the report and in the JSON document", console, "-")


def _print_missing(report: RunReport, console: Console, said: set[str]) -> None:
    """Sensors by the reason why they are not there; what metrics lack stands below these."""
    sensors: dict[str, list[str]] = {}
    for entry in report.missing:
        if entry.what not in report.metrics:
            sensors.setdefault(plain(entry.reason), []).append(plain(entry.what))
    lines = [f"{', '.join(names)}: {reason}" for reason, names in sensors.items()]
    _print_list("Not measured, and why", lines, console, said)


def _print_recording(report: RunReport, console: Console, said: set[str]) -> None:
    if not report.recording:
        return
    grid = _grid("What recording cost")
    grid.add_column("what")
    grid.add_column("value")
    grid.add_column("status", no_wrap=True)
    for name, thing in report.recording.items():
        shown = show(thing) if isinstance(thing, Figure) else None
        value = plain(thing) if shown is None else shown.text
        status = Text("") if shown is None else _status(shown.status)
        grid.add_row(Text(brief(wording.label(name))), Text(value), status)
    print_table(grid, console)


def print_comparison(
    reports: Sequence[RunReport], console: Console, said: set[str] | None = None
) -> None:
    """Prints one table of several runs, and what can be said of them together."""
    said = set() if said is None else said
    sides = wording.side_by_side(reports)
    rows = [
        {"run": title, **metrics}
        for title, metrics in zip(wording.titles(reports), sides, strict=True)
    ]
    figures = {
        name: wording.among(sides[0], name).label.lower() for name in wording.compared(reports)
    }
    _print_table("Comparison", table(rows, {"run": "run"}, figures), console, said)
    for sentence in summary_of_all(reports):
        _print_note(sentence, console, mark="-")


def _print_table(name: str, shown: Table, console: Console, said: set[str]) -> None:
    """Prints a table and its notes, but for reasons why figures are missing that stand above."""
    numeric = [column.numeric for column in shown.columns]
    headings = [_heading(column) for column in shown.columns]
    rows = [
        [_cell(c, cell) for c, cell in zip(shown.columns, row, strict=True)] for row in shown.rows
    ]
    grid = _grid_of(name, numeric, headings, rows)
    if not has_room(grid, console):
        narrowed = partial(_narrowed, numeric)
        grid = _grid_of(
            name, [False, *filter(None, numeric)], narrowed(headings), map(narrowed, rows)
        )
    print_table(grid, console)
    for note in shown.notes:
        if note.partition(" missing: ")[2] not in said:  # of all rows, not of some
            _print_note(note, console, mark="-", said=said)


def _grid_of(
    name: str, numeric: Sequence[bool], headings: Sequence[Text], rows: Iterable[Sequence[Text]]
) -> RichTable:
    grid = _grid(name)
    for is_number, heading in zip(numeric, headings, strict=True):
        justify: Literal["left", "right"] = "right" if is_number else "left"
        grid.add_column(heading, justify=justify, no_wrap=is_number, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _narrowed(numeric: Sequence[bool], row: Sequence[Text]) -> list[Text]:
    """A row whose texts stand below each other in its first cell: layers have long names."""
    first, *more = (cell for cell, is_number in zip(row, numeric, strict=True) if not is_number)
    beside = ", ".join(cell.plain for cell in more if cell.plain)
    figures = [cell for cell, is_number in zip(row, numeric, strict=True) if is_number]
    return [Text.assemble(first, f"\n  {beside}") if beside else first, *figures]


def _heading(column: Column) -> Text:
    if not column.status:
        return Text(brief(column.label))
    return Text.assemble(column.label, "\n", (column.status, STYLES.get(column.status, "")))


def _cell(column: Column, cell: str | Shown | None) -> Text:
    if cell is None or isinstance(cell, str):
        return Text(brief(cell or ""))
    if column.mixed and not cell.missing:
        return Text.assemble(cell.value, "\n", _status(cell.status))
    return Text("missing" if cell.missing else cell.value, style=STYLES.get(cell.status, ""))


def _status(status: str) -> Text:
    return Text(status, style=STYLES.get(status, ""))


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


def _print_list(name: str, lines: Sequence[str], console: Console, said: set[str]) -> None:
    """A title and its notes; those that stand above are counted."""
    new = [line for line in lines if line not in said]
    if lines:
        _print_title(name, console)
    for line in new:
        _print_note(line, console, mark="-", said=said)
    if len(new) < len(lines):
        _print_note(f"{len(lines) - len(new)} as above", console, mark="-")


def _print_note(
    text: str, console: Console, mark: str = "", style: str = "", said: set[str] | None = None
) -> None:
    """A note that keeps its indent where it wraps; one that was said is left out."""
    if said is not None:
        if text in said:
            return
        said.add(text)
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=2, justify="right")
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=style), Text(text, style=style or "dim"))
    console.print(grid)


_PARTS: Mapping[str, Callable[[RunReport, Console, set[str]], None]] = {
    "Head": _print_head,
    "Metrics": _print_metrics,
    "Planned": _print_planned,
    "Course": _print_course,
    "Operations": _print_operations,
    "Groups": _print_groups,
    "Rests": _print_unattributed,
    "Conditions": _print_conditions,
    "Missing": _print_missing,
    "Recording": _print_recording,
}
