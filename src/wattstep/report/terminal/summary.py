"""A run on one screen: its first figures, where a step goes, the best advice, and what mars them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from wattstep.insight.advise.advice import Advice
from wattstep.report import conditions, machines, wording
from wattstep.report.divisions import Division, Part, divisions, named_layers, spoken_layer
from wattstep.report.governed import governor_sentences
from wattstep.report.scheduled import schedule_sentences
from wattstep.report.tables import seconds
from wattstep.report.terminal.explain import saved
from wattstep.report.terminal.folding import keeps_words
from wattstep.report.terminal.run import STYLES, planned_grid
from wattstep.report.values import Shown, brief, plain, show
from wattstep.run import Run
from wattstep.schema.failures import Failures
from wattstep.schema.figure import weakest
from wattstep.schema.metrics import HEADLINES
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport

NOT_KNOWN: Final = "not known"  # the engine of a log
# Busy cores of the machine may be busy with other programs: the training's own stand below them.
_AFTER: Final = {"cpu_utilization": ("cpu_utilization", "process_cpu_cores")}
_FIRST: Final = tuple(
    each for name in HEADLINES if name != "system_peak_memory" for each in _AFTER.get(name, (name,))
)
SCREEN: Final = 40  # lines
BAR: Final = 30  # cells
SMALL: Final = 0.03  # of a whole: at most a cell
WIDEST: Final = 110  # columns that the screen takes
SEGMENTS: Final = "█▓▒░"
PLAIN_SEGMENTS: Final = "#=+."
COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red", "white")
MORE: Final = "more: wattstep explain RUN, wattstep show RUN --full, wattstep report RUN"
INDENT: Final = (0, 0, 0, 2)


def print_summary(
    report: RunReport, console: Console, advice: Sequence[Advice] | None = None, above: int = 0
) -> None:
    """Prints a run on one screen.

    Args:
        report: Of the run.
        console: Where to print.
        advice: The best first; None: there can be none.
        above: Lines of the screen that are taken already.
    """
    failures = Failures()
    width = min(console.width, WIDEST) if console.is_terminal else console.width
    options = console.options.update(width=width)
    for room in _ROOMS:  # the first that fits, else the last
        failures = Failures()
        parts = list(_parts(report, console, advice, room, failures))
        lines = (len(console.render_lines(part, options)) for part in (*parts, Text(MORE)))
        if above + sum(lines) < SCREEN:  # where the run lies takes one
            break
    for part in parts:
        console.print(part, width=width)
    if report.run:
        console.print(Text(f"run: {plain(report.run)}"), soft_wrap=True)
        console.print(Text(MORE, style="dim"))


def _merged(bars: Sequence[Division]) -> list[tuple[str, Sequence[Part], str]]:
    """Title, parts and status of each bar; time and energy that divide alike are one."""
    merged: list[tuple[str, Sequence[Part], str]] = []
    for bar in bars:
        title, parts, status = merged[-1] if merged else ("", (), "")
        shares = [
            [(part.name, round(100 * part.share)) for part in each] for each in (parts, bar.parts)
        ]
        if shares[0] == shares[1] and title.startswith("time by"):
            alike = f"time and\n{bar.title}"
            merged[-1] = (
                alike,
                parts,
                status if status == bar.status else f"{status},\n{bar.status}",
            )
        else:
            merged.append((bar.title, bar.parts, bar.status))
    return merged


@dataclass(frozen=True, kw_only=True)
class _Room:
    """How much of what can be many stands on the screen.

    Attributes:
        operations: Costliest operations.
        cautions: Cautions, beside the number of the others.
        bars: Bars of a step.
        figures: Figures; the first ones.
    """

    operations: int = 3
    cautions: int = 5
    bars: int = 9
    figures: int = 99


_ROOMS: Final = (
    _Room(),
    _Room(cautions=3),
    _Room(cautions=3, operations=2),
    _Room(cautions=2, operations=2, bars=2),
    _Room(cautions=2, operations=1, bars=2),
    _Room(cautions=1, operations=1, bars=1),
    _Room(cautions=1, operations=1, bars=1, figures=9),
    _Room(cautions=1, operations=1, bars=0, figures=7),
)


def _parts(
    report: RunReport,
    console: Console,
    advice: Sequence[Advice] | None,
    room: _Room,
    failures: Failures,
) -> Iterator[RenderableType]:
    """Parts of the screen, but for its end, each with what parts it from the next."""
    for part in (_head, _figures, _planned, _governed, _scheduled, _bars, _rails, _costliest):
        name = part.__name__.strip("_")
        made = failures.guard(name, partial(part, report, console, room), None)
        if made is not None:
            yield Padding(made, (0, 0, 1, 0))
    if advice is not None:
        yield _advised(advice)
    for line in (
        *_cautions(report, room.cautions),
        *(f"{each.part}: failed inside: {each.reason}" for each in failures),
    ):
        yield _marked("!", plain(line))


def text(run: Run) -> str:
    """A run on one screen as plain text, 100 columns wide."""
    from wattstep.insight.advise.section import ranked

    stream = StringIO()
    print_summary(run.report(), Console(file=stream, width=100), ranked(run))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def _head(report: RunReport, console: Console, room: _Room) -> Group:
    _, *how = wording.setting(report) if report.engine else ("", *wording.setting(report))
    batch = plain(f"batch {report.batch_size}")
    title = " · ".join([wording.title(report), *(word for word in how if word != batch)])
    where = [
        machines.short(report.device),
        machines.virtuality(report.device),
        "" if report.engine == NOT_KNOWN else plain(report.engine),
    ]
    where += [wording.imported_from(report), _steps(report)]
    lines = [Text(title, style="bold"), Text(" · ".join(filter(None, where)), style="dim")]
    return Group(*lines)


def _steps(report: RunReport) -> str:
    """How many steps of which kind; kinds that there are none of are left out."""
    counts = report.steps.to_dict()
    recorded = counts.pop("recorded", None)
    if not recorded:
        return wording.steps(report)
    excluded = () if report.conditions is None else report.conditions.excluded
    kinds = {kind: f"{count:,} {plain(kind)}" for kind, count in counts.items() if count}
    marred = {kind: kinds.pop(kind) for kind in ("disturbed", "throttled") if kind in kinds}
    for whose, out in (("clean", False), ("left out", True)):  # of these, not beside them
        words = [text for kind, text in marred.items() if (kind in excluded) is out]
        if words and whose in kinds:
            kinds[whose] += f" ({', '.join(words)})"
    return f"{recorded:,} step{'' if recorded == 1 else 's'}: {', '.join(kinds.values())}"


def _figures(report: RunReport, console: Console, room: _Room) -> Grid | None:
    """Name, value with interval and status; the reason of a missing figure takes all that is left."""
    rows = list(_rows(report))[: room.figures]
    if not rows:
        return None
    values = [
        Text() if shown.missing else Text.assemble(
            (shown.value, "bold"), f"  {shown.interval}" if shown.interval else ""
        )
        for _, shown in rows
    ]  # fmt: skip
    widest = max(value.cell_len for value in values)
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for (label, shown), value in zip(rows, values, strict=True):
        if shown.missing:
            value = Text(f"— {shown.reason}", style="dim")
        else:
            value.append(" " * (widest - value.cell_len + 2))
            value.append(shown.status, style=STYLES.get(shown.status, "dim"))
        grid.add_row(label, value)
    return grid


def _rows(report: RunReport) -> Iterator[tuple[str, Shown]]:
    """The first figures; of missing ones those that are always asked for, one a reason."""
    reasons: set[str] = set()
    always = wording.always_asked(report)
    for name, metric, shown in wording.headlines(report, _FIRST):
        if shown.missing and (name not in always or shown.reason in reasons):
            continue
        reasons.add(shown.reason if shown.missing else "")
        yield metric.label, shown


def _governed(report: RunReport, console: Console, room: _Room) -> Group | None:
    """What a governor of the clocks decided."""
    lines = [Text(text) for text in governor_sentences(report)]
    return Group(*lines) if lines else None


def _scheduled(report: RunReport, console: Console, room: _Room) -> Group | None:
    """By which plan operations ran."""
    lines = [Text(text) for text in schedule_sentences(report)]
    return Group(*lines) if lines else None


def _planned(report: RunReport, console: Console, room: _Room) -> Grid | None:
    return planned_grid(report)


def _bars(report: RunReport, console: Console, room: _Room) -> Grid | None:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(no_wrap=True)
    bars = _merged(divisions(report))[: room.bars]
    texts = ([title for title, _, _ in bars], [status for _, _, status in bars])
    beside = [  # a column and what parts it
        max((cell_len(line) for text in column for line in text.split("\n")), default=0) + 2
        for column in texts
    ]
    for title, parts, status in bars:
        shown = _bar(_foldable(parts), console, min(console.width, WIDEST) - sum(beside))
        grid.add_row(title, shown, Text(status, style=STYLES.get(status, "dim")))
    return grid if grid.rows else None


def _rails(report: RunReport, console: Console, room: _Room) -> Group | None:
    """What each rail feeds and what the idle device takes, where the sum of the rails misleads."""
    rails = conditions.rails(report)
    if rails is None:
        return None
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(overflow="fold")
    for name, figure, role in rails.roles:
        grid.add_row(brief(name), show(figure).value, role)
    lines = [Text(line) for line in (rails.sum, rails.idle) if line]
    return Group(grid, *lines)


def _foldable(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, those that a bar hardly shows as one: a result is one screen."""
    large = [part for part in parts if part.share >= SMALL]
    small = sum(part.share for part in parts if part.share < SMALL)
    return parts if len(parts) - len(large) < 2 else [*large, Part("others", small)]


