"""Which steps of a run are old enough to be thinned, and the pieces that are written thinned while it records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.schema.journal import MARKS, piece_name
from wattstep.schema.run_info import RunInfo
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import parts
from wattstep.store.mark_rows import MARK, Ints
from wattstep.store.pieces import Pieces, packed_rows, write_piece
from wattstep.store.segments import newest_segment
from wattstep.store.step_thinning import (
    FLOAT_COLUMNS,
    MARK_WORDS,
    NO_STRETCHES,
    STEP_WORDS,
    of_device,
    thin_steps,
)
from wattstep.store.thinned_journal import kept_times, packed_last_first, segment_marks
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
            marks, stretches = _thinned(journal, info, marks, span_ns)
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
    old: list[tuple[int, Age]] = []
    for number in packed_last_first(journal, MARKS):
        facts = pieces.facts(number)
        age = _age(info, span_ns)
        if not facts.rows or facts.last_ns > age.until_ns:
            continue
        # Those before are thinned, too, or stay as this one.
        if facts.words != MARK_WORDS or facts.last_ns < age.since_ns:
            break
        if any(of_device(marks) for marks in segment_marks(journal, pieces, number)):
            break
        kept_ns = kept_times(journal, facts.first_ns, facts.last_ns)
        old.append((number, replace(age, kept_ns=kept_ns)))
    for number, age in reversed(old):
        _thin_piece(journal, info, number, age)


def _thin_piece(journal: Folder, info: RunInfo, number: int, age: Age) -> None:
    pieces = Pieces(journal, MARKS, MARK)

    def thinned() -> Iterator[Ints]:
        for marks in pieces.blocks(number, packed_rows(MARK_WORDS)):
            left, stretches, before = thin_steps(marks, age, info.first_step + info.warmup)
            rows = np.zeros((len(left), STEP_WORDS), np.int64, order="F")
            rows[:, :MARK_WORDS] = left.view("<i8").reshape(-1, MARK_WORDS)
            # Marks keep their order, which is not always that of their times.
            yield np.insert(rows, before, stretches, axis=0)

    write_piece(journal, piece_name(MARKS, number), STEP_WORDS, thinned, FLOAT_COLUMNS)


def _may_go(info: RunInfo) -> bool:
    """Whether steps of the run are thinned at all: not where figures leave some of them out by what each is."""
    left_out = info.options.get("exclude") or info.conditions.get("governor")
    return "steps_s" in info.keep and not left_out


def _age(info: RunInfo, span_ns: tuple[int, int]) -> Age:
    """What is old enough, without `kept_ns`."""
    old_ns = round(info.keep["steps_s"] * 1e9)
    none = np.empty((0, 2), np.int64)
    return Age(since_ns=span_ns[0] + old_ns, until_ns=span_ns[1] - old_ns, kept_ns=none)


def _thinned(
    journal: Folder, info: RunInfo, marks: npt.NDArray[Any], span_ns: tuple[int, int]
) -> tuple[npt.NDArray[Any], Ints]:
    """Marks that stay of some in a row, and stretches; see `thin_steps`.

    Args:
        journal: Folder of the journals.
        info: Of the run.
        marks: Of one block.
        span_ns: Times of the first and the last mark of the run.
    """
    age = _age(info, span_ns)
    written = marks["t"][marks["kind"] != 0]
    if not len(written) or written.max() < age.since_ns or written.min() > age.until_ns:
        return marks, NO_STRETCHES
    kept_ns = kept_times(journal, int(written.min()), int(written.max()))
    return thin_steps(marks, replace(age, kept_ns=kept_ns), info.first_step + info.warmup)[:2]


def _span(journal: Folder) -> tuple[int, int] | None:
    """Times of the first mark of a run and of the last in ns; None where there is none."""
    pieces = Pieces(journal, MARKS, MARK)
    last = newest_segment(journal.names(), MARKS) or 0
    ends = [
        next((ends for n in numbers if (ends := _ends(journal, pieces, n)) is not None), None)
        for numbers in (range(last + 1), range(last, -1, -1))
    ]
    return None if ends[0] is None or ends[1] is None else (ends[0][0], ends[1][1])


def _ends(journal: Folder, pieces: Pieces, number: int) -> tuple[int, int] | None:
    """Times of the first and the last mark of a segment in ns; None where it has none."""
    ends = None
    for marks in segment_marks(journal, pieces, number):
        t_ns = marks["t"][marks["kind"] != 0]
        if len(t_ns):
            ends = (int(t_ns[0]) if ends is None else ends[0], int(t_ns[-1]))
    return ends
