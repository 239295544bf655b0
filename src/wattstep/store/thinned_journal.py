"""Which samples of a run are old enough to be thinned, and the pieces that are written thinned while it records."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.schema.journal import MARKS, Mark, piece_name, segment_name
from wattstep.schema.run_info import RunInfo
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import file_rows, parts
from wattstep.store.mark_rows import MARK, Ints, begins_and_ends
from wattstep.store.pieces import PieceFacts, Pieces, thinned_rows, write_piece
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
MARGIN_NS: Final = 1_000_000_000  # beyond: what sensors show late
BOUNDARIES: Final = (Mark.STEP_START, Mark.STEP_END)
EDGES: Final = (Mark.WINDOW_START, Mark.WINDOW_END, Mark.REST_START, Mark.REST_END)


def sample_parts(
    journal: Folder, info: RunInfo, samples: SampleJournal
) -> Iterator[tuple[Ints, Ints]]:
    """Rows of a journal of samples and stretches in place of old ones, block by block, in order.

    Args:
        journal: Folder of the journals.
        info: Of the run, which says how old.
        samples: Which journal.
    """
    age = None
    for rows, stretches in parts(journal, samples.name, _layout(samples)):
        own = rows.view("<i8").reshape(len(rows), samples.words)
        if stretches is None and "raw_s" in info.keep:
            age = age or age_of(journal, info, samples)
            own, stretches = thin(own, samples, age)
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
        DamagedRunError: A piece is garbled, or Parquet does not give back what it was given.
    """
    if "raw_s" not in info.keep:
        return
    for samples in every_journal(info):
        if samples.whole:
            continue
        pieces = Pieces(journal, samples.name, _layout(samples))
        age = None
        for number in _packed(journal.names(), samples.name):
            facts = pieces.facts(number)
            if facts.words != samples.words or not facts.rows or _rare(facts):
                continue
            age = age or age_of(journal, info, samples, kept=False)
            if facts.last_ns > age.until_ns:
                break
            if facts.last_ns < age.since_ns:
                continue
            kept = kept_times(journal, facts.first_ns, facts.last_ns)
            old = Age(since_ns=age.since_ns, until_ns=age.until_ns, kept_ns=kept)
            rows = np.concatenate([*pieces.blocks(number)]).view("<i8").reshape(-1, samples.words)
            both = thinned_rows(*thin(rows, samples, old))
            floats = range(samples.thinned_words - 2 * samples.values, samples.thinned_words)
            write_piece(journal, piece_name(samples.name, number), both, floats)


def _rare(facts: PieceFacts) -> bool:
    return (facts.last_ns - facts.first_ns) * LEAST_ROWS > STRETCH_NS * facts.rows


def _layout(samples: SampleJournal) -> np.dtype[Any]:
    return np.dtype(("V", _WORD * samples.words))


def _packed(names: list[str], name: str) -> list[int]:
    """Numbers of the pieces of a journal, in order."""
    last = newest_segment(names, name)
    there = set(names)
    return [n for n in range((-1 if last is None else last) + 1) if piece_name(name, n) in there]


def age_of(journal: Folder, info: RunInfo, samples: SampleJournal, *, kept: bool = True) -> Age:
    """What of a journal is old enough, by the first and the last of its rows.

    Args:
        journal: Folder of the journals.
        info: Of the run.
        samples: Which journal; it has rows.
        kept: Whether the times in which all rows stay are looked for.
    """
    raw_ns = round(info.keep["raw_s"] * 1e9)
    first_ns, last_ns = _span(journal, samples)
    since_ns, until_ns = first_ns + raw_ns, last_ns - raw_ns
    old = kept and until_ns > since_ns
    times = kept_times(journal, since_ns, until_ns) if old else np.empty((0, 2), np.int64)
    return Age(since_ns=since_ns, until_ns=until_ns, kept_ns=times)


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
        marks = np.concatenate([carry, begins_and_ends(block)])
        marks = marks[np.isin(marks["kind"], [*BOUNDARIES, *EDGES])]
        found = [at for at in _edges(marks) if at >= done]
        settled = [at for at in found if _step_after(marks, at) is not None]
        yield from (_around(marks, at) for at in settled)
        waiting = [at for at in found if at not in settled]
        cut = max(min([*waiting, len(marks)]) - BEFORE, 0)
        carry, done = marks[cut:], min([*waiting, len(marks)]) - cut
    yield from (_around(carry, at) for at in _edges(carry) if at >= done)


def _edges(marks: npt.NDArray[Any]) -> list[int]:
    at: list[int] = np.flatnonzero(np.isin(marks["kind"], EDGES)).tolist()
    return at


def _step_after(marks: npt.NDArray[Any], at: int) -> int | None:
    """When the step after next ends; None where that is not known yet."""
    later = marks[at:]
    boundaries = later["t"][np.isin(later["kind"][: 4 * AFTER], BOUNDARIES).nonzero()[0]]
    return int(boundaries[AFTER - 1]) if len(boundaries) >= AFTER else None


def _around(marks: npt.NDArray[Any], at: int) -> tuple[int, int, int]:
    after = _step_after(marks, at)
    before = marks["t"][max(at - BEFORE, 0)]
    return int(before), int(marks["t"][-1]) if after is None else after, int(marks["kind"][at])


def _marks(journal: Folder, begin_ns: int, end_ns: int) -> Iterator[npt.NDArray[Any]]:
    """Marks of the segments in which these times lie, and of one before and behind."""
    pieces = Pieces(journal, MARKS, MARK)
    last = newest_segment(journal.names(), MARKS)
    inside: list[int] = []
    for number in range(0 if last is None else last + 1):
        try:
            with journal.open(segment_name(MARKS, number)) as file:
                rows = np.fromfile(file, MARK, 1)
                times = (int(rows["t"][0]), end_ns) if len(rows) else (end_ns + 1, end_ns)
        except FileNotFoundError:
            try:
                facts = pieces.facts(number)
            except FileNotFoundError:  # gone: whoever reads the steps says so
                continue
            times = facts.first_ns, facts.last_ns
        if times[0] <= end_ns and times[1] >= begin_ns:
            inside.append(number)
    first = max(min(inside, default=0) - 1, 0)
    for number in range(first, min(max(inside, default=-1) + 1, last or 0) + 1):
        try:
            with journal.open(segment_name(MARKS, number)) as file:
                yield from file_rows(file, MARK)
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):
                yield from pieces.blocks(number)
