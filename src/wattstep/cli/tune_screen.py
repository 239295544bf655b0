"""What a tune found, on a terminal: one screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.report.values import show
from wattstep.schema.figure import Figure
from wattstep.tune.tuning import TuneReport
from wattstep.tune.verdict import Measured

INDENT = (0, 0, 0, 2)


def print_tune(report: TuneReport, console: Console, *, snippet: bool = False) -> None:
    """Prints the verdict, the front, what was refused and not turned, and how to use the settings.

    Args:
        report: The tune.
        console: Where to print.
        snippet: Whether lines for a script are printed, too.
    """
    tuned = report.tuned
    of = report.name if report.batch_size is None else f"{report.name}, batch {report.batch_size}"
    console.print()
    console.print(Text(f"{of}, tuned for {tuned.goal} in {tuned.steps:,} steps", style="bold"))
    console.print(Padding(Text(verdict(report)), INDENT))
    console.print()
    console.print(Padding(_table(report), INDENT))
    for line in _lines(report):
        console.print(Padding(Text(f"- {line}"), INDENT))
    console.print()
    console.print(Padding(Text(report.command), INDENT))
    if snippet:
        console.print()
        console.print(Text(report.snippet), soft_wrap=True)


def verdict(report: TuneReport) -> str:
    """Sentence that says what to do."""
    chosen = report.tuned.chosen
    if chosen is None:
        return "Keep the default: nothing is better beyond doubt."
    return (
        f"{chosen.candidate.text[0].upper()}{chosen.candidate.text[1:]}: {_ratio(chosen.ratio)} times the default's "
        f"{report.tuned.goal} a step, {chosen.ratio.status.value} in {chosen.ratio.n} rounds of fresh processes in turns."
    )


def _table(report: TuneReport) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("settings")
    for name in ("time a step", "energy", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("beside the default", justify="right", no_wrap=True)
    table.add_column("front", no_wrap=True)
    front = report.front
    for each in report.tuned.measured:
        table.add_row(*_row(each, report), "beaten by none" if each in front else "")
    return table


def _row(each: Measured, report: TuneReport) -> Iterator[str]:
    yield each.candidate.text
    for figure in (each.step_time, each.energy, each.memory):
        yield "–" if figure.missing else show(figure).text
    if not each.candidate.changes:
        yield "1"
    else:
        yield "–" if each.ratio.missing else f"{_ratio(each.ratio)} times"


def _ratio(ratio: Figure) -> str:
    low, high = ratio.low or 0.0, ratio.high
    return f"{float(ratio):.3f} ({low:.3f} to {'?' if high is None else f'{high:.3f}'})"


def _lines(report: TuneReport) -> Iterator[str]:
    tuned = report.tuned
    if tuned.uncompared:
        free = "; ".join(each.text for each in tuned.uncompared)
        yield f"losses not compared with the default's, as --allow permits others: {free}"
    if tuned.compared:
        those = "the others" if tuned.uncompared else "what is"
        low = any("precision" in dict(each.candidate.changes) for each in tuned.measured)
        yield (
            f"losses of the first {tuned.compared} steps of {those} measured above are the default's"
            f"{' in the same precision' if low else ''}, within what rounding does"
        )
    for each in tuned.measured:
        yield from _begin(each)
    yield from report.notes
    for why, names in _by_reason((each.text, why) for each, why in tuned.refused.items()):
        yield f"refused: {names}: {why}"
    for why, names in _by_reason(report.left_out.items()):
        yield f"not turned: {names.replace('_', ' ')}: {why}"


def _by_reason(reasons: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each reason once, with the names of all that have it."""
    names: dict[str, list[str]] = {}
    for name, why in reasons:
        names.setdefault(why, []).append(name)
    for why, those in names.items():
        yield why, "; ".join(those)


def _begin(each: Measured) -> Iterator[str]:
    """What a candidate takes once, and after how many steps its gain has earned that."""
    begin, earned = each.begin, each.earned
    if begin.value is None or (begin.low or 0.0) <= 0:
        return
    words = f"{each.candidate.text}: {show(begin).text} longer until its first steps are made"
    if earned.value is None:
        yield f"{words}; never earned back: {earned.reason}"
        return
    yield f"{words}, earned back after {earned.value:,.0f} steps ({earned.low:,.0f} to {earned.high:,.0f})"
