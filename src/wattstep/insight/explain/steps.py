"""Predictability of the steps of a run: their period, what repeats, what changes, and forecasts from the first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.insight.explain.backtest import backtest
from wattstep.insight.explain.level_changes import level_changes
from wattstep.insight.explain.section import Section, Table
from wattstep.recorded.imported import FOUND
from wattstep.recorded.period.period import period, rates
from wattstep.recorded.power import spoken
from wattstep.recorded.repeatability import Repeatability, repeatability
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.run import Run
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.stats.statistics import median_figure

NAME: Final = "steps"
TITLE: Final = "Steps: period, repetition, changes, forecast"
UNLIKE: Final = 1.2  # mean over median: from here on a reader asks why they differ
# What may show the steps, the most telling first; temperatures are too slow to.
ROLES: Final = (
    "power_total", "energy_total", "power_part", "energy_part", "power_outside", "battery_current",
    "gpu_utilization", "process_cpu_time", "process_cpu_time_coarse", "busy_time",
    "core_utilization", "idle_residency", "memory_controller_utilization", "resident_memory",
    "gpu_memory_used",
)  # fmt: skip
_COLUMNS: Final = {
    "channel": "channel", "role": "what it tells", "period": "period by its samples",
    "repeatability": "repeats by", "repeatability_at_most": "less noise, at most",
}  # fmt: skip
_WHY: Final = {"why": "why not", "what": "what cannot be determined", "of": "channels"}


@dataclass(frozen=True, kw_only=True)
class Repeating:
    """Period and repeatability of the steps as one channel shows them.

    Attributes:
        channel: Its name.
        role: Quantity that it measures.
        period: By its samples, in s.
        repeatability: Correlation of its course in one step with that in another.
        repeatability_at_most: That correlation without noise.
    """

    channel: str
    role: str
    period: Figure
    repeatability: Figure
    repeatability_at_most: Figure


def steps(run: Run) -> Section:
    """Of one run."""
    recorded_steps = run.series.steps
    if not len(recorded_steps.index):
        return Section(
            name=NAME, title=TITLE, reason=recorded_steps.absent or "no step was recorded"
        )
    counted, note = run.series.imported.found_by_power, recorded_steps.thinned_note
    marked = missing("s", FOUND) if counted else _by_marks(recorded_steps)
    if note is not None and not marked.missing:  # it is of the steps that were kept
        marked = replace(marked, reason=note)
    rows = _channels(run.series, recorded_steps)
    changes = level_changes(run)
    forecasts = backtest(run)
    best = _finest(rows)
    figures: dict[str, Figure] = {
        "step_period_by_marks": marked,
        "step_period_by_samples": best.period
        if best is not None
        else missing("s", "no channel shows a period: see the reasons by channel"),
        **changes.figures,
    }
    tables = (
        Table(
            name="channels",
            title="What repeats",
            columns=_COLUMNS,
            rows=[vars(row) for row in rows],
        ),
        Table(name="untold", title="What cannot be determined", columns=_WHY, rows=_untold(rows)),
        *changes.tables,
        *forecasts.tables,
    )
    sentences = (
        *_of_period(best, marked, run.breakdown.step_time, note), *_of_repetition(rows),
        *changes.sentences, *forecasts.sentences,
    )  # fmt: skip
    return Section(name=NAME, title=TITLE, sentences=sentences, figures=figures, tables=tables)


def _by_marks(recorded_steps: Steps) -> Figure:
    """From the begin of one step to that of the next that follows it, by the marks."""
    follows = np.flatnonzero(recorded_steps.follows)
    if not len(follows):
        return missing("s", "no clean step follows another")
    apart = (recorded_steps.start_ns[follows] - recorded_steps.start_ns[follows - 1]) * 1e-9
    return median_figure(apart, "s", CLOCK, Status.MEASURED)


def _channels(series: Series, recorded_steps: Steps) -> list[Repeating]:
    """Period and repeatability by channel; those that were read most often come first."""
    chosen = [c for role in ROLES for c in series.channels.values() if c.role == role]
    sampled = [c for c in chosen if c.name in series.samples]
    sampled.sort(key=lambda channel: -len(series.samples[channel.name][0]))
    rows, sure = [], None
    for channel in sampled:
        t_ns, value = _within(series, channel, recorded_steps)
        measured = period(
            t_ns, value, channel.source, series.status(channel),
            longer_than_s=None if sure is None else 0.5 * sure,
        )  # fmt: skip
        # What one channel shows beyond doubt tells the aliases of the others.
        sure = measured.value if sure is None else sure
        clean = recorded_steps.clean
        repeats = repeatability(
            t_ns, value, recorded_steps.start_ns[clean], recorded_steps.end_ns[clean], channel.source,
            series.status(channel),
        )  # fmt: skip
        rows.append(_row(channel, measured, repeats))
    order = {channel.name: number for number, channel in enumerate(chosen)}
    return sorted(rows, key=lambda row: order[row.channel])


def _within(series: Series, channel: Channel, recorded_steps: Steps) -> tuple[IntArray, FloatArray]:
    """The samples between the first step and the last; of a counter its rates."""
    t_ns, value = series.raw(channel.name)
    assert recorded_steps.span_ns is not None
    inside = (t_ns >= recorded_steps.span_ns[0]) & (t_ns <= recorded_steps.span_ns[1])
    t_ns, value = t_ns[inside], value[inside]
    return rates(t_ns, value) if channel.kind == "counter" else (t_ns, value)


def _row(channel: Channel, measured: Figure, repeats: Repeatability) -> Repeating:
    return Repeating(
        channel=channel.name,
        role=channel.role.replace("_", " "),
        period=measured,
        repeatability=repeats.correlation,
        repeatability_at_most=repeats.corrected,
    )


def _untold(rows: list[Repeating]) -> list[dict[str, str]]:
    """Reasons, each with the channels that it is true of."""
    of: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for key, figure in (("period", row.period), ("repeatability", row.repeatability)):
            if figure.missing:
                of.setdefault((str(figure.reason), key), []).append(row.channel)
    return [
        {"why": reason, "what": what, "of": ", ".join(names)}
        for (reason, what), names in of.items()
    ]


def _finest(rows: list[Repeating]) -> Repeating | None:
    """The channel whose period has the narrowest interval."""
    periodic = [row for row in rows if not row.period.missing]
    return min(periodic, key=lambda row: _width(row.period), default=None)


def _width(figure: Figure) -> float:
    assert figure.value
    assert figure.low is not None
    assert figure.high is not None
    return (figure.high - figure.low) / figure.value


def _of_marks(period_s: float, mean_s: float | None, kept: bool) -> str:
    """The period beside the step time that `run` and `show` give, which long steps raise.

    Args:
        period_s: Median of the single steps.
        mean_s: Mean of all of them; None: not known.
        kept: Whether the period is that of all steps; else the two may differ because others were not kept.
    """
    period = f"begins every {spoken(period_s)} (median), by the marks"
    if mean_s is None:
        return f"A step {period}."
    unlike = kept and mean_s > UNLIKE * period_s
    why = ": a few steps are far longer than the others" if unlike else ""
    return f"A step takes {spoken(mean_s)} (mean) and {period}{why}."


def _of_period(best: Repeating | None, marked: Figure, mean: Figure, note: str | None) -> list[str]:
    lines = [] if note is None else [f"{note[0].upper()}{note[1:]}."]
    if not marked.missing:
        assert marked.value is not None
        lines.append(_of_marks(marked.value, mean.value, note is None))
    elif marked.reason == FOUND:
        lines.append("Steps are counted by the period of the power: nothing marks them.")
    if best is None:
        return [*lines, "No channel shows that period in its samples: the table says why."]
    figure = best.period
    assert figure.value is not None
    lines.append(
        f"The samples of {best.channel} alone repeat every {spoken(figure.value)} "
        f"({spoken(figure.low or 0.0)} to {spoken(figure.high or 0.0)})."
    )
    if not marked.missing and marked.value is not None:
        ratio = figure.value / marked.value
        if abs(ratio - 1) > 0.1:
            lines.append(
                f"That is {ratio:.2f} times the period of the marks: something else repeats there, "
                "several steps together or a part of one."
            )
    return lines


def _of_repetition(rows: list[Repeating]) -> list[str]:
    """The channels that repeat most, and those that do not."""
    known = [row for row in rows if row.repeatability.value is not None]
    if not known:
        return [
            "How well a channel repeats from step to step cannot be determined here: see the table."
        ]
    best = max(known, key=lambda row: row.repeatability.value or 0.0)
    figure = best.repeatability
    if _may_be_none(figure):
        return ["No channel shows a course within the step that repeats from step to step."]
    sentence = (
        f"{best.channel} repeats most from step to step: its course in one step correlates with "
        f"that in another by {figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
    )
    none = [row.channel for row in known if _may_be_none(row.repeatability)]
    if none and len(none) < len(known):
        sentence += f"; {len(none)} of {len(known)} channels show no course that repeats"
    return [f"{sentence}."]


def _may_be_none(correlation: Figure) -> bool:
    return (correlation.low or 0.0) <= 0
