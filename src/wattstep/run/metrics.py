"""The metrics of a run, by the names of the design: what the paper defines, and what recording cost."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from wattstep.attribution.step_energy import with_time_between
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.device.disturbance import other_cpu
from wattstep.device.utilization import (
    active_ratio,
    idle_state_ratio,
    mean_active_ratio,
    rate,
    within,
)
from wattstep.recorded.curves import Curve, add_curves
from wattstep.recorded.imported import ELSEWHERE, UNMARKED, scope_of, with_scope
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series, real_cores
from wattstep.recorded.steps import slices
from wattstep.run.busy import busy_figures
from wattstep.run.completion import completion
from wattstep.run.energy import energy_metrics
from wattstep.run.foreground import foreground_delay
from wattstep.run.gpu import gpu_utilization
from wattstep.run.memory import memory_metrics
from wattstep.run.step_flags import (
    StepFlags,
    around_training,
    not_comparable,
    own_curves,
)
from wattstep.run.sustained import sustained_metrics
from wattstep.run.thermal import thermal_metrics
from wattstep.schema.arrays import IntArray
from wattstep.schema.channel import RECORDING_CPU
from wattstep.schema.failures import Failures
from wattstep.schema.figure import CLOCK, Figure, Status, missing, weakest
from wattstep.schema.figures import Figures, Metrics
from wattstep.schema.metrics import METRICS, OWN
from wattstep.schema.run_info import RunInfo
from wattstep.stats.statistics import mean_figure, ratio_figure

SLICE_NS = 200_000_000  # utilization is resampled in slices of clean time of this length
COARSE_WINDOW_NS = 100_000_000  # for the idle state ratio, where idle time ticks in 10 ms
NO_COMPARISON = (
    "every step that was imported is a traced one: without others, what the profiler cost is not "
    "known"
)
MARK_S = 2e-6  # a mark after a real step, half of a step's two (benchmarks/marks.py measures them)
OF_OPERATIONS = ("data_movement_share",)  # which comparisons set side by side
WHOLLY = 0.99  # of a step: sampled throughout
# What a device tells of itself beside its energy; aggregates are no sensors of their own.
STATES = {
    "temperature": ("temperature",),
    "ambient_temperature": ("ambient_temperature",),
    "frequency": ("frequency",),
    "memory_controller_utilization": ("memory_controller_utilization",),
    "gpu_memory": ("gpu_memory_used",),
    "fan": ("fan_speed", "fan_duty"),
}


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Input of a metric with a function of its own.

    Attributes:
        tables: The run's files.
        series: Its samples.
        breakdown: Its steps and operations.
        conditions: Which steps were throttled or disturbed.
        metrics: Those before it.
    """

    tables: Tables
    series: Series
    breakdown: RunBreakdown
    conditions: StepFlags
    metrics: Figures

    @property
    def info(self) -> RunInfo:
        """Description of the run."""
        return self.tables.info


def compute(
    tables: Tables,
    series: Series,
    breakdown: RunBreakdown,
    conditions: StepFlags,
    failures: Failures,
) -> Metrics:
    """All metrics; those that cannot be had are missing, with the reason.

    A group of them that fails inside is left out, and noted among the failures.
    """
    parts = slices(series.steps.stretches(), SLICE_NS)
    options = tables.info.options
    metrics: dict[str, Any] = {}
    nothing: dict[str, Any] = {}
    groups: Mapping[str, Callable[[], dict[str, Any]]] = {
        "speed": lambda: _speed(series, breakdown),
        "time of processors": lambda: {"cpu_time_per_step": cpu_time_per_step(series)},
        "time of traced steps": lambda: _traced_time(series, breakdown),
        "time of the whole": lambda: _whole_time(series),
        "utilization": lambda: _utilization(tables, series, parts),
        "use of the GPU": lambda: {"gpu_utilization": gpu_utilization(series, parts)},
        "memory": lambda: memory_metrics(tables, series),
        "energy": lambda: energy_metrics(series, breakdown, conditions, options),
        "busy stretch": lambda: busy_figures(series),
        "completion": lambda: completion(tables, breakdown, metrics["mean_power"]),
        "frames": lambda: _frames(tables, breakdown),
        "foreground": lambda: foreground_delay(tables),
        "surroundings": lambda: _surroundings(tables, series, parts),
        "sustained": lambda: sustained_metrics(tables, series, conditions),
        "thermal": lambda: thermal_metrics(tables, series, conditions),
        "recording": lambda: _recording(tables, series, breakdown),
    }
    for name, group in groups.items():
        metrics.update(failures.guard(f"metrics: {name}", group, nothing))
    for name in OWN:
        whole = Parts(
            tables=tables, series=series, breakdown=breakdown, conditions=conditions,
            metrics=Figures(metrics),
        )  # fmt: skip
        metrics.update(failures.guard(f"metrics: {name}", partial(_own, name, whole), nothing))
    return Metrics(with_scope(metrics, scope_of(series.steps, series.imported)))


