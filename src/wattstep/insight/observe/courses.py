"""Correlation of the courses of steps, in loads and power that are sampled finely enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wattstep.insight.observe.rails import PARTS, rails_by_part
from wattstep.recorded.curves import Curve, add_curves
from wattstep.recorded.power import EnergySource, summed
from wattstep.recorded.repeatability import repeatability
from wattstep.run import Run
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.stats.statistics import mean_figure

A_STEP = 5  # values of a counter that a step must hold for its course to be seen
LEAST_STEPS = 10
TICK_S = 0.02  # busy time of cores ticks in 10 ms; half a tick either way at both ends


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Source of sampled values, and the best status that their figures can have."""

    source: str
    status: Status


def steps_of(run: Run) -> tuple[IntArray, IntArray]:
    """Begin and end of the counted steps in ns."""
    steps = run.series.steps
    clean = np.flatnonzero(steps.clean)
    return steps.start_ns[clean], steps.end_ns[clean]


def of_counter(run: Run, curve: Curve, resolution_s: float, about: Sampled) -> dict[str, Figure]:
    """`alike`, `alike_at_most` and `movement` of something that adds up.

    Its differences span the time between two reads, so that a step must hold several of them.

    Args:
        run: Whose steps.
        curve: Integral of the quantity.
        resolution_s: The shortest time that reads can tell apart, in s.
        about: Source of the values.
    """
    if reason := too_short(run, resolution_s, about.source):
        return {"alike": missing("1", reason)}
    return of_gauge(run, *_evenly(curve, round(resolution_s * 1e9)), curve, about)


def _evenly(curve: Curve, every_ns: int) -> tuple[IntArray, FloatArray]:
    """Rates in equal windows, each at its middle; NaN in gaps.

    Not between reads: where one came late and the next at once, an error of microseconds in a time
    makes a rate of a hundred cores.
    """
    edges = np.arange(curve.t_ns[0], curve.t_ns[-1] + 1, max(every_ns, 1))
    gains, covered = curve.difference(edges[:-1], edges[1:])
    rate = np.where(covered > 0.99, gains / (every_ns * 1e-9), np.nan)
    return edges[:-1] + every_ns // 2, rate


def of_gauge(
    run: Run, t_ns: IntArray, value: FloatArray, curve: Curve, about: Sampled
) -> dict[str, Figure]:
    """Figures of the course of a gauge, which may be folded over many steps.

    `alike` is the correlation of one step's course with another's, `alike_at_most` the same with what
    differs from sample to sample taken as noise, `movement` the root mean square about the mean.

    Args:
        run: Whose steps.
        t_ns: Times of the samples in ns, shape (n,).
        value: The samples, shape (n,).
        curve: Their integral.
        about: Source of the values.
    """
    start, end = steps_of(run)
    if len(start) < LEAST_STEPS:
        reason = f"{len(start)} counted steps: {LEAST_STEPS} are the least to see what repeats"
        return {"alike": missing("1", run.series.steps.absent or reason)}
    result = repeatability(t_ns, value, start, end, about.source, about.status)
    return {
        "alike": replace(result.correlation, unit="1"),
        "alike_at_most": replace(result.corrected, unit="1"),
        "movement": _movement(curve, start, end, about),
    }


def too_short(run: Run, resolution_s: float, source: str) -> str | None:
    """Reason why the course of a step cannot be seen; None where it can."""
    start, end = steps_of(run)
    if not len(start):
        return run.series.steps.none_clean
    length = float(np.median(end - start)) * 1e-9
    if length >= A_STEP * resolution_s:
        return None
    return (
        f"steps are too short to see a course in: {source} tells less than {A_STEP} times of a step "
        "apart (train with larger batches, or sample more finely)"
    )


