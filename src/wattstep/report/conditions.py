"""Under which conditions a run was made, and what its power sensors can carry: sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wattstep.report.governed import governor_sentences
from wattstep.report.scheduled import schedule_sentences
from wattstep.report.values import NO_VALUE, plain, quantity, show
from wattstep.report.wording import RECORDING, figures_of, in_words, left_out
from wattstep.schema.figure import Figure
from wattstep.schema.report_rows import ConditionStretch, SampledChannel
from wattstep.schema.run_report import RunReport

_POWER = ("power_total", "power_part", "power_outside", "energy_total", "energy_part")
_MOST_WATCHED = 4
_SEVERAL = 2  # rails that make the total; a lone one may contain all others


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of texts: headings, and as many cells in each row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sentences(report: RunReport) -> list[str]:
    """Caveats of the conditions, one sentence each."""
    parts = (_clocks(report), _states(report), _idle(report), _energy(report))
    told = governor_sentences(report) + schedule_sentences(report)
    return told + [plain(text) for part in parts for text in part]


def _clocks(report: RunReport) -> Iterator[str]:
    """Uncertainty of the alignment of imported files' clocks, a sentence a file."""
    imported = report.imported
    for entry in imported.get("alignment") or ():
        uncertainty, method = entry.get("uncertainty_s"), entry.get("method") or ""
        name = entry.get("file") or "the telemetry"
        if uncertainty is None:
            yield f"The clock of {name} was aligned {method}; how exactly is not known."
        else:
            yield f"The clock of {name} was aligned to ± {quantity(uncertainty, 's')} {method}."


def _states(report: RunReport) -> Iterator[str]:
    conditions = report.conditions
    if conditions is None:
        return
    steps, watched = figures_of(report), conditions.watched
    counts = {"throttled": conditions.throttled_steps, "disturbed": conditions.disturbed_steps}
    for kind, count in counts.items():
        if count and kind in conditions.excluded:
            yield f"{left_out(report, count, kind)}."
        elif count:
            of = f"{count:,} of {conditions.of_steps:,} {steps}"
            yield f"{of} were {kind}; the figures include them."
    if watched and steps == RECORDING:
        never = not any(one.kind == "throttled" for one in conditions.stretches)
        seen = "Nothing was throttled" if never else "The recording was throttled in part"
        yield f"{seen}, as far as {_sensors(watched)}."
    elif watched and not conditions.throttled_steps:
        yield f"No {steps.removesuffix('s')} was throttled, as far as {_sensors(watched)}."
    for note in conditions.notes:
        yield f"{note[:1].upper()}{note[1:]}."


def _sensors(watched: Sequence[str]) -> str:
    """Number of sensors and the names of the first of them, in words."""
    more = len(watched) - _MOST_WATCHED
    names = ", ".join(watched[:_MOST_WATCHED]) + (f" and {more} more" if more > 0 else "")
    many = len(watched) > 1
    return f"{len(watched)} sensor{'s' if many else ''} tell{'' if many else 's'}: {names}"


def _idle(report: RunReport) -> Iterator[str]:
    yield from _idle_power(report)
    if "energy_per_step_above_idle" in report.metrics:
        yield (
            "Energy above idle is less the power of the idle device over the time of a step: what "
            "leaks and what the board takes anyway is taken off, though it flows then, too."
        )


def _idle_power(report: RunReport) -> Iterator[str]:
    """Where it is known; why it is not, stands with all else that was not measured."""
    for when, figure in report.metrics.parts("idle_power").items():
        place = "before the first step" if when == "before" else "after the last step"
        if not figure.missing:
            yield f"Power of the idle device {place}: {in_words(show(figure))}."


def _energy(report: RunReport) -> Iterator[str]:
    for note in report.left_out:
        yield f"The total of energy: {note}."
    for name, figure in report.energy_outside.items():
        yield f"Not in the total: {name}, in a step {in_words(show(figure))}."


@dataclass(frozen=True, kw_only=True)
class Rails:
    """What the rails of a board are, where their sum misleads because one feeds another.

    Attributes:
        roles: Each rail with its energy in a step and what it feeds, or what feeds it.
        idle: Power of the idle device, in a sentence; "" where nobody knows it.
        sum: How far the sum of all rails is off, in a sentence.
    """

    roles: tuple[tuple[str, Figure, str], ...]
    idle: str
    sum: str


