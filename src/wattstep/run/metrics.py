"""The metrics of a run, by the names of the design: what the paper defines, and what recording cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wattstep.analysis import memory
from wattstep.analysis.curves import Curve
from wattstep.analysis.disturbance import disturbed_steps, other_cpu
from wattstep.analysis.folding import mean_gain
from wattstep.analysis.statistics import mean_figure, ratio_figure
from wattstep.analysis.steps import BoolArray, IntArray, slices
from wattstep.analysis.utilization import (
    active_ratio,
    idle_state_ratio,
    mean_active_ratio,
    rate,
    within,
)
from wattstep.records.figure import Figure, Status, missing
from wattstep.run.operations import RunBreakdown
from wattstep.run.reading import Tables
from wattstep.run.series import Series

SLICE_NS = 200_000_000  # utilization is resampled in slices of clean time of this length
COARSE_WINDOW_NS = 100_000_000  # for the idle state ratio, where idle time ticks in 10 ms
MARK_S = 2e-6  # a mark after a real step, half of a step's two (benchmarks/marks.py measures them)
CLOCK = "monotonic clock"
ENERGY = {"energy_per_step": "J", "energy_per_sample": "J", "mean_power": "W"}


def compute(tables: Tables, series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    """All metrics; those that cannot be had are missing, with the reason."""
    parts = slices(series.steps.stretches(), SLICE_NS)
    metrics: dict[str, Any] = {}
    metrics.update(_speed(series, breakdown))
    metrics.update(_utilization(tables, series, parts))
    metrics["gpu_utilization"] = missing("ratio", "this version has no GPU sensor")
    metrics.update(_memory(tables, series))
    metrics.update(_energy(series, breakdown, parts))
    metrics.update(_surroundings(tables, series, parts))
    metrics.update(_recording(tables, series, breakdown))
    return metrics


def _speed(series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    steps, clean = series.steps, breakdown.clean
    samples = steps.samples[clean]
    periods = steps.seconds[clean] + steps.gap_s[clean]
    if not len(clean):
        reason = "no clean step was recorded: all were warm-up, traced or settling"
        return {"step_time": missing("s", reason), "throughput": missing("samples/s", reason)}
    if np.isfinite(samples).all():
        throughput = ratio_figure(samples, periods, "samples/s", CLOCK, Status.MEASURED)
    else:
        throughput = missing("samples/s", "how many samples a step takes is not known")
    return {"step_time": breakdown.step_time, "throughput": throughput}


def _utilization(tables: Tables, series: Series, parts: IntArray) -> dict[str, Any]:
    busy = series.core_busy
    if not busy:
        reason = tables.info.absent.get("cpu", "busy time of cores was not sampled")
        return {
            "cpu_utilization": missing("ratio", reason),
            "cpu_core_utilization": [],
            "idle_state_ratio": [],
        }
    source = "/proc/stat"
    per_core = [active_ratio(busy[core], parts, source) for core in sorted(busy)]
    figures: dict[str, Any] = {
        "cpu_utilization": mean_active_ratio([busy[core] for core in sorted(busy)], parts, source),
        "cpu_core_utilization": per_core,
        "idle_state_ratio": _idle(tables, series),
    }
    if series.process_cpu is not None:
        curve, process_source = series.process_cpu
        figures["process_cpu_cores"] = replace(rate(curve, parts, process_source), unit="cores")
    return figures


def _idle(tables: Tables, series: Series) -> list[Figure]:
    stretches = series.steps.stretches()
    fine = series.core_idle
    if fine:
        window = round(tables.info.interval_s * 1e9)
        source = "cpuidle residency"
        curves: Mapping[int, Curve] = fine
    else:
        window = max(COARSE_WINDOW_NS, round(tables.info.interval_s * 1e9))
        source = "/proc/stat"
        idle = series.with_role("idle_time")
        curves = {c.core: series.curve(c) for c in idle if c.core is not None}
    return [idle_state_ratio(curves[core], stretches, window, source) for core in sorted(curves)]


def _memory(tables: Tables, series: Series) -> dict[str, Any]:
    table = tables.table("memory").to_pydict()
    events = list(zip(table["category"], table["bytes"], strict=True))
    children = 0.0
    for channel in series.with_role("children_resident_memory"):
        children = float(np.nanmax(series.raw(channel.name)[1]))
    peak = memory.peak(events, children)
    figures: dict[str, Any] = {
        "peak_memory": peak,
        "system_peak_memory": _system_peak(series),
        "memory_breakdown": memory.breakdown(events, peak),
    }
    if kept := memory.tracing_kept(events):
        figures["tracing_memory"] = Figure(
            value=kept,
            unit="B",
            status=Status.MEASURED,
            source="VmRSS before and after each tracing window",
            method="what tracing kept, taken off the peak",
        )
    return figures


def _system_peak(series: Series) -> Figure:
    total = list(series.with_role("total_memory"))
    available = list(series.with_role("available_memory"))
    if not total or not available:
        return missing("B", "the system's memory was not sampled")
    values = series.raw(total[0].name)[1].max() - series.raw(available[0].name)[1]
    return Figure(
        value=float(np.nanmax(values)),
        unit="B",
        n=len(values),
        method="highest sample of total less available memory",
        status=Status.MEASURED,
        source="/proc/meminfo",
    )


def _energy(series: Series, breakdown: RunBreakdown, parts: IntArray) -> dict[str, Any]:
    energy = series.energy
    clean, steps = breakdown.clean, series.steps
    if isinstance(energy, str) or not len(clean):
        reason = energy if isinstance(energy, str) else "no clean step was recorded"
        return {name: missing(unit, reason) for name, unit in ENERGY.items()}
    gains, covered = energy.curve.difference(parts[:, 0], parts[:, 1])
    lengths = (parts[:, 1] - parts[:, 0]) * 1e-9 * covered
    known = lengths > 0
    gain = mean_gain(energy.curve, steps.start_ns[clean], steps.end_ns[clean])
    if gain is None or not known.any():
        reason = f"no samples of {energy.source} in clean steps"
        return {name: missing(unit, reason) for name, unit in ENERGY.items()}
    power = ratio_figure(gains[known], lengths[known], "W", energy.source, energy.status)
    power = replace(power, reason=energy.note)
    per_step = _product(power, breakdown.step_time, "J", "what clean steps gained, mean")
    samples = steps.samples[clean]
    if np.isfinite(samples).all():
        periods = steps.seconds[clean] + steps.gap_s[clean]
        per_sample_s = ratio_figure(periods, samples, "s", CLOCK, Status.MEASURED)
        method = (
            "mean power over clean time, times the time of a sample, gaps between steps included"
        )
        per_sample = _product(power, per_sample_s, "J", method)
    else:
        per_sample = missing("J", "how many samples a step takes is not known")
    return {
        "energy_per_step": _centred(per_step, gain),
        "energy_per_sample": per_sample,
        "mean_power": power,
    }


def _centred(figure: Figure, value: float) -> Figure:
    """The figure with its relative interval around another value of the same quantity."""
    if not figure.value:
        return figure
    return replace(figure.scaled(value / figure.value, figure.unit), value=value)


def _product(a: Figure, b: Figure, unit: str, method: str) -> Figure:
    """The product of two figures, their relative half widths added in squares."""
    if a.value is None or b.value is None:
        return missing(unit, a.reason or b.reason or "a factor is missing")
    value = a.value * b.value
    relative = np.hypot(_relative(a), _relative(b))
    exact = a.low is None or b.low is None
    return replace(
        a,
        value=value,
        unit=unit,
        low=None if exact else value * (1 - float(relative)),
        high=None if exact else value * (1 + float(relative)),
        n=b.n,
        method=method,
    )


def _relative(figure: Figure) -> float:
    if figure.low is None or figure.high is None or not figure.value:
        return 0.0
    return (figure.high - figure.low) / 2 / figure.value


def rails(series: Series, breakdown: RunBreakdown) -> dict[str, Figure]:
    """Energy a clean step by rail, where there are several."""
    steps, clean = series.steps, breakdown.clean
    table = {}
    for name, source in series.rails.items():
        gains, covered = source.curve.difference(steps.start_ns[clean], steps.end_ns[clean])
        known = covered > 0  # what lies in a gap counts like the sampled rest of its step
        table[name] = mean_figure(gains[known] / covered[known], "J", source.source, source.status)
    return table


# --- what else ran, and what recording cost -----------------------------------------------------


def _own_curves(series: Series) -> list[Curve]:
    own = [] if series.process_cpu is None else [series.process_cpu[0]]
    sampler = series.one("sampler_cpu_time")
    return own + ([] if sampler is None else [sampler])


def disturbed(tables: Tables, series: Series) -> BoolArray:
    """Which steps something else disturbed."""
    system = series.one("system_busy_time")
    steps = series.steps
    if system is None or series.process_cpu is None:
        return np.zeros(len(steps.index), bool)
    cores = int(tables.info.device.get("cores") or 1)
    return disturbed_steps(
        steps.start_ns, steps.end_ns, system, _own_curves(series),
        series.one("system_steal_time"), cores,
    )  # fmt: skip


def _surroundings(tables: Tables, series: Series, parts: IntArray) -> dict[str, Any]:
    cores = int(tables.info.device.get("cores") or 1)
    figures: dict[str, Any] = _state_of_device(series)
    steal = series.one("system_steal_time")
    if steal is None or not len(parts):
        figures["steal"] = missing("ratio", "time taken by a hypervisor was not sampled")
    else:
        stolen = rate(steal, parts, "/proc/stat").scaled(1 / cores, "ratio")
        figures["steal"] = within(stolen)
    system = series.one("system_busy_time")
    if system is None or series.process_cpu is None or not len(parts):
        figures["other_cpu"] = missing("cores", "busy time of the system was not sampled")
    else:
        begin, end = parts[:, 0], parts[:, 1]
        other = other_cpu(system, _own_curves(series), begin, end)
        known = np.isfinite(other)
        if not known.any():
            reason = "the run was too short to tell other processes from the training"
            return {**figures, "other_cpu": missing("cores", reason)}
        figures["other_cpu"] = within(
            ratio_figure(
                other[known], ((end - begin) * 1e-9)[known], "cores",
                "/proc/stat less training and sampler", Status.MEASURED,
            ), most=cores,
        )  # fmt: skip
    return figures


def _overhead(tables: Tables, series: Series, step: float) -> Figure:
    """Share of the recorded time that recording took."""
    steps, info = series.steps, tables.info
    span = float(steps.end_ns[-1] - steps.start_ns[0]) * 1e-9
    windows = (steps.window_ns[:, 1] - steps.window_ns[:, 0]) * 1e-9
    extra = float(np.maximum(windows - step, 0.0).sum())
    marks = (2 * len(steps.index) + len(tables.marks.t_ns)) * MARK_S
    share = (extra + marks) / span
    method = "time of tracing windows beyond a clean step, and of marks, over the recorded time"
    sampler = series.one("sampler_cpu_time")
    cores = int(info.device.get("cores") or 1)
    if sampler is not None and (info.threads or 1) >= cores:
        # With every core in use, what the sampler takes is taken from the training.
        seconds = float(sampler.covered_ns[-1]) * 1e-9
        share += float(sampler.total[-1]) / seconds / cores if seconds > 0 else 0.0
        method += ", and the sampler's share of the cores"
    else:
        method += "; the sampler runs on a core that the training leaves free"
    return Figure(
        value=share, unit="ratio", n=len(windows), status=Status.ATTRIBUTED, source=CLOCK,
        method=method,
    )  # fmt: skip


def _state_of_device(series: Series) -> dict[str, Any]:
    """Temperatures and frequencies while it trained, where there are sensors of them."""
    steps = series.steps
    figures: dict[str, Any] = {}
    if not len(steps.index):
        return figures
    begin, end = steps.start_ns[0], steps.end_ns[-1]
    for name, role in (("temperature", "temperature"), ("frequency", "frequency")):
        table = {}
        for channel in series.with_role(role):
            t_ns, value = series.raw(channel.name)
            inside = value[(t_ns >= begin) & (t_ns <= end) & np.isfinite(value)]
            if len(inside):
                table[channel.name] = Figure(
                    value=float(inside.mean()), unit=channel.unit, n=len(inside),
                    status=Status.MEASURED, source=channel.source,
                    method=f"mean of samples between {inside.min():g} and {inside.max():g}",
                )  # fmt: skip
        if table:
            figures[name] = table
    return figures


def _recording(tables: Tables, series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    steps = series.steps
    step = breakdown.step_time.value
    if step is None or not len(steps.index):
        reason = "no clean step was recorded"
        return {
            "recording_overhead": missing("ratio", reason),
            "trace_inflation": missing("ratio", reason),
            "correction_residual": missing("ratio", reason),
        }
    figures = {"recording_overhead": _overhead(tables, series, step)}
    if breakdown.reason is not None:
        figures["trace_inflation"] = missing("ratio", breakdown.reason)
        figures["correction_residual"] = missing("ratio", breakdown.reason)
        return figures
    correction = breakdown.laid.correction
    source = f"{correction.windows} traced steps and the clean ones beside them"
    figures["trace_inflation"] = Figure(
        value=correction.inflation, unit="ratio", n=correction.windows, status=Status.MEASURED,
        source=source, method="traced step over clean step, median",
    )  # fmt: skip
    if np.isfinite(correction.residual):
        figures["correction_residual"] = Figure(
            value=correction.residual, unit="ratio", n=correction.windows, status=Status.MEASURED,
            source=source,
            method="cost of an event fitted on odd windows, clean steps beside even ones "
            "predicted: relative error before anything is scaled",
        )  # fmt: skip
    else:
        figures["correction_residual"] = missing("ratio", "fewer than four steps were traced")
    return figures
