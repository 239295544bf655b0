"""The thermal model of a run: fitted to its hottest sensor, with figures as everything else has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wattstep.device.thermal_model import Estimate, ThermalModel, fit_thermal_model
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.run.step_flags import StepFlags
from wattstep.schema.channel import Channel
from wattstep.schema.condition_documents import ConditionFacts
from wattstep.schema.figure import Figure, Missing, Status, missing, weakest

LEAST_S: Final = 60.0  # of training: below, a run says nothing of its thermal model at all
LEAST_LOAD_NS: Final = 10**9  # of training that nothing throttled, whose power can be told
UNITS: Final = {
    "thermal_time_constant": "s",
    "steady_temperature": "°C",
    "time_to_throttle": "s",
    "thermal_resistance": "K/W",
}
_NUMBERS: Final = {1: "one stage", 2: "two stages"}


def thermal_metrics(tables: Tables, series: Series, flags: StepFlags) -> dict[str, Any]:
    """Time constant, steady temperature, time to throttle and thermal resistance.

    Of runs shorter than a minute nothing, unless they were to become steady.
    """
    steps = series.steps
    if not len(steps.index):
        return {}
    seconds = float(steps.end_ns[-1] - steps.start_ns[0]) * 1e-9
    if seconds < LEAST_S and "sustain" not in tables.info.conditions:
        return {}
    channel = _hottest(series, steps)
    if channel is None:
        return _none("no temperature was sampled")
    load = _load(steps, series, flags)
    model = fit_thermal_model(
        *series.course(channel.name)[:2],
        None if isinstance(series.machine_energy, Missing) else series.machine_energy.curve,
        training_ns=load.span_ns,
        ambient=_ambient(tables.info.conditions, series),
        limit=channel.limit,
    )
    return _none(model) if isinstance(model, Missing) else _figures(model, channel, series, load)


def _none(reason: str) -> dict[str, Any]:
    return {name: missing(unit, reason) for name, unit in UNITS.items()}


def _hottest(series: Series, steps: Steps) -> Channel | None:
    """The sensor that was hottest in the last quarter of the training."""
    end = int(steps.end_ns[-1])
    late = end - (end - int(steps.start_ns[0])) // 4
    hottest, highest = None, -np.inf
    for channel in series.with_role("temperature"):
        inside = series.totals(channel.name, (late, end))
        if inside is not None and inside.mean > highest:
            hottest, highest = channel, inside.mean
    return hottest


@dataclass(frozen=True, kw_only=True)
class _Load:
    """The training as it was before anything throttled it: what it would lead to is asked.

    Attributes:
        span_ns: Begin and end.
        words: Which part of the training that is.
        onset_s: When throttling set in, in s from the first step; None: never, or at once.
        throttled: Whether all of it was throttled, so that nothing is known of its own power.
    """

    span_ns: tuple[int, int]
    words: str
    onset_s: float | None = None
    throttled: bool = False


def _load(steps: Steps, series: Series, flags: StepFlags) -> _Load:
    """From the first step up to the first throttled stretch; else all of the training."""
    begin, end = int(steps.start_ns[0]), int(steps.end_ns[-1])
    onsets = [
        stretch.start_ns
        for stretch in flags.stretches
        if stretch.kind == "throttled" and stretch.end_ns > begin and stretch.start_ns < end
    ]
    if not onsets:
        return _Load(span_ns=(begin, end), words="of the training")
    onset = max(min(onsets), begin)
    if onset - begin < LEAST_LOAD_NS and not isinstance(series.machine_energy, Missing):
        words = "of the training, throttled from its beginning on"
        return _Load(span_ns=(begin, end), words=words, throttled=True)
    seconds = (onset - begin) * 1e-9
    return _Load(
        span_ns=(begin, onset),
        words=f"of the first {seconds:.3g} s of training, before throttling set in",
        onset_s=seconds,
    )


def _ambient(recorded: ConditionFacts, series: Series) -> float | None:
    """In °C: sampled, else as the user said, else None."""
    for channel in series.with_role("ambient_temperature"):
        sampled = series.totals(channel.name)
        assert sampled is not None  # of a role, only those that have samples
        return sampled.mean
    ambient = (recorded.get("ambient") or {}).get("value")
    return None if ambient is None else float(ambient)


def _figures(model: ThermalModel, channel: Channel, series: Series, load: _Load) -> dict[str, Any]:
    energy = series.machine_energy  # all of it heats the device
    origin = Status(channel.status)
    status = origin if isinstance(energy, Missing) else weakest([origin, energy.status])
    # A constant of a model is no sensor's value, whatever it was fitted to.
    status = weakest([status, Status.MODELLED])
    driven = "constant load" if isinstance(energy, Missing) else f"power ({energy.source})"
    stages = len(model.time_constants)
    method = (
        f"{_NUMBERS[stages]} fitted to {channel.name} under {driven}; residuals of "
        f"{model.residual:.2g} °C; interval from the likelihood of all time constants, with "
        f"{model.n} values worth {model.effective:.0f}"
    )
    about = {"status": status, "source": channel.source, "n": model.n, "method": method}
    slow = _figure(model.time_constants[-1], "s", about)
    table: dict[str, Any] = {"thermal_time_constant": slow}
    if stages > 1:
        slow = replace(slow, method=f"the slower of {method}")
        fast = _figure(model.time_constants[0], "s", {**about, "method": f"the faster of {method}"})
        table = {"thermal_time_constant": slow, "thermal_time_constant_fast": fast}
    what = "load" if isinstance(energy, Missing) else "mean power"
    predicted = {**about, "method": f"at the {what} {load.words}; {method}"}
    table["steady_temperature"] = _figure(model.steady, "°C", predicted)
    table["time_to_throttle"] = _time_to_throttle(model, load, predicted)
    table["thermal_resistance"] = (
        missing("K/W", model.no_resistance)
        if model.resistance is None
        else _figure(model.resistance, "K/W", about)
    )
    return table


def _time_to_throttle(model: ThermalModel, load: _Load, about: Mapping[str, Any]) -> Figure:
    if load.throttled:
        return missing(
            "s", "it was throttled from the first step on: its power without that was not seen"
        )
    if model.to_limit is None and load.onset_s is not None:
        return missing(
            "s",
            f"{model.no_limit}; it was throttled after {load.onset_s:.3g} s all the same: it took "
            "more for a while, or something else than this sensor throttled it",
        )
    if model.to_limit is None:
        return missing("s", model.no_limit)
    return _figure(model.to_limit, "s", about)


def _figure(estimate: Estimate, unit: str, about: Mapping[str, Any]) -> Figure:
    low, high = estimate.low, estimate.high
    if low is not None and high is not None:
        return Figure(value=estimate.value, unit=unit, low=low, high=high, confidence=0.95, **about)
    if low is not None:
        ends = f"at least {low:.3g} {unit}; maybe never"
    else:
        ends = "nothing is known of it" if high is None else f"at most {high:.3g} {unit}"
    return Figure(value=estimate.value, unit=unit, reason=f"95 % interval: {ends}", **about)
