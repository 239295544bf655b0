"""Watches a run that another process records: each look takes in what is new and makes a snapshot."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from wattstep.conditions.ahead import time_for_steps, time_given
from wattstep.errors import DamagedRunError
from wattstep.records.channel import Channel
from wattstep.records.figure import Figure, Status, missing
from wattstep.records.journal import JOURNAL, RUN
from wattstep.records.run_info import RunInfo
from wattstep.store.files import read_info
from wattstep.store.lock import is_recording
from wattstep.watching.device import KEPT, WANTED, Device
from wattstep.watching.journals import JournalNews, News
from wattstep.watching.meters import METERS, Meters
from wattstep.watching.running import BIN_NS, Running
from wattstep.watching.snapshot import ENDED, GONE, RECORDING, WAITING, Snapshot
from wattstep.watching.steps import StepsSoFar
from wattstep.watching.tables import news_of_tables

SILENT_S: Final = 3.0  # the sampler writes at least twice a second
NO_GOAL: Final = "nobody said when it is to end (Recorder(total_steps=...))"
ALL_DONE: Final = "all that was asked for is done; what comes after it is not foretold"
AT_ANY_TIME: Final = "it ends when its goal is reached, or when it is steady: at any time"
BINS: Final = 120
LATE_TICKS: Final = 3000  # the last ticks, of which lateness is told
CLOCK: Final = "monotonic clock"


class Watcher:
    """One run, from its files alone.

    Args:
        path: Folder of the run; it need not be there yet.
        clock: Monotonic time in s, by which a sampler that says nothing is noticed.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._seen_s = clock()  # when a tick of the sampler was last news
        self._started: _Run | None = None
        self._stamp: tuple[int, int] | None = None  # of run.json as it was last read
        self._damage = ""
        self._last: Snapshot | None = None

    def look(self) -> Snapshot:
        """Takes in what is new; what the run does now."""
        state = self._state()
        if self._started is None or state == GONE:
            old = self._last or Snapshot(run=str(self.path), state=state)
            said = (self._damage,) if self._damage else ()
            self._last = replace(old, state=state, problems=said or old.problems)
            return self._last
        if self._started.take_news(closed=state not in (RECORDING, ENDED)):
            self._seen_s = self._clock()
        self._last = self._snapshot(self._started, state)
        return self._last

    def _state(self) -> str:
        """What is there, and who holds it."""
        try:
            stat = (self.path / RUN).stat()
        except OSError:
            return WAITING if self._started is None else GONE
        try:
            if self._stamp != (stat.st_mtime_ns, stat.st_ino):
                self._read_info()
                self._stamp = stat.st_mtime_ns, stat.st_ino
            info = self._started.info if self._started else None
            if info is None or info.state != "recording":
                return WAITING if info is None else info.state
            if is_recording(self.path):
                return RECORDING
            # Closed just now, or never to be: run.json says so only after the lock was let go.
            self._read_info()
            return ENDED if self._started and self._started.info.state == "recording" else "closed"
        except DamagedRunError as error:
            self._damage = str(error)
            return GONE if self._started else WAITING
        except OSError:
            return GONE

    def _read_info(self) -> None:
        info = read_info(self.path)
        if self._started is None:
            self._started = _Run(self.path, info)
        self._started.info = info

    def _snapshot(self, run: _Run, state: str) -> Snapshot:
        silent = state == RECORDING and self._clock() - self._seen_s > SILENT_S
        snapshot = run.snapshot(state)
        problems = list(run.info.notes)
        if silent:
            problems.insert(
                0,
                f"the sampler has written nothing for {self._clock() - self._seen_s:.0f} s: it was "
                "lost or hangs; what it told last stands here, and the training goes on",
            )
        if state == ENDED:
            problems.insert(
                0,
                "the process that recorded is gone and did not close the run: what was recorded is "
                "kept, and opening it recovers it",
            )
        return replace(snapshot, problems=(*problems, *snapshot.problems))


