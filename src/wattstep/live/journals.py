"""The journals of a run that records, as news: what was appended since the last look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from wattstep.live.rows import MarkRows, Names, Rows
from wattstep.live.steps import StepRows, steps_of, with_thinned
from wattstep.recorded.step_stretches import StepStretches
from wattstep.recorded.stretches import Stretches
from wattstep.schema.channel import Channel
from wattstep.schema.journal import (
    JOURNAL,
    MARKS,
    MISSING,
    SAMPLE_HEADER,
    TICKS,
    Mark,
    samples_name,
)
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.step_thinning import columns_of_steps
from wattstep.store.thinning import SampleJournal, StretchColumns, columns_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BEGINS: Final = {int(Mark.WINDOW_START): "tracing", int(Mark.REST_START): ""}
ENDS: Final = {int(Mark.WINDOW_END), int(Mark.REST_END)}
OF_TICKS: Final = SampleJournal(name=TICKS, header=1, channels=None)


@dataclass(kw_only=True)
class News:
    """News of a run since the last look.

    Attributes:
        steps: That ended, in stretches.
        rests: Begin and end in ns of what was no training.
        samples: Times in ns and values (NaN: failed read) by channel.
        stretches: What stands for samples that were thinned, by channel.
        ticks: Of the sampler: deadline, lateness, busy time, all in ns, and lost ticks; shape (n, 4).
        lost_ticks: Those that thinned ticks told of.
        evaluations: Measure and value.
        peak: Highest resident memory of the training in B, as its own marks say; None: no news.
    """

    steps: Iterable[StepRows] = ()
    rests: list[tuple[int, int]] = field(default_factory=list)
    samples: dict[str, tuple[Ints, Floats]] = field(default_factory=dict)
    stretches: dict[str, Stretches] = field(default_factory=dict)
    ticks: Ints = field(default_factory=lambda: np.empty((0, 4), np.int64))
    lost_ticks: int = 0
    evaluations: list[tuple[str, float]] = field(default_factory=list)
    peak: float | None = None


class SampleRows:
    """Samples as the sampler writes them, so that nothing is read from the sensors twice.

    Args:
        journal: Folder of the journals.
        reads: Planned reads of the sampler.
        wanted: True for a channel that somebody wants; journals without one are not read.

    Attributes:
        channels: That are wanted.
        stretches: Beside the samples that were given last, by channel: what stands for thinned ones.
    """

    def __init__(
        self, journal: Path, reads: Sequence[PlannedRead], wanted: Callable[[Channel], bool]
    ) -> None:
        self._reads = []
        self.channels: list[Channel] = []
        self.stretches: dict[str, Stretches] = {}
        for read in reads:
            of_read = [(n, c) for n, c in enumerate(read.channels, SAMPLE_HEADER) if wanted(c)]
            if of_read:
                layout = np.dtype(("<i8", SAMPLE_HEADER + len(read.channels)))
                name = samples_name(read.number)
                of_name = SampleJournal(
                    name=name, header=SAMPLE_HEADER, channels=tuple(read.channels)
                )
                self._reads.append((of_read, of_name, Rows(journal / name, layout)))
                self.channels += [channel for _, channel in of_read]

    @property
    def behind(self) -> bool:
        """True if more was there than a look takes."""
        return any(rows.behind for *_, rows in self._reads)

    def new(self) -> dict[str, tuple[Ints, Floats]]:
        """Times in ns and values (NaN: failed read) since it was last asked, by channel."""
        samples = {}
        self.stretches = {}
        for wanted, of_name, journal in self._reads:
            rows = journal.new()
            if len(journal.stretches):
                each = list(columns_of(of_name, journal.stretches))
                for number, channel in wanted:
                    one = each[number - SAMPLE_HEADER]
                    self.stretches[channel.name] = _stretches(one, channel.scale)
            if not len(rows):
                continue
            t_ns = rows[:, 0].astype(np.int64)
            for number, channel in wanted:
                samples[channel.name] = t_ns, _values(rows[:, number], channel)
        return samples


class JournalNews:
    """Follows the journals of a run.

    Args:
        path: Folder of the run.
        info: Description of the run.
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
        self._samples = SampleRows(journal, info.reads, lambda channel: channel.name in wanted)
        self.opened: dict[int, tuple[str, int]] = {}

    def look(self) -> Iterator[News]:
        """News, in several pieces where there is much of them."""
        while True:
            news = News()
            self._take_marks(news)
            news.samples = self._samples.new()
            news.stretches = self._samples.stretches
            news.ticks = self._ticks.new()
            if len(self._ticks.stretches):
                *_, lost = columns_of(OF_TICKS, self._ticks.stretches)
                news.lost_ticks = round(float(lost.total.sum()))
            yield news
            if not any(one.behind for one in (self._marks, self._ticks, self._samples)):
                return

    def _take_marks(self, news: News) -> None:
        marks = self._marks.new()
        thinned = _step_stretches(self._marks.stretches)
        if not len(marks):
            news.steps = with_thinned(None, thinned)
            return
        kind = marks["kind"]
        for mark in marks[np.isin(kind, [*BEGINS, *ENDS])]:
            self._rest(int(mark["kind"]), int(mark["code"]), int(mark["t"]), news)
        for mark in marks[kind == Mark.EVALUATION]:
            news.evaluations.append((self._names.of(int(mark["code"])), float(mark["value"])))
        peaks = marks["value"][(kind == Mark.PEAK) & (marks["code"] == 0)]
        news.peak = float(peaks.max()) if len(peaks) else None
        steps, self._carried = steps_of(np.concatenate([self._carried, marks]))
        news.steps = with_thinned(steps, thinned)

    def _rest(self, kind: int, code: int, t_ns: int, news: News) -> None:
        """A window or a rest begins or ends; its two kinds of marks have neighbouring numbers."""
        if kind in BEGINS:
            self.opened[kind] = BEGINS[kind] or self._names.of(code), t_ns
        elif kind - 1 in self.opened:
            _, begun_ns = self.opened.pop(kind - 1)
            if kind == Mark.REST_END:  # tracing is a part of what a run takes
                news.rests.append((begun_ns, t_ns))


def _step_stretches(rows: Ints) -> StepStretches | None:
    """Stretches of thinned steps; None where there are none."""
    return StepStretches(**columns_of_steps(rows)) if len(rows) else None


def _values(raw: Ints, channel: Channel) -> Floats:
    value = raw.astype(np.float64) * channel.scale
    value[raw == MISSING] = np.nan
    return value


def _stretches(one: StretchColumns, scale: float) -> Stretches:
    """Stretches of a channel in its unit."""

    def scaled(value: npt.NDArray[np.generic], unit: float = scale) -> Floats:
        return np.where(one.missing, np.nan, value.astype(np.float64) * unit)

    return Stretches(
        begin_ns=one.begin_ns, end_ns=one.end_ns, reads=one.reads, errno=one.errno,
        first=scaled(one.first), last=scaled(one.last), least=scaled(one.least),
        most=scaled(one.most), total=scaled(one.total),
        integral=scaled(one.integral, scale * 1e-9),
    )  # fmt: skip
