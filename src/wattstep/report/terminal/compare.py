"""A comparison on a terminal: the answer first, then the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.insight.compare.answer import signed_change, signed_percent
from wattstep.insight.compare.comparing import Comparison
from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.gate import Gate
from wattstep.insight.compare.matrix import Cell, Matrix
from wattstep.insight.compare.metrics import Verdict
from wattstep.insight.compare.operations import ComparedOperations
from wattstep.insight.compare.sides import Side
from wattstep.report.terminal.folding import print_table
from wattstep.report.values import NO_VALUE, brief, plain, show
from wattstep.report.wording import metric
from wattstep.schema.figure import Figure, Status

INDENT = (0, 0, 0, 2)
MOST_ROWS = 12
MOST_PAIRS = 40
CELL = 17  # columns of a terminal that a cell of a matrix needs
_SHOWN: dict[Verdict, str] = {
    "lower": "less",
    "higher": "more",
    "differs here": "differs here",
    "not shown": "not shown",
    "not compared": "not compared",
}
_STYLES = {"regression": "red", "cannot exclude": "yellow", "no regression": "green"}


def print_comparison(comparison: Comparison, console: Console, full: bool = False) -> None:
    """Prints two sides: the answer in words, what mars it, and the metrics.

    Args:
        comparison: Of two sides.
        console: Where to print.
        full: The operations and the canary as well.
    """
    _print_sides(comparison.sides, console)
    console.print()
    for sentence in comparison.sentences:
        console.print(Text(plain(sentence)))
    _print_warnings(comparison.warnings, console)
    _print_metrics(comparison, console)
    if full:
        _print_operations(comparison.operations, console)
        _print_drift(comparison.drift, console)


def print_matrix(matrix: Matrix, console: Console) -> None:
    """Prints every pair of sides, as a table where the terminal is wide enough, else as a list."""
    name = metric(matrix.metric).label
    grid = _grid(name)
    for heading in ("", "runs", name.lower()):
        grid.add_column(heading, justify="left" if heading == "" else "right", overflow="fold")
    for side in matrix.sides:
        shown = show(matrix.figures[side.letter])
        value = shown.text if not shown.missing else NO_VALUE
        grid.add_row(Text(brief(side.name)), str(len(side.paths)), Text(value))
    print_table(grid, console)
    if len(matrix.sides) * CELL + 6 <= console.width:
        _print_square(matrix, console)
    else:
        _print_pairs(matrix, console)
    console.print(
        Text(
            "* differs: at most 5 % of all pairs so marked by false discovery. ( ) one run of each: "
            "how runs differ is not in the interval, nothing is marked.",
            style="dim",
        )
    )
    for reason in matrix.not_compared:
        console.print(Text(f"{NO_VALUE} {plain(reason)}", style="dim"))
    _print_warnings(matrix.warnings, console)


def print_gate(gate: Gate, console: Console) -> None:
    """Prints one line a metric, what mars the verdict, and last the verdict itself."""
    _print_sides(gate.sides, console)
    for gated in gate.metrics.values():
        console.print(
            Text(plain(gated.line), style=_STYLES.get(gated.outcome, "dim")), soft_wrap=True
        )
    _print_drift(gate.drift, console)
    for sentence in gate.drift.sentences:
        console.print(Padding(Text(plain(sentence)), INDENT))
    _print_warnings(gate.warnings, console)
    style = "bold red" if gate.exit_code else "bold green"
    console.print(Text(f"\n{plain(gate.verdict)}", style=style), soft_wrap=True)


# --- parts --------------------------------------------------------------------------------------


def _grid(title: str) -> Table:
    return Table(
        title=Text(f"\n{plain(title)}"), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False,
    )  # fmt: skip


def _print_sides(sides: Sequence[Side], console: Console) -> None:
    for side in sides:
        runs = ", ".join(brief(path.name) for path in side.paths[:6])
        more = f" and {len(side.paths) - 6} more" if len(side.paths) > 6 else ""
        count = len(side.paths)
        line = Text(brief(side.name), style="bold")
        line.append(f": {count} run{'s' if count > 1 else ''}: {plain(runs)}{more}", style="dim")
        console.print(line)


def _print_warnings(warnings: Sequence[str], console: Console) -> None:
    for warning in warnings:
        console.print(Padding(Text(f"! {plain(warning)}", style="yellow"), INDENT))


def _print_metrics(comparison: Comparison, console: Console) -> None:
    grid = _grid("Metrics")
    for heading in ("", "A", "B", "B against A", "shown"):
        plainly = heading in ("", "shown")
        grid.add_column(
            heading, justify="left" if plainly else "right", no_wrap=heading == "B against A"
        )
    reasons: dict[str, list[str]] = {}
    for name, compared in comparison.metrics.items():
        values = [_value(figure) for figure in (compared.a, compared.b)]
        verdict = _SHOWN[compared.verdict]
        grid.add_row(Text(metric(name).label), *values, _change(compared.ratio), Text(verdict))
        if compared.ratio.missing and compared.ratio.reason:
            reasons.setdefault(compared.ratio.reason, []).append(metric(name).label)
    print_table(grid, console)
    sides = (
        (metric(name).label, figure)
        for name, compared in comparison.metrics.items()
        for figure in (compared.a, compared.b)
    )
    _print_statuses(sides, console)
    answers = " ".join(comparison.sentences)
    for reason, names in reasons.items():
        if reason not in answers:
            words = plain(f"not compared: {', '.join(names)}: {reason}")
            console.print(Padding(Text(words, style="dim"), INDENT))


def _print_operations(operations: ComparedOperations, console: Console) -> None:
    if operations.reason is not None:
        return
    if operations.rows:
        _print_rows(operations, console)
    for letter, alone in (("A", operations.only_a), ("B", operations.only_b)):
        if alone:
            names = ", ".join(
                brief(f"{one.key['name']} in {one.key['layer']}") for one in alone[:4]
            )
            more = f" and {len(alone) - 4} more" if len(alone) > 4 else ""
            console.print(Padding(Text(f"only in {letter}: {plain(names)}{more}"), INDENT))


def _print_rows(operations: ComparedOperations, console: Console) -> None:
    rows = operations.differing("time")
    title = "Operations that differ in time, the largest difference first"
    if not rows:
        title = "No operation differs; those with the largest difference of time"
    grid = _grid(title)
    for heading in ("operation", "A", "B", "B against A", "energy"):
        grid.add_column(
            heading, justify="left" if heading == "operation" else "right", overflow="fold",
            no_wrap=heading != "operation",
        )  # fmt: skip
    for row in (rows or operations.rows)[:MOST_ROWS]:
        time, energy = row.quantities["time"], row.quantities["energy"]
        name = f"{row.key['name']}, {row.key['phase']}, {row.key['layer']}"
        name += f" (other work: {row.work})" * bool(row.work)
        grid.add_row(
            Text(brief(name)), _value(time.a), _value(time.b), _change(time.ratio),
            _change(energy.ratio, brief=True),
        )  # fmt: skip
    print_table(grid, console)
    of_rows = (("time", row.quantities["time"].a) for row in operations.rows)
    _print_statuses(of_rows, console)
    left = len(rows or operations.rows) - MOST_ROWS
    if left > 0:
        console.print(Padding(Text(f"and {left} more; --json has them all", style="dim"), INDENT))


def _print_drift(drift: Drift, console: Console) -> None:
    if drift.reason is not None:
        text = f"Whether the machine changed is not known: {drift.reason}."
    else:
        parts = [f"{name} {_change(figure)}" for name, figure in drift.parts.items()]
        text = f"Canary, B against A: {', '.join(parts)}."
    console.print(Text(f"\n{plain(text)}", style="dim"))


def _print_statuses(named: Iterable[tuple[str, Figure]], console: Console) -> None:
    """A line for each status of figures that no sensor gave while a training ran."""
    statuses: dict[str, dict[str, None]] = {}
    for name, figure in named:
        if figure.status in (Status.REPLAYED, Status.MODELLED, Status.PREDICTED):
            statuses.setdefault(figure.status.value, {})[name] = None
    for status, names in statuses.items():
        console.print(Padding(Text(f"{status}: {', '.join(names)}", style="dim"), INDENT))


def _value(figure: Figure) -> Text:
    shown = show(figure)
    return Text(NO_VALUE if shown.missing else shown.value)


def _change(ratio: Figure, *, brief: bool = False) -> Text:
    """A ratio as a change with its interval: "-13 % (-15 to -12)"."""
    return Text(signed_change(ratio, brief=brief) or NO_VALUE)


# --- matrices -----------------------------------------------------------------------------------


def _print_square(matrix: Matrix, console: Console) -> None:
    grid = _grid("Each row against each column")
    grid.add_column("")
    for side in matrix.sides:
        grid.add_column(side.letter, justify="right", no_wrap=True)
    cells = {(cell.a, cell.b): cell for cell in matrix.cells}
    for row in matrix.sides:
        texts = []
        for column in matrix.sides:
            if (cell := cells.get((column.letter, row.letter))) is not None:
                texts.append(_cell(cell, inverse=False))
            elif (cell := cells.get((row.letter, column.letter))) is not None:
                texts.append(_cell(cell, inverse=True))
            else:
                texts.append(Text(""))
        grid.add_row(row.letter, *texts)
    print_table(grid, console)


def _print_pairs(matrix: Matrix, console: Console) -> None:
    grid = _grid("Each pair")
    for heading in ("", "against", "change"):
        grid.add_column(heading, justify="right" if heading == "change" else "left")
    for cell in matrix.cells[:MOST_PAIRS]:
        grid.add_row(cell.b, cell.a, _cell(cell, inverse=False))
    print_table(grid, console)
    left = len(matrix.cells) - MOST_PAIRS
    if left > 0:
        console.print(Padding(Text(f"and {left} more; --json has them all", style="dim"), INDENT))


def _cell(cell: Cell, *, inverse: bool) -> Text:
    if cell.compared is None or cell.compared.ratio.value is None:
        return Text(NO_VALUE)
    ratio = cell.compared.ratio
    ends = [ratio.low, ratio.high]
    if inverse:
        ends = [1 / end if end else None for end in reversed(ends)]
    if ends[0] is None or ends[1] is None:
        value = ratio.value or 1.0
        return Text(f"({signed_percent(1 / value if inverse else value)})")
    low, high = (signed_percent(end).removesuffix(" %") for end in ends if end is not None)
    text = f"{low} to {high}{'' if '×' in high else ' %'}"
    if cell.compared.plan is None:
        return Text(f"({text})", style="dim")
    differs = cell.verdict in ("lower", "higher")
    return Text(f"{text}{'*' if differs else ' '}", style="bold" if differs else "")
