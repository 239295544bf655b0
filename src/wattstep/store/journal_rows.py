"""The journals of a run as blocks of rows, and the names that their codes stand for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.schema.journal import MARK_FIELDS, NAMES, Mark
from wattstep.store.folder import Folder
from wattstep.store.tables import BLOCK

LOST_NAME = "(name lost)"
MARK = np.dtype([(name, f"<{letter}") for name, letter in MARK_FIELDS])
Ints = npt.NDArray[np.int64]


def whole_rows(journal: Folder, name: str, row: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    """Blocks of the rows of a file, which need not be there; a cut last row is left out."""
    try:
        file = journal.open(name)
    except FileNotFoundError:
        return
    with file:
        rows = os.fstat(file.fileno()).st_size // row.itemsize  # what comes meanwhile is left
        while rows > 0:
            block = np.fromfile(file, row, min(BLOCK, rows))
            if not len(block):  # cut off meanwhile
                return
            rows -= len(block)
            yield block


def ended_steps(marks: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Positions of the marks that begin and end each step that ended, shape (n,) each.

    The start that belongs to an end is the last one before it; a step that was started anew
    (evaluation came between) or never ended has no end of its own. Of a start that several ends
    claim (a garbled journal) only the first is a step.

    Args:
        marks: Rows of the journal.
    """
    ends = np.flatnonzero(marks["kind"] == Mark.STEP_END)
    starts = np.flatnonzero(marks["kind"] == Mark.STEP_START)
    at = np.searchsorted(starts, ends) - 1
    own = (at >= 0) & np.append(True, np.diff(at) > 0)[: len(at)]
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


def int_rows(journal: Folder, name: str, width: int) -> Iterator[Ints]:
    """Blocks of whole rows of so many int64."""
    for block in whole_rows(journal, name, np.dtype(("V", 8 * width))):
        yield block.view("<i8").reshape(len(block), width)


def read_names(journal: Folder) -> list[str]:
    """Names by code, and last the one for codes whose name was cut off."""
    names: list[str] = []
    try:
        lines = journal.read(NAMES).splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        try:
            _, code, text = json.loads(line)
        except (TypeError, ValueError):
            break
        if code != len(names) or not isinstance(text, str):
            break
        names.append(text)
    return [*names, LOST_NAME]


def known_codes(codes: npt.NDArray[Any], names: list[str]) -> Ints:
    """Codes as positions in `names`."""
    return np.minimum(codes.astype(np.int64), len(names) - 1)
