"""Samples beyond a stated age as stretches: what totals, means and extremes need of them, in a fraction of the room.

A stretch stands for the rows of a journal from one read to another, both of which it has as they were.
It keeps how many reads lie in it, their sum, least and most, and the integral over its time, so that
energies, mean powers and counts of the whole are what all rows would have given. Nothing is thinned
where single rows count: in the first and the last hour (or as long as is said), around tracing
windows and rests, at failed reads and pauses, where a counter goes back, a state changes or a
temperature passes its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from wattstep.schema.channel import Channel
from wattstep.schema.journal import MISSING, SAMPLE_HEADER, TICKS, samples_name
from wattstep.schema.run_info import RunInfo
from wattstep.store.mark_rows import Ints

STRETCH_NS: Final = 10_000_000_000
LEAST_ROWS: Final = 10  # in a stretch: of fewer nothing is won
LEAST_GONE: Final = 0.5  # of the rows that are old
PAUSE: Final = 4.0  # median spacings: a longer time between two reads stays as it is
UNUSUAL, USUAL = 10.0, 0.995  # times this quantile: may be no power (`recorded/plausible.py`)
# Channels whose changes say when something began, one by one.
STATES: Final = frozenset({"throttle_flag", "throttle_events", "throttle_reasons", "frequency_cap"})
# A battery's power is the product of two series, of which means do not make a mean.
WHOLE: Final = frozenset({"battery"})
TICK_VALUES: Final = 3
_OF_STRETCH: Final = 5  # words a value beside the first: last, least, most, sum, integral


@dataclass(frozen=True, kw_only=True)
class SampleJournal:
    """A journal of samples.

    Attributes:
        name: Of the journal.
        header: Words before the values: time, and the error number where there is one.
        channels: Of the values; None: those of the sampler's own ticks.
        whole: Whether it is never thinned.
    """

    name: str
    header: int
    channels: tuple[Channel, ...] | None
    whole: bool = False

    @property
    def values(self) -> int:
        """How many values a row has."""
        return TICK_VALUES if self.channels is None else len(self.channels)

    @property
    def words(self) -> int:
        """Words in a row as it was read."""
        return self.header + self.values

    @property
    def thinned_words(self) -> int:
        """Words in a row of a thinned piece."""
        return thinned_words(self.words, self.header)

    def columns(self, chosen: Sequence[bool]) -> Ints:
        """Columns of some channels."""
        return self.header + np.flatnonzero(np.array(chosen, bool))


def thinned_words(words: int, header: int) -> int:
    """Words in a row of a thinned piece: those as read, end, number of reads, and five for each value."""
    return words + 2 + _OF_STRETCH * (words - header)


def every_journal(info: RunInfo) -> list[SampleJournal]:
    """Journals of samples of a run, the ticks last."""
    reads = [
        SampleJournal(
            name=samples_name(read.number), header=SAMPLE_HEADER, channels=tuple(read.channels),
            whole=read.sensor in WHOLE,
        )
        for read in info.reads
    ]  # fmt: skip
    return [*reads, SampleJournal(name=TICKS, header=1, channels=None)]


@dataclass(frozen=True, kw_only=True)
class Age:
    """What is old enough to be thinned.

    Attributes:
        since_ns: Rows before stay as they are: the beginning of a run shows what its sensors can.
        until_ns: Rows after stay, too.
        kept_ns: Begin and end of times in which all rows stay, shape (k, 2).
    """

    since_ns: int
    until_ns: int
    kept_ns: Ints


def thin(rows: Ints, journal: SampleJournal, age: Age) -> tuple[Ints, Ints]:
    """Rows that stay as they are, and stretches in place of the others.

    Args:
        rows: Of the journal, in order, shape (n, words).
        journal: Which one it is.
        age: What is old enough.

    Returns:
        Rows as read (all of them where little would go), and rows of stretches, shape (s, thinned words): the first read, the time of
        the last, how many reads (those at its edges are counted once, with what has them), then
        last, least, most, sum and integral over ns of each value, the last two as bits of a float64.
    """
    kept = None if journal.whole or len(rows) < LEAST_ROWS else _kept(rows, journal, age)
    if kept is None:
        return rows, np.empty((0, journal.thinned_words), np.int64)
    at = np.flatnonzero(kept)
    short = np.append(np.diff(at) <= LEAST_ROWS, False)
    kept |= short[np.cumsum(kept) - 1]
    at = np.flatnonzero(kept)
    long = np.diff(at) > 1
    begin, end = at[:-1][long], at[1:][long]
    as_read = kept & (np.append(False, kept[:-1]) | np.append(kept[1:], False))
    as_read[[0, -1]] = True
    old = (rows[:, 0] >= age.since_ns) & (rows[:, 0] <= age.until_ns)
    # Rows here and there take more room than all of them, one like the other.
    if np.count_nonzero(old & ~as_read) < LEAST_GONE * np.count_nonzero(old):
        return rows, np.empty((0, journal.thinned_words), np.int64)
    return rows[as_read], _stretches(rows, journal, begin, end, as_read)


def _kept(rows: Ints, journal: SampleJournal, age: Age) -> npt.NDArray[np.bool_] | None:
    """Mask of the rows at which stretches begin and end, or that stay; None: all stay."""
    t_ns, values = rows[:, 0], rows[:, journal.header :]
    spacing = np.diff(t_ns)
    usual = float(np.median(spacing))
    if usual * LEAST_ROWS > STRETCH_NS or t_ns[0] > age.until_ns or t_ns[-1] < age.since_ns:
        return None
    kept = (t_ns < age.since_ns) | (t_ns > age.until_ns)
    kept[[0, -1]] = True
    kept[1:] |= np.diff(t_ns // STRETCH_NS) != 0
    missing = values == MISSING
    # Between two rows something happened: both stay.
    split = (spacing <= 0) | (spacing > PAUSE * usual)
    split |= (missing[1:] != missing[:-1]).any(axis=1)
    if journal.header == SAMPLE_HEADER:
        split |= np.diff(rows[:, 1]) != 0
    channels = journal.channels or ()
    counters = rows[:, journal.columns([c.kind == "counter" for c in channels])]
    gauges = rows[:, journal.columns([c.kind == "gauge" for c in channels])]
    states = rows[:, journal.columns([c.role in STATES for c in channels])]
    split |= (counters[1:] < counters[:-1]).any(axis=1)
    split |= ((gauges[1:] < 0) != (gauges[:-1] < 0)).any(axis=1)
    split |= (states[1:] != states[:-1]).any(axis=1)
    for channel, column in zip(channels, journal.columns([True] * len(channels)), strict=True):
        if channel.role == "temperature" and channel.limit is not None:
            split |= np.diff(rows[:, column] * channel.scale >= channel.limit)
    for column in journal.columns([c.kind == "gauge" and c.unit == "W" for c in channels]):
        size = np.abs(np.where(rows[:, column] == MISSING, 0, rows[:, column]).astype(np.float64))
        odd = size > UNUSUAL * np.quantile(size, USUAL)
        split |= odd[1:] | odd[:-1]
    kept[:-1] |= split
    kept[1:] |= split
    for first, last in age.kept_ns:
        low = max(int(np.searchsorted(t_ns, first)) - 1, 0)
        kept[low : int(np.searchsorted(t_ns, last, side="right")) + 1] = True
    return kept


def _stretches(
    rows: Ints, journal: SampleJournal, begin: Ints, end: Ints, as_read: npt.NDArray[np.bool_]
) -> Ints:
    """Rows of stretches from one row to another."""
    header, words, count = journal.header, journal.words, journal.values
    stretches = np.zeros((len(begin), journal.thinned_words), np.int64)
    if not len(begin):
        return stretches
    t_ns, values = rows[:, 0], rows[:, header:]
    beyond = np.concatenate([values, values[-1:]])  # a slice may end behind the last
    reads = end - begin - as_read[end]
    all_of = np.stack([begin, end + 1], axis=1).ravel()
    counted = np.stack([begin + 1, begin + 1 + reads], axis=1).ravel()
    between = np.stack([begin, end], axis=1).ravel()
    integrals = (values[1:].astype(np.float64) + values[:-1]) * (0.5 * np.diff(t_ns)[:, None])
    parts: list[npt.NDArray[np.int64]] = [
        values[end],
        np.minimum.reduceat(beyond, all_of)[::2],
        np.maximum.reduceat(beyond, all_of)[::2],
        np.add.reduceat(beyond.astype(np.float64), counted)[::2].view(np.int64),
        np.add.reduceat(np.concatenate([integrals, integrals[-1:]]), between)[::2].view(np.int64),
    ]
    stretches[:, :words] = rows[begin]
    stretches[:, words], stretches[:, words + 1] = t_ns[end], reads
    for number, part in enumerate(parts):
        at = words + 2 + number * count
        stretches[:, at : at + count] = part
    return stretches


@dataclass(frozen=True, kw_only=True)
class StretchColumns:
    """Stretches of one value of a journal.

    Attributes:
        begin_ns: Time of the first read.
        end_ns: Of the last.
        errno: Of all reads.
        reads: How many.
        missing: Whether it has no value.
        first: First value, as read; likewise the last, the least and the most.
        total: Sum of the values of all reads.
        integral: Over its time, in ns.
    """

    begin_ns: Ints
    end_ns: Ints
    errno: Ints
    reads: Ints
    missing: npt.NDArray[np.bool_]
    first: Ints
    last: Ints
    least: Ints
    most: Ints
    total: npt.NDArray[np.float64]
    integral: npt.NDArray[np.float64]


def columns_of(journal: SampleJournal, stretches: Ints) -> Iterator[StretchColumns]:
    """The stretches of each value of a journal."""
    header, words, count = journal.header, journal.words, journal.values
    errno = stretches[:, 1] if header == SAMPLE_HEADER else np.zeros(len(stretches), np.int64)
    for value in range(count):
        first = stretches[:, header + value]
        last, least, most, total, integral = (
            np.ascontiguousarray(stretches[:, words + 2 + number * count + value])
            for number in range(_OF_STRETCH)
        )
        yield StretchColumns(
            begin_ns=stretches[:, 0], end_ns=stretches[:, words], errno=errno,
            reads=stretches[:, words + 1], missing=first == MISSING, first=first, last=last,
            least=least, most=most, total=total.view(np.float64), integral=integral.view(np.float64),
        )  # fmt: skip