def _bar(parts: Sequence[Part], console: Console, room: int) -> Text:
    """A bar and below it what its segments are, in lines of so many columns.

    A part that rounds to nothing has no segment, and no name either.
    """
    glyphs = SEGMENTS if "utf" in console.encoding else PLAIN_SEGMENTS
    text, end, reached = Text(), 0.0, 0
    for n, part in enumerate(parts):
        end += part.share
        cells = round(end * BAR) - reached
        reached += cells
        text.append(glyphs[n % len(glyphs)] * cells, style=COLOURS[n % len(COLOURS)])
    left = 0
    for n, part in enumerate(parts):
        words = f" {brief(part.name)} {100 * part.share:.0f} %"
        if words.endswith(" 0 %"):
            continue
        # Rich would part the sign from its name.
        ahead = "  " if len(words) + 3 <= left else "\n"
        left = (left if ahead == "  " else room + 2) - len(words) - 3
        text.append(ahead)
        text.append(glyphs[n % len(glyphs)], style=COLOURS[n % len(COLOURS)])
        text.append(words)
    return text


def _costliest(report: RunReport, console: Console, room: _Room) -> Grid | None:
    rows = sorted(report.operations, key=seconds, reverse=True)[: room.operations]
    layers = sorted(named_layers(report), key=_costs, reverse=True)[:1]
    if not rows:
        return None
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for _ in ("time", "share", "energy"):
        grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    narrow = Grid.grid(padding=(0, 2, 0, 0))  # figures below the names, where these would be cut
    narrow.add_column(no_wrap=True)
    narrow.add_column(overflow="fold")
    cells_of_rows: list[list[str]] = []
    labels = ["top layer"] * len(layers) + ["costliest"] + [""] * len(rows)
    for label, row in zip(labels, (*layers, *rows), strict=False):
        place = ", ".join(
            brief(part)
            for part in (spoken_layer(row.layer), row.phase)
            if part and not part.startswith("(")
        )
        name = f"{brief(row.name)} ({place})" if row.name and place else brief(row.name) or place
        figures = [row.figures.figure(key) for key in ("time", "share", "energy")]
        known = [figure for figure in figures if figure is not None and not figure.missing]
        shown = [show(figure) for figure in known]
        cells = [each.value for each in shown] + [""] * (3 - len(shown))
        status = weakest(figure.status for figure in known).value if known else ""
        cells_of_rows.append([label, name, *cells, status])
        state = Text(status, style=STYLES.get(status, "dim"))
        grid.add_row(label, name, *cells, state)
        beside = Text("  ").join([*(Text(cell) for cell in cells if cell), state])
        narrow.add_row(label, Text.assemble(name, "\n  ", beside))
    return grid if keeps_words(cells_of_rows, 1, console, gap=2) else narrow


