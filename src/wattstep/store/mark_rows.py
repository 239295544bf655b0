"""Marks of a journal as rows, and the steps that they begin and end; without Arrow, for whoever follows a training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.schema.journal import MARK_FIELDS, NOT_KNOWN, Mark

LOST_NAME = "(name lost)"
MARK = np.dtype([(name, f"<{letter}") for name, letter in MARK_FIELDS])
Ints = npt.NDArray[np.int64]


def begins_and_ends(marks: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same marks, in which each step has one that begins it and one that ends it.

    Args:
        marks: Rows of the journal as they were written, shape (n,).
    """
    plain = marks["kind"] == Mark.STEP
    if not plain.any():
        return marks
    rows: npt.NDArray[Any] = np.repeat(marks, plain + 1)
    first = np.flatnonzero(plain) + np.arange(np.count_nonzero(plain))
    last = first + 1
    samples = marks["code"][plain]
    rows["value"][first] = np.where(samples == NOT_KNOWN, np.nan, samples)
    rows["t"][last] = marks["cpu"][plain]
    rows["kind"][first], rows["kind"][last] = Mark.STEP_START, Mark.STEP_END
    for mark in (first, last):
        rows["cpu"][mark] = 0  # is not read at each of them
        rows["code"][mark] = 0
    return rows


def ended_steps(marks: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Positions of the marks that begin and end each step that ended, shape (n,) each.

    The start that belongs to an end is the last one before it; a step that was started anew
    (evaluation came between) or never ended has no end of its own. Of a start that several ends
    claim (a garbled journal) only the first is a step. Both have the number of their step: where a
    segment of the journal was cut, a begin and the end of another step would meet.

    Args:
        marks: Rows of the journal.
    """
    ends = np.flatnonzero(marks["kind"] == Mark.STEP_END)
    starts = np.flatnonzero(marks["kind"] == Mark.STEP_START)
    at = np.searchsorted(starts, ends) - 1
    own = (at >= 0) & np.append(True, np.diff(at) > 0)[: len(at)]
    own[own] = marks["index"][starts[at[own]]] == marks["index"][ends[own]]
    return starts[at[own]], ends[own]


def samples_of_steps(
    marks: npt.NDArray[Any], starts: Ints, ends: Ints, given: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Samples of steps: as marked within them, else as given at their beginning.

    Args:
        marks: Rows of the journal.
        starts: Positions of the marks that begin a step, shape (n,).
        ends: Those that end one.
        given: Of each step, NaN where nothing was given.
    """
    at = np.flatnonzero(marks["kind"] == Mark.SAMPLES)
    total = np.concatenate([[0.0], np.cumsum(marks["value"][at])])
    low, high = np.searchsorted(at, starts), np.searchsorted(at, ends)
    return np.where(high > low, total[high] - total[low], given.astype(np.float64))