def rails(report: RunReport) -> Rails | None:
    """The rails with their roles; None where no rail is counted twice in their sum."""
    wrong = next(counted_twice(report), None)
    if wrong is None:
        return None
    channels = {row.name: row for row in report.channels}
    roles = tuple(
        (plain(name), figure, _role(channels[name], report.left_out))
        for name, figure in report.energy_by_rail.items()
        if name in channels
    )
    return Rails(roles=roles, idle=next(_idle_power(report), ""), sum=plain(wrong))


def _role(row: SampledChannel, of_the_total: Sequence[str]) -> str:
    """What a rail feeds, as the first words of its note; of a part, what feeds it."""
    clauses = (row.note or "").split("; ")
    if row.role == "power_part":
        fed = next((each for each in clauses if each.startswith("fed by ")), "a part")
        return plain(f"not added: {fed}")
    return "" if clauses[0] in of_the_total else plain(clauses[0].partition(":")[0])


def counted_twice(report: RunReport) -> Iterator[str]:
    """How far the sum of all rails is off, where some of those that are summed feed others."""
    inside = {row.name for row in report.channels if row.role == "power_part"}
    joules = {name: figure.value for name, figure in report.energy_by_rail.items() if figure.value}
    total = sum(value for name, value in joules.items() if name not in inside)
    over = {name: value for name, value in joules.items() if name in inside}
    if not over or len(joules) - len(over) < _SEVERAL:
        return
    wrong = total + sum(over.values())
    each = "in the whole recording" if figures_of(report) == RECORDING else "a step"
    yield (
        f"The sum of all rails says {100 * (wrong / total - 1):.0f} % too much, {quantity(wrong, 'J')} {each} in "
        f"place of {quantity(total, 'J')}: {', '.join(over)} is fed by a rail that counts already."
    )


def stretches(report: RunReport) -> TextTable | None:
    """When the device was throttled or disturbed, with the evidence; None where it never was."""
    conditions = report.conditions
    if conditions is None or not conditions.stretches:
        return None
    rows, more = tuple(map(_stretch, conditions.stretches)), conditions.more_stretches
    rest = (("", "", "", f"and {more:,} more stretches"),) if more else ()
    return TextTable(headings=("from", "to", "what", "evidence"), rows=rows + rest)


def _stretch(one: ConditionStretch) -> tuple[str, str, str, str]:
    give = f" ± {quantity(one.uncertain, 's')}" if one.uncertain else ""
    return (
        _second(one.start),
        f"{_second(one.end)}{give}",
        plain(one.kind),
        plain(one.evidence),
    )


def _second(value: float) -> str:
    return f"{value:,.2f} s"


def power_channels(report: RunReport) -> TextTable | None:
    """Resolution of each power and energy sensor in use; None where there is none."""
    channels = [row for row in report.channels if row.role in _POWER]
    rows = tuple(_channel(row, report.left_out) for row in channels if row.samples)
    if not rows:
        return None
    return TextTable(
        headings=("power sensor", "new value every", "in steps of", "repeats", "what it is"),
        rows=rows,
    )


def _channel(row: SampledChannel, of_the_total: Sequence[str]) -> tuple[str, ...]:
    step, repeated = row.resolution_seen, row.repeated_share
    return (
        plain(row.name),
        _interval(row.refresh),
        NO_VALUE if step is None else quantity(step, plain(row.unit)),
        NO_VALUE if repeated is None else quantity(repeated, "ratio"),
        "; ".join(plain(part) for part in _facts(row, of_the_total)),
    )


def _interval(figure: Figure | None) -> str:
    if figure is None:
        return NO_VALUE
    shown = show(figure)
    if shown.missing:
        return "not seen"
    return f"{shown.value} at most" if figure.low == 0 else shown.text


def _facts(row: SampledChannel, of_the_total: Sequence[str]) -> Iterator[str]:
    """Role, status and documented properties of a channel, in words; without what is said of the total."""
    yield {"total": "total", "part": "a part", "outside": "not in the total"}[
        row.role.split("_")[1]
    ]
    if row.status not in ("", "measured"):
        yield row.status
    if row.window:
        yield f"averages over {quantity(row.window, 's')}"
    if row.observed_share:
        yield f"looks for {quantity(row.observed_share, 'ratio')} of the time"
    if row.read_cost:
        yield f"a read takes {quantity(row.read_cost, 's')}"
    note = row.note or ""
    for words in of_the_total:
        note = note.removesuffix(words).removesuffix("; ")
    if note:
        yield note