def _costs(row: CostRow) -> tuple[float, float]:
    """Energy and time of a row: where energy is not known of any, time alone ranks."""
    energy = row.figures.figure("energy")
    return (energy.value or 0.0) if energy is not None else 0.0, seconds(row)


def _advised(advice: Sequence[Advice]) -> Group:
    if not advice:
        return Group(_marked(">", "no advice: no condition of any holds here"))
    best = advice[0]
    more = f" ({len(advice) - 1} more: wattstep explain RUN)" if len(advice) > 1 else ""
    return Group(
        _marked(">", f"{plain(best.title)}: {saved(best.gain)}{more}"),
        Padding(Text(plain(best.how), style="dim"), INDENT),
    )


def _cautions(report: RunReport, most: int) -> list[str]:
    """What mars the figures, the gravest first, and how many more there are.

    A note that stands as the reason of a missing figure is not repeated.
    """
    reasons = [wording.begun(clause) for _, shown in _rows(report) if shown.missing
               for clause in (shown.reason, shown.reason.partition("; ")[2])]  # fmt: skip
    known = [one for one in wording.cautions(report) if not one.slight and one.text not in reasons]
    ranked = sorted(known, key=lambda one: not one.grave)
    lines = list(dict.fromkeys(one.text for one in ranked))
    more = len(lines) - most
    return [
        *lines[:most],
        *([f"{more} more: wattstep show RUN --full"] if more > 0 else []),
    ]


def _marked(mark: str, text: str) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(mark, Text(text) if isinstance(text, str) else text)
    return grid
