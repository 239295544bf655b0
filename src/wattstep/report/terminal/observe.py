"""The twelve observations on a terminal: what can be told here in a few lines; on request each with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.insight.observe.deciding import UNDECIDED, UNTESTABLE
from wattstep.insight.observe.evidence import Evidence
from wattstep.insight.observe.groups import settings_by_letter
from wattstep.insight.observe.observation import PAPER, Column, Judged, Observation, Published
from wattstep.report.terminal.folding import print_table
from wattstep.report.values import brief, plain, quantity, show
from wattstep.schema.figure import Figure, Status
from wattstep.schema.spelling import rounded

INDENT = (0, 0, 0, 6)
MOST_CASES = 12
MARKS = {
    "holds": ("✓", "green"),
    "does not hold": ("✗", "red"),
    "undecided": ("?", "yellow"),
    UNTESTABLE: ("·", "dim"),
}
ONE_PROCESS = "by one process: weaker"


def print_observations(
    observations: Sequence[Observation], evidence: Evidence, console: Console, full: bool = False
) -> None:
    """Prints what can be told of these runs, and in one line what cannot.

    Args:
        observations: As they were judged.
        evidence: What they were judged by.
        console: Where to print.
        full: Each with its numbers, its rule, and the paper's figures.
    """
    console.print(Text(_heading(observations, evidence), style="bold"))
    for letter, words in settings_by_letter(evidence.runs).items():
        console.print(Padding(Text(plain(f"[{letter}] {words}"), style="dim"), (0, 0, 0, 1)))
    if full:
        for each in _told_once(observations):
            _print(each, console)
        console.print()
        console.print(Text(f"Paper: {PAPER}. --json has every case, figure and run.", style="dim"))
        return
    tested = [each for each in observations if each.verdict != UNTESTABLE]
    untested = [str(each.about.number) for each in observations if each.verdict == UNTESTABLE]
    if tested:
        console.print(Padding(_overview(tested), (1, 0)))
    if _all_weak(tested):
        console.print("each rests on one process: weaker", highlight=False)
    # Said once, whatever number of observations it is true of.
    for advice in dict.fromkeys(each.advice for each in tested if each.advice):
        console.print(Text(f"more runs: {plain(advice)}"))
    if untested:
        console.print(f"{UNTESTABLE}: {', '.join(untested)}", highlight=False)
    console.print(
        Text(f"numbers, rules and reasons: --full, --only N (Paper: {PAPER})", style="dim")
    )


def _told_once(observations: Sequence[Observation]) -> Iterator[Observation]:
    """The observations; what was said of an earlier one refers to that."""
    first: dict[str, int] = {}

    def once(texts: Sequence[str], number: int) -> tuple[str, ...]:
        places = {text: first.setdefault(text, number) for text in texts}
        as_before = (place for place in places.values() if place != number)
        new = (text for text, place in places.items() if place == number)
        return (*new, *(f"As for observation {place}." for place in dict.fromkeys(as_before)))

    for each in observations:
        number = each.about.number
        yield replace(
            each,
            sentences=once(each.sentences, number),
            notes=once(each.notes, number),
            advice="".join(once([each.advice], number)) if each.advice else each.advice,
        )


def _heading(observations: Sequence[Observation], evidence: Evidence) -> str:
    counts = Counter(each.verdict for each in observations)
    words = [
        _counted(counts["holds"], "holds", "hold"),
        _counted(counts["does not hold"], "does not hold", "do not hold"),
        _counted(counts["undecided"], "is undecided", "are undecided"),
        _counted(counts[UNTESTABLE], UNTESTABLE, UNTESTABLE),
    ]
    what = [_things(len(evidence.runs), "run")]
    what += [_things(len(evidence.daily), "daily training")] if evidence.daily else []
    what += [_things(len(evidence.attempts), "outcome of sweeps")] if evidence.attempts else []
    heading = "; ".join(word for word in words if word)
    return f"{_things(len(observations), 'observation')} on {', '.join(what)}: {heading}"


def _things(count: int, noun: str) -> str:
    head, _, tail = noun.partition(" of ")
    plural = f"{head}s of {tail}" if tail else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}" if count else ""


def _all_weak(observations: Sequence[Observation]) -> bool:
    return len(observations) > 1 and all(each.weak for each in observations)


def _overview(observations: Sequence[Observation]) -> Table:
    """Each with its verdict and what it rests on."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    all_weak = _all_weak(observations)
    for each in observations:
        mark, style = MARKS[each.verdict]
        words = Text(plain(each.about.title), style="bold")
        # That it is undecided is the beginning of the sentence below.
        words.append("" if each.verdict == UNDECIDED else f": {each.verdict}", style=style)
        asides = [f"on {each.marked}"] * bool(each.marked)
        asides += [ONE_PROCESS] * (each.weak and not all_weak)
        words.append(f" ({'; '.join(asides)})" if asides else "", style="dim")
        words.append("".join(f"\n{plain(one)}" for one in each.sentences[:1]))
        table.add_row(str(each.about.number), Text(mark, style=style), words)
    return table


