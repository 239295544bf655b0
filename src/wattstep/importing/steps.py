"""The steps of a trace: from the profiler's own marks, from annotations, or the trace as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wattstep.attribution.nesting import Bools, Rows
from wattstep.errors import InvalidValueError
from wattstep.formats.trace import NONE, Codes, Longs

SHOWN = 8  # names in an error
ROUNDED_NS = 1000  # marks in whole µs, as old traces have them, overlap by so much
SHARE = 100  # of a step, by which marks of clocks that jitter may overlap
_NUMBER = re.compile(r"(\d+)\D*$")


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceSteps:
    """Steps in order; none overlaps another.

    A step is the stretch that its mark covers on the CPU. Its work on a GPU may end later: steps
    follow one another there, too, so that the time from mark to mark is what a step takes.

    Attributes:
        index: As the trace numbers them, else counted from 0, shape (k,).
        start_ns: Begin, shape (k,).
        end_ns: End, shape (k,).
        mark: Position of the row that marks each, NONE where the whole trace is one step.
        unused: Positions of marks that became no step: nothing ran in them any more.
        notes: What a reader must know.
    """

    index: Longs
    start_ns: Longs
    end_ns: Longs
    mark: Longs
    unused: Longs
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.index)

    @property
    def whole(self) -> bool:
        """True if the trace as a whole stands as one step."""
        return len(self.mark) == 1 and int(self.mark[0]) == NONE

    def at(self, t_ns: Longs) -> Codes:
        """Position of the step in which each time lies, NONE outside of all."""
        if not len(self):
            return np.full(len(t_ns), NONE, np.int32)
        position = np.searchsorted(self.start_ns, t_ns, side="right") - 1
        inside = (position >= 0) & (
            (t_ns < self.end_ns[position]) | (t_ns == self.start_ns[position])
        )
        inside |= self.whole
        return np.where(inside, position, NONE).astype(np.int32)


def find_steps(
    rows: Rows, names: tuple[str, ...], works: Bools, step_name: str | None, process: Longs
) -> TraceSteps:
    """Finds the steps of a trace.

    Args:
        rows: All events, in order.
        names: Texts by code.
        works: Which rows are work, no mere grouping, shape (n,).
        step_name: Regular expression that the name of a step's annotation matches; None for the
            profiler's own marks.
        process: Number of the process of each row, NONE where there is one only, shape (n,).

    Raises:
        InvalidValueError: The expression is none, or no annotation matches it; or several
            processes have marks, whose steps run beside one another.
    """
    marks = _marks(rows, names, step_name)
    if not len(marks):
        return _whole(rows)
    _refuse_several(process[marks])
    outer, end_ns, touching = _disjoint(rows, marks)
    notes: list[str] = []
    if touching:
        notes.append(f"{touching} marks of steps reach into the next: they end where it begins")
    if len(outer) < len(marks):
        notes.append(
            f"{len(marks) - len(outer)} marks of steps lie across others; they are annotations here"
        )
    used = _with_work(rows, outer, works)
    end_ns = end_ns[: len(used) or len(outer)]
    if not len(used):
        used = outer  # a trace of nothing but marks
    elif len(used) < len(outer):
        notes.append(
            "the last mark of a step holds no work: the recording ended with it, it is no step"
        )
    index, counted = _numbers([names[code] for code in rows.name[used]])
    if counted:
        notes.append("marks of steps carry no rising numbers: steps are counted from 0")
    return TraceSteps(
        index=index,
        start_ns=rows.start_ns[used],
        end_ns=end_ns,
        mark=used,
        unused=np.setdiff1d(outer, used),
        notes=tuple(notes),
    )


def _marks(rows: Rows, names: tuple[str, ...], step_name: str | None) -> Longs:
    """Positions of the rows that mark steps."""
    on_cpu = ~rows.on_gpu
    words = np.array([name in ("annotation", "step") for name in names], bool)
    if step_name is None:
        words = np.array([name == "step" for name in names], bool)
        return np.flatnonzero(words[rows.category] & on_cpu)
    try:
        pattern = re.compile(step_name)
    except re.error as error:
        raise InvalidValueError(
            f"--step-name {step_name!r} is no regular expression: {error}",
            id="not-a-regular-expression",
        ) from error
    candidates = np.flatnonzero(words[rows.category] & on_cpu)
    matching = np.array([bool(pattern.search(name)) for name in names], bool)
    marks: Longs = candidates[matching[rows.name[candidates]]]
    if not len(marks):
        there = sorted({names[code] for code in np.unique(rows.name[candidates])})
        listed = ", ".join(there[:SHOWN]) + (", ..." if len(there) > SHOWN else "")
        raise InvalidValueError(
            f"no annotation of the trace matches --step-name {step_name!r}; "
            + (f"there are: {listed}" if there else "it has no annotations"),
            id="no-such-annotation",
        )
    return marks


def _whole(rows: Rows) -> TraceSteps:
    note = "the trace has no marks of steps: the whole of it stands as one step"
    return TraceSteps(
        index=np.zeros(1, np.int64),
        start_ns=rows.start_ns.min(keepdims=True),
        end_ns=rows.end_ns.max(keepdims=True),
        mark=np.full(1, NONE, np.int64),
        unused=np.zeros(0, np.int64),
        notes=(note,),
    )


def _refuse_several(processes: Longs) -> None:
    """Two processes that train at once, as ranks do, have no steps in common."""
    numbers = np.unique(processes).tolist()
    if len(numbers) > 1:
        raise InvalidValueError(
            f"steps are marked in {len(numbers)} processes ({_listed(numbers)}): choose one with "
            f"--process {numbers[0]}",
            id="steps-in-several-processes",
        )


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:SHOWN])) + (", ..." if len(numbers) > SHOWN else "")


def _disjoint(rows: Rows, marks: Longs) -> tuple[Longs, Longs, int]:
    """Of marks that overlap the one that begins first; where each ends; how many were shortened.

    A mark that reaches into the next by no more than clocks and their rounding explain ends there.
    """
    disjoint: list[int] = []
    ends: list[int] = []
    touching = 0
    for mark in marks.tolist():
        start, end = int(rows.start_ns[mark]), int(rows.end_ns[mark])
        if disjoint and start < ends[-1]:
            shorter = min(end - start, ends[-1] - int(rows.start_ns[disjoint[-1]]))
            if ends[-1] - start >= max(shorter / SHARE, min(ROUNDED_NS + 1, shorter / 4)):
                continue
            ends[-1] = start
            touching += 1
        disjoint.append(mark)
        ends.append(end)
    return np.array(disjoint, np.int64), np.array(ends, np.int64), touching


def _with_work(rows: Rows, marks: Longs, works: Bools) -> Longs:
    """The marks without a last one in which nothing ran, where others hold work.

    A recording that is stopped between steps may have opened the next already.
    """
    begins = rows.start_ns[works]
    holds = np.searchsorted(begins, rows.end_ns[marks]) > np.searchsorted(
        begins, rows.start_ns[marks]
    )
    return marks if holds[-1] or not holds.any() else marks[:-1]


def _numbers(names: list[str]) -> tuple[Longs, bool]:
    """Numbers of the steps, and whether they had to be counted."""
    matches = [_NUMBER.search(name) for name in names]
    numbers = [int(match[1]) for match in matches if match and len(match[1]) < 18]
    rising = all(a < b for a, b in pairwise(numbers))
    if len(numbers) == len(names) and rising:
        return np.array(numbers, np.int64), False
    return np.arange(len(names), dtype=np.int64), True
