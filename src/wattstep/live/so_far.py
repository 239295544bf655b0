"""State of a run that goes on: its steps, joules and batteries so far, and time and joules left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from wattstep.live.eta import time_for_steps, time_given
from wattstep.live.journals import JournalNews, News
from wattstep.live.meters import METERS, Meters
from wattstep.live.running import NONE, Running
from wattstep.live.steps import NO_STEP, StepsSoFar
from wattstep.live.tables import news_of_tables
from wattstep.live.words import words_of
from wattstep.schema.condition_documents import ForecastFacts
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.journal import JOURNAL
from wattstep.schema.run_info import RunInfo

NO_GOAL: Final = "the number of steps is not known (Recorder(total_steps=...))"
ALL_DONE: Final = "all that was asked for is done; what comes after it is not forecast"
AT_ANY_TIME: Final = "it ends when its goal is reached, or when it is steady: at any time"
OVER: Final = "it has ended"
LATE_TICKS: Final = 3000  # the last ticks, of which lateness is told
LOOK_EVERY_S: Final = 2.0  # a look takes about 2 ms


class SoFar:
    """State of a run, followed by its files alone.

    Args:
        path: Folder of the run.
        info: Description of the run.
        roles: Of channels that are wanted beside those of power and batteries.

    Attributes:
        info: See above; it may be set anew.
        channels: State of the channels, by name.
        steps: That were done.
        meters: Of power, energy and batteries.
        evaluations: The last value of each measure.
        peak: Highest resident memory in B, as the training's own marks say; None before.
        late_ns: By how much the last ticks of the sampler were late, shape (n,).
        lost_ticks: Number of lost ticks.
    """

    def __init__(
        self,
        path: Path,
        info: RunInfo,
        roles: Collection[str] = (),
    ) -> None:
        self.path, self.info = path, info
        reads = [(read, channel) for read in info.reads for channel in read.channels]
        self._wanted = {c.name: c for _, c in reads if c.role in roles or c.role in METERS}
        self.channels = {
            channel.name: Running(channel, read.every * info.interval_s, keep=channel.role in roles)
            for read, channel in reads
            if channel.name in self._wanted
        }
        self.steps = StepsSoFar(warmup=info.warmup, all_count="steps" in info.asked)
        self.meters = Meters(info, self.channels)
        self._journal = None
        if (path / JOURNAL).is_dir():
            self._journal = JournalNews(path, info, self._wanted)
        self._closed_read = False
        self._seen_ns = {"rests": 0, "ticks": 0}  # the last of each that was taken in
        self.evaluations: dict[str, Figure] = {}
        self.peak: float | None = None
        self.late_ns: np.ndarray = np.empty(0, np.int64)
        self.lost_ticks = 0

    def look(self, *, closed: bool = False) -> bool:
        """Takes in what is new; whether the sampler was heard.

        Args:
            closed: True if nothing more will be written: a run without journals has tables then,
                which also hold what was written between the last look and their removal.
        """
        self.steps.governor = self.info.conditions.get("governor")
        heard = True
        if self._journal is not None:
            heard = self._take(self._journal.look())
        if closed and not self._closed_read and not (self.path / JOURNAL).is_dir():
            self._closed_read = True
            heard = self._take(map(self._rest_of, news_of_tables(self.path, self._wanted)))
        return heard

    def _rest_of(self, news: News) -> News:
        """What of a run's tables was not taken in from its journals; channels know by themselves."""
        if self._journal is None:
            return news
        last = self.steps.last
        return replace(
            news,
            steps=[rest for rows in news.steps if len((rest := rows.behind(last)).index)],
            rests=[rest for rest in sorted(news.rests) if rest[1] > self._seen_ns["rests"]],
            samples={
                name: (t_ns[new], value[new])
                for name, (t_ns, value) in news.samples.items()
                if (new := t_ns > self.channels[name].last_ns).any()
            },
            stretches={},
            ticks=news.ticks[news.ticks[:, 0] > self._seen_ns["ticks"]],
            lost_ticks=0,
        )

    def _take(self, lines: Iterable[News]) -> bool:
        heard = False
        for news in lines:
            for start, end in news.rests:
                self.steps.rest(start, end)
                self._seen_ns["rests"] = max(self._seen_ns["rests"], end)
            for steps in news.steps:
                self.steps.add(steps)
            for name in {**news.samples, **news.stretches}:
                stretches = news.stretches.get(name)
                self.channels[name].take(*news.samples.get(name, NONE), stretches)
            self.meters.take(news.samples)
            self.lost_ticks += news.lost_ticks
            if len(news.ticks):
                heard = True
                self._seen_ns["ticks"] = int(news.ticks[-1, 0])
                self.late_ns = np.concatenate([self.late_ns, news.ticks[:, 1]])[-LATE_TICKS:]
                self.lost_ticks += int(news.ticks[:, 3].sum())
            for measure, worth in news.evaluations:
                if np.isfinite(worth):
                    self.evaluations[measure] = measured(worth, "", "evaluation")
            if news.peak is not None:
                self.peak = max(self.peak or 0.0, news.peak)
        return heard

    @property
    def beside(self) -> str:
        """Work beside the training just now: "tracing", "evaluation"; "" for none."""
        opened = list(self._journal.opened.values()) if self._journal else []
        return opened[-1][0].replace("_", " ") if opened else ""

    @property
    def first_ns(self) -> int | None:
        """Time of the first sample; None before it."""
        return min((one.first_ns for one in self.channels.values() if one.first_ns), default=None)

    @property
    def now_ns(self) -> int:
        """Time of the last sample or step, by the clock of the run."""
        last = max((one.last_ns for one in self.channels.values()), default=0)
        return max(last, self.steps.last_ns)

    # --- power, energy, and what is left ------------------------------------------------------

    def figures(self, *, over: bool = False) -> dict[str, Figure]:
        """`power`, `energy`, `time_left`, `energy_left`, `battery` and `battery_end`.

        Args:
            over: True if the run has ended.
        """
        time_left = missing("s", OVER) if over else self._time_left()
        energy_left = self.meters.energy_left(time_left, self.steps.begun_ns or 0)
        battery, battery_end = self.meters.battery(energy_left)
        return {
            "power": self.meters.power(),
            "energy": self.meters.energy(),
            "time_left": time_left,
            "energy_left": energy_left,
            "battery": battery,
            "battery_end": battery_end,
        }

    @property
    def total(self) -> int | None:
        """Steps in all, as far as they were asked for; None where that is not known."""
        asked = self.info.asked
        if (steps := asked.get("steps")) is not None:
            return steps
        if (
            wanted := asked.get("clean_steps")
        ) is not None:  # those that do not count come on top, as far as they were seen
            clean = self.steps.clean  # which may be more: a short run's between its traced steps
            return max(wanted, clean) + self.steps.done - clean
        return None

    @property
    def share(self) -> float | None:
        """Of the run that is done, from 0 to 1; None where its end is not known."""
        asked, total = self.info.asked, self.total
        if total is not None:
            return min(self.steps.done / max(total, 1), 1.0)
        if seconds := asked.get("seconds"):
            least = asked.get("least_steps") or 1
            shares = self._trained_s() / seconds, self.steps.clean / least
            return min(*shares, 1.0)
        return None

    def _trained_s(self) -> float:
        begun = self.steps.begun_ns
        return 0.0 if begun is None else max(self.now_ns - begun, 0) * 1e-9

    def _time_left(self) -> Figure:
        asked, total = self.info.asked, self.total
        if total is None and not asked.get("seconds"):
            goal = "until" in self.info.options
            return missing("s", AT_ANY_TIME if goal else NO_GOAL)
        if self.steps.begun_ns is None:
            return missing("s", "the warm-up is not over yet")
        if total is not None:
            return self._for_steps(total - self.steps.done)
        given = time_given((asked.get("seconds") or 0.0) - self._trained_s())
        lacking = (asked.get("least_steps") or 0) - self.steps.clean
        if lacking <= 0:
            return given if given.value else missing("s", ALL_DONE)
        # The time may be over long before the least number of steps is done.
        needed = self._for_steps(lacking)
        return needed if not given.value or (needed.value or 0.0) > given.value else given

    def _for_steps(self, count: int) -> Figure:
        if count <= 0:
            return missing("s", ALL_DONE)
        return time_for_steps(self.steps.stretches, count)


