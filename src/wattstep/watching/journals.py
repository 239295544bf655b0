"""The journals of a run that records, as news: what was appended since the last look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from wattstep.records.channel import Channel
from wattstep.records.journal import (
    JOURNAL,
    MARKS,
    MISSING,
    SAMPLE_HEADER,
    TICKS,
    Mark,
    samples_name,
)
from wattstep.records.run_info import PlannedRead, RunInfo
from wattstep.watching.rows import MarkRows, Names, Rows
from wattstep.watching.steps import StepRows, steps_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BEGINS: Final = {int(Mark.WINDOW_START): "tracing", int(Mark.REST_START): ""}
ENDS: Final = {int(Mark.WINDOW_END), int(Mark.REST_END)}


@dataclass(kw_only=True)
class News:
    """What became known since the last look.

    Attributes:
        steps: That ended, in stretches.
        rests: Begin and end in ns of what was no training.
        samples: Times in ns and values (NaN: failed read) by channel.
        ticks: Of the sampler: deadline, lateness, busy time, all in ns, and lost ticks; shape (n, 4).
        evaluations: Measure and value.
        peak: Highest resident memory of the training in B, as its own marks say; None: no news.
    """

    steps: list[StepRows] = field(default_factory=list)
    rests: list[tuple[int, int]] = field(default_factory=list)
    samples: dict[str, tuple[Ints, Floats]] = field(default_factory=dict)
    ticks: Ints = field(default_factory=lambda: np.empty((0, 4), np.int64))
    evaluations: list[tuple[str, float]] = field(default_factory=list)
    peak: float | None = None


class JournalNews:
    """Follows the journals of a run.

    Args:
        path: Folder of the run.
        info: What is recorded.
        wanted: The channels that somebody wants, by name; other journals are not read.

    Attributes:
        opened: Names of what goes on beside training just now: "tracing", "evaluation".
    """

    def __init__(self, path: Path, info: RunInfo, wanted: Mapping[str, Channel]) -> None:
        journal = path / JOURNAL
        self._names = Names(journal)
        self._marks = MarkRows(journal / MARKS)
        self._carried = np.empty(0, self._marks.layout)
        self._ticks = Rows(journal / TICKS, np.dtype(("<i8", 4)))
        self._reads = [
            (read, Rows(journal / samples_name(read.number), _layout(read)))
            for read in info.reads
            if any(channel.name in wanted for channel in read.channels)
        ]
        self._wanted = wanted
        self.opened: dict[int, tuple[str, int]] = {}

    def look(self) -> Iterator[News]:
        """News, in several pieces where there is much of them."""
        while True:
            news = News()
            self._take_marks(news)
            self._take_samples(news)
            news.ticks = self._ticks.new()
            yield news
            rows = [self._marks, self._ticks, *(rows for _, rows in self._reads)]
            if not any(one.behind for one in rows):
                return

    def _take_marks(self, news: News) -> None:
        marks = self._marks.new()
        if not len(marks):
            return
        kind = marks["kind"]
        for mark in marks[np.isin(kind, [*BEGINS, *ENDS])]:
            self._rest(int(mark["kind"]), int(mark["code"]), int(mark["t"]), news)
        for mark in marks[kind == Mark.EVALUATION]:
            news.evaluations.append((self._names.of(int(mark["code"])), float(mark["value"])))
        peaks = marks["value"][(kind == Mark.PEAK) & (marks["code"] == 0)]
        news.peak = float(peaks.max()) if len(peaks) else None
        found, self._carried = steps_of(np.concatenate([self._carried, marks]))
        if found is not None and len(found.index):
            news.steps.append(found)

    def _rest(self, kind: int, code: int, t_ns: int, news: News) -> None:
        """A window or a rest begins or ends; its two kinds of marks have neighbouring numbers."""
        if kind in BEGINS:
            self.opened[kind] = BEGINS[kind] or self._names.of(code), t_ns
        elif kind - 1 in self.opened:
            _, begun_ns = self.opened.pop(kind - 1)
            if kind == Mark.REST_END:  # tracing is a part of what a run takes
                news.rests.append((begun_ns, t_ns))

    def _take_samples(self, news: News) -> None:
        for read, journal in self._reads:
            rows = journal.new()
            if not len(rows):
                continue
            t_ns = rows[:, 0].astype(np.int64)
            for number, channel in enumerate(read.channels, SAMPLE_HEADER):
                if channel.name in self._wanted:
                    news.samples[channel.name] = t_ns, _values(rows[:, number], channel)


def _layout(read: PlannedRead) -> np.dtype[np.void]:
    return np.dtype(("<i8", SAMPLE_HEADER + len(read.channels)))


def _values(raw: Ints, channel: Channel) -> Floats:
    value = raw.astype(np.float64) * channel.scale
    value[raw == MISSING] = np.nan
    return value