class _Run:
    """What a run has told so far."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self.path, self.info = path, info
        reads = [(read, channel) for read in info.reads for channel in read.channels]
        wanted = {c.name: c for _, c in reads if c.role in WANTED or c.role in METERS}
        self._channels = {
            channel.name: Running(channel, read.every * info.interval_s, keep=channel.role in KEPT)
            for read, channel in reads
            if channel.name in wanted
        }
        self._wanted: Mapping[str, Channel] = wanted
        all_count = "steps" in info.asked
        self._steps = StepsSoFar(warmup=info.warmup, all_count=all_count)
        self._device = Device(info, self._channels)
        self._meters = Meters(info, self._channels)
        self._journal = JournalNews(path, info, wanted) if (path / JOURNAL).is_dir() else None
        self._closed_read = False
        self._late: np.ndarray = np.empty(0, np.int64)
        self._lost = 0
        self._peak: float | None = None
        self._evaluations: dict[str, Figure] = {}
        self._disk: tuple[float, int] | None = None

    # --- news ---------------------------------------------------------------------------------

    def take_news(self, *, closed: bool) -> bool:
        """Takes in what is new; whether the sampler was heard."""
        if self._journal is not None:
            return self._take(self._journal.look())
        if closed and not self._closed_read:
            self._closed_read = True
            return self._take(news_of_tables(self.path, self._wanted))
        return True

    def _take(self, found: Iterable[News]) -> bool:
        heard = False
        for news in found:
            for start, end in news.rests:
                self._steps.rest(start, end)
            for steps in news.steps:
                self._steps.add(steps)
            for name, (t_ns, value) in news.samples.items():
                self._channels[name].take(t_ns, value)
            if len(news.ticks):
                heard = True
                self._late = np.concatenate([self._late, news.ticks[:, 1]])[-LATE_TICKS:]
                self._lost += int(news.ticks[:, 3].sum())
            for measure, worth in news.evaluations:
                if np.isfinite(worth):
                    self._evaluations[measure] = _measured(worth, "", "evaluation")
            if news.peak is not None:
                self._peak = max(self._peak or 0.0, news.peak)
        return heard

    @property
    def _now_ns(self) -> int:
        """The last that is known, by the clock of the run."""
        last = max((one.last_ns for one in self._channels.values()), default=0)
        return max(last, self._steps.last_ns)

    # --- what follows from it -----------------------------------------------------------------

    def snapshot(self, state: str) -> Snapshot:
        steps, info = self._steps, self.info
        time_left = self._time_left(state)
        energy_left = self._meters.energy_left(time_left, steps.begun_ns or 0)
        battery, battery_end = self._meters.battery(energy_left)
        figures = {
            **steps.figures(),
            **self._device.load(),
            "power": self._meters.power(),
            "energy": self._meters.energy(),
            "time_left": time_left,
            "energy_left": energy_left,
            "battery": battery,
            "battery_end": battery_end,
            **self._device.memory(self._peak),
            "recording_cost": self._device.recording_cost(),
            **self._punctuality(),
            **self._on_disk(state),
        }
        return Snapshot(
            run=str(self.path),
            state=state,
            workload=info.workload,
            setting=_setting(info),
            stage=self._stage(state),
            elapsed=self._elapsed(),
            steps=steps.done,
            total=self._total(),
            share=1.0 if state == "closed" else self._share(),
            figures=figures,
            cores=self._device.cores(),
            gpus=self._device.gpus(),
            rails=self._meters.rails(),
            temperatures=self._device.temperatures(),
            frequencies=self._device.frequencies(),
            limits=self._device.limits(),
            evaluations=dict(self._evaluations),
            throttling=self._device.throttling(),
            absent=dict(info.absent),
            history=self._history(),
        )

    def _stage(self, state: str) -> str:
        if state != RECORDING:
            return state
        opened = list(self._journal.opened.values()) if self._journal else []
        if opened:
            return opened[-1][0].replace("_", " ")
        return "training" if self._steps.done else "no step yet"

    def _elapsed(self) -> Figure:
        begins = [one.first_ns for one in self._channels.values() if one.first_ns]
        begin = self._steps.first_ns or min(begins, default=None)
        if begin is None:
            return missing("s", "nothing was recorded yet")
        since = "first step" if self._steps.first_ns else "recording"
        seconds = max(self._now_ns - begin, 0) * 1e-9
        return replace(_measured(seconds, "s", CLOCK), method=f"since the {since} began")

    def _total(self) -> int | None:
        asked = self.info.asked
        if "steps" in asked:
            return int(asked["steps"])
        if "clean_steps" in asked:  # those that do not count come on top, as far as they were seen
            return int(asked["clean_steps"]) + self._steps.done - self._steps.clean
        return None

    def _trained_s(self) -> float:
        begun = self._steps.begun_ns
        return 0.0 if begun is None else max(self._now_ns - begun, 0) * 1e-9

    def _share(self) -> float | None:
        asked, total = self.info.asked, self._total()
        if total is not None:
            return min(self._steps.done / max(total, 1), 1.0)
        if "seconds" in asked:
            least = int(asked.get("least_steps", 1))
            shares = self._trained_s() / float(asked["seconds"]), self._steps.clean / max(least, 1)
            return min(*shares, 1.0)
        return None

    def _time_left(self, state: str) -> Figure:
        asked, total = self.info.asked, self._total()
        if state not in (WAITING, RECORDING):
            return missing("s", "it has ended")
        if not asked:
            goal = "until" in self.info.options
            return missing("s", AT_ANY_TIME if goal else NO_GOAL)
        if self._steps.begun_ns is None:
            return missing("s", "the warm-up is not over yet")
        if total is not None:
            return self._for_steps(total - self._steps.done)
        given = time_given(float(asked["seconds"]) - self._trained_s())
        lacking = int(asked.get("least_steps", 0)) - self._steps.clean
        if lacking <= 0:
            return given if given.value else missing("s", ALL_DONE)
        # The time may be over long before the least number of steps is done.
        needed = self._for_steps(lacking)
        return needed if not given.value or (needed.value or 0.0) > given.value else given

    def _for_steps(self, count: int) -> Figure:
        if count <= 0:
            return missing("s", ALL_DONE)
        return time_for_steps(self._steps.stretches, count)

    def _punctuality(self) -> dict[str, Figure]:
        if not len(self._late):
            reason = "the sampler told nothing of its ticks"
            return {"lateness": missing("s", reason), "lost_ticks": missing("count", reason)}
        late = float(np.percentile(self._late, 99)) * 1e-9
        lost = Figure(
            value=float(self._lost), unit="count", status=Status.COUNTED, source="the sampler"
        )
        method = f"99 of 100 of the last {len(self._late)} ticks were at most so late"
        return {
            "lateness": replace(_measured(late, "s", "the sampler"), method=method),
            "lost_ticks": lost,
        }

    def _on_disk(self, state: str) -> dict[str, Figure]:
        """`disk_used` by the run, `disk_free`, and its growth in an hour."""
        try:
            size = sum(each.stat().st_size for each in self.path.rglob("*") if each.is_file())
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            reason = error.strerror or "the folder cannot be read"
            return {name: missing("B", reason) for name in ("disk_used", "disk_free")}
        found = {
            "disk_used": _measured(size, "B", "sizes of its files"),
            "disk_free": _measured(free, "B", "the file system"),
        }
        begins = [one.first_ns for one in self._channels.values() if one.first_ns]
        seconds = (self._now_ns - min(begins, default=self._now_ns)) * 1e-9
        if seconds > 10 and state == RECORDING:
            hour = replace(
                _measured(size / seconds * 3600, "B", "sizes of its files"), method="in an hour"
            )
            found["disk_an_hour"] = hour
        return found

    def _history(self) -> dict[str, tuple[float | None, ...]]:
        found = {
            "step_time": self._steps.history,
            "power": self._meters.history(),
            "temperature": self._device.temperature_history(),
        }
        last = self._now_ns // BIN_NS
        return {
            name: tuple(values.get(n) for n in range(last - BINS + 1, last + 1)) if values else ()
            for name, values in found.items()
        }


def _setting(info: RunInfo) -> tuple[str, ...]:
    words = [] if info.batch_size is None else [f"batch {info.batch_size}"]
    words += [str(each) for each in (info.precision, info.engine) if each]
    return (*words, info.target) if info.target != "local" else tuple(words)


def _measured(value: float, unit: str, source: str) -> Figure:
    return Figure(value=float(value), unit=unit, status=Status.MEASURED, source=source)
