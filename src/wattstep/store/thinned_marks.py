"""Which steps of a run are old enough to be thinned, and the pieces that are written thinned while it records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.schema.journal import MARKS, piece_name, segment_name
from wattstep.schema.run_info import RunInfo
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import file_rows, parts
from wattstep.store.mark_rows import MARK, Ints
from wattstep.store.pieces import Pieces, write_piece
from wattstep.store.segments import newest_segment
from wattstep.store.step_thinning import (
    FLOAT_COLUMNS,
    MARK_WORDS,
    NO_STRETCHES,
    STEP_WORDS,
    thin_steps,
)
from wattstep.store.thinned_journal import kept_times
from wattstep.store.thinning import Age


def mark_parts(journal: Folder, info: RunInfo) -> Iterator[tuple[npt.NDArray[Any], Ints]]:
    """Marks and stretches in place of old steps, block by block, in order.

    Args:
        journal: Folder of the journals.
        info: Of the run, which says how old.
    """
    span_ns = _span(journal) if _may_go(info) else None
    for marks, stretches in parts(journal, MARKS, MARK):
        if stretches is None and span_ns is not None:
            marks, stretches, _ = _thinned(journal, info, marks, span_ns)
        yield marks, NO_STRETCHES if stretches is None else stretches


def thin_mark_pieces(journal: Folder, info: RunInfo) -> None:
    """Replaces pieces of marks that are old enough by thinned ones, as `thin_pieces` does those of samples.

    Raises:
        OSError: The disk is full; what is not thinned is untouched.
        DamagedRunError: A piece is garbled, or Parquet does not give back what it was given.
    """
    span_ns = _span(journal) if _may_go(info) else None
    if span_ns is None:
        return
    pieces = Pieces(journal, MARKS, MARK)
    names = set(journal.names())
    for number in range((newest_segment(list(names), MARKS) or 0) + 1):
        if piece_name(MARKS, number) not in names:
            continue
        facts = pieces.facts(number)
        if facts.words != MARK_WORDS or not facts.rows:
            continue
        if facts.last_ns > span_ns[1] - _old_ns(info):
            break
        marks = np.concatenate([*pieces.blocks(number)])
        left, stretches, before = _thinned(journal, info, marks, span_ns)
        rows = np.zeros((len(left), STEP_WORDS), np.int64)
        rows[:, :MARK_WORDS] = left.view("<i8").reshape(-1, MARK_WORDS)
        # Marks keep their order, which is not always that of their times.
        rows = np.insert(rows, before, stretches, axis=0)
        write_piece(journal, piece_name(MARKS, number), rows, FLOAT_COLUMNS)


def _may_go(info: RunInfo) -> bool:
    """Whether steps of the run are thinned at all: not where figures leave some of them out by what each is."""
    left_out = info.options.get("exclude") or info.conditions.get("governor")
    return "steps_s" in info.keep and not left_out


def _old_ns(info: RunInfo) -> int:
    return round(info.keep["steps_s"] * 1e9)


def _thinned(
    journal: Folder, info: RunInfo, marks: npt.NDArray[Any], span_ns: tuple[int, int]
) -> tuple[npt.NDArray[Any], Ints, Ints]:
    """Marks that stay of some in a row, stretches, and how many marks are before each; see `thin_steps`.

    Args:
        journal: Folder of the journals.
        info: Of the run.
        marks: Of one block.
        span_ns: Times of the first and the last mark of the run.
    """
    since_ns, until_ns = span_ns[0] + _old_ns(info), span_ns[1] - _old_ns(info)
    written = marks["t"][marks["kind"] != 0]
    if not len(written) or written.max() < since_ns or written.min() > until_ns:
        return marks, NO_STRETCHES, np.empty(0, np.int64)
    kept_ns = kept_times(journal, int(written.min()), int(written.max()))
    age = Age(since_ns=since_ns, until_ns=until_ns, kept_ns=kept_ns)
    return thin_steps(marks, age, info.first_step + info.warmup)


def _span(journal: Folder) -> tuple[int, int] | None:
    """Times of the first mark of a run and of the last in ns; None where there is none."""
    pieces = Pieces(journal, MARKS, MARK)
    last = newest_segment(journal.names(), MARKS)
    times: list[int] = []
    for numbers, at in ((range((last or 0) + 1), 0), (range(last or 0, -1, -1), -1)):
        for number in numbers:
            written = _times(journal, pieces, number)
            if len(written):
                times.append(int(written[at]))
                break
    return (times[0], times[1]) if len(times) == 2 else None


def _times(journal: Folder, pieces: Pieces, number: int) -> Ints:
    """Times of the marks of a segment, be it packed or not; none where it is gone."""
    found = [np.empty(0, np.int64)]
    try:
        with journal.open(segment_name(MARKS, number)) as file:
            found += [each["t"][each["kind"] != 0] for each in file_rows(file, MARK)]
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            found += [each["t"][each["kind"] != 0] for each in pieces.blocks(number)]
    return np.concatenate(found)
