"""The steps of a training in a log of its power alone: the busy stretch, and the period that repeats in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wattstep.analysis.busy_stretch import Stretches, stretches
from wattstep.analysis.even_beat import even_beat
from wattstep.analysis.period import LEAST_A_PERIOD, period
from wattstep.analysis.power import spoken
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray
from wattstep.analysis.weak_period import weak_period
from wattstep.importing.columns import no_marks, span_columns, step_columns
from wattstep.importing.steps import TraceSteps
from wattstep.importing.telemetry import Telemetry
from wattstep.records.channel import Channel
from wattstep.records.figure import Figure, missing

LEAST_SAMPLES: Final = 40
ROLES: Final = ("power_total", "power_part", "power_outside")
FOUND: Final = (
    "steps found from the period of the power, not marked: {count} of {period} ({low} to {high}) fill "
    "the busy stretch of {busy}; single ones are not told apart, and what else ran in it counts as "
    "steps; one that is shorter than {least} would look the same"
)
NONE: Final = "no steps were found in the power: {}"
NO_SAMPLES: Final = "the log holds too few samples of power"


@dataclass(frozen=True, kw_only=True)
class PowerSteps:
    """What the power of a log tells.

    Attributes:
        steps: Columns of the table of steps.
        spans: Columns of the table of spans: idle stretches.
        document: What `run.json` keeps of it ("found", "busy_ns", "period_s", ..., "reason").
        notes: What a reader must know.
    """

    steps: dict[str, Any]
    spans: dict[str, Any]
    document: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Power:
    """Power of a machine in W, and of its parts, at the same times."""

    t_ns: IntArray
    total: FloatArray
    parts: tuple[FloatArray, ...]
    names: str


def steps_of_power(logs: Sequence[Telemetry], warmup: int) -> PowerSteps:
    """Steps of equal length that fill the busy stretch, where the power has a period; else none.

    Args:
        logs: On one clock, no channel twice.
        warmup: First steps that do not count.
    """
    power = _power(logs)
    if power is None:
        return _told(None, missing("s", NO_SAMPLES), warmup)
    found = stretches(power.t_ns, power.total)
    inside = (power.t_ns >= found.busy[0]) & (power.t_ns <= found.busy[1])
    return _told(found, _period(power, inside, found.told), warmup, power)


def _period(power: _Power, inside: BoolArray, told: bool) -> Figure:
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
    if told:
        weak = weak_period(
            t_ns, [each[inside] for each in (power.total, *power.parts)], power.names
        )
        if not weak.missing:
            return weak
    return missing("s", reason or NO_SAMPLES)


def _told(
    found: Stretches | None, figure: Figure, warmup: int, power: _Power | None = None
) -> PowerSteps:
    document: dict[str, Any] = {"found": figure.value is not None}
    if found is not None:
        document |= {"busy_ns": list(found.busy), "idle": found.told}
    spans = _idle_spans(found)
    if found is None or figure.value is None or power is None:
        reason = NONE.format(figure.reason)
        return PowerSteps(
            steps=step_columns(_tiled((0, 0), 0), no_marks(), 0), spans=spans,
            document={**document, "reason": reason}, notes=(reason,),
        )  # fmt: skip
    busy_s = (found.busy[1] - found.busy[0]) * 1e-9
    count = max(round(busy_s / figure.value), 1)
    # Where power was between idle and busy there may have been no steps: the others took as much more.
    high_s = (figure.high or figure.value) / (1 - found.between)
    steps = step_columns(_tiled(found.busy, count), no_marks(), warmup)
    least_s = LEAST_A_PERIOD * float(np.median(np.diff(power.t_ns))) * 1e-9
    note = FOUND.format(
        count=count, period=spoken(figure.value), low=spoken(figure.low or 0.0),
        high=spoken(high_s), busy=spoken(busy_s), least=spoken(least_s),
    )  # fmt: skip
    document |= {
        "count": count, "period_s": figure.value, "low_s": figure.low, "high_s": high_s,
        "method": figure.method,
    }  # fmt: skip
    return PowerSteps(
        steps={**steps, "traced": np.zeros(count, bool)}, spans=spans, document=document,
        notes=(note,),
    )  # fmt: skip


def _tiled(span: tuple[int, int], count: int) -> TraceSteps:
    edges = np.linspace(span[0], span[1], count + 1).astype(np.int64) if count else np.zeros(1, int)
    nothing = np.zeros(0, np.int64)
    return TraceSteps(
        index=np.arange(count), start_ns=edges[:-1].astype(np.int64), mark=nothing,
        end_ns=edges[1:].astype(np.int64), unused=nothing,
    )  # fmt: skip


def _idle_spans(found: Stretches | None) -> dict[str, Any]:
    spans = span_columns(_tiled((0, 0), 0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    if found is None:
        return spans
    for name, span in (("idle_before", found.before), ("idle_after", found.after)):
        if span is not None:
            for key, value in zip(spans, (*span, "rest", name), strict=True):
                spans[key] = [*spans[key], value]
    return spans


# --- which power ---------------------------------------------------------------------------------


def _power(logs: Sequence[Telemetry]) -> _Power | None:
    """What makes the total, or where there is none the parts; sampled at the times of the first."""
    series = [
        (channel, log.recording.t_ns[channel.name], log.recording.value[channel.name])
        for log in logs
        for channel in log.recording.channels
        if channel.unit == "W" and channel.kind == "gauge" and channel.role in ROLES
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


def _at(t_ns: IntArray, times: IntArray, values: FloatArray) -> FloatArray:
    if len(times) == len(t_ns) and np.array_equal(times, t_ns):
        return values
    laid: FloatArray = np.interp((t_ns - t_ns[0]).astype(np.float64), times - t_ns[0], values)
    return laid


def _names(channels: Sequence[Channel]) -> str:
    return " + ".join(f"{channel.source} ({channel.name})" for channel in channels)
