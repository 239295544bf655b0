"""The timeline of a run, which pages, notebooks and Python take: every step, channel and traced operation as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.attribution.codes import Codes, compact
from wattstep.attribution.tables.naming import Combined, Names, combined
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.attribution.tables.row_labels import NO_LAYER
from wattstep.attribution.traced_rows import TracedRows
from wattstep.recorded.marks import Marks
from wattstep.recorded.power import EnergySource
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.run.lanes import Lane, OperationLanes, StepLane
from wattstep.run.step_flags import StepFlags
from wattstep.run.three_steps import POWER_ROLE, RAIL, ThreeSteps, three_steps
from wattstep.schema.arrays import BoolArray, IntArray
from wattstep.schema.journal import Mark

CORES, GPU, POWER = "Processor", "GPU", "Power"
# Gauges that are drawn as they were read, by group and role.
GAUGES = {
    GPU: ("gpu_utilization",),
    "Temperature": ("temperature",),
    "Frequency": ("frequency",),
    "Memory": ("resident_memory", "gpu_memory_used"),
}
GROUPS = (CORES, GPU, POWER, "Temperature", "Frequency", "Memory")
SHOWN_GAUGES = ("gpu_utilization", "resident_memory")  # where three steps are shown
WHOLE = "power, total"  # of sensors that are a total together only, or of a model


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """Whole run to look at.

    Attributes:
        base_ns: Begin of the first step, or of the recording without steps: the zero of the axis.
        steps: Every step.
        channels: By group, in the order of `GROUPS`.
        operations: Of traced steps.
        interval_s: Between two samples, as planned.
        notes: What is not there, and why.
    """

    base_ns: int
    steps: StepLane
    channels: Sequence[Lane]
    operations: OperationLanes
    interval_s: float
    notes: Sequence[str]

    @cached_property
    def three_steps(self) -> ThreeSteps:
        """Zoom: three clean steps, and one traced step."""
        return three_steps(self.steps, self.channels, self.operations, self.interval_s)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, of that zoom."""
        return self.three_steps.to_dict()


def make_timeline(
    tables: Tables, series: Series, breakdown: RunBreakdown, flags: StepFlags
) -> Timeline:
    """Everything of a run that has a time."""
    steps = series.steps
    channels = [lane for lane in _channels(series) if np.isfinite(lane.value).any()]
    span = steps.span_ns or series.recorded_ns
    notes = [steps.absent, "" if channels else series.without("nothing was sampled")]
    if (reason := breakdown.reason) is not None:
        complete = reason == steps.absent or "no operations" in reason
        notes.append(reason if complete else f"no operations: {reason}")
    elif left := int(steps.traced.sum()) - len(breakdown.window_steps):
        many = "a traced step" if left == 1 else f"{left:,} traced steps"
        notes.append(f"operations of {many} with other phases are left out")
    if steps.thinned is not None:
        notes.append(
            f"{int(steps.thinned.steps.sum()):,} steps were thinned (--keep): each stretch of up to 10 s of "
            "them is one here, with the number of the first"
        )
    if flags.unseen and len(steps.index):
        notes.append(f"whether anything disturbed the steps is not known: {flags.unseen}")
    return Timeline(
        base_ns=0 if span is None else span[0],
        steps=_steps(tables.marks, steps, flags, breakdown.clean),
        channels=sorted(channels, key=lambda lane: GROUPS.index(lane.group)),
        operations=_operations(breakdown),
        interval_s=tables.info.interval_s,
        notes=tuple(dict.fromkeys(note for note in notes if note)),
    )


# --- steps ------------------------------------------------------------------------------------


def _steps(marks: Marks, steps: Steps, flags: StepFlags, counted: IntArray) -> StepLane:
    of_phase = np.flatnonzero(marks.kind == Mark.PHASE)
    texts, code = np.unique(marks.name[of_phase].astype(str), return_inverse=True)
    clean = np.zeros(len(steps.index), bool)
    clean[counted] = True
    line = steps.line
    at = np.arange(len(steps.index))
    if steps.thinned is not None:
        at = np.flatnonzero(steps.of_line(np.ones(len(at), bool), False))

    def flags_of(flag: BoolArray, otherwise: bool = False) -> BoolArray:
        along: BoolArray = steps.of_line(flag, otherwise)
        return along

    return StepLane(
        index=line.first,
        start_ns=line.start_ns,
        end_ns=line.end_ns,
        traced=flags_of(steps.traced),
        warmup=flags_of(steps.warmup),
        clean=flags_of(clean, True),
        throttled=flags_of(flags.throttled),
        disturbed=flags_of(flags.disturbed),
        phase_step=at[marks.step[of_phase]],
        phase_ns=marks.t_ns[of_phase],
        phase=Names(code=code, texts=texts.astype(object)),
        absent=steps.absent or "",
        many=None if (every := line.steps) is None else every > 1,
    )