def headline(
    tables: Tables,
    series: Series,
    breakdown: RunBreakdown,
    conditions: StepFlags,
    *,
    operations: bool = False,
) -> Metrics:
    """The metrics by which runs are compared (speed, energy, peak of memory), and the temperature.

    With those of operations (`OF_OPERATIONS`) where these are read anyway.
    """
    figures = {
        **_speed(series, breakdown),
        "cpu_time_per_step": cpu_time_per_step(series),
        "peak_memory": memory_metrics(tables, series)["peak_memory"],
        **energy_metrics(series, breakdown, conditions, tables.info.options),
        **_state_of_device(series),
    }
    # One that fails is one less to compare; the report of the run says why.
    failures = Failures()
    nothing: dict[str, Figure] = {}
    for name in OWN:
        if METRICS[name].compared or (operations and name in OF_OPERATIONS):
            whole = Parts(
                tables=tables, series=series, breakdown=breakdown, conditions=conditions,
                metrics=Figures(figures),
            )  # fmt: skip
            figures.update(failures.guard(f"metrics: {name}", partial(_own, name, whole), nothing))
    return Metrics(with_scope(figures, scope_of(series.steps, series.imported)))


def _own(name: str, parts: Parts) -> dict[str, Figure]:
    """A metric that has a function of its own; nothing where the run has no such metric."""
    module, _, function = METRICS[name].computed.partition(":")
    figure = getattr(importlib.import_module(module), function)(parts)
    return {} if figure is None else {name: figure}


