"""Columns of a timeline: a channel, the steps, the operation instances of traced steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.attribution.codes import Codes
from wattstep.attribution.tables.naming import Names
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Lane:
    """Course of a channel over the whole run.

    Attributes:
        name: Of the channel, or what it was made of.
        group: One of `GROUPS`.
        unit: SI unit of the values.
        status: "measured", "replayed" or "modelled".
        source: Sensor or model.
        held: Whether a value is the mean since the sample before (of a counter), not that of an
            instant.
        role: What it is where three steps are shown ("power", "core_utilization", ...); "": no part
            of them.
        core: Of which it tells; None: of none alone.
        domain: Which part of the board a rail feeds; "" where it is no rail.
        t_ns: Times in ns, increasing, shape (n,).
        value: NaN where nothing is known, shape (n,).
    """

    name: str
    group: str
    unit: str
    status: str
    source: str
    held: bool
    role: str = ""
    core: int | None = None
    domain: str = ""
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
        clean: Whether it counts.
        throttled: Whether it was throttled.
        disturbed: Whether it was disturbed.
        phase_step: Row of the step of each phase, not falling, shape (p,).
        phase_ns: Begin of each phase, shape (p,); it lasts to the next or to the end of its step.
        phase: Its name.
        absent: Why there are no steps; "" where there are some.
        many: Whether it stands for steps that were not kept as single ones, and has the number of the
            first of them; None: none does.
    """

    index: IntArray
    start_ns: IntArray
    end_ns: IntArray
    traced: BoolArray
    warmup: BoolArray
    clean: BoolArray
    throttled: BoolArray
    disturbed: BoolArray
    phase_step: IntArray
    phase_ns: IntArray
    phase: Names
    absent: str = ""
    many: BoolArray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class OperationLanes:
    """The operation instances of traced steps, by row of the picture and start; shape (n,) each.

    Attributes:
        start_ns: Begin, as traced.
        end_ns: End, as traced.
        row: Which of `rows` it lies in, not falling.
        rows: Thread (its number on the CPU, else the name of the stream) and depth (0: in no other
            operation) of each row of the picture.
        label: Which of `labels` it has.
        labels: Name, layer and phase.
        window: In which tracing window it lies, by number.
    """

    start_ns: IntArray
    end_ns: IntArray
    row: IntArray
    rows: Sequence[tuple[int | str, int]]
    label: Codes
    labels: Sequence[tuple[str, str, str]]
    window: IntArray


def phase_ends(step: IntArray, begin_ns: IntArray, step_end_ns: IntArray) -> IntArray:
    """End of each phase in ns: the begin of the next one, or the end of its step, shape (p,).

    Args:
        step: Row of the step of each, not falling, shape (p,).
        begin_ns: Begin of each, shape (p,).
        step_end_ns: End of each step.
    """
    last = np.append(step[1:] != step[:-1], True)[: len(step)]
    ends: IntArray = np.where(last, step_end_ns[step], np.append(begin_ns[1:], 0)[: len(step)])
    return ends