def _print(observation: Observation, console: Console) -> None:
    mark, style = MARKS[observation.verdict]
    console.print()
    head = Text(f"{observation.about.number:>2}  ")
    head.append(f"{mark} ", style=f"bold {style}")
    head.append(plain(observation.about.title), style="bold")
    verdict = Text(observation.verdict, style=f"bold {style}")
    if observation.marked:
        verdict.append(f", on {observation.marked}", style=style)
    if observation.weak:
        verdict.append(f", {ONE_PROCESS}", style=style)
    below = head.cell_len + 2 + verdict.cell_len > console.width
    head.append("\n      " if below else "  ")
    console.print(head + verdict)
    for sentence in observation.sentences:
        console.print(Padding(Text(plain(sentence)), INDENT))
    tested = [each for each in observation.cases if each.verdict != UNTESTABLE]
    if tested:
        console.print()
        print_table(_cases(observation, tested), console, indent=6)
        if len(tested) > MOST_CASES:
            left = f"and {len(tested) - MOST_CASES} more; --json has them all"
            console.print(Padding(Text(left, style="dim"), INDENT))
    console.print(Padding(_small_print(observation, bool(tested)), INDENT))


def _cases(observation: Observation, tested: Sequence[Judged]) -> Table:
    """A row a case, those against the observation first."""
    order = {"does not hold": 0, "undecided": 1, "holds": 2}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("", overflow="fold")
    columns = [column for column in observation.about.columns if _anywhere(tested, column)]
    batches = any(each.case.batches and "batch" not in each.case.label for each in tested)
    if batches:
        table.add_column("batch", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, justify="right", overflow="fold")
    table.add_column("", no_wrap=True)
    shown = sorted(tested, key=lambda each: order.get(each.verdict, 3))[:MOST_CASES]
    for each in shown:
        mark, style = MARKS[each.verdict]
        cells = [Text(brief(each.case.batches))] if batches else []
        cells += [_cell(each, column) for column in columns]
        table.add_row(Text(brief(each.case.label)), *cells, Text(mark, style=style))
    return table


def _anywhere(tested: Sequence[Judged], column: Column) -> bool:
    return any(_figure(each, column) is not None for each in tested)


def _figure(judged: Judged, column: Column) -> Figure | None:
    """The figure of that name, or of a part whose name begins with it."""
    figures: Mapping[str, Figure] = judged.figures()
    figure = figures.get(column.key)
    if figure is None:
        own = [name for name in figures if name.startswith(f"{column.key}_")]
        figure = figures[own[0]] if own else None
    return None if figure is None or figure.missing else figure


def _cell(judged: Judged, column: Column) -> Text:
    figure = _figure(judged, column)
    if figure is None:
        return Text("—", style="dim")
    if f"{column.key}_steady" in judged.figures():
        return Text(f"steady, ±{_small_percent(figure.value or 0.0)}")
    value, interval = written(figure, column.notation)
    text = Text(value)
    if interval:
        text.append(f"\n{interval}", style="dim")
    return text


def written(figure: Figure, notation: str) -> tuple[str, str]:
    """A figure and its interval as text; differences of ratios in points, with their sign."""
    if notation == "points" and figure.value is not None:
        value = f"{100 * figure.value:+.1f} pt"
        if figure.low is None or figure.high is None:
            return value, ""
        return value, f"{100 * figure.low:+.1f} to {100 * figure.high:+.1f}"
    if figure.unit == "1" and notation == "unit" and figure.value is not None:
        mark = "≈ " if figure.status is Status.MODELLED else ""
        ends = [] if figure.low is None or figure.high is None else [figure.low, figure.high]
        return f"{mark}{_two(figure.value)}", " to ".join(_two(end) for end in ends)
    shown = show(figure, "times" if notation == "times" else "unit")
    return shown.value, shown.interval


def _two(value: float) -> str:
    """Two decimals, without a sign before nothing."""
    return f"{value:.2f}".replace("-0.00", "0.00")


def _small_percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value >= 0.001 else "0.1 % at most"


def _small_print(observation: Observation, tested: bool) -> Group:
    """The paper's own numbers, how it is decided, what the reader must know."""
    lines: list[Any] = []
    if observation.about.published:
        lines.append(
            _line("Paper", "; ".join(_published(each) for each in observation.about.published))
        )
    if tested:
        statistics = [_statistic(name, figure) for name, figure in observation.figures.items()]
        if statistics:
            lines.append(_line("Statistic", "; ".join(statistics)))
        lines.append(_line("Decided", observation.about.criterion))
    for note in observation.notes[:MOST_CASES]:
        lines.append(_line("Note", note))
    if observation.advice:
        lines.append(_line("More runs", observation.advice))
    return Group(*lines)


def _line(name: str, text: str) -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column()
    grid.add_row(Text(name, style="dim"), Text(plain(text), style="dim"))
    return grid


def _statistic(name: str, figure: Figure) -> str:
    shown = show(figure, "unit")
    return f"{figure.method or name}: {shown.text}"


def _published(each: Published) -> str:
    ends = [each.value] if each.high is None else [each.value, each.high]
    return f"{each.what}: {' to '.join(_number(end, each) for end in ends)}"


def _number(value: float, each: Published) -> str:
    if each.notation == "points":
        return f"{100 * value:.1f} points"
    if each.notation == "times":
        return f"{rounded(value)} ×"
    return f"{value:.2f}" if each.unit == "1" else quantity(value, each.unit)