def _speed(series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    steps, counted = series.steps, series.steps.counted
    if not counted.count:
        reason = steps.none_clean
        return {"step_time": missing("s", reason), "throughput": missing("samples/s", reason)}
    if series.imported.trace_is_one_step:
        return {"step_time": missing("s", UNMARKED), "throughput": missing("samples/s", UNMARKED)}
    samples, periods = counted.together(counted.samples, counted.seconds + counted.gap_s)
    if np.isfinite(samples).all():
        throughput = ratio_figure(samples, periods, "samples/s", CLOCK, steps.status)
        throughput = counted.figure(throughput)
    else:
        throughput = missing("samples/s", "how many samples a step takes is not known")
    throughput = series.imported.with_period(throughput, inverse=True)
    return {"step_time": breakdown.step_time, "throughput": throughput}


def cpu_time_per_step(series: Series) -> Figure:
    """CPU time in s that the training and its children take in a clean step, mean over steps.

    Other work on the machine makes a step wait, which costs none of it; what they take from each
    other's caches does. Threads that spin until another is done are at work for this clock.
    """
    steps, counted = series.steps, series.steps.counted
    if series.process_cpu is None:
        return missing("s", series.without("CPU time of the training was not sampled"))
    if not counted.count or series.imported.trace_is_one_step:
        return missing("s", UNMARKED if counted.count else steps.none_clean)
    curve, source = series.process_cpu
    gains, covered = counted.gains(curve)
    known = covered > WHOLLY
    if not known.any():
        return missing("s", f"{source} gave no values throughout any clean step")
    status = series.status_of("process_cpu_time", "process_cpu_time_coarse")
    figure = counted.within(known).mean(gains[known], "s", source, status)
    return with_time_between(figure, curve, steps)


def _traced_time(series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    """Time on GPUs, and of an imported trace without steps its length."""
    figures: dict[str, Any] = {}
    if series.steps.only_traced and series.imported.trace_is_one_step:
        figures["recorded_time"] = breakdown.step_time
    if (gpu_time := breakdown.gpu_time()) is not None:
        figures["gpu_time"] = gpu_time
    return figures


def _whole_time(series: Series) -> dict[str, Any]:
    """`recorded_time` and `recorded_cpu_time` of a training that was recorded from outside."""
    span = series.recorded_ns
    if not series.steps.absent or series.imported.is_import or span is None:
        return {}
    begin, end = span
    figures = {
        "recorded_time": Figure(
            value=(end - begin) * 1e-9, unit="s", status=Status.MEASURED, source=CLOCK,
            method="from the first sample to the last",
        )
    }  # fmt: skip
    if series.process_cpu is None:
        figures["recorded_cpu_time"] = missing("s", "CPU time of the training was not sampled")
    else:
        curve, source = series.process_cpu
        figures["recorded_cpu_time"] = Figure(
            value=float(curve.total[-1]), unit="s", source=source,
            status=series.status_of("process_cpu_time", "process_cpu_time_coarse"),
            method="sum over the recording",
        )  # fmt: skip
    return figures


def _frames(tables: Tables, breakdown: RunBreakdown) -> dict[str, Any]:
    """Time of a frame of the game, where the workload plays one."""
    frames = tables.info.options.get("frames_per_step")
    if not frames:
        return {}
    phases, _ = tables.marks.phases(breakdown.steps, breakdown.clean, None)
    lengths = np.diff(phases.edges_ns, axis=1) * 1e-9
    games = [lengths[:, n] for n, name in enumerate(phases.names) if name == "game"]
    if not games or not len(lengths):
        return {"frame_time": missing("s", "no phase of the game was marked")}
    time = mean_figure(np.sum(games, axis=0), "s", CLOCK, breakdown.steps.status)
    time = time.scaled(1 / float(frames), "s")
    return {"frame_time": replace(time, method=f"{time.method}; a step plays {frames} frames")}


def _utilization(tables: Tables, series: Series, parts: IntArray) -> dict[str, Any]:
    busy = series.core_busy
    if not busy:
        reason = tables.info.absent.get("cpu", "busy time of cores was not sampled")
        reason = series.without(reason)
        return {
            "cpu_utilization": missing("ratio", reason),
            "cpu_core_utilization": [],
            "idle_state_ratio": [],
        }
    channels = list(series.load_channels.values())
    source, status = channels[0].source, series.status(*channels)
    per_core = [at_best(active_ratio(busy[core], parts, source), status) for core in sorted(busy)]
    mean = mean_active_ratio([busy[core] for core in sorted(busy)], parts, source)
    figures: dict[str, Any] = {
        "cpu_utilization": at_best(mean, status),
        "cpu_core_utilization": per_core,
        "idle_state_ratio": _idle(tables, series),
    }
    figures.update(_clusters(tables, series, parts))
    if series.process_cpu is not None:
        curve, process_source = series.process_cpu
        used = replace(rate(curve, parts, process_source), unit="cores")
        known = "cores" in tables.info.device.get("emulated_on", tables.info.device)
        most = real_cores(tables.info.device) if known else np.inf
        figures["process_cpu_cores"] = within(used, most=most)
    return figures


def _clusters(tables: Tables, series: Series, parts: IntArray) -> dict[str, Any]:
    """`cpu_cluster_utilization` by kind of core, where the machine has two kinds or more."""
    if "sensors_of" in tables.info.device:  # the clusters are this machine's, the load another's
        return {}
    cores: dict[str, list[int]] = {}
    for cluster in tables.info.device.get("clusters") or ():
        cores.setdefault(str(cluster["kind"]), []).extend(cluster["cores"])
    if len(cores) < 2:
        return {}
    status = series.status_of("busy_time", "core_utilization")
    table: dict[str, Figure] = {}
    for kind, members in cores.items():
        busy = [series.core_busy[core] for core in members if core in series.core_busy]
        if busy:
            table[kind] = at_best(mean_active_ratio(busy, parts, "/proc/stat"), status)
        else:
            table[kind] = missing("ratio", f"no core of {kind} was online, or none was sampled")
    return {"cpu_cluster_utilization": table}


def at_best(figure: Figure, status: Status) -> Figure:
    """The figure, no stronger than the channels behind it."""
    return figure if figure.missing else replace(figure, status=weakest([figure.status, status]))


def _idle(tables: Tables, series: Series) -> list[Figure]:
    stretches = series.steps.stretches()
    interval = round(tables.info.interval_s * 1e9) or COARSE_WINDOW_NS
    if fine := series.core_idle:
        status = series.status_of("idle_residency")
        figures = [
            idle_state_ratio(fine[core], stretches, interval, "cpuidle residency")
            for core in sorted(fine)
        ]
        return [at_best(figure, status) for figure in figures]
    window, status = max(COARSE_WINDOW_NS, interval), series.status_of("busy_time", "steal_time")
    awake = _awake(series)
    figures = [
        idle_state_ratio(awake[core], stretches, window, "/proc/stat", grows_idle=False)
        for core in sorted(awake)
    ]
    return [at_best(figure, status) for figure in figures]


def _awake(series: Series) -> dict[int, Curve]:
    """Time in s that each core worked, or would have if its host had let it.

    Not the idle time: a tick of it that is read late looks like work, on a core that never works.
    """
    parts: dict[int, list[Curve]] = {}
    for channel in series.with_role("busy_time", "steal_time"):
        if channel.core is not None:
            parts.setdefault(channel.core, []).append(series.curve(channel))
    return {core: add_curves(curves) for core, curves in parts.items()}


# --- what else ran, and what recording cost -----------------------------------------------------


def _surroundings(tables: Tables, series: Series, parts: IntArray) -> dict[str, Any]:
    cores = real_cores(tables.info.device)
    figures: dict[str, Any] = _state_of_device(series)
    role = around_training(series, "steal_time")
    steal = series.one(role)
    if steal is None or not len(parts):
        reason = series.without("time taken by a hypervisor was not sampled")
        figures["steal"] = missing("ratio", reason)
    else:
        stolen = rate(steal, parts, "/proc/stat").scaled(1 / cores, "ratio")
        figures["steal"] = at_best(within(stolen), series.status_of(role))
    figures["other_cpu"] = _other_cpu(series, parts, cores)
    return figures


def _other_cpu(series: Series, parts: IntArray, cores: int) -> Figure:
    system = series.one(around_training(series, "busy_time"))
    if reason := not_comparable(series):
        return missing("cores", reason)
    if system is None or not len(parts):
        return missing("cores", "busy time of the system was not sampled")
    begin, end = parts[:, 0], parts[:, 1]
    other = other_cpu(system, own_curves(series), begin, end)
    known = np.isfinite(other)
    if not known.any():
        reason = "the run was too short to tell other processes from the training"
        return missing("cores", reason)
    return within(
        ratio_figure(
            other[known], ((end - begin) * 1e-9)[known], "cores",
            "/proc/stat less training and sampler", Status.MEASURED,
        ), most=cores,
    )  # fmt: skip


def _overhead(tables: Tables, series: Series, step: float) -> Figure:
    """Share of the recorded time that recording took."""
    steps, info = series.steps, tables.info
    span = float(steps.end_ns[-1] - steps.start_ns[0]) * 1e-9
    windows = (steps.window_ns[:, 1] - steps.window_ns[:, 0]) * 1e-9
    extra = float(np.maximum(windows - step, 0.0).sum())
    inner = len(tables.marks.t_ns)
    inner += 0 if steps.thinned is None else int(steps.thinned.marks.sum())
    marks = (2 * steps.recorded + inner) * MARK_S
    share = (extra + marks) / span
    method = "time of tracing windows beyond a clean step, and of marks, over the recorded time"
    ours = [curve for role in RECORDING_CPU if (curve := series.one(role)) is not None]
    cores = real_cores(info.device)
    if ours and (info.threads or cores) >= cores:
        # With every core in use, what the sampler takes is taken from the training.
        for curve in ours:
            seconds = float(curve.covered_ns[-1]) * 1e-9
            share += float(curve.total[-1]) / seconds / cores if seconds > 0 else 0.0
        method += ", and the share of the cores of the sampler and its collector"
    else:
        method += "; the sampler runs on a core that the training leaves free"
    return Figure(
        value=share, unit="ratio", n=len(windows), status=Status.ATTRIBUTED, source=CLOCK,
        method=method,
    )  # fmt: skip


def _state_of_device(series: Series) -> dict[str, Any]:
    """Temperatures and frequencies while it trained, where there are sensors of them."""
    figures: dict[str, Any] = {}
    if series.steps.span_ns is None:
        return figures
    begin, end = series.steps.span_ns
    for name, roles in STATES.items():
        table = {}
        for channel in series.with_role(*roles):
            if (whole := series.totals(channel.name, (begin, end))) is not None:
                table[channel.name] = Figure(
                    value=whole.mean, unit=channel.unit, n=whole.reads,
                    status=series.status(channel), source=channel.source,
                    method=f"mean of samples between {whole.least:g} and {whole.most:g}",
                )  # fmt: skip
        if table:
            figures[name] = table
    return figures


def _recording(tables: Tables, series: Series, breakdown: RunBreakdown) -> dict[str, Any]:
    steps = series.steps
    step = breakdown.step_time.value
    if step is None or not len(steps.index) or steps.only_traced:
        reason = NO_COMPARISON if steps.only_traced else steps.none_clean
        return {
            "recording_overhead": missing("ratio", reason),
            "trace_inflation": missing("ratio", reason),
            "correction_residual": missing("ratio", reason),
        }
    figures = {"recording_overhead": _overhead(tables, series, step)}
    if series.imported.is_import:
        figures["recording_overhead"] = missing("ratio", ELSEWHERE)
    if breakdown.reason is not None:
        figures["trace_inflation"] = missing("ratio", breakdown.reason)
        figures["correction_residual"] = missing("ratio", breakdown.reason)
        return figures
    correction = breakdown.compensated.correction
    source = f"{correction.windows} traced steps and the clean ones beside them"
    figures["trace_inflation"] = Figure(
        value=correction.inflation, unit="ratio", n=correction.windows, status=steps.status,
        source=source, method="traced step over clean step, median",
    )  # fmt: skip
    if np.isfinite(correction.residual):
        figures["correction_residual"] = Figure(
            value=correction.residual, unit="ratio", n=correction.windows, status=steps.status,
            source=source,
            method="cost of an event fitted on odd windows, clean steps beside even ones "
            "predicted: relative error before anything is scaled",
        )  # fmt: skip
    else:
        figures["correction_residual"] = missing("ratio", "fewer than four steps were traced")
    return figures
