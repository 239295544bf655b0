"""The whole run as columns, for a timeline that can be zoomed: steps, channels, operation instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattstep.analysis.breakdown import Codes, compact
from wattstep.analysis.curves import Curve
from wattstep.analysis.laying import TracedRows
from wattstep.analysis.power import EnergySource
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray, Steps
from wattstep.records.figure import Status
from wattstep.records.journal import Mark
from wattstep.run.conditions import Conditions
from wattstep.run.naming import Combined, Names, combined
from wattstep.run.operations import RunBreakdown
from wattstep.run.reading import Marks, Tables
from wattstep.run.row_labels import NO_LAYER
from wattstep.run.series import Series

CORES, GPU, POWER = "Processor", "GPU", "Power"
# Gauges that are drawn as they were read, by group and role.
GAUGES = {
    GPU: ("gpu_utilization",),
    "Temperature": ("temperature",),
    "Frequency": ("frequency",),
    "Memory": ("resident_memory", "gpu_memory_used"),
}
GROUPS = (CORES, GPU, POWER, "Temperature", "Frequency", "Memory")
WHOLE = "power, total"  # of sensors that are a total together only, or of a model


@dataclass(frozen=True, kw_only=True, eq=False)
class Lane:
    """One channel over the whole run.

    Attributes:
        name: Of the channel, or what it was made of.
        group: One of `GROUPS`.
        unit: SI unit of the values.
        status: "measured", "replayed" or "modelled".
        source: Sensor or model.
        held: Whether a value is the mean since the sample before (of a counter), not that of an
            instant.
        t_ns: Times in ns, increasing, shape (n,).
        value: NaN where nothing is known, shape (n,).
    """

    name: str
    group: str
    unit: str
    status: str
    source: str
    held: bool
    t_ns: IntArray
    value: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class StepLane:
    """Every step, in the order of time; shape (n,) each unless said otherwise.

    Attributes:
        index: Number of the step in its run.
        start_ns: Begin.
        end_ns: End.
        traced: Whether it was traced.
        warmup: Whether it is one of the first, which do not count.
        throttled: Whether it was throttled.
        disturbed: Whether it was disturbed.
        phase_step: Row of the step of each phase, not falling, shape (p,).
        phase_ns: Begin of each phase, shape (p,); it lasts to the next or to the end of its step.
        phase: Its name.
    """

    index: IntArray
    start_ns: IntArray
    end_ns: IntArray
    traced: BoolArray
    warmup: BoolArray
    throttled: BoolArray
    disturbed: BoolArray
    phase_step: IntArray
    phase_ns: IntArray
    phase: Names


@dataclass(frozen=True, kw_only=True, eq=False)
class OperationLanes:
    """The operation instances of traced steps, by row of the picture and start; shape (n,) each.

    Attributes:
        start_ns: Begin, as traced.
        end_ns: End, as traced.
        row: Which of `rows` it lies in, not falling.
        rows: Thread and depth (0: in no other operation) of each row of the picture.
        label: Which of `labels` it has.
        labels: Name, layer and phase.
    """

    start_ns: IntArray
    end_ns: IntArray
    row: IntArray
    rows: Sequence[tuple[str, int]]
    label: Codes
    labels: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lanes:
    """A whole run to look at.

    Attributes:
        base_ns: Begin of the first step, or of the recording without steps: the zero of the axis.
        steps: Every step.
        channels: By group, in the order of `GROUPS`.
        operations: Of traced steps.
        notes: What is not there, and why.
    """

    base_ns: int
    steps: StepLane
    channels: Sequence[Lane]
    operations: OperationLanes
    notes: Sequence[str]


def make_lanes(
    tables: Tables, series: Series, breakdown: RunBreakdown, conditions: Conditions
) -> Lanes:
    """Everything of a run that has a time."""
    steps = series.steps
    channels = [lane for lane in _channels(series) if np.isfinite(lane.value).any()]
    span = steps.span_ns or series.recorded_ns
    notes = [steps.absent, "" if channels else series.without("nothing was sampled")]
    if breakdown.reason is not None:
        notes.append(f"no operations: {breakdown.reason}")
    elif left := int(steps.traced.sum()) - len(breakdown.window_steps):
        notes.append(f"operations of {left:,} traced steps with other phases are left out")
    if conditions.unseen and len(steps.index):
        notes.append(f"whether anything disturbed the steps is not known: {conditions.unseen}")
    return Lanes(
        base_ns=0 if span is None else span[0],
        steps=_steps(tables.marks, steps, conditions),
        channels=sorted(channels, key=lambda lane: GROUPS.index(lane.group)),
        operations=_operations(breakdown),
        notes=tuple(dict.fromkeys(note for note in notes if note)),
    )


# --- steps ------------------------------------------------------------------------------------


def _steps(marks: Marks, steps: Steps, conditions: Conditions) -> StepLane:
    of_phase = np.flatnonzero(marks.kind == Mark.PHASE)
    texts, code = np.unique(marks.name[of_phase].astype(str), return_inverse=True)
    return StepLane(
        index=steps.index,
        start_ns=steps.start_ns,
        end_ns=steps.end_ns,
        traced=steps.traced,
        warmup=steps.warmup,
        throttled=conditions.throttled,
        disturbed=conditions.disturbed,
        phase_step=marks.step[of_phase],
        phase_ns=marks.t_ns[of_phase],
        phase=Names(code=code, texts=texts.astype(object)),
    )


# --- channels ---------------------------------------------------------------------------------


def _channels(series: Series) -> Iterator[Lane]:
    yield from _cores(series)
    yield from _power(series)
    for group, roles in GAUGES.items():
        for channel in series.with_role(*roles):
            t_ns, value = series.raw(channel.name)
            yield Lane(
                name=channel.name, group=group, unit=channel.unit,
                status=series.status(channel).value, source=channel.source, held=False,
                t_ns=t_ns, value=value,
            )  # fmt: skip


def _cores(series: Series) -> Iterator[Lane]:
    """How busy each core was, and how many cores the training kept busy."""
    idle = bool(series.core_idle)
    roles = ("idle_residency",) if idle else ("busy_time", "core_utilization")
    status = series.status_of(*roles)
    sources = {c.core: c.source for c in series.with_role(*roles)}
    for core, curve in sorted((series.core_idle or series.core_busy).items()):
        channel = None if idle else series.load_channels[core]
        name, source = f"core {core} busy", sources.get(core, "")
        if channel is not None and channel.kind == "gauge":
            t_ns, value = series.raw(channel.name)
            yield _lane(name, CORES, "ratio", status, source, t_ns, value)
            continue
        rate = _rate(curve)
        value = np.clip(1 - rate, 0, 1) if idle else np.minimum(rate, 1.0)
        yield _lane(name, CORES, "ratio", status, source, curve.t_ns, value, held=True)
    if series.process_cpu is not None:
        curve, source = series.process_cpu
        roles = ("process_cpu_time", "process_cpu_time_coarse")
        yield _lane(
            "training process", CORES, "cores", series.status_of(*roles), source,
            curve.t_ns, _rate(curve), held=True,
        )  # fmt: skip


def _power(series: Series) -> Iterator[Lane]:
    """The total first, then every rail, calibrated where it was."""
    energy, rails = series.energy, dict(series.rails or series.uncalibrated_rails)
    totals = [name for name in rails if series.channels[name].role.endswith("_total")]
    if isinstance(energy, EnergySource):
        # One meter of the whole machine is the total under its own name.
        name = totals[0] if len(totals) == 1 else WHOLE
        rails.pop(name, None)
        yield _of_energy(name, energy)
    for name, source in rails.items():
        yield _of_energy(name, source)
    for name, source in series.outside.items():
        yield _of_energy(f"{name} (not in the total)", source)


def _of_energy(name: str, source: EnergySource) -> Lane:
    if source.gauge is not None:
        return _lane(name, POWER, "W", source.status, source.source, *source.gauge)
    curve = source.curve
    return _lane(
        name, POWER, "W", source.status, source.source, curve.t_ns, _rate(curve), held=True
    )


def _lane(
    name: str,
    group: str,
    unit: str,
    status: Status,
    source: str,
    t_ns: IntArray,
    value: FloatArray,
    held: bool = False,
) -> Lane:
    return Lane(
        name=name, group=group, unit=unit, status=status.value, source=source, held=held,
        t_ns=t_ns, value=value,
    )  # fmt: skip


def _rate(curve: Curve) -> FloatArray:
    """Mean rate since the sample before, a second; NaN at the first one and across gaps."""
    length = np.diff(curve.t_ns)
    known = np.diff(curve.covered_ns) == length
    rate: FloatArray = np.full(len(curve.t_ns), np.nan)
    rate[1:] = np.where(known, np.diff(curve.total) / (length * 1e-9), np.nan)
    return rate


# --- operations -------------------------------------------------------------------------------


def _operations(breakdown: RunBreakdown) -> OperationLanes:
    if breakdown.reason is not None:
        none = np.zeros(0, np.int64)
        return OperationLanes(start_ns=none, end_ns=none, row=none, rows=(), label=none, labels=())
    rows = breakdown.rows
    shown = np.flatnonzero(~rows.scope)
    depth = depths(rows.parent, rows.scope)[shown]
    key, names = _rows(breakdown, rows, shown, depth)
    order = np.lexsort((rows.start_ns[shown], key))
    labels = _labels(breakdown, shown[order])
    return OperationLanes(
        start_ns=rows.start_ns[shown[order]],
        end_ns=rows.end_ns[shown[order]],
        row=key[order],
        rows=names,
        label=labels.key,
        labels=[
            (str(each["name"]), str(each["layer"]), str(each["phase"]))
            for each in (labels.shown[number] for number in range(len(labels.shown)))
        ],
    )


def _labels(breakdown: RunBreakdown, shown: IntArray) -> Combined:
    """Name, layer and phase of some traced rows."""
    columns = {name: breakdown.label(name).at(shown) for name in ("name", "layer", "phase")}
    columns["layer"] = columns["layer"].renamed("", NO_LAYER)
    return combined(columns, {}, np.ones(len(shown), bool))


def depths(parent: Codes, scope: BoolArray) -> NDArray[np.int16]:
    """In how many operations each row lies; scopes are none, and lie as deep as what holds them.

    Args:
        parent: The row that each lies in, or -1, shape (n,).
        scope: Whether a row is a scope, shape (n,).
    """
    depth = (~scope).astype(np.int16)
    above = parent.copy()
    climbing = np.flatnonzero(above >= 0)
    while len(climbing):  # each time twice as far
        further = above[climbing]
        depth[climbing] += depth[further]
        above[climbing] = above[further]
        climbing = climbing[above[climbing] >= 0]
    found: NDArray[np.int16] = depth - np.int16(1)
    return found


def _rows(
    breakdown: RunBreakdown, rows: TracedRows, shown: IntArray, depth: NDArray[np.int16]
) -> tuple[IntArray, list[tuple[str, int]]]:
    """The row of the picture of each operation: by processor, thread and depth, the CPU first."""
    ran = breakdown.processor
    texts, code = np.unique(ran.texts.astype(str), return_inverse=True)
    threads, levels = int(rows.thread.max(initial=0)) + 1, int(depth.max(initial=0)) + 1
    key = (code[ran.code[shown]] * threads + rows.thread[shown]) * levels + depth
    used, key = compact(key)
    one = np.empty(len(used), np.int64)
    one[key] = shown
    names: list[tuple[str, int]] = []
    streams: dict[str, list[int]] = {}
    for each, row in zip(used.tolist(), one.tolist(), strict=True):
        stream, level = divmod(each, levels)
        name = str(texts[stream // threads])
        known = streams.setdefault(name, [])
        if stream not in known:
            known.append(stream)
        number = known.index(stream)
        other = f"{name}.{number}" if number else name
        names.append((f"thread {breakdown.thread(row)}" if name == "cpu" else other, level))
    return key, names
