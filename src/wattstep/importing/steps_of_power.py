"""The steps of a training in a log of its power alone: the busy stretch, and the period that repeats in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from wattstep.device.busy_stretch import Stretches, stretches
from wattstep.importing.columns import no_marks, span_columns, step_columns
from wattstep.importing.steady_parts import SteadyParts, counted_period, steady_parts
from wattstep.importing.steps import TraceSteps
from wattstep.importing.telemetry import Telemetry
from wattstep.recorded.period.even_beat import even_beat
from wattstep.recorded.period.period import LEAST_A_PERIOD, period
from wattstep.recorded.period.seen import equal_parts
from wattstep.recorded.period.weak_period import weak_period
from wattstep.recorded.power import spoken
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure, missing
from wattstep.schema.run_documents import PowerStepFacts

LEAST_SAMPLES: Final = 40
ROLES: Final = ("power_total", "power_part", "power_outside")
LEAST_SEEN: Final = 0.5  # of the busy stretch in which a period shows that is one of steps
FOUND: Final = (
    "no step is marked: {count:,} of {period} were counted by the period of the power, which shows "
    "in {share:.0f} % of the busy stretch. All of its {busy} would hold {fewest:,} to {most:,} steps "
    "of {low} to {high}. Single steps are not told apart; whatever else repeats with this period "
    "is counted as a step, and steps shorter than {least} could look the same"
)
RARE: Final = "a period of {period} shows in {share:.0f} % of the busy stretch only"
UNSEEN: Final = "without_period"  # the rest between steps in which none were found
NONE: Final = "no steps were found in the power: {}"
NO_SAMPLES: Final = "the log holds too few samples of power"
NO_POWER: Final = "the log holds no power"
_NO_TIMES: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class PowerSteps:
    """Steps and stretches found in the power of a log.

    Attributes:
        steps: Columns of the table of steps.
        spans: Columns of the table of spans: idle stretches.
        document: What `run.json` keeps of it ("found", "busy_ns", "period_s", ..., "reason");
            "low_s" and "high_s" are what the mean step may take, "count_low" and "count_high" how
            many there may have been.
        notes: What a reader must know.
    """

    steps: dict[str, Any]
    spans: dict[str, Any]
    document: PowerStepFacts = field(default_factory=PowerStepFacts)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Power:
    """Power of a machine in W, and of its parts, at the same times."""

    t_ns: IntArray
    total: FloatArray
    parts: tuple[FloatArray, ...]
    names: str


def steps_of_power(logs: Sequence[Telemetry], warmup: int) -> PowerSteps:
    """Steps of equal length wherever the busy stretch has the period of its power; else none.

    Args:
        logs: On one clock, no channel twice.
        warmup: First steps that do not count.
    """
    power = _power(logs)
    if power is None:
        reason = NO_SAMPLES if _channels(logs) else NO_POWER
        return _power_steps(None, missing("s", reason), warmup)
    busy_and_idle = stretches(power.t_ns, power.total)
    inside = (power.t_ns >= busy_and_idle.busy[0]) & (power.t_ns <= busy_and_idle.busy[1])
    return _power_steps(
        busy_and_idle, _period(power, inside, busy_and_idle.idle_shown), warmup, power
    )


def _period(power: _Power, inside: BoolArray, idle_shown: bool) -> Figure:
    """Of the whole, else of a part; a weak one only where the work stands out of idleness."""
    t_ns = power.t_ns[inside]
    if len(t_ns) < LEAST_SAMPLES:
        return missing("s", NO_SAMPLES)
    least_s = LEAST_A_PERIOD * float(np.median(np.diff(t_ns))) * 1e-9
    beat = even_beat(t_ns, power.total[inside], power.names)
    if not beat.missing:
        return beat
    reason = None
    for values in (power.total, *power.parts):
        figure = period(t_ns, values[inside], power.names, longer_than_s=least_s)
        if not figure.missing:
            return figure
        reason = reason or figure.reason
    if idle_shown:
        weak = weak_period(
            t_ns, [each[inside] for each in (power.total, *power.parts)], power.names
        )
        if not weak.missing:
            return weak
    return missing("s", reason or NO_SAMPLES)


def _shortest(figure: Figure, power: _Power, busy: tuple[int, int]) -> Figure:
    """The period, or the part of it that repeats within."""
    inside = (power.t_ns >= busy[0]) & (power.t_ns <= busy[1])
    channels = [each[inside] for each in (power.total, *power.parts)]
    parts = equal_parts(power.t_ns[inside], channels, figure.value or 0.0)
    if parts == 1:
        return figure
    value, low, high = (
        None if x is None else x / parts for x in (figure.value, figure.low, figure.high)
    )
    method = f"{figure.method}; of which {parts} alike make one"
    return replace(figure, value=value, low=low, high=high, method=method)


def _power_steps(
    busy_and_idle: Stretches | None, figure: Figure, warmup: int, power: _Power | None = None
) -> PowerSteps:
    reason = figure.reason
    document: PowerStepFacts = {"found": False}
    if busy_and_idle is not None:
        document |= _busy(busy_and_idle)
    if busy_and_idle is not None and figure.value is not None and power is not None:
        figure = _shortest(figure, power, busy_and_idle.busy)
        steady = steady_parts(
            power.t_ns,
            power.total,
            power.parts,
            busy_and_idle.busy,
            busy_and_idle.full,
            figure.value or 0.0,
        )
        if steady.share >= LEAST_SEEN:
            figure = counted_period(power.t_ns, (power.total, *power.parts), steady, figure)
            steady = steady.of(figure.value or 0.0)
            return _with_steps(steady, figure, power, busy_and_idle, warmup)
        reason = RARE.format(period=spoken(figure.value or 0.0), share=100 * steady.share)
    words = NONE.format(reason)
    return PowerSteps(
        steps=step_columns(_steps(_NO_TIMES, _NO_TIMES), no_marks(), 0), spans=_spans(busy_and_idle),
        document={**document, "reason": words}, notes=(words,),
    )  # fmt: skip


def _with_steps(
    steady: SteadyParts, figure: Figure, power: _Power, busy_and_idle: Stretches, warmup: int
) -> PowerSteps:
    """Steps of one length in all parts in which the period shows."""
    begins, ends = steady.edges_ns
    fewest, most = steady.counted(figure)
    low_s, high_s = steady.mean_s(figure)
    note = FOUND.format(
        count=len(begins), fewest=fewest, most=most, period=spoken(figure.value or 0.0),
        low=spoken(low_s), high=spoken(high_s), share=100 * steady.share,
        busy=spoken((busy_and_idle.busy[1] - busy_and_idle.busy[0]) * 1e-9),
        least=spoken(LEAST_A_PERIOD * float(np.median(np.diff(power.t_ns))) * 1e-9),
    )  # fmt: skip
    document: PowerStepFacts = {
        "found": True, **_busy(busy_and_idle), "count": len(begins),
        "count_low": fewest, "count_high": most, "share": steady.share, "period_s": figure.value,
        "low_s": low_s, "high_s": high_s, "method": figure.method,
    }  # fmt: skip
    columns = step_columns(_steps(begins, ends), no_marks(), warmup)
    return PowerSteps(
        steps={**columns, "traced": np.zeros(len(begins), bool)},
        spans=_spans(busy_and_idle, steady.others), document=document, notes=(note,),
    )  # fmt: skip


def _busy(busy_and_idle: Stretches) -> PowerStepFacts:
    """Busy stretch, whether an idle level shows, and earliest, likely and latest times of its ends."""
    facts: PowerStepFacts = {"busy_ns": list(busy_and_idle.busy), "idle": busy_and_idle.idle_shown}
    if busy_and_idle.begin is not None:
        facts["begin_ns"] = [
            busy_and_idle.begin.first,
            busy_and_idle.begin.best,
            busy_and_idle.begin.last,
        ]
    if busy_and_idle.end is not None:
        facts["end_ns"] = [busy_and_idle.end.first, busy_and_idle.end.best, busy_and_idle.end.last]
    return facts


def _steps(begins: IntArray, ends: IntArray) -> TraceSteps:
    return TraceSteps(
        index=np.arange(len(begins)), start_ns=begins, end_ns=ends, mark=_NO_TIMES,
        unused=_NO_TIMES,
    )  # fmt: skip


def _spans(busy_and_idle: Stretches | None, others: Iterable[Sequence[int]] = ()) -> dict[str, Any]:
    """Idle stretches, and those of the busy one in which no steps were found."""
    spans = span_columns(_steps(_NO_TIMES, _NO_TIMES), _NO_TIMES, _NO_TIMES)
    if busy_and_idle is None:
        return spans
    named = [
        ("idle_before", busy_and_idle.before),
        *((UNSEEN, span) for span in others),
        ("idle_after", busy_and_idle.after),
    ]
    for name, span in named:
        if span is not None:
            for key, value in zip(spans, (*map(int, span), "rest", name), strict=True):
                spans[key] = [*spans[key], value]
    return spans


# --- which power ---------------------------------------------------------------------------------


def _power(logs: Sequence[Telemetry]) -> _Power | None:
    """Total of the power, or where there is none the sum of the parts; sampled at the times of the first."""
    series = [
        (channel, log.recording.t_ns[channel.name], log.recording.value[channel.name])
        for log, channel in _channels(logs)
    ]
    series = [(c, t[np.isfinite(v)], v[np.isfinite(v)]) for c, t, v in series]
    series = [one for one in series if len(one[1]) >= LEAST_SAMPLES]
    if not series:
        return None
    whole = [one for one in series if one[0].role == "power_total"]
    whole = whole or [one for one in series if one[0].role == "power_part"] or series
    t_ns = max((t for _, t, _ in whole), key=len)
    within = (t_ns >= max(t[0] for _, t, _ in whole)) & (t_ns <= min(t[-1] for _, t, _ in whole))
    t_ns = t_ns[within]
    if len(t_ns) < LEAST_SAMPLES:
        return None
    return _Power(
        t_ns=t_ns,
        total=np.sum([_at(t_ns, t, v) for _, t, v in whole], axis=0),
        parts=tuple(_at(t_ns, t, v) for _, t, v in series) if len(series) > 1 else (),
        names=_names([channel for channel, _, _ in whole]),
    )


def _channels(logs: Sequence[Telemetry]) -> list[tuple[Telemetry, Channel]]:
    """Power as it was sampled, with the log that holds it."""
    return [
        (log, channel)
        for log in logs
        for channel in log.recording.channels
        if channel.unit == "W" and channel.kind == "gauge" and channel.role in ROLES
    ]


def _at(t_ns: IntArray, times: IntArray, values: FloatArray) -> FloatArray:
    if len(times) == len(t_ns) and np.array_equal(times, t_ns):
        return values
    resampled: FloatArray = np.interp((t_ns - t_ns[0]).astype(np.float64), times - t_ns[0], values)
    return resampled


def _names(channels: Sequence[Channel]) -> str:
    return " + ".join(f"{channel.source} ({channel.name})" for channel in channels)
