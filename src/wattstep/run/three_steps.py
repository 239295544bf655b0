"""Zoom of a timeline: three clean steps with samples and phases, and one traced step with its operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from wattstep.attribution.codes import compact
from wattstep.run.lanes import Lane, OperationLanes, StepLane, phase_ends
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Status

SHOWN: Final = 3
POWER_ROLE: Final = "power"
RAIL: Final = "rail_power"
LEAST_SAMPLES: Final = (
    8  # where three steps hold fewer samples, more of their surroundings are shown
)
MOST_OPERATIONS: Final = 5000
NO_STEP: Final = "no clean step to show"
SHORT: Final = (
    "these steps are shorter than the sampling interval: samples around them are shown too"
)
WITH_COST: Final = "one traced step, with the tracer's own cost still in it"
# What some channels are called here.
NAMES: Final = {"resident_memory": "resident memory", POWER_ROLE: "power"}
ORDER: Final = (
    "core_utilization", "process_cpu", "resident_memory", "gpu_utilization", POWER_ROLE, RAIL,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ShownPhase:
    """A phase of a step; times in s from the first step shown."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class ShownStep:
    """A step; times in s from the first step shown."""

    index: int
    start: float
    end: float
    traced: bool
    phases: tuple[ShownPhase, ...]


@dataclass(frozen=True, kw_only=True)
class ShownChannel:
    """Samples of a channel meanwhile.

    Attributes:
        name: Of the channel.
        unit: Of its values.
        role: What it is.
        core: Of which it tells; None: of none alone.
        points: Times in s from the first step shown, and values, None where nothing is known.
        status: Of the values.
        domain: What a rail feeds; "" where it is no rail.
    """

    name: str
    unit: str
    role: str
    core: int | None
    points: tuple[tuple[float, float | None], ...]
    status: str
    domain: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the status of what was measured stands with power alone."""
        document: dict[str, Any] = {
            "name": self.name, "unit": self.unit, "role": self.role, "core": self.core,
            "points": [list(point) for point in self.points],
        }  # fmt: skip
        if self.domain:
            document["domain"] = self.domain
        if self.states_status:
            document["status"] = self.status
        return document

    @property
    def states_status(self) -> bool:
        """True if the status is shown: of power always, else of what was not measured."""
        return self.unit == "W" or self.status != Status.MEASURED.value


@dataclass(frozen=True, kw_only=True)
class ShownOperation:
    """An operation of the traced step; times in s from the first of its operations."""

    name: str
    layer: str
    phase: str
    thread: int | str
    depth: int
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class ThreeSteps:
    """Three steps in a row as near to the middle of a run as there are any, and one traced step.

    Attributes:
        steps: The three; fewer where no three are in a row.
        channels: That have values there.
        operations: Of the traced step in the middle, the outermost first.
        note: What a reader must know, or why there is nothing.
        span_ns: From the begin of the first step to the end of the last; None without steps.
        traced_ns: From the begin of the first operation to the end of the last; None without any.
    """

    steps: tuple[ShownStep, ...] = ()
    channels: tuple[ShownChannel, ...] = ()
    operations: tuple[ShownOperation, ...] = ()
    note: str = ""
    span_ns: tuple[int, int] | None = None
    traced_ns: tuple[int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        document: dict[str, Any] = {
            "steps": [
                {**asdict(step), "phases": [asdict(p) for p in step.phases]} for step in self.steps
            ],
            "channels": [channel.to_dict() for channel in self.channels],
            "operations": [asdict(operation) for operation in self.operations],
        }
        return {
            **document,
            **({"operations_note": WITH_COST} if self.steps else {}),
            "note": self.note,
        }


def three_steps(
    steps: StepLane, channels: Sequence[Lane], operations: OperationLanes, interval_s: float
) -> ThreeSteps:
    """Zoom of a timeline.

    Args:
        steps: Every step.
        channels: Every channel.
        operations: Of all traced steps.
        interval_s: Between two samples, as planned.
    """
    single = np.ones(len(steps.index), bool) if steps.many is None else ~steps.many
    marked = np.zeros(len(steps.index), bool)
    marked[steps.phase_step] = True
    clean = np.flatnonzero(steps.clean & single)
    phased = np.flatnonzero(steps.clean & single & marked)
    # A short run on a busy machine may have no three clean steps in a row.
    untraced = np.flatnonzero(~steps.traced & ~steps.warmup & single)
    rows = max((_three(each) for each in (phased, clean, untraced)), key=len)
    if not len(rows):
        return ThreeSteps(note=steps.absent or NO_STEP)
    base, end = int(steps.start_ns[rows[0]]), int(steps.end_ns[rows[-1]])
    margin = max(0, round(interval_s * 1e9 * LEAST_SAMPLES) - (end - base)) // 2
    shown = [
        channel
        for lane in sorted(
            (c for c in channels if c.role in ORDER), key=lambda c: ORDER.index(c.role)
        )
        if (channel := _channel(lane, base - margin, end + margin, base)).points
    ]
    traced, traced_ns = _traced(operations)
    return ThreeSteps(
        steps=tuple(_step(steps, row, base) for row in rows.tolist()),
        channels=tuple(shown),
        operations=traced,
        note=SHORT if margin else "",
        span_ns=(base, end),
        traced_ns=traced_ns,
    )


def _three(rows: IntArray) -> IntArray:
    """Three of these steps in a row, as near to the middle as there are any."""
    begins = np.flatnonzero(rows[SHOWN - 1 :] - rows[: 1 - SHOWN] == SHOWN - 1)
    if not len(begins):
        return rows[:1]
    first = int(begins[np.argmin(np.abs(begins - len(rows) // 2))])
    return rows[first : first + SHOWN]


def _step(steps: StepLane, row: int, base: int) -> ShownStep:
    mine = np.flatnonzero(steps.phase_step == row)
    starts = steps.phase_ns[mine]
    ends = phase_ends(steps.phase_step[mine], starts, steps.end_ns)
    names = steps.phase.at(mine).rows.tolist()
    return ShownStep(
        index=int(steps.index[row]),
        start=(int(steps.start_ns[row]) - base) * 1e-9,
        end=(int(steps.end_ns[row]) - base) * 1e-9,
        traced=bool(steps.traced[row]),
        phases=tuple(
            ShownPhase(name=str(name), start=(start - base) * 1e-9, end=(stop - base) * 1e-9)
            for name, start, stop in zip(names, starts.tolist(), ends.tolist(), strict=True)
        ),
    )


def _channel(lane: Lane, begin: int, end: int, base: int) -> ShownChannel:
    inside = np.flatnonzero((lane.t_ns >= begin) & (lane.t_ns <= end))
    known = np.flatnonzero(np.isfinite(lane.value[inside]))
    inside = inside[known[0] : known[-1] + 1] if len(known) else inside[:0]
    return ShownChannel(
        name=NAMES.get(lane.role, lane.name),
        unit=lane.unit,
        role=lane.role,
        core=lane.core,
        points=tuple(
            ((t - base) * 1e-9, value if np.isfinite(value) else None)
            for t, value in zip(
                lane.t_ns[inside].tolist(), lane.value[inside].tolist(), strict=True
            )
        ),
        status=lane.status,
        domain=lane.domain if lane.role == RAIL else "",
    )


def _traced(
    operations: OperationLanes,
) -> tuple[tuple[ShownOperation, ...], tuple[int, int] | None]:
    """The operations of the tracing window in the middle, and from when to when they ran."""
    if not len(operations.window):
        return (), None
    there, _ = compact(operations.window)  # an imported step may hold no operation
    mine = np.flatnonzero(operations.window == there[(len(there) - 1) // 2])
    depth = np.array([level for _, level in operations.rows])[operations.row[mine]]
    start, end = operations.start_ns[mine], operations.end_ns[mine]
    base = int(start.min())
    shown = [
        ShownOperation(
            name=name, layer=layer, phase=phase, thread=operations.rows[row][0],
            depth=operations.rows[row][1], start=(begin - base) * 1e-9, end=(stop - base) * 1e-9,
        )
        for (name, layer, phase), row, begin, stop in (
            (
                operations.labels[int(operations.label[mine[n]])], int(operations.row[mine[n]]),
                int(start[n]), int(end[n]),
            )
            for n in np.lexsort((start, depth))[:MOST_OPERATIONS].tolist()
        )
    ]  # fmt: skip
    return tuple(shown), (base, int(end.max()))
