"""Phases of training in a trace: which operation belongs to data, forward, backward or optimizer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.event_kinds import ENGINE
from wattstep.attribution.nesting import Bools, Family, Rows
from wattstep.formats.trace import NONE, Codes, Longs
from wattstep.importing.steps import TraceSteps

PHASES: Final = ("data", "forward", "backward", "optimizer")
DATA, FORWARD, BACKWARD, OPTIMIZER = range(4)
OURS: Final = "wattstep."  # annotations that our own tracing leaves in a trace
_NODE = re.compile(r"^(struct )?(torch::autograd::)?(\w+Backward\d*|AccumulateGrad)$")
_OF_TORCH = (
    (OPTIMIZER, re.compile(r"^Optimizer\.")),
    (DATA, re.compile(r"^enumerate\(DataLoader\)")),
)
# What people call the parts of a step in annotations; the first that is found decides.
_WORDS = (
    (OPTIMIZER, re.compile(r"(?<![a-z])(optimizer|optim|zero_?grad)(?![a-z])", re.IGNORECASE)),
    (
        DATA,
        re.compile(
            r"data_?load|load_?(batch|data)(?![a-z])|(?<![a-z])(next|wait_for)_?batch(?![a-z])|^data$",
            re.IGNORECASE,
        ),
    ),
    (BACKWARD, re.compile(r"(?<![a-z])backward(?![a-z])", re.IGNORECASE)),
    (FORWARD, re.compile(r"(?<![a-z])forward(?![a-z])", re.IGNORECASE)),
)
_ZERO_GRAD = re.compile(r"zero_?grad", re.IGNORECASE)
_MOST_MARKS: Final = 64  # phases of a step; beyond, they say nothing


def phase_of_annotation(name: str) -> int:
    """The phase that an annotation's name tells, a position in `PHASES`, or NONE."""
    if name.startswith(OURS):
        return NONE
    for phase, pattern in (*_OF_TORCH, *_WORDS):
        if pattern.search(name):
            return phase
    return NONE


def phase_of_operation(name: str) -> int:
    """The phase that an operation's name tells by itself, or NONE."""
    if name.startswith(ENGINE) or _NODE.match(name):
        return BACKWARD
    return next((phase for phase, pattern in _OF_TORCH if pattern.search(name)), NONE)


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """Phases of rows by their names and scopes alone, before any time is looked at; shape (n,).

    Attributes:
        own: What the row itself says, or NONE.
        inherited: The same or what the nearest row around it says.
    """

    own: Codes
    inherited: Codes


def known_phases(rows: Rows, family: Family, categories: Codes, names: tuple[str, ...]) -> Known:
    """Phases from the names of annotations and of the nodes of the backward pass.

    Args:
        rows: In order.
        family: Their nesting.
        categories: 0 for operations, 1 for annotations, NONE for others, shape (n,).
        names: Texts by code.
    """
    own = np.full(len(rows), NONE, np.int32)
    for category, function in ((0, phase_of_operation), (1, phase_of_annotation)):
        chosen = np.flatnonzero(categories == category)
        used = np.unique(rows.name[chosen])
        table = np.array([function(names[code]) for code in used.tolist()], np.int32)
        if len(used):
            own[chosen] = table[np.searchsorted(used, rows.name[chosen])]
    own[rows.on_gpu] = NONE
    return Known(own=own, inherited=family.inherited(own))


