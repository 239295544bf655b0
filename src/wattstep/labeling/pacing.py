"""Labeling that holds back where it delays the frames of a foreground job by more than a budget."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from wattstep.labeling.arrays import Floats
from wattstep.labeling.cost import kept
from wattstep.labeling.lookup import Found, Index, Lookup, joined
from wattstep.run.foreground import PERIOD_NS, frame_figures
from wattstep.schema.figure import Figure

FRAMES: Final = 30  # half a second, of which the mean delay decides
ALONE: Final = 16  # so often beside the labeling, then once without it
LATELY: Final = 3  # times alone that the next ones are held against
MOST_FRAMES: Final = 100_000  # that are kept
LEAST_ROWS, MOST_ROWS = 16, 512  # samples that are looked up before the next rest
LEAST_SHARE: Final = 1 / 64  # of the time that is worked
LONGEST_REST: Final = 2.0  # seconds
GROWS: Final = 1.25
POLL: Final = 0.01  # seconds


class Frames(Protocol):
    """The foreground job; see `train.foreground.job.ForegroundJob`."""

    def begin(self, count: int) -> None:
        """Asks for so many frames."""

    def done(self) -> bool:
        """Whether they are played."""

    def frames(self) -> Sequence[tuple[int, int, int]]:
        """Begin of each, and how long after it the job woke and was done, in ns; below 0: skipped."""


@dataclass(frozen=True, kw_only=True)
class PaceReport:
    """What came of it.

    Attributes:
        budget_ms: By which frames may be delayed.
        frames: Delay of frames and more, as `run.foreground.frame_figures` has them.
        rested: Share of the time that the labeling rested.
        rows: Samples that were looked up before a rest, at the end.
        nice: Of the labeling.
    """

    budget_ms: float
    frames: dict[str, Figure]
    rested: float
    rows: int
    nice: int

    def kept(self) -> bool | None:
        """As `cost.kept`."""
        return kept(self.frames["delay"], self.budget_ms)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        return {
            "budget_ms": self.budget_ms, "kept": self.kept(), **self.frames, "rested": self.rested,
            "rows": self.rows, "nice": self.nice,
        }  # fmt: skip


class Pacer:
    """A `lookup.Lookup` that looks few samples up at a time and rests in between, as the frames allow.

    Where the mean delay of half a second of frames is above the budget, samples at a time and the share of the time
    that is worked are halved; where it is below half of it, both grow again. What frames take alone is measured
    first, and again after every 16 times beside the labeling, while that rests.

    Args:
        frames: The job.
        budget: Seconds by which the mean frame may be delayed.
        nice: Of this process, as told in the report.
        clock: Seconds.
        sleep: Waits.

    Attributes:
        look: Looks up; set before it is called.
        rows: Samples at a time.
        share: Of the time that is worked.
    """

    look: Lookup

    def __init__(
        self,
        frames: Frames,
        budget: float,
        nice: int = 0,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.rows, self.share = MOST_ROWS, 1.0
        self._frames, self._budget, self._nice = frames, budget, nice
        self._clock, self._sleep = clock, sleep
        self._alone: deque[float] = deque(maxlen=MOST_FRAMES)
        self._beside: deque[float] = deque(maxlen=MOST_FRAMES)
        self._lately: deque[float] = deque(maxlen=LATELY)
        self._times = 0
        self._rested = 0.0
        self._begun = clock()
        self._play_alone()
        self._since = clock()

    def __call__(self, index: Index, space: Floats, standard: Floats) -> Found:
        """As `lookup.Lookup`."""
        found = []
        first = 0
        while first < len(space):
            rows = slice(first, first + self.rows)
            found.append(self.look(index, space[rows], standard[rows]))
            first += len(found[-1].labeled.nodes)
            self.rest()
        return joined(found)

    def rest(self) -> None:
        """Rests as long as what was done since the last rest demands, and hears how the frames went."""
        worked = self._clock() - self._since
        if self.share < 1:
            self._wait(min(worked * (1 / self.share - 1), LONGEST_REST))
        if self._frames.done():
            self._hear()
        self._since = self._clock()

    def report(self) -> PaceReport:
        """So far."""
        alone, beside = (np.array(each) for each in (self._alone, self._beside))
        return PaceReport(
            budget_ms=1e3 * self._budget,
            frames=frame_figures(alone, beside),
            rested=self._rested / max(self._clock() - self._begun, 1e-9),
            rows=self.rows,
            nice=self._nice,
        )

    def _hear(self) -> None:
        times = _times(self._frames.frames())
        self._beside.extend(times)
        delay = _mean(times) - float(np.median(self._lately))
        if delay > self._budget:
            self.rows = max(self.rows // 2, LEAST_ROWS)
            self.share = max(self.share / 2, LEAST_SHARE)
        elif delay < self._budget / 2:
            self.rows = min(self.rows * 2, MOST_ROWS)
            self.share = min(self.share * GROWS, 1.0)
        self._times += 1
        if self._times % ALONE == 0:
            self._play_alone()
        else:
            self._frames.begin(FRAMES)

    def _play_alone(self) -> None:
        """Half a second of frames while the labeling rests; the next ones begin."""
        self._frames.begin(FRAMES)
        while not self._frames.done():
            self._wait(POLL)
        times = _times(self._frames.frames())
        self._alone.extend(times)
        self._lately.append(_mean(times))
        self._frames.begin(FRAMES)

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)
        self._rested += seconds


def _times(frames: Sequence[tuple[int, int, int]]) -> list[float]:
    """Until each was done, in ns; NaN: skipped."""
    return [float(done) if done >= 0 else np.nan for _, _, done in frames]


def _mean(times: Sequence[float]) -> float:
    """Seconds; a skipped frame counts as one that takes its whole period and the next."""
    return float(np.nan_to_num(times, nan=2 * PERIOD_NS).mean()) * 1e-9
