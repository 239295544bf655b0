"""Energy and power of a run: by step and sample, by rail, above idle, and in each state of the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wattstep.attribution.step_energy import (
    Spent,
    holding_both,
    joined,
    none_of,
    partly,
    power_over,
    product,
    spent,
)
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.recorded.imported import UNMARKED, WHOLE, WHOLE_TRACE
from wattstep.recorded.log_notes import SAMPLED, cut_short
from wattstep.recorded.power import NEXT, EnergySource, spoken
from wattstep.recorded.series import NOT_KEPT, Series
from wattstep.recorded.steps import Steps
from wattstep.run.step_flags import StepFlags
from wattstep.schema.arrays import BoolArray, IntArray
from wattstep.schema.figure import CLOCK, Figure, Missing, missing
from wattstep.stats.statistics import mean_figure, ratio_figure

FEW_COUNTS = 10  # of a counter over a whole recording
SMALL_STEP = 0.005  # of its energy: a counter's step is told from there on
SELDOM_NEW = 0.9  # of its reads: of more that found it new, no more than it counts lies between two
LEAST_STEPS = 5  # in a state: fewer make no mean
ENERGY = {"energy_per_step": "J", "energy_per_sample": "J", "mean_power": "W"}
PER_STEP = ("energy_per_step", "energy_per_sample")
RECORDING = "recording"
UNSAMPLED = "; in the rest power may have been anything from {} to {}"
IDLE = {"before": "idle_before", "after": "idle_after"}
STABILIZING = "stabilizing"  # the wait of --stable
CANARY = "canary"  # fixed work before and after the training
OF_MACHINE = "machine_"  # before a figure's name: of the whole machine, where it is not the same
MODEL_IDLE = "less the training's share of the idle power, as the power model has it"
CONVENTION = (
    "less the power of the idle device {}, over the same time: what leaks and what the board "
    "takes anyway counts as idle and is taken off, though it flows during the step too"
)


def energy_metrics(
    series: Series, breakdown: RunBreakdown, flags: StepFlags, options: Mapping[str, Any]
) -> dict[str, Any]:
    """`energy_per_step`, `energy_per_sample`, `mean_power`, and those above idle and by state.

    Of imported telemetry `recorded_energy`, too; where a power model tells the training's own from
    the machine's, `machine_energy_per_step` and `machine_mean_power` beside it.

    Args:
        series: The samples.
        breakdown: The step.
        flags: Which steps were throttled or disturbed.
        options: Of the run: "subtract_idle" is "before", "after", or missing.
    """
    energy = series.energy
    if series.steps.absent:
        return _without_steps(series)
    energies = energy if isinstance(energy, Missing) else spent(energy, series.steps)
    figures: dict[str, Any]
    if isinstance(energies, Missing) or isinstance(energy, Missing):
        reason = energies if isinstance(energies, Missing) else str(energy)
        figures = {name: missing(unit, reason) for name, unit in ENERGY.items()}
    else:
        figures = {
            "energy_per_step": energies.per_step,
            "energy_per_sample": _per_sample(energy, energies, series.steps),
            "mean_power": energies.power,
        }
    # Before idle power is taken off: that is power over a time, which is as uncertain.
    figures.update({name: series.imported.with_period(figures[name]) for name in PER_STEP})
    figures.update(_idle(series, breakdown, figures, options.get("subtract_idle")))
    figures.update(_of_machine(series))
    figures.update(_by_state(series, flags))
    if series.imported.trace_is_one_step:
        figures["recorded_energy"] = _of_whole_trace(figures["energy_per_step"], series)
        figures.update({name: missing("J", UNMARKED) for name in PER_STEP})
    elif series.imported.telemetry:
        figures["recorded_energy"] = recorded(series.energy_by_its_clock, series.recorded_ns)
    return figures


def _of_machine(series: Series) -> dict[str, Figure]:
    """Energy a step and power of the whole machine, where those of the training are its own alone."""
    machine = series.machine_by_model
    if machine is None:
        return {}
    energies = machine if isinstance(machine, Missing) else spent(machine, series.steps)
    if isinstance(energies, Missing):
        figures = {
            name: missing(ENERGY[name], energies) for name in ("energy_per_step", "mean_power")
        }
    else:
        figures = {"energy_per_step": energies.per_step, "mean_power": energies.power}
    return {OF_MACHINE + name: figure for name, figure in figures.items()}


# --- of a whole recording -----------------------------------------------------------------------


def _without_steps(series: Series) -> dict[str, Any]:
    """Power and energy of an imported recording that has no steps."""
    energy, span = series.energy, series.recorded_ns
    figures: dict[str, Any] = {name: missing("J", series.steps.absent) for name in PER_STEP}
    figures["recorded_energy"] = recorded(energy, span)
    if isinstance(energy, Missing) or span is None:
        return {**figures, "mean_power": missing("W", figures["recorded_energy"].reason)}
    power = power_over(energy, np.array([span], np.int64), RECORDING)
    if power.value is not None:
        (gain,), (seconds,) = energy.curve.gains(np.array([span], np.int64))
        step_w = _step_at_ends(energy, float(gain)) / float(seconds)
        power = replace(power, reason=joined(energy.note, power.reason))
        power = _no_narrower(power, step_w)
    return {**figures, "mean_power": power}


def recorded(energy: EnergySource | Missing, span: tuple[int, int] | None) -> Figure:
    """Energy in J of a whole recording, as far as it was sampled.

    Args:
        energy: Of the machine, or of a rail, or why there is none.
        span: Begin and end of the recording in ns; None where it has no length.
    """
    if isinstance(energy, Missing):
        return missing("J", energy)
    if span is None:
        return missing("J", "the recording has no length")
    gains, covered = energy.curve.difference(np.array([span[0]]), np.array([span[1]]))
    share = float(covered[0])
    seconds = (span[1] - span[0]) * 1e-9 * share
    if not seconds:
        return missing("J", none_of(energy, f"the {RECORDING}"))
    gain = float(gains[0])
    if reason := energy.too_little(seconds, gain):
        return missing("J", reason)
    step = _step_at_ends(energy, gain)
    less, more = (
        _unsampled(energy, (span[1] - span[0]) * 1e-9 - seconds) if share < SAMPLED else (0.0, 0.0)
    )
    exact = not (step or less or more)
    unsampled = UNSAMPLED.format(
        "the lowest that was seen" if less else "none",
        "the highest that was seen" if more else "none",
    )
    figure = Figure(
        value=gain, unit="J", status=energy.status, source=energy.source,
        low=None if exact else gain + less - step if gain < 0 or less < 0 else max(gain - step, 0.0),
        high=None if exact else gain + more + step,
        systematic=energy.systematic_at(gain / seconds),
        reason=joined(energy.note, partly(share, RECORDING)),
        method=f"{WHOLE}, what was sampled of it" + unsampled * bool(less or more),
    )  # fmt: skip
    return holding_both(figure, energy, energy.curve.known_parts, seconds)


def _step_at_ends(energy: EnergySource, gain: float) -> float:
    """Energy in J that a counter may be behind at either end of a recording; 0 where it is a small part of `gain`.

    One that was new at nearly every read counts between two of them, and is behind by none.
    """
    steps = np.diff(energy.curve.total)
    moved = steps[steps > 0]
    few = len(moved) < FEW_COUNTS
    if not energy.sensed or energy.gauge is not None or not len(moved):
        return 0.0
    step = max(float(np.median(moved)), float(moved[0]), float(moved[-1]))
    seldom = len(moved) < SELDOM_NEW * len(steps) and step > SMALL_STEP * abs(gain)
    return step if few or seldom else 0.0


def _no_narrower(figure: Figure, off: float) -> Figure:
    """The figure, its interval at least so far on either side of its value; 0: as it is."""
    if not off or figure.value is None:
        return figure
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    return replace(
        figure, low=min(low, max(figure.value - off, 0.0)), high=max(high, figure.value + off)
    )


def _unsampled(energy: EnergySource, seconds: float) -> tuple[float, float]:
    """Least and most energy in J that may have flowed while nothing was sampled: at the lowest power seen, or none, and at the highest."""
    watts = energy.gauge[1] if energy.gauge is not None else energy.curve.renewed.rates()
    return min(float(np.nanmin(watts)), 0.0) * seconds, max(float(np.nanmax(watts)), 0.0) * seconds


def _of_whole_trace(figure: Figure, series: Series) -> Figure:
    """Energy over the trace; where clocks or its power do not tell it, over the log, and its method says so."""
    if series.imported.telemetry and (figure.missing or cut_short(series)):
        return recorded(series.energy_by_its_clock, series.recorded_ns)
    clock = (figure.method or "").partition("; ")[2]
    return figure if figure.missing else replace(figure, method=joined(WHOLE_TRACE, clock))


def _sample_time(steps: Steps) -> Figure:
    """Time that a sample takes, gaps between steps included."""
    counted = steps.counted
    if not counted.count:
        return missing("s", steps.none_clean)
    samples, periods = counted.together(counted.samples, counted.seconds + counted.gap_s)
    if not np.isfinite(samples).all():
        return missing("s", "how many samples a step takes is not known")
    return counted.figure(ratio_figure(periods, samples, "s", CLOCK, steps.status))


def _per_sample(energy: EnergySource, energies: Spent, steps: Steps) -> Figure:
    time = _sample_time(steps)
    if time.value is None:
        return missing("J", time.reason or "")
    method = "mean power over clean time, times the time of a sample, gaps between steps included"
    figure = product(energies.still, time, "J", method)
    if energy.clock is not None and energies.moved is not None:
        figure = energy.clock.applied(figure, energies.moved * time.value)
    return holding_both(figure, energy, steps.stretches(), time.value)


# --- above idle ---------------------------------------------------------------------------------


def _idle(
    series: Series, breakdown: RunBreakdown, figures: Mapping[str, Any], subtract: object
) -> dict[str, Any]:
    """`idle_power` and `energy_per_step_above_idle`, where the run has idle stretches."""
    spans = {when: series.steps.rest_ns.get(name) for when, name in IDLE.items()}
    if all(span is None or not len(span) for span in spans.values()) and not subtract:
        return {}
    idle = {when: idle_power(series, when, span) for when, span in spans.items()}
    gross: Figure = figures["energy_per_step"]
    power: Figure = figures["mean_power"]
    dynamic = series.dynamic_share

    def above(figure: Figure, time: Figure, when: str) -> Figure:
        if dynamic is None:
            return _above(figure, power, idle[when], time, when)
        return _without_idle_share(figure, idle[when], dynamic)

    net = {when: above(gross, breakdown.step_time, when) for when in idle}
    idle_figures: dict[str, Any] = {"idle_power": idle, "energy_per_step_above_idle": net}
    if subtract in net:
        sample: Figure = figures["energy_per_sample"]
        when = str(subtract)
        idle_figures["energy_per_step"] = net[when]
        idle_figures["energy_per_step_with_idle"] = gross
        time = series.imported.with_period(_sample_time(series.steps))
        idle_figures["energy_per_sample"] = above(sample, time, when)
        idle_figures["energy_per_sample_with_idle"] = sample
    return idle_figures


def _without_idle_share(gross: Figure, idle: Figure, dynamic: float) -> Figure:
    """Power of the training by a power model less its share of idle power, which the model states."""
    if gross.missing or idle.missing:
        return missing(gross.unit, gross.reason or idle.reason or "not known")
    return replace(gross.scaled(dynamic, gross.unit), method=f"{gross.method}; {MODEL_IDLE}")


def idle_power(series: Series, when: str, spans: IntArray | None) -> Figure:
    """Mean power in W of the idle stretch "before" or "after" the steps."""
    energy = series.machine_energy
    if isinstance(energy, Missing):
        return missing("W", energy)
    if spans is None or not len(spans):
        ask = "" if series.imported.is_import else " (--idle 30s)"
        return missing("W", f"no idle stretch was recorded {when} the steps{ask}")
    # What ran before it must have left the sensor until that shows the idle device alone.
    least, limit = energy.shortest
    late = energy.late_s[1] + energy.mixes_s if energy.sensed else 0.0
    if late > least:
        words = f"the sensor may show for {spoken(late)} what ran before"
        least, limit = late, ", ".join(filter(None, [limit, words]))
    begin = spans[:, 0] + round(least * 1e9)
    lasting = np.stack([begin, spans[:, 1]], axis=1)[begin < spans[:, 1]]
    if not len(lasting):
        return missing("W", f"not resolvable: {limit}, the idle stretch is shorter")
    power = power_over(energy, lasting, f"the idle stretch {when} the steps")
    if power.missing:
        return power
    return replace(power, reason=joined(energy.note, power.reason))


def _above(gross: Figure, power: Figure, idle: Figure, time: Figure, when: str) -> Figure:
    """Energy in a time (of a step, of a sample) less that of the idle device in the same time.

    The time is in both: what is uncertain is the difference of the powers, and the time that it
    lasts.
    """
    if gross.value is None or power.value is None or idle.value is None or time.value is None:
        reasons = (each.reason for each in (gross, idle, time) if each.missing)
        return missing("J", next(reasons, None) or "not known")
    value = gross.value - idle.value * time.value
    powers = float(np.hypot(power.half_width, idle.half_width)) * time.value
    half_width = float(np.hypot(powers, time.half_width * abs(power.value - idle.value)))
    exact = gross.low is None or idle.low is None
    return replace(
        gross,
        value=value,
        low=None if exact else value - half_width,
        high=None if exact else value + half_width,
        confidence=None if exact else gross.confidence,
        method=f"{gross.method}; {CONVENTION.format(when)}",
        systematic=_systematic_left(gross, idle.scaled(time.value, "J"), value),
    )


def _systematic_left(gross: Figure, idle: Figure, value: float) -> float | None:
    """Relative systematic error of a difference; None where neither part has one."""
    parts = [(f.systematic, f.value) for f in (gross, idle) if f.systematic is not None and f.value]
    if not parts or not value:
        return None
    return float(np.hypot.reduce([systematic * part for systematic, part in parts])) / abs(value)


# --- by state -----------------------------------------------------------------------------------


def _by_state(series: Series, flags: StepFlags) -> dict[str, Any]:
    """Step time and energy of undisturbed, throttled and disturbed steps, where there are such."""
    steps = series.steps.single_alone
    states = {
        "undisturbed": ~(flags.throttled | flags.disturbed),
        "throttled": flags.throttled,
        "disturbed": flags.disturbed,
    }
    if not (steps.clean & ~states["undisturbed"]).any():
        return {}
    times = {name: _time_in(steps, mask, name) for name, mask in states.items()}
    energies = {name: _energy_in(series, steps, mask, name) for name, mask in states.items()}
    if flags.unseen:
        times["disturbed"] = missing("s", flags.unseen)
        energies["disturbed"] = missing("J", flags.unseen)
    by_state = {"step_time_by_state": times, "energy_per_step_by_state": energies}
    return {name: series.imported.with_period(figures) for name, figures in by_state.items()}


def _time_in(steps: Steps, mask: BoolArray, name: str) -> Figure:
    chosen = steps.clean & mask
    if reason := _too_few(int(chosen.sum()), name):
        return missing("s", reason)
    return mean_figure(steps.seconds[chosen], "s", CLOCK, steps.status)


def _energy_in(series: Series, steps: Steps, mask: BoolArray, name: str) -> Figure:
    chosen = replace(steps, excluded=~mask)
    energy = series.energy
    if isinstance(energy, Missing):
        return missing("J", energy)
    if reason := _too_few(int(chosen.clean.sum()), name):
        return missing("J", reason)
    if name != "undisturbed":  # of which the others are single ones
        chosen = replace(chosen, excluded=~mask | series.is_thinned(steps.start_ns, steps.end_ns))
        if _too_few(int(chosen.clean.sum()), name):
            return missing("J", NOT_KEPT)
    energies = spent(energy, chosen)
    return missing("J", energies) if isinstance(energies, Missing) else energies.per_step


def _too_few(count: int, name: str) -> str | None:
    if count >= LEAST_STEPS:
        return None
    return f"{count or 'no'} {name} step{'' if count == 1 else 's'}: {LEAST_STEPS} are the least"


# --- by rail ------------------------------------------------------------------------------------


def rails(series: Series) -> dict[str, Figure]:
    """Energy a clean step by rail, where there are several; without steps, of the recording.

    What is said of the total (that it leaves out the carrier board) is not said again of each.
    """
    note = "" if isinstance(series.energy, Missing) else series.energy.note or ""
    return {name: _of_rail(_without(source, note), series) for name, source in series.rails.items()}


def _without(source: EnergySource, note: str) -> EnergySource:
    own = [part for part in (source.note or "").split(NEXT) if part not in note.split(NEXT)]
    return replace(source, note=NEXT.join(own) or None)


def outside(series: Series) -> dict[str, Figure]:
    """Energy a clean step of rails that are no part of the machine's total: a carrier board's."""
    return {name: _of_rail(source, series) for name, source in series.outside.items()}


def _of_rail(source: EnergySource, series: Series) -> Figure:
    if series.steps.absent:
        return recorded(source, series.recorded_ns)
    energies = spent(source, series.steps)
    if isinstance(energies, Missing):
        return missing("J", energies)
    figure: Figure = series.imported.with_period(energies.per_step)
    return figure