class LiveForecast:
    """Joules used and what is left, worked out every other second in the process that trains.

    Args:
        path: Folder of the run that is being recorded.
        info: Description of it.
        clock: Monotonic time in s.

    Attributes:
        figures: As `SoFar.figures` gives them, of the last look.
    """

    def __init__(
        self, path: Path, info: RunInfo, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._clock = clock
        self._so_far = SoFar(path, info)
        self._looked_s = clock()
        self.figures: dict[str, Figure] = {}

    @property
    def unpowered(self) -> str:
        """Reason for no joules; "" where there are some."""
        return self._so_far.meters.reason or ""

    @property
    def time_left(self) -> Figure:
        """Time left in s."""
        return self.figures.get("time_left", missing("s", NO_STEP))

    def due(self) -> bool:
        """True if it is time to look again."""
        return self._clock() - self._looked_s >= LOOK_EVERY_S

    def look(self) -> None:
        """Takes in what was recorded since the last look."""
        self._looked_s = self._clock()
        self._so_far.look()
        self.figures = self._so_far.figures()

    def words(self, beside_s: float = 0.0) -> str:
        """Joules used and what is left, in a few words; "" where nothing is known yet.

        Args:
            beside_s: What the recording takes after its last step, in s: part of the time left.
        """
        left = self.time_left
        if left.value is None or not beside_s:
            return words_of(self.figures)
        low, high = (None if end is None else end + beside_s for end in (left.low, left.high))
        later = replace(left, value=left.value + beside_s, low=low, high=high)
        return words_of({**self.figures, "time_left": later})

    def document(self) -> ForecastFacts:
        """Time, joules and battery left, JSON-ready."""
        return {
            "time_left": self.figures["time_left"].to_dict(),
            "energy_left": self.figures["energy_left"].to_dict(),
            "battery_left": self.figures["battery_end"].to_dict(),
        }


def measured(value: float, unit: str, source: str, method: str | None = None) -> Figure:
    """A measured figure."""
    figure = Figure(value=float(value), unit=unit, status=Status.MEASURED, source=source)
    return figure if method is None else replace(figure, method=method)
