"""Looks samples up on several processors side by side, each with a share by its measured cost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from wattstep.errors import DeviceFaultError
from wattstep.labeling.arrays import Floats
from wattstep.labeling.costs import Cost, Split, cheapest, fastest
from wattstep.labeling.lookup import Found, Index, joined, look_up
from wattstep.schema.figure import Figure, missing

CPU: Final = "cpu"
LEAST: Final = 64  # samples from which a piece is measured or shared
MOST: Final = 512  # samples that are measured
REPEATS: Final = 3  # of each measurement
GROWN: Final = 1.25  # times the work of a sample, either way, from which costs are measured again
RECENT: Final = 8  # pieces whose median says by how much a cost is wrong
FEWEST: Final = 3  # of them
RETRIED: Final = 64  # pieces after which what others slow down is forgotten, and so tried again
NO_POWER: Final = missing("W", "nobody said what it adds: --power or --device does")


class Processor(Protocol):
    """Looks samples up.

    Attributes:
        name: As the user calls it.
        device: What it is.
    """

    name: str
    device: str

    def hold(self, index: Index) -> None:
        """Takes what samples are looked up in."""

    def look_up(self, space: Floats, standard: Floats) -> Found:
        """As `lookup.Lookup`, in what it holds."""


class CpuProcessor:
    """This process, with NumPy."""

    name = CPU
    device = "NumPy in this process"
    index: Index

    def hold(self, index: Index) -> None:
        """See `Processor`."""
        self.index = index

    def look_up(self, space: Floats, standard: Floats) -> Found:
        """See `Processor`."""
        return look_up(self.index, space, standard)


@dataclass(kw_only=True)
class Tally:
    """What a processor takes.

    Attributes:
        processor: Which.
        power: That it adds to the idle device's while it works, in W.
        index: What it holds.
        cost: As measured last; None: not yet.
        samples, pieces: That it was given, without those of measurements.
        busy, busy_fastest: Seconds that it was to work on pieces, by the shares that were taken and by the fastest.
        beside: Measured over calibrated times of recent pieces while others worked as well.
        alone: The same while none did.
    """

    processor: Processor
    power: Figure = NO_POWER
    index: Index | None = None
    cost: Cost | None = None
    samples: int = 0
    pieces: int = 0
    busy: float = 0.0
    busy_fastest: float = 0.0
    beside: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    alone: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def hold(self, index: Index) -> None:
        """Gives the processor what it lacks."""
        if not index.same(self.index):
            self.processor.hold(index)
            self.index = index

    def learn(self, seconds: float, samples: int, *, alone: bool) -> None:
        """From a piece: by how much the calibrated cost is wrong, if several say so.

        Nobody is faster beside others than alone: what was learned last says so of the other, too.
        """
        cost = self.cost
        assert cost is not None
        recent = self.alone if alone else self.beside
        recent.append(seconds / (cost.piece + cost.sample * samples))
        if len(recent) >= FEWEST:
            factor = float(np.median(recent))
            self.cost = (
                replace(cost, changed=factor, slower=max(factor, cost.slower))
                if alone
                else replace(cost, changed=min(factor, cost.changed), slower=factor)
            )


class Placement:
    """A `lookup.Lookup` over processors.

    Pieces are shared so that all end together, or are given to one alone where that ends earlier, by what was
    measured on pieces of at least 64 samples; in measuring, all must find the same. Where a bound is stated, they are
    shared so that they take the least energy and end within it; what cannot, ends as early as it can.

    Args:
        processors: The first also does what is too small to share.
        clock: Seconds.
        powers: That each adds to the idle device's while it works, in W; empty: not known.
        latency_s: The bound, in seconds, for which powers are needed; None: there is none.
        within: Makes what each lookup happens within.

    Attributes:
        tallies: By processor.
        pieces: That were planned.
        largest: Samples of the largest of them.
        planned, taken: Seconds of them, as predicted and as measured.
        latency_s: The bound.
        held, kept: Pieces within it, as predicted and as measured.
    """

    def __init__(
        self,
        processors: Sequence[Processor],
        clock: Callable[[], float] = time.perf_counter,
        *,
        powers: Sequence[Figure] = (),
        latency_s: float | None = None,
        within: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        known = powers or [NO_POWER] * len(processors)
        self.tallies = [
            Tally(processor=each, power=power)
            for each, power in zip(processors, known, strict=True)
        ]
        self.pieces = self.largest = self.held = self.kept = 0
        self.planned = self.taken = 0.0
        self.latency_s = latency_s
        self._clock, self._within = clock, within
        self._work = 0  # of a sample when costs were measured
        self._threads = ThreadPoolExecutor(len(processors))

    def __call__(self, index: Index, space: Floats, standard: Floats) -> Found:
        """As `lookup.Lookup`.

        Raises:
            DeviceFaultError: A device refused, or found something else than the others.
        """
        with self._within():
            if len(space) < LEAST:
                return self._look_up(self.tallies[0], index, space, standard).found
            if not self._work / GROWN <= index.work <= self._work * GROWN:
                self._measure(index, space[:MOST], standard[:MOST])
            if self.pieces % RETRIED == RETRIED - 1:
                self._retry()
            return self._share(index, space, standard)

    def split(self, samples: int, index: Index | None = None) -> Split:
        """How a piece would be shared now; see `costs.cheapest` and, without a bound or beyond it, `costs.fastest`.

        Args:
            samples: Of the piece.
            index: As of `costs`.
        """
        return self._splits(samples, index)[0]

    def costs(self, index: Index | None = None) -> list[Cost]:
        """Of each processor now.

        Args:
            index: That a piece is looked up in: who does not hold it must get it first. None: all do.
        """
        costs = []
        for each in self.tallies:
            assert each.cost is not None
            stale = index is not None and not index.same(each.index)
            costs.append(each.cost.before_holding() if stale else each.cost)
        return costs

    def _splits(self, samples: int, index: Index | None) -> tuple[Split, Split]:
        """How a piece is shared, and how it would be done first."""
        costs = self.costs(index)
        first = fastest(costs, samples)
        if self.latency_s is None:
            return first, first
        watts = [float(each.power) for each in self.tallies]
        return cheapest(costs, watts, samples, self.latency_s) or first, first

    def _share(self, index: Index, space: Floats, standard: Floats) -> Found:
        split, first = self._splits(len(space), index)
        ends = np.cumsum(split.shares)
        parts = [
            (tally, slice(int(end) - size, int(end)))
            for tally, size, end in zip(self.tallies, split.shares, ends, strict=True)
            if size
        ]

        def part_of(part: tuple[Tally, slice]) -> _Timed:
            tally, rows = part
            return self._look_up(tally, index, space[rows], standard[rows])

        # Whoever waits for a device lets the others work: each has a thread of its own.
        done = list(map(part_of, parts) if split.alone else self._threads.map(part_of, parts))
        for (tally, _), each in zip(parts, done, strict=True):
            tally.learn(each.seconds, len(each.found.labeled.nodes), alone=split.alone)
        self.pieces, self.largest = self.pieces + 1, max(self.largest, len(space))
        taken = max(each.held + each.seconds for each in done)
        self.planned, self.taken = self.planned + split.seconds, self.taken + taken
        for tally, busy, least in zip(self.tallies, split.busy, first.busy, strict=True):
            tally.busy, tally.busy_fastest = tally.busy + busy, tally.busy_fastest + least
        if self.latency_s is not None:
            self.held += split.seconds <= self.latency_s
            self.kept += taken <= self.latency_s
        return joined([each.found for each in done])

    def _look_up(self, tally: Tally, index: Index, space: Floats, standard: Floats) -> _Timed:
        begun = self._clock()
        tally.hold(index)
        held = self._clock()
        found = tally.processor.look_up(space, standard)
        tally.samples, tally.pieces = tally.samples + len(space), tally.pieces + 1
        return _Timed(held - begun, self._clock() - held, found)

    def _measure(self, index: Index, space: Floats, standard: Floats) -> None:
        """Times a quarter of the samples and all of them on each processor, one after the other, in turns."""
        sizes = (len(space) // 4, len(space))
        seconds = np.empty((len(self.tallies), len(sizes), REPEATS))
        holds = []
        for tally in self.tallies:
            tally.processor.hold(index)
            for size in sizes:  # what a driver compiles, it compiles now
                tally.processor.look_up(space[:size], standard[:size])
            begun = self._clock()
            tally.processor.hold(index)
            holds.append(self._clock() - begun)
            tally.index = index
        for repeat in range(REPEATS):
            first: Found | None = None
            for number, tally in enumerate(self.tallies):
                for at, size in enumerate(sizes):
                    begun = self._clock()
                    found = tally.processor.look_up(space[:size], standard[:size])
                    seconds[number, at, repeat] = self._clock() - begun
                first = first or found
                _check(found, first, tally.processor, self.tallies[0].processor)
        few, many = seconds.min(axis=2).T  # what else runs here makes times longer, never shorter
        sample = np.maximum(many - few, 0.0) / (sizes[1] - sizes[0])
        # Where more samples take no longer, as noise or a device far too large has it, all is taken to be theirs.
        sample = np.where(sample > 0, sample, many / sizes[1])
        pieces = np.maximum(many - sample * sizes[1], 0.0)
        for tally, piece, each, hold in zip(self.tallies, pieces, sample, holds, strict=True):
            tally.cost = Cost(piece=float(piece), sample=float(each), hold=hold)
            tally.beside.clear()
            tally.alone.clear()
        self._work = index.work

    def _retry(self) -> None:
        for tally in self.tallies:
            assert tally.cost is not None
            tally.beside.clear()
            tally.cost = replace(tally.cost, slower=tally.cost.changed)


class _Timed(NamedTuple):
    """Seconds until the index was there and until all was found, and what was."""

    held: float
    seconds: float
    found: Found


def _check(found: Found, first: Found, processor: Processor, other: Processor) -> None:
    pairs = zip(
        (*found.near, *found.labeled, *found.leaves), (*first.near, *first.labeled, *first.leaves),
        strict=True,
    )  # fmt: skip
    if not all(np.array_equal(one, another) for one, another in pairs):
        raise DeviceFaultError(
            f"{processor.name} ({processor.device}) finds other neighbours, or other leaves of trees, than {other.name}: "
            "its driver computes wrongly; label without it",
            id="lookup-differs",
        )
