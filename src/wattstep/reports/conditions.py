"""Under which conditions a run was made, and what its power sensors can carry: sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.reports.values import NO_VALUE, is_figure, plain, quantity, show
from wattstep.reports.wording import RECORDING, Document, figures_of, in_words

_POWER = ("power_total", "power_part", "power_outside", "energy_total", "energy_part")
_MOST_WATCHED = 4


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of texts: headings, and as many cells in each row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sentences(document: Document) -> list[str]:
    """What the reader must know of the conditions, one thing a sentence."""
    parts = (_clocks(document), _states(document), _idle(document), _energy(document))
    return [plain(text) for part in parts for text in part]


def _clocks(document: Document) -> Iterator[str]:
    """How well the clocks of imported files fit together."""
    found = document.get("imported") or {}
    for entry in found.get("alignment") or ():
        uncertainty, method = entry.get("uncertainty_s"), entry.get("method") or ""
        name = entry.get("file") or "the telemetry"
        if uncertainty is None:
            yield f"The clock of {name} was aligned {method}; how exactly is not known."
        else:
            yield f"The clock of {name} was aligned to ± {quantity(uncertainty, 's')} {method}."


def _states(document: Document) -> Iterator[str]:
    found = document.get("conditions") or {}
    if not found:
        return
    of, left_out = found.get("of_steps", 0), found.get("excluded") or ()
    steps = figures_of(document)
    for kind in ("throttled", "disturbed"):
        count = found.get(f"{kind}_steps") or 0
        if count:
            how = "left out of the figures" if kind in left_out else "the figures include them"
            yield f"{count:,} of {of:,} {steps} were {kind}; {how}."
    watched = found.get("watched") or ()
    if watched and steps == RECORDING:
        never = not any(one["kind"] == "throttled" for one in found.get("stretches") or ())
        seen = "Nothing was throttled" if never else "The recording was throttled in part"
        yield f"{seen}, as far as {_sensors(watched)}."
    elif watched and not found.get("throttled_steps"):
        yield f"No {steps.removesuffix('s')} was throttled, as far as {_sensors(watched)}."
    for note in found.get("notes") or ():
        yield f"{note[:1].upper()}{note[1:]}."


def _sensors(watched: Sequence[str]) -> str:
    """How many there are, and the first of them."""
    more = len(watched) - _MOST_WATCHED
    names = ", ".join(watched[:_MOST_WATCHED]) + (f" and {more} more" if more > 0 else "")
    many = len(watched) > 1
    return f"{len(watched)} sensor{'s' if many else ''} tell{'' if many else 's'}: {names}"


def _idle(document: Document) -> Iterator[str]:
    metrics = document.get("metrics") or {}
    for when, figure in (metrics.get("idle_power") or {}).items():
        place = "before the first step" if when == "before" else "after the last step"
        if is_figure(figure):
            yield f"Idle {place}, the device took: {in_words(show(figure))}."
    if "energy_per_step_above_idle" in metrics:
        yield (
            "Energy above idle is less the power of the idle device over the time of a step: what "
            "leaks and what the board takes anyway is taken off, though it flows then, too."
        )


def _energy(document: Document) -> Iterator[str]:
    for note in document.get("left_out") or ():
        yield f"The total of energy: {note}."
    for name, figure in (document.get("energy_outside") or {}).items():
        yield f"Not in the total: {name}, in a step {in_words(show(figure))}."


def stretches(document: Document) -> TextTable | None:
    """When the device was throttled or disturbed, with the evidence; None where it never was."""
    found = document.get("conditions") or {}
    rows = tuple(_stretch(one) for one in found.get("stretches") or ())
    more = found.get("more_stretches") or 0
    if not rows:
        return None
    rest = (("", "", "", f"and {more:,} more stretches"),) if more else ()
    return TextTable(headings=("from", "to", "what", "evidence"), rows=rows + rest)


def _stretch(one: Mapping[str, Any]) -> tuple[str, str, str, str]:
    give = f" ± {quantity(one['uncertain'], 's')}" if one.get("uncertain") else ""
    return (
        _second(one["start"]),
        f"{_second(one['end'])}{give}",
        plain(one["kind"]),
        plain(one["evidence"]),
    )


def _second(value: float) -> str:
    return f"{value:,.2f} s"


def power_channels(document: Document) -> TextTable | None:
    """What each sensor of power and energy can carry; None where there is none."""
    found = [row for row in document.get("channels") or () if row.get("role") in _POWER]
    rows = tuple(_channel(row) for row in found if row.get("samples"))
    if not rows:
        return None
    return TextTable(
        headings=("power sensor", "new value every", "in steps of", "repeats", "what it is"),
        rows=rows,
    )


def _channel(row: Mapping[str, Any]) -> tuple[str, ...]:
    step, repeated = row.get("resolution_seen"), row.get("repeated_share")
    return (
        plain(row["name"]),
        _interval(row.get("refresh")),
        NO_VALUE if step is None else quantity(step, plain(row["unit"])),
        NO_VALUE if repeated is None else quantity(repeated, "ratio"),
        "; ".join(plain(part) for part in _facts(row)),
    )


def _interval(figure: object) -> str:
    if not is_figure(figure):
        return NO_VALUE
    shown = show(figure)
    if shown.missing:
        return "not seen"
    return f"{shown.value} at most" if figure.get("low") == 0 else shown.text


def _facts(row: Mapping[str, Any]) -> Iterator[str]:
    """What it belongs to, and what is documented of it."""
    role = str(row.get("role"))
    yield {"total": "total", "part": "a part", "outside": "not in the total"}[role.split("_")[1]]
    if row.get("status") not in (None, "measured"):
        yield str(row["status"])
    if row.get("window"):
        yield f"averages over {quantity(row['window'], 's')}"
    if row.get("observed_share"):
        yield f"looks for {quantity(row['observed_share'], 'ratio')} of the time"
    if row.get("read_cost"):
        yield f"a read takes {quantity(row['read_cost'], 's')}"
    if row.get("note"):
        yield str(row["note"])
