"""Course of throughput, power, temperature and frequency over a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.recorded.step_stretches import Counted
from wattstep.recorded.steps import Steps, slices
from wattstep.run.step_flags import StepFlags
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import CLOCK, Figure, Missing, Status, missing, weakest
from wattstep.schema.report_rows import Course, CourseColumn
from wattstep.stats.statistics import ratio_figure
from wattstep.store.thinning import STRETCH_NS

MINUTE_NS: Final = 60 * 10**9
MOST_BINS: Final = 60
BINS_AT_ALL: Final = 20_000  # a fortnight of minutes: what lasts longer has longer bins
LEAST_BINS: Final = 5
SLICE_NS: Final = 200_000_000
BUSY: Final = 0.5  # of a bin, from which on a core's frequency counts
ALIKE: Final = (
    "all steps that the power shows are of one length: whether they got slower is not known"
)
UNITS: Final = {
    "throughput": "samples/s", "power": "W", "temperature": "°C", "frequency": "Hz",
}  # fmt: skip


def sustained_course(series: Series, flags: StepFlags) -> Course | None:
    """The course of a run in bins of a minute, or of a sixtieth of a shorter run.

    Columns that have no value are left out; None where the run is too short for a course.
    """
    course = _Binned(series)
    if not len(course.edges):
        return None
    parts = (course.throughput(), course.power(), course.temperature(), course.frequency())
    onset = throttle_onset(series, flags)
    return Course(
        bin=float(course.edges[1] - course.edges[0]) * 1e-9,
        begin=tuple(round(float(t), 3) for t in (course.edges[:-1] - course.edges[0]) * 1e-9),
        columns=tuple(column for column in parts if column is not None),
        zones=course.zones(),
        throttled_from=None if onset is None else onset.value,
        throttled=_throttled(series, flags),
    )


def sustained_metrics(tables: Tables, series: Series, flags: StepFlags) -> dict[str, Any]:
    """The first minute against the last, and when throttling set in.

    Only for runs of two minutes and more, and for those that were asked to become steady.
    """
    steps = series.steps.with_left_out
    asked = tables.info.conditions.get("sustain")
    counted = steps.counted
    span = int(counted.end_ns[-1] - counted.start_ns[0]) if counted.count else 0
    if asked is None and span < 2 * MINUTE_NS:
        return {}
    table = _minutes(series, steps, counted, span)
    onset = throttle_onset(series, flags)
    if onset is not None:
        table["throttle_onset"] = onset
    elif flags.watched:
        table["throttle_onset"] = missing("s", "no throttling was seen")
    else:
        table["throttle_onset"] = missing("s", "nothing that was sampled shows throttling")
    if isinstance(asked, Mapping):
        table["steady_after"] = _steady_after(asked)
    return {"sustained": table}


def _throttled(series: Series, flags: StepFlags) -> tuple[tuple[float, float], ...]:
    """Begin and end of each stretch of throttling within the steps, in s from the first step."""
    if series.steps.span_ns is None:
        return ()
    base, end = series.steps.span_ns
    spans: list[list[int]] = []
    for one in sorted(flags.stretches, key=lambda one: one.start_ns):
        start, stop = max(one.start_ns, base), min(one.end_ns, end)
        if one.kind != "throttled" or stop <= start:
            continue
        if spans and start <= spans[-1][1]:  # several sensors may show the same time
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
    return tuple(
        (round((start - base) * 1e-9, 3), round((stop - base) * 1e-9, 3)) for start, stop in spans
    )


def throttle_onset(series: Series, flags: StepFlags) -> Figure | None:
    """When throttling set in, in s from the first step; None where none was seen."""
    throttled = [one for one in flags.stretches if one.kind == "throttled"]
    if series.steps.span_ns is None or not throttled:
        return None
    base, end = series.steps.span_ns
    during = [one for one in throttled if one.end_ns > base and one.start_ns < end]
    if not during:
        return None
    first = min(during, key=lambda one: one.start_ns)
    # The stretch begins with the last read that did not show it.
    low = max((first.start_ns - base) * 1e-9, 0.0)
    high = max((first.start_ns - base) * 1e-9 + first.uncertain_s, 0.0)
    return Figure(
        value=high, unit="s", low=low, high=high,
        status=series.status(*(series.channels[name] for name in flags.watched)),
        source=first.evidence,
        method="from the first step to the first read that showed it; the read before is the low end",
    )  # fmt: skip


def _steady_after(asked: Mapping[str, Any]) -> Figure:
    if not asked.get("steady"):
        moving = "; ".join(str(one) for one in asked.get("moving") or ()) or "too short to tell"
        return missing("s", f"it did not become steady: {moving}")
    judged = ", ".join(str(one) for one in asked.get("judged") or ())
    return Figure(
        value=float(asked["after_s"]), unit="s", status=Status.MEASURED, source=CLOCK,
        method=f"until steady, the window of the criterion included; judged by {judged}",
    )  # fmt: skip


def _minutes(series: Series, steps: Steps, counted: Counted, span: int) -> dict[str, Figure]:
    """Figures of the first and of the last minute of clean steps."""
    if span < 2 * MINUTE_NS:
        reason = (
            f"the first minute and the last are not apart: the run trained for {span * 1e-9:.0f} s"
        )
        return {"throughput_ratio": missing("ratio", reason)}
    begin, end = int(counted.start_ns[0]), int(counted.end_ns[-1])
    table: dict[str, Figure] = {}
    throughputs = []
    for name, first, last in (
        ("first_minute", begin, begin + MINUTE_NS),
        ("last_minute", end - MINUTE_NS, end),
    ):
        inside = counted.within((counted.start_ns >= first) & (counted.end_ns <= last))
        alike = series.imported.found_by_power
        throughputs.append(missing("samples/s", ALIKE) if alike else _throughput(steps, inside))
        table[f"{name}_throughput"] = throughputs[-1]
        if (power := _power(series, steps, first, last)) is not None:
            table[f"{name}_power"] = power
        course = _Binned(series, np.array([first, last]))
        for column in (course.temperature(), course.frequency()):
            if column is not None and column.values[0] is not None:
                table[f"{name}_{column.name}"] = _of_column(column, column.values[0])
    return {"throughput_ratio": _quotient(throughputs[1], throughputs[0]), **table}


def _throughput(steps: Steps, inside: Counted) -> Figure:
    samples, periods = inside.together(inside.samples, inside.seconds + inside.gap_s)
    if not len(samples) or not np.isfinite(samples).all():
        return missing("samples/s", "that minute has no clean step of known size")
    return inside.figure(ratio_figure(samples, periods, "samples/s", CLOCK, steps.status))


def _power(series: Series, steps: Steps, first: int, last: int) -> Figure | None:
    energy = series.energy
    if isinstance(energy, Missing):
        return None
    stretches = np.clip(steps.stretches(), first, last)
    parts = slices(stretches[stretches[:, 1] > stretches[:, 0]], SLICE_NS)
    gains, seconds = energy.curve.gains(parts)
    known = seconds > 0
    if reason := energy.too_little(float(seconds.sum()), float(np.nansum(gains))):
        return missing("W", reason)
    figure = ratio_figure(gains[known], seconds[known], "W", energy.source, energy.status)
    return replace(figure, systematic=energy.systematic_at(figure.value or 0.0))


def _of_column(column: CourseColumn, value: float) -> Figure:
    return Figure(
        value=value, unit=column.unit, status=Status(column.status), source=column.source,
        method=column.method,
    )  # fmt: skip


def _quotient(above: Figure, below: Figure) -> Figure:
    """Last over first: independent stretches, so the squares of relative widths add up."""
    if above.value is None or not below.value:
        return missing("ratio", above.reason or below.reason or "nothing was trained")
    value = above.value / below.value
    widths = [
        (one.high - one.low) / 2 / one.value
        for one in (above, below)
        if one.value and one.low is not None and one.high is not None
    ]
    half_width = math.hypot(*widths) if len(widths) == 2 else None
    return Figure(
        value=value, unit="ratio", status=weakest([above.status, below.status]), source=CLOCK,
        low=None if half_width is None else value * (1 - half_width),
        high=None if half_width is None else value * (1 + half_width),
        confidence=None if half_width is None else above.confidence,
        method="throughput of the last minute over that of the first; their intervals' relative "
        "half widths added in squares",
    )  # fmt: skip


class _Binned:
    """Values of a run in bins.

    Args:
        series: The samples.
        edges: Of the bins in ns; None: chosen.
    """

    def __init__(self, series: Series, edges: IntArray | None = None) -> None:
        self._series = series
        self._steps = series.steps.with_left_out
        self.edges = self._chosen_edges() if edges is None else edges

    def _chosen_edges(self) -> IntArray:
        none = np.empty(0, np.int64)
        if self._steps.span_ns is None:
            return none
        begin, end = self._steps.span_ns
        span = end - begin
        length = max(
            min(MINUTE_NS, span // MOST_BINS), span // BINS_AT_ALL, *self._least_lengths(), 1
        )
        count = (end - begin) // length
        return none if count < LEAST_BINS else begin + length * np.arange(count + 1)

    def _least_lengths(self) -> list[int]:
        """A bin holds a few steps, a temperature, and a new value of power."""
        steps = self._steps
        lengths = [3 * int(np.median(steps.end_ns - steps.start_ns))] if len(steps.index) else []
        lengths += [] if steps.thinned is None else [STRETCH_NS]
        for channel in self._series.with_role("temperature", "frequency"):
            t_ns, _ = self._series.raw(channel.name)
            if len(t_ns) > 1:
                lengths.append(round(1.2 * float(np.median(np.diff(t_ns)))))
        energy = self._series.energy
        if not isinstance(energy, Missing):
            lengths.append(round(energy.shortest[0] * 1e9))
        return lengths

    def throughput(self) -> CourseColumn | None:
        """Of the clean steps that end in each bin."""
        steps = self._steps
        counted = steps.counted
        counted = counted.within(np.isfinite(counted.samples))
        if not counted.count or self._series.imported.found_by_power:  # all of them are as long
            return None
        number = np.searchsorted(self.edges, counted.end_ns, side="left") - 1
        inside = (number >= 0) & (number < len(self.edges) - 1)
        rows = counted.within(inside)
        periods = rows.seconds + rows.gap_s
        values = _quotients(number[inside], rows.samples, periods, len(self.edges) - 1)
        return _column("throughput", values, steps.status, CLOCK, "clean steps of the bin")

    def power(self) -> CourseColumn | None:
        """Mean power of the machine in each bin."""
        energy = self._series.energy
        if isinstance(energy, Missing):
            return None
        gains, covered = energy.curve.difference(self.edges[:-1], self.edges[1:])
        seconds = np.diff(self.edges) * 1e-9 * covered
        values = np.divide(gains, seconds, out=np.full(len(gains), np.nan), where=seconds > 0)
        return _column("power", values, energy.status, energy.source, "mean of the bin")

    def temperature(self) -> CourseColumn | None:
        """The hottest sensor in each bin."""
        channels = list(self._series.with_role("temperature"))
        if not channels:
            return None
        means = np.array([self._means(channel) for channel in channels])
        values = np.asarray(np.fmax.reduce(means, axis=0))
        return _column(
            "temperature", values, self._series.status(*channels), _sources(channels),
            "mean of the bin, hottest sensor",
        )  # fmt: skip

    def zones(self) -> tuple[CourseColumn, ...]:
        """The temperature of each sensor by itself, by its name."""
        columns = []
        for channel in self._series.with_role("temperature"):
            values = self._means(channel)
            status = self._series.status(channel)
            column = _column("temperature", values, status, channel.source, "mean of the bin")
            columns += [] if column is None else [replace(column, zone=channel.name)]
        return tuple(columns)

    def frequency(self) -> CourseColumn | None:
        """Mean of the cores that are busy in each bin, of all where it is not known which are.

        Firmware may tell of one clock for all cores.
        """
        channels = [c for c in self._series.with_role("frequency") if c.domain == "cpu"]
        if not channels:
            return None
        means = np.array([self._means(channel) for channel in channels])
        busy = np.array([self._busy(channel) for channel in channels])
        counts = np.where(busy.any(axis=0), busy, True) & np.isfinite(means)
        total = np.where(counts, means, 0.0).sum(axis=0)
        number = counts.sum(axis=0)
        values = np.divide(total, number, out=np.full(len(total), np.nan), where=number > 0)
        cores = any(channel.core is not None for channel in channels)
        return _column(
            "frequency", values, self._series.status(*channels), _sources(channels),
            f"mean of the bin, {'over busy cores' if cores else 'the clock of all cores'}",
        )  # fmt: skip

    def _means(self, channel: Channel) -> FloatArray:
        t_ns, value, reads = self._series.course(channel.name)
        number = np.searchsorted(self.edges, t_ns, side="right") - 1
        inside = (number >= 0) & (number < len(self.edges) - 1) & np.isfinite(value)
        weight = reads[inside].astype(np.float64)
        return _quotients(number[inside], weight * value[inside], weight, len(self.edges) - 1)

    def _busy(self, channel: Channel) -> BoolArray:
        curve = None if channel.core is None else self._series.core_busy.get(channel.core)
        if curve is None:
            return np.zeros(len(self.edges) - 1, bool)
        gains, covered = curve.difference(self.edges[:-1], self.edges[1:])
        return np.asarray(np.nan_to_num(gains) > BUSY * np.diff(self.edges) * 1e-9 * covered)


def _quotients(number: IntArray, above: FloatArray, below: FloatArray, count: int) -> FloatArray:
    """Sum over sum in each bin; NaN where there is nothing."""
    over = np.bincount(number, above, minlength=count)
    under = np.bincount(number, below, minlength=count)
    ratios: FloatArray = np.divide(over, under, out=np.full(count, np.nan), where=under > 0)
    return ratios


def _sources(channels: Sequence[Channel]) -> str:
    first = channels[0].source
    return first if len(channels) == 1 else f"{first} and {len(channels) - 1} more"


def _column(
    name: str, values: FloatArray, status: Status, source: str, method: str
) -> CourseColumn | None:
    if not np.isfinite(values).any():
        return None
    return CourseColumn(
        name=name,
        unit=UNITS[name],
        status=status.value,
        source=source,
        method=method,
        values=tuple(float(value) if np.isfinite(value) else None for value in values),
    )