def _movement(curve: Curve, start: IntArray, end: IntArray, about: Sampled) -> Figure:
    """Root mean square about the mean, of each fifth of the counted steps; by step for the interval.

    Single samples would show the jitter of reading as movement.
    """
    edges = start[:, None] + np.rint(
        (end - start)[:, None] * np.linspace(0.0, 1.0, A_STEP + 1)
    ).astype(np.int64)
    gains, covered = curve.difference(edges[:, :-1].ravel(), edges[:, 1:].ravel())
    seconds = np.diff(edges, axis=1) * 1e-9
    level = gains.reshape(seconds.shape) / np.maximum(seconds, 1e-12)
    level = level[(covered.reshape(seconds.shape) > 0.99).all(axis=1)]
    if len(level) < LEAST_STEPS:
        return missing("ratio", f"{about.source} was sampled throughout in {len(level)} steps only")
    squares = ((level - level.mean()) ** 2).mean(axis=1)
    mean = mean_figure(squares, "ratio", about.source, about.status)

    def root(number: float | None) -> float | None:
        return None if number is None else math.sqrt(max(number, 0.0))

    return replace(
        mean, value=root(mean.value), low=root(mean.low), high=root(mean.high),
        method=f"root of the mean square about the mean, of fifths of a step; {mean.method}",
    )  # fmt: skip


def measure_loads(run: Run) -> Mapping[str, Figure]:
    """`alike`, `alike_at_most` and `movement` of the training's CPU time, the cores and the GPU."""
    series = run.series
    figures: dict[str, Figure] = {}
    if series.process_cpu is not None:
        curve, source = series.process_cpu
        status = series.status_of("process_cpu_time", "process_cpu_time_coarse")
        about = Sampled(source=source, status=status)
        figures |= prefixed("training", of_counter(run, curve, _spacing(curve), about))
    if series.core_busy:
        figures |= prefixed("cores", _cores(run))
    for channel in series.with_role("gpu_utilization"):
        about = Sampled(source=channel.source, status=series.status(channel))
        own = of_gauge(run, *series.raw(channel.name), series.curve(channel), about)
        figures |= prefixed("gpu", own)
        break
    return figures or {"reason": missing("1", series.without("no load was sampled"))}


def _cores(run: Run) -> dict[str, Figure]:
    """Of all cores together: the share of them that is busy."""
    curves, channels = run.series.core_busy, list(run.series.load_channels.values())
    busy = add_curves(list(curves.values()))
    share = replace(busy, total=busy.total / len(curves))
    ticks = TICK_S if any(channel.kind == "counter" for channel in channels) else 0.0
    about = Sampled(source=channels[0].source, status=run.series.status(*channels))
    return of_counter(run, share, max(ticks, _spacing(busy)), about)


def _spacing(curve: Curve) -> float:
    """Median time between reads in s."""
    return float(np.median(np.diff(curve.t_ns))) * 1e-9 if len(curve.t_ns) > 1 else np.inf


def measure_power(run: Run) -> Mapping[str, Figure]:
    """Figures of the course of the power of all ("total"), and of each part that has rails."""
    total = run.series.energy
    figures = {} if isinstance(total, Missing) else _of_power(run, "total", total)
    for part, rails in rails_by_part(run).items():
        figures |= _of_power(run, part, summed(rails)) if part in PARTS else {}
    return figures if not isinstance(total, Missing) else {"reason": missing("1", total), **figures}


def _of_power(run: Run, name: str, source: EnergySource) -> dict[str, Figure]:
    """Of one source, its power relative to the mean over the recording."""
    curve, about = source.curve, Sampled(source=source.source, status=source.status)
    seconds = float(curve.covered_ns[-1]) * 1e-9 if len(curve.t_ns) else 0.0
    mean = float(curve.total[-1]) / seconds if seconds > 0 else 0.0
    if not mean > 0:
        return prefixed(name, {"alike": missing("1", f"{source.source}: it has no mean power")})
    if reason := too_short(run, source.shortest[0], "the power sensor"):
        return prefixed(name, {"alike": missing("1", reason)})
    relative = replace(curve, total=curve.total / mean)
    if source.gauge is None:
        return prefixed(name, of_counter(run, relative, _spacing(curve), about))
    t_ns, power = source.gauge
    return prefixed(name, of_gauge(run, t_ns, power / mean, relative, about))


def prefixed(name: str, figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """Figures of one quantity under its name."""
    return {f"{name}_{key}": figure for key, figure in figures.items()}
