"""Common parts of figures over three steps: choice of the runs that are drawn, samples as figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.insight.observe.groups import Group
from wattstep.report.html.charts import Curve, steps_chart
from wattstep.report.html.paper.drawn import Drawn, NotDrawn, Panel
from wattstep.report.html.paper.readings import Reading, Readings
from wattstep.report.tables import table
from wattstep.report.values import plain
from wattstep.run.three_steps import ShownChannel
from wattstep.schema.figure import Figure, Status

MOST_RUNS = 4  # drawn; the others have their three steps in their own sections
FEW = 3  # samples: with fewer of a channel there is no course to see
FINER = "wattstep run {} --batch 64 --interval 1ms"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A run of which three steps are drawn.

    Attributes:
        label: Title of the run.
        workload: Its name in the suite.
        reading: The run.
        channels: Its channels, each with its panel.
    """

    label: str
    workload: str
    reading: Reading
    channels: Sequence[Curve]

    @property
    def seen(self) -> int:
        """Number of channels with samples enough to show a course."""
        return sum(len(curve.channel.points) >= FEW for curve in self.channels)


def draw_steps(
    channels: Callable[[Reading], list[Curve]], row: Callable[[Chosen, Curve], dict[str, Any]],
    texts: Mapping[str, str], remarks_of: Callable[[Sequence[Chosen]], list[str]],
    columns: Mapping[str, str], lacking: Callable[[Readings], str], command: str,
) -> Callable[[Readings], Drawn | NotDrawn]:  # fmt: skip
    """Draws a chart for each configuration, a panel for each channel or group of them.

    Args:
        channels: Those of a run, each with its panel.
        row: Of the table, for a channel.
        texts: Headings of the columns that are no figures.
        said: Remarks on the runs that are drawn.
        columns: Headings of the figures.
        lacking: Why there is nothing to draw.
        command: Command that would make runs that can be drawn.
    """

    def draw(readings: Readings) -> Drawn | NotDrawn:
        runs = _chosen(readings, channels)
        if not runs:
            return NotDrawn(reason=lacking(readings), command=command)
        drawn = runs[:MOST_RUNS]
        rows = [{"run": run.label, **row(run, one)} for run in drawn for one in run.channels]
        return Drawn(
            panels=_panels(drawn), sentences=[*_remarks(runs), *remarks_of(drawn)],
            table=table(rows, {"run": "Run", **texts}, columns),
        )  # fmt: skip

    return draw


def _chosen(readings: Readings, wanted: Callable[[Reading], list[Curve]]) -> list[Chosen]:
    """Run of each group that is drawn: that with the most channels to be seen, of those the largest batch."""
    chosen = []
    for group in readings.groups:
        able = [
            one
            for batch in sorted(group.batches, reverse=True)
            if (one := _first(readings, group, batch, wanted)) is not None
        ]
        chosen += [max(able, key=lambda one: one.seen)] if able else []
    return chosen


def _panels(runs: Sequence[Chosen]) -> list[Panel]:
    """A chart of each run."""
    placed = []
    for run in runs:
        chart = steps_chart(run.reading.three_steps.steps, run.channels)
        if chart is not None:
            statuses = dict.fromkeys(curve.channel.status for curve in run.channels)
            placed.append(Panel(title=run.label, chart=chart, statuses=tuple(statuses)))
    return placed


def _remarks(runs: Sequence[Chosen]) -> list[str]:
    """Remarks on the choice among several runs, and on steps with few samples."""
    remarks = []
    if len(runs) > 1:
        remarks.append(
            "Of each configuration one run is drawn: that with the longest steps to be seen."
        )
    if len(runs) > MOST_RUNS:
        remarks.append(
            f"{MOST_RUNS} of {len(runs)} are drawn; the others have their steps in their own sections."
        )
    few = [
        run for run in runs[:MOST_RUNS] if any(len(c.channel.points) < FEW for c in run.channels)
    ]
    if few:
        names = "; ".join(plain(run.label) for run in few)
        remarks.append(
            f"{names}: some channels have fewer than {FEW} samples in these steps; a larger batch "
            f"makes steps longer, --interval 1ms samples oftener: {FINER.format(few[0].workload)}"
        )
    return remarks


def summary(channel: ShownChannel) -> dict[str, Figure]:
    """Least, mean and most of the samples that are drawn, as figures; empty without any."""
    values = [float(value) for _, value in channel.points if value is not None]
    if not values:
        return {}

    def figure(value: float, method: str) -> Figure:
        return Figure(
            value=value, unit=channel.unit, status=Status(channel.status), n=len(values),
            method=method, source=channel.name,
        )  # fmt: skip

    return {
        "least": figure(min(values), "least of the samples drawn"),
        "mean": figure(sum(values) / len(values), "mean of the samples drawn"),
        "most": figure(max(values), "most of the samples drawn"),
    }


SUMMARY = {"least": "Least", "mean": "Mean of the samples", "most": "Most"}


def _first(
    readings: Readings,
    group: Group,
    batch: int,
    wanted: Callable[[Reading], list[Curve]],
) -> Chosen | None:
    for observed in group.batches[batch]:
        reading = readings.of(observed)
        channels = wanted(reading) if reading.three_steps.steps else []
        if channels:
            label = f"{group.label}, batch {batch}" if batch else group.label
            return Chosen(
                label=label, workload=observed.info.workload, reading=reading, channels=channels
            )
    return None
