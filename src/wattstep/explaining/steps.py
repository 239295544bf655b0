"""Whether the steps of a run can be predicted: their period, what repeats, what changes, and how well the first foretold the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from wattstep.analysis.period import period, rates
from wattstep.analysis.power import spoken
from wattstep.analysis.repeatability import Repeatability, repeatability
from wattstep.analysis.statistics import median_figure
from wattstep.analysis.steps import FloatArray, IntArray, Steps
from wattstep.explaining.backtest import backtest
from wattstep.explaining.level_changes import level_changes
from wattstep.explaining.section import Section, Table
from wattstep.records.channel import Channel
from wattstep.records.figure import Figure, Status, missing
from wattstep.run import Run
from wattstep.run.series import Series

NAME: Final = "steps"
TITLE: Final = "Steps: period, repetition, changes, forecast"
# What may show the steps, the most telling first; temperatures are too slow to.
ROLES: Final = (
    "power_total", "energy_total", "power_part", "energy_part", "power_outside", "battery_current",
    "gpu_utilization", "process_cpu_time", "process_cpu_time_coarse", "busy_time",
    "core_utilization", "idle_residency", "memory_controller_utilization", "resident_memory",
    "gpu_memory_used",
)  # fmt: skip
CLOCK: Final = "monotonic clock"
_COLUMNS: Final = {
    "channel": "channel", "role": "what it tells", "period": "period by its samples",
    "repeatability": "repeats by", "repeatability_at_most": "less noise, at most",
}  # fmt: skip
_WHY: Final = {"why": "why not", "what": "what cannot be told", "of": "channels"}


def steps(run: Run) -> Section:
    """Of one run."""
    found = run.series.steps
    if not len(found.index):
        return Section(name=NAME, title=TITLE, reason=found.absent or "no step was recorded")
    marked = _by_marks(found)
    rows = _channels(run.series, found)
    changes = level_changes(run)
    forecasts = backtest(run)
    best = _finest(rows)
    figures: dict[str, Figure] = {
        "step_period_by_marks": marked,
        "step_period_by_samples": best["period"]
        if best is not None
        else missing("s", "no channel shows a period: see the reasons by channel"),
        **changes.figures,
    }
    tables = (
        Table(name="channels", title="What repeats", columns=_COLUMNS, rows=rows),
        Table(name="untold", title="What cannot be told", columns=_WHY, rows=_untold(rows)),
        *changes.tables,
        *forecasts.tables,
    )
    sentences = (
        *_of_period(best, marked), *_of_repetition(rows), *changes.sentences, *forecasts.sentences,
    )  # fmt: skip
    return Section(name=NAME, title=TITLE, sentences=sentences, figures=figures, tables=tables)


def _by_marks(found: Steps) -> Figure:
    """From the begin of one step to that of the next that follows it, by the marks."""
    follows = np.flatnonzero(found.follows)
    if not len(follows):
        return missing("s", "no clean step follows another")
    apart = (found.start_ns[follows] - found.start_ns[follows - 1]) * 1e-9
    return median_figure(apart, "s", CLOCK, Status.MEASURED)


def _channels(series: Series, found: Steps) -> list[Mapping[str, Any]]:
    """Period and repeatability by channel; those that were read most often come first."""
    chosen = [c for role in ROLES for c in series.channels.values() if c.role == role]
    sampled = [c for c in chosen if c.name in series.samples]
    sampled.sort(key=lambda channel: -len(series.samples[channel.name][0]))
    rows, sure = [], None
    for channel in sampled:
        t_ns, value = _within(series, channel, found)
        told = period(
            t_ns, value, channel.source, series.status(channel),
            longer_than_s=None if sure is None else 0.5 * sure,
        )  # fmt: skip
        # What one channel shows beyond doubt tells the aliases of the others.
        sure = told.value if sure is None else sure
        clean = found.clean
        repeats = repeatability(
            t_ns, value, found.start_ns[clean], found.end_ns[clean], channel.source,
            series.status(channel),
        )  # fmt: skip
        rows.append(_row(channel, told, repeats))
    order = {channel.name: number for number, channel in enumerate(chosen)}
    return sorted(rows, key=lambda row: order[row["channel"]])


def _within(series: Series, channel: Channel, found: Steps) -> tuple[IntArray, FloatArray]:
    """The samples between the first step and the last; of a counter its rates."""
    t_ns, value = series.raw(channel.name)
    assert found.span_ns is not None
    inside = (t_ns >= found.span_ns[0]) & (t_ns <= found.span_ns[1])
    t_ns, value = t_ns[inside], value[inside]
    return rates(t_ns, value) if channel.kind == "counter" else (t_ns, value)


def _row(channel: Channel, told: Figure, repeats: Repeatability) -> dict[str, Any]:
    return {
        "channel": channel.name,
        "role": channel.role.replace("_", " "),
        "period": told,
        "repeatability": repeats.correlation,
        "repeatability_at_most": repeats.corrected,
    }


def _untold(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Reasons, each with the channels that it is true of."""
    of: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for key in ("period", "repeatability"):
            if row[key].missing:
                of.setdefault((str(row[key].reason), key), []).append(row["channel"])
    return [
        {"why": reason, "what": what, "of": ", ".join(names)}
        for (reason, what), names in of.items()
    ]


def _finest(rows: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The channel whose period has the narrowest interval."""
    found = [row for row in rows if not row["period"].missing]
    return min(found, key=lambda row: _width(row["period"]), default=None)


def _width(figure: Figure) -> float:
    assert figure.value
    assert figure.low is not None
    assert figure.high is not None
    return (figure.high - figure.low) / figure.value


def _of_period(best: Mapping[str, Any] | None, marked: Figure) -> list[str]:
    said = []
    if not marked.missing:
        assert marked.value is not None
        said.append(f"A step begins every {spoken(marked.value)}, by the marks.")
    if best is None:
        return [*said, "No channel shows that period in its samples: the table says why."]
    figure = best["period"]
    said.append(
        f"The samples of {best['channel']} alone repeat every {spoken(figure.value)} "
        f"({spoken(figure.low)} to {spoken(figure.high)})."
    )
    if not marked.missing and marked.value is not None:
        ratio = figure.value / marked.value
        if abs(ratio - 1) > 0.1:
            said.append(
                f"That is {ratio:.2f} times the period of the marks: something else repeats there, "
                "several steps together or a part of one."
            )
    return said


def _of_repetition(rows: list[Mapping[str, Any]]) -> list[str]:
    """The channels that repeat most, and those that do not."""
    known = [row for row in rows if not row["repeatability"].missing]
    if not known:
        return ["How well a channel repeats from step to step cannot be told here: see the table."]
    best = max(known, key=lambda row: row["repeatability"].value)
    figure = best["repeatability"]
    if figure.low <= 0:
        return ["No channel shows a course within the step that repeats from step to step."]
    said = (
        f"{best['channel']} repeats most from step to step: its course in one step correlates with "
        f"that in another by {figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
    )
    none = [row["channel"] for row in known if row["repeatability"].low <= 0]
    if none and len(none) < len(known):
        said += f"; {len(none)} of {len(known)} channels show no course that repeats"
    return [f"{said}."]
