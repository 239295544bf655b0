"""Which samples of a run are old enough to be thinned, and the pieces that are written thinned while it records."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import MARKS, Mark, piece_name, segment_name
from wattstep.schema.run_info import RunInfo
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import file_rows, parts
from wattstep.store.mark_rows import MARK, Ints, begins_and_ends
from wattstep.store.pieces import PieceFacts, Pieces, packed_rows, thinned_rows, write_piece
from wattstep.store.segments import newest_segment
from wattstep.store.thinning import (
    LEAST_ROWS,
    STRETCH_NS,
    Age,
    SampleJournal,
    every_journal,
    thin,
)

_WORD: Final = 8
# Around a mark beside which clean steps begin or end: the one before, and the step after next, as the
# one after a traced step does not count.
BEFORE, AFTER = 2, 4  # begins and ends of steps
BESIDE_NS: Final = (
    60_000_000_000  # before and behind what is asked for: other journals ask for that
)
MARGIN_NS: Final = 1_000_000_000  # beyond: what sensors show late
BOUNDARIES: Final = (Mark.STEP_START, Mark.STEP_END)
EDGES: Final = (Mark.WINDOW_START, Mark.WINDOW_END, Mark.REST_START, Mark.REST_END)


def sample_parts(
    journal: Folder, info: RunInfo, samples: SampleJournal, kept: KeptTimes
) -> Iterator[tuple[Ints, Ints]]:
    """Rows of a journal of samples and stretches in place of old ones, block by block, in order.

    Args:
        journal: Folder of the journals.
        info: Of the run, which says how old.
        samples: Which journal.
        kept: When all rows stay.
    """
    age = None
    for rows, stretches in parts(journal, samples.name, _layout(samples)):
        own = rows.view("<i8").reshape(len(rows), samples.words)
        if stretches is None and "raw_s" in info.keep:
            age = age or age_of(journal, info, samples)
            if not samples.whole and len(own) and _is_old(own, age):
                first_ns, last_ns = int(own[0, 0]), int(own[-1, 0])
                times = kept.within(max(first_ns, age.since_ns), age.until_ns)
                times = times[(times[:, 0] <= last_ns) & (times[:, 1] >= first_ns)]
                own, stretches = thin(own, samples, replace(age, kept_ns=times))
        if stretches is None:
            stretches = np.empty((0, samples.thinned_words), np.int64)
        yield own, stretches


def thin_pieces(journal: Folder, info: RunInfo) -> None:
    """Replaces pieces that are old enough by thinned ones, each of which is whole before the other goes.

    Args:
        journal: Folder of the journals.
        info: Of the run, which says how old.

    Raises:
        OSError: The disk is full; what is not thinned is untouched.
        DamagedRunError: A piece is garbled, or Parquet does not give back what it was given; all
            others are thinned.
    """
    if "raw_s" not in info.keep:
        return
    damaged: list[DamagedRunError] = []
    for samples in every_journal(info):
        if not samples.whole:
            damaged += _thin_pieces_of(journal, info, samples)
    if damaged:
        raise damaged[0]


def _thin_pieces_of(
    journal: Folder, info: RunInfo, samples: SampleJournal
) -> list[DamagedRunError]:
    """Thins the pieces of one journal; what is wrong with those that stay as they are."""
    damaged: list[DamagedRunError] = []
    old: list[tuple[int, PieceFacts, Age]] = []
    pieces = Pieces(journal, samples.name, _layout(samples))
    age = None
    for number in packed_last_first(journal, samples.name):
        try:
            facts = pieces.facts(number)
        except DamagedRunError as error:
            damaged.append(error)
            continue
        if facts.words != samples.words:  # thinned, as those before are that can be
            break
        if not facts.rows or _rare(facts):
            continue
        age = age or age_of(journal, info, samples)
        if age.since_ns <= facts.last_ns <= age.until_ns:
            old.append((number, facts, age))
    for number, facts, age in reversed(old):
        try:
            _thin_piece(journal, samples, number, facts, age)
        except DamagedRunError as error:
            damaged.append(error)
    return damaged


def _thin_piece(
    journal: Folder, samples: SampleJournal, number: int, facts: PieceFacts, age: Age
) -> None:
    pieces = Pieces(journal, samples.name, _layout(samples))
    age = replace(age, kept_ns=kept_times(journal, facts.first_ns, facts.last_ns))

    def thinned() -> Iterator[Ints]:
        for block in pieces.blocks(number, packed_rows(samples.words)):
            rows = block.view("<i8").reshape(-1, samples.words)
            yield thinned_rows(*thin(rows, samples, age))

    words = samples.thinned_words
    floats = range(words - 2 * samples.values, words)
    write_piece(journal, piece_name(samples.name, number), words, thinned, floats)


def _rare(facts: PieceFacts) -> bool:
    return (facts.last_ns - facts.first_ns) * LEAST_ROWS > STRETCH_NS * facts.rows


def _layout(samples: SampleJournal) -> np.dtype[Any]:
    return np.dtype(("V", _WORD * samples.words))


def packed_last_first(journal: Folder, name: str) -> list[int]:
    """Numbers of the pieces of a journal, the last first."""
    names = journal.names()
    there, last = set(names), newest_segment(names, name)
    return [n for n in range(-1 if last is None else last, -1, -1) if piece_name(name, n) in there]


def age_of(journal: Folder, info: RunInfo, samples: SampleJournal) -> Age:
    """What of a journal is old enough, by the first and the last of its rows; without `kept_ns`.

    Args:
        journal: Folder of the journals.
        info: Of the run.
        samples: Which journal; it has rows.
    """
    raw_ns = round(info.keep["raw_s"] * 1e9)
    first_ns, last_ns = _span(journal, samples)
    none = np.empty((0, 2), np.int64)
    return Age(since_ns=first_ns + raw_ns, until_ns=last_ns - raw_ns, kept_ns=none)


def _is_old(rows: Ints, age: Age) -> bool:
    return max(int(rows[0, 0]), age.since_ns) < min(int(rows[-1, 0]), age.until_ns)


def _span(journal: Folder, samples: SampleJournal) -> tuple[int, int]:
    """Times of the first and the last row of a journal in ns."""
    size = _WORD * samples.words
    pieces = Pieces(journal, samples.name, _layout(samples))
    last = newest_segment(journal.names(), samples.name) or 0
    times: list[int] = []
    for numbers, at_end in ((range(last + 1), False), (range(last, -1, -1), True)):
        for number in numbers:
            try:
                with journal.open(segment_name(samples.name, number)) as file:
                    rows = os.fstat(file.fileno()).st_size // size
                    if not rows:
                        continue
                    file.seek((rows - 1) * size if at_end else 0)
                    times.append(int(np.fromfile(file, "<i8", 1)[0]))
            except FileNotFoundError:
                facts = pieces.facts(number)
                times.append(facts.last_ns if at_end else facts.first_ns)
            break
    return (times[0], times[-1]) if times else (0, 0)


# --- where all rows stay ------------------------------------------------------------------------


class KeptTimes:
    """Times in which all rows stay (`kept_times`), looked for once where all journals ask alike.

    Args:
        journal: Folder of the journals.
    """

    def __init__(self, journal: Folder) -> None:
        self._journal = journal
        self._begin_ns = self._end_ns = 0
        self._times = np.empty((0, 2), np.int64)

    def within(self, begin_ns: int, end_ns: int) -> Ints:
        """These times from `begin_ns` to `end_ns`, and perhaps others."""
        if not self._begin_ns <= begin_ns <= end_ns <= self._end_ns:
            # Journals begin and end a little apart from each other.
            self._begin_ns, self._end_ns = begin_ns - BESIDE_NS, end_ns + BESIDE_NS
            self._times = kept_times(self._journal, self._begin_ns, self._end_ns)
        return self._times


def kept_times(journal: Folder, begin_ns: int, end_ns: int) -> Ints:
    """Begin and end of times around tracing windows, and around begin and end of rests, shape (k, 2).

    Energies of clean time are told from one of these to the next.

    Args:
        journal: Folder of the journals.
        begin_ns: From when on.
        end_ns: Until when.
    """
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for low, high, kind in _around_edges(_marks(journal, begin_ns, end_ns)):
        if kind == Mark.WINDOW_START:
            opened = low
        elif kind == Mark.WINDOW_END and opened is not None:
            low, opened = opened, None
        spans.append((low - MARGIN_NS, high + MARGIN_NS))
    if opened is not None:
        spans.append((opened - MARGIN_NS, end_ns))
    return np.array(spans, np.int64).reshape(-1, 2)


def _around_edges(blocks: Iterator[npt.NDArray[Any]]) -> Iterator[tuple[int, int, int]]:
    """Each mark of a window or a rest: when the steps around it begin and end, and its kind.

    Args:
        blocks: Marks, in order.
    """
    carry, done = np.empty(0, MARK), 0
    for block in blocks:
        if done == len(carry) and not np.isin(block["kind"], EDGES).any():
            steps = np.flatnonzero(np.isin(block["kind"], [*BOUNDARIES, Mark.STEP]))[-BEFORE:]
            block = block[steps]  # of most blocks that is all that one of the next may need
        marks = np.concatenate([carry, begins_and_ends(block)])
        marks = marks[np.isin(marks["kind"], [*BOUNDARIES, *EDGES])]
        edges, until = _edges(marks, done)
        settled = int(np.searchsorted(until, len(marks)))  # `until` never goes back
        yield from _around(marks, edges[:settled], until[:settled])
        first = int(edges[settled]) if settled < len(edges) else len(marks)
        cut = max(first - BEFORE, 0)
        carry, done = marks[cut:], first - cut
    edges, until = _edges(carry, done)
    yield from _around(carry, edges, np.minimum(until, len(carry) - 1))


def _edges(marks: npt.NDArray[Any], done: int) -> tuple[Ints, Ints]:
    """Positions of the marks of windows and rests, and where the step after next ends.

    That is `len(marks)` or more where it is not known yet. Where windows and rests follow each
    other without steps, it is within the next ones, whose own surroundings go on from there.

    Args:
        marks: Of steps, windows and rests.
        done: From which position on.
    """
    edges = np.flatnonzero(np.isin(marks["kind"], EDGES))
    edges = edges[edges >= done]
    boundaries = np.flatnonzero(np.isin(marks["kind"], BOUNDARIES))
    boundaries = np.append(boundaries, [len(marks)] * AFTER)
    after = boundaries[np.searchsorted(boundaries, edges) + AFTER - 1]
    return edges, np.minimum(after, edges + 4 * AFTER - 1)


def _around(marks: npt.NDArray[Any], edges: Ints, until: Ints) -> Iterator[tuple[int, int, int]]:
    before = marks["t"][np.maximum(edges - BEFORE, 0)]
    columns = before, marks["t"][until], marks["kind"][edges]
    return zip(*(column.tolist() for column in columns), strict=True)


def _marks(journal: Folder, begin_ns: int, end_ns: int) -> Iterator[npt.NDArray[Any]]:
    """Marks of the segments in which these times lie, and of one before and behind."""
    pieces = Pieces(journal, MARKS, MARK)
    last = newest_segment(journal.names(), MARKS) or 0
    first, behind = 0, -1
    # From the end: what is thinned is not far from it, and there may be hundreds before.
    for number in range(last, -1, -1):
        begun_ns = _begin_ns(journal, pieces, number)
        if begun_ns is None or begun_ns > end_ns:
            continue
        behind = max(behind, min(number + 1, last))
        if begun_ns < begin_ns:
            first = max(number - 1, 0)
            break
    for number in range(first, behind + 1):
        yield from segment_marks(journal, pieces, number)


def segment_marks(journal: Folder, pieces: Pieces, number: int) -> Iterator[npt.NDArray[Any]]:
    """Small blocks of the marks of a segment, be it packed or not; none where it is gone."""
    most = packed_rows(MARK.itemsize // _WORD)
    try:
        with journal.open(segment_name(MARKS, number)) as file:
            yield from file_rows(file, MARK, most)
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            yield from pieces.blocks(number, most)


def _begin_ns(journal: Folder, pieces: Pieces, number: int) -> int | None:
    """Time of the first mark of a segment; None where it has none, or is gone: who reads the steps says so."""
    try:
        with journal.open(segment_name(MARKS, number)) as file:
            rows = np.fromfile(file, MARK, 1)
            return int(rows["t"][0]) if rows["kind"].any() else None
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return pieces.facts(number).first_ns or None
    return None