def with_forward(known: Known, family: Family, forward: Bools) -> Known:
    """Copy in which rows that are surely forward are so, where nothing around them says otherwise.

    Args:
        known: Phases by name.
        family: The nesting.
        forward: Rows that a backward operation refers to, or calls of modules, shape (n,).
    """
    own = known.own.copy()
    own[forward & (known.inherited == NONE)] = FORWARD
    return Known(own=own, inherited=family.inherited(own))


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseMarks:
    """When phases begin within steps, in order of time.

    Attributes:
        step: Position of the step, shape (m,).
        t_ns: Begin of the phase, shape (m,).
        phase: Which, a position in `PHASES`, shape (m,).
    """

    step: Longs
    t_ns: Longs
    phase: Codes

    def common(self, steps: int) -> bool:
        """True if all steps have the same known sequence of phases."""
        if not len(self.step):
            return False
        counts = np.bincount(self.step, minlength=steps)
        if (counts != counts[0]).any() or not counts[0]:
            return False
        sequences = self.phase.reshape(steps, -1)
        return bool((sequences == sequences[0]).all())

    def at(self, t_ns: Longs, step: Codes) -> Codes:
        """The phase in which each time lies, NONE where its step has no marks.

        Args:
            t_ns: Times, shape (n,).
            step: Position of the step of each, or NONE.
        """
        position = np.searchsorted(self.t_ns, t_ns, side="right") - 1
        if not len(self.step):
            return np.full(len(t_ns), NONE, np.int32)
        same = (position >= 0) & (self.step[position] == step)
        return np.where(same, self.phase[position], NONE).astype(np.int32)


def phase_marks(
    rows: Rows, family: Family, known: Known, names: tuple[str, ...], steps: TraceSteps
) -> PhaseMarks:
    """When the phases of each step begin.

    A phase begins with the first row that says it and lasts to the next; clearing gradients is
    too short to be one. What comes before the first backward operation is forward. A step whose
    first phase would be the optimizer has no marks: what comes before it cannot be determined; neither
    has one in which a single part is named: how far that reaches cannot be determined.

    Args:
        rows: In order.
        family: Their nesting.
        known: What rows tell of phases.
        names: Texts by code.
        steps: Of the trace.
    """
    says = np.flatnonzero((known.own != NONE) & (family.above(known.inherited) != known.own))
    used = np.unique(rows.name[says])
    clears = np.array([bool(_ZERO_GRAD.search(names[code])) for code in used.tolist()], bool)
    if len(used):
        says = says[~clears[np.searchsorted(used, rows.name[says])]]
    step = steps.at(rows.start_ns[says])
    says, step = says[step != NONE], step[step != NONE]
    phase = known.own[says]
    new = np.append(True, (phase[1:] != phase[:-1]) | (step[1:] != step[:-1]))[: len(says)]
    says, step, phase = says[new], step[new], phase[new]
    begin = rows.start_ns[says]
    return _completed(step.astype(np.int64), begin, phase, _data_ends(rows, says, phase), steps)


def _data_ends(rows: Rows, says: Longs, phase: Codes) -> Longs:
    """End of the loading of data that each row stands for, 0 for others, shape (m,)."""
    return np.where(phase == DATA, rows.end_ns[says], 0)


def _completed(
    step: Longs, begin: Longs, phase: Codes, data_end: Longs, steps: TraceSteps
) -> PhaseMarks:
    """Marks by step, the first of which begins with the step, those after data with its end."""
    bounds = np.searchsorted(step, np.arange(len(steps) + 1))
    taken: list[tuple[int, int, int]] = []
    for number in range(len(steps)):
        low, high = int(bounds[number]), int(bounds[number + 1])
        alone = high - low == 1 and phase[low] != BACKWARD
        if low == high or alone or high - low > _MOST_MARKS or phase[low] == OPTIMIZER:
            continue
        start = int(steps.start_ns[number])
        if phase[low] == BACKWARD:
            taken.append((number, start, FORWARD))
        for at in range(low, high):
            t_ns = int(begin[at])
            if at == low and phase[low] != BACKWARD:
                t_ns = start
            elif at > low and phase[at - 1] == DATA:
                t_ns = min(t_ns, max(int(data_end[at - 1]), int(begin[at - 1])))
            taken.append((number, t_ns, int(phase[at])))
    columns = np.array(taken, np.int64).reshape(-1, 3)
    return PhaseMarks(step=columns[:, 0], t_ns=columns[:, 1], phase=columns[:, 2].astype(np.int32))