# --- channels ---------------------------------------------------------------------------------


def _channels(series: Series) -> Iterator[Lane]:
    yield from _cores(series)
    yield from _power(series)
    for group, roles in GAUGES.items():
        for channel in series.with_role(*roles):
            t_ns, value, _ = series.course(channel.name)
            yield Lane(
                name=channel.name, group=group, unit=channel.unit,
                status=series.status(channel).value, source=channel.source, held=False,
                role=channel.role if channel.role in SHOWN_GAUGES else "", t_ns=t_ns, value=value,
            )  # fmt: skip


def _cores(series: Series) -> Iterator[Lane]:
    """Utilization of each core, and the number of cores that the training kept busy."""
    idle = bool(series.core_idle)
    roles = ("idle_residency",) if idle else ("busy_time", "core_utilization")
    status = series.status_of(*roles).value
    sources = {c.core: c.source for c in series.with_role(*roles)}
    for core, curve in sorted((series.core_idle or series.core_busy).items()):
        channel = None if idle else series.load_channels[core]
        held = channel is None or channel.kind != "gauge"
        if channel is None or held:
            t_ns, rate = curve.t_ns, curve.rates()
            value = np.clip(1 - rate, 0, 1) if idle else np.minimum(rate, 1.0)
        else:
            t_ns, value, _ = series.course(channel.name)
        yield Lane(
            name=f"core {core} busy", group=CORES, unit="ratio", status=status,
            source=sources.get(core, ""), held=held, role="core_utilization", core=core,
            t_ns=t_ns, value=value,
        )  # fmt: skip
    if series.process_cpu is not None:
        curve, source = series.process_cpu
        roles = ("process_cpu_time", "process_cpu_time_coarse")
        yield Lane(
            name="training process", group=CORES, unit="cores",
            status=series.status_of(*roles).value, source=source, held=True, role="process_cpu",
            t_ns=curve.t_ns, value=curve.rates(),
        )  # fmt: skip


def _power(series: Series) -> Iterator[Lane]:
    """The total first, then every rail, calibrated where it was."""
    energy, rails = series.energy, dict(series.rails or series.distinct_rails)
    totals = [name for name in rails if series.channels[name].role.endswith("_total")]
    if isinstance(energy, EnergySource):
        # One meter of the whole machine is the total under its own name.
        name = totals[0] if len(totals) == 1 else WHOLE
        rails.pop(name, None)
        yield _of_energy(name, energy, POWER_ROLE)
    for name, source in rails.items():
        channel = series.channels[name]
        part = channel.role in ("power_part", "energy_part")
        if source.gauge is None and series.refresh(channel).slower:
            source = replace(source, curve=source.curve.renewed)
        yield _of_energy(name, source, RAIL if part else "", channel.domain)
    for name, source in series.outside.items():
        yield _of_energy(f"{name} (not in the total)", source)


def _of_energy(name: str, source: EnergySource, role: str = "", domain: str = "") -> Lane:
    gauge = None if source.thinned else source.gauge
    held = gauge is None
    t_ns, value = gauge or (source.curve.t_ns, source.curve.rates())
    return Lane(
        name=name, group=POWER, unit="W", status=source.status.value, source=source.source,
        held=held, role=role, domain=domain, t_ns=t_ns, value=value,
    )  # fmt: skip


# --- operations -------------------------------------------------------------------------------


def _operations(breakdown: RunBreakdown) -> OperationLanes:
    if breakdown.reason is not None:
        none = np.zeros(0, np.int64)
        return OperationLanes(
            start_ns=none, end_ns=none, row=none, rows=(), label=none, labels=(), window=none
        )
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
        window=rows.window[shown[order]].astype(np.int64),
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
    levels: NDArray[np.int16] = depth - np.int16(1)
    return levels


def _rows(
    breakdown: RunBreakdown, rows: TracedRows, shown: IntArray, depth: NDArray[np.int16]
) -> tuple[IntArray, list[tuple[int | str, int]]]:
    """The row of the picture of each operation: by processor, thread and depth, the CPU first."""
    ran = breakdown.processor
    texts, code = np.unique(ran.texts.astype(str), return_inverse=True)
    threads, levels = int(rows.thread.max(initial=0)) + 1, int(depth.max(initial=0)) + 1
    key = (code[ran.code[shown]] * threads + rows.thread[shown]) * levels + depth
    used, key = compact(key)
    one = np.empty(len(used), np.int64)
    one[key] = shown
    names: list[tuple[int | str, int]] = []
    streams: dict[str, list[int]] = {}
    for each, row in zip(used.tolist(), one.tolist(), strict=True):
        stream, level = divmod(each, levels)
        name = str(texts[stream // threads])
        known = streams.setdefault(name, [])
        if stream not in known:
            known.append(stream)
        number = known.index(stream)
        other = f"{name}.{number}" if number else name
        names.append((breakdown.thread(row) if name == "cpu" else other, level))
    return key, names
