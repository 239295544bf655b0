"""Watches a run that another process records: each look takes in what is new and makes a snapshot."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from wattstep.errors import DamagedRunError
from wattstep.live.device import WANTED, Device
from wattstep.live.running import BIN_NS
from wattstep.live.snapshot import ENDED, GONE, RECORDING, WAITING, Snapshot
from wattstep.live.so_far import SoFar, measured
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.schema.journal import RUN
from wattstep.schema.run_info import RunInfo
from wattstep.store.files import read_info
from wattstep.store.lock import is_recording

SILENT_S: Final = 3.0  # the sampler writes at least twice a second
BINS: Final = 120


class LiveMonitor:
    """Live monitor of one run, from its files alone.

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
            problems = (self._damage,) if self._damage else ()
            self._last = replace(old, state=state, problems=problems or old.problems)
            return self._last
        if self._started.take_news(closed=state not in (RECORDING, ENDED)):
            self._seen_s = self._clock()
        self._last = self._snapshot(self._started, state)
        return self._last

    def _state(self) -> str:
        """State of the run: what is there, and who holds it."""
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
                "lost or hangs; its last values are shown, and the training goes on",
            )
        if state == ENDED:
            problems.insert(
                0,
                "the process that recorded is gone and did not close the run: what was recorded is "
                "kept, and opening it recovers it",
            )
        return replace(snapshot, problems=(*problems, *snapshot.problems))


class _Run:
    """Picture of a run so far."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self._so_far = SoFar(path, info, WANTED)
        self._device = Device(info, self._so_far.channels)

    @property
    def info(self) -> RunInfo:
        """Description of the run."""
        return self._so_far.info

    @info.setter
    def info(self, info: RunInfo) -> None:
        self._so_far.info = info

    def take_news(self, *, closed: bool) -> bool:
        """Takes in what is new; whether the sampler was heard."""
        return self._so_far.look(closed=closed)

    def snapshot(self, state: str) -> Snapshot:
        so_far, device, info = self._so_far, self._device, self.info
        figures = {
            **so_far.steps.figures(),
            **device.load(),
            **so_far.figures(over=state not in (WAITING, RECORDING)),
            **device.memory(so_far.peak),
            "recording_cost": device.recording_cost(),
            **self._punctuality(),
            **self._on_disk(state),
        }
        return Snapshot(
            run=str(so_far.path),
            state=state,
            workload=info.workload,
            setting=_setting(info),
            stage=self._stage(state),
            elapsed=self._elapsed(),
            steps=so_far.steps.done,
            total=so_far.total,
            share=1.0 if state == "closed" else so_far.share,
            figures=figures,
            cores=device.cores(),
            gpus=device.gpus(),
            rails=so_far.meters.rails(),
            temperatures=device.temperatures(),
            frequencies=device.frequencies(),
            limits=device.limits(),
            evaluations=dict(so_far.evaluations),
            throttling=device.throttling(),
            absent=dict(info.absent),
            history=self._history(),
        )

    def _stage(self, state: str) -> str:
        if state != RECORDING:
            return state
        if self._so_far.beside:
            return self._so_far.beside
        if "attached" in self._so_far.info.options:
            return "recorded from outside"
        return "training" if self._so_far.steps.done else "no step yet"

    def _elapsed(self) -> Figure:
        so_far = self._so_far
        begin = so_far.steps.first_ns or so_far.first_ns
        if begin is None:
            return missing("s", "nothing was recorded yet")
        since = "first step" if so_far.steps.first_ns else "recording"
        seconds = max(so_far.now_ns - begin, 0) * 1e-9
        return measured(seconds, "s", CLOCK, f"since the {since} began")

    def _punctuality(self) -> dict[str, Figure]:
        late_ns = self._so_far.late_ns
        if not len(late_ns):
            reason = "the sampler has not reported its ticks"
            return {"lateness": missing("s", reason), "lost_ticks": missing("count", reason)}
        late = float(np.percentile(late_ns, 99)) * 1e-9
        lost = Figure(
            value=float(self._so_far.lost_ticks), unit="count", status=Status.COUNTED,
            source="the sampler",
        )  # fmt: skip
        method = f"99 of 100 of the last {len(late_ns)} ticks were at most so late"
        return {"lateness": measured(late, "s", "the sampler", method), "lost_ticks": lost}

    def _on_disk(self, state: str) -> dict[str, Figure]:
        """`disk_used` by the run, `disk_free`, and its growth in an hour."""
        path, now_ns = self._so_far.path, self._so_far.now_ns
        try:
            size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
            free = shutil.disk_usage(path).free
        except OSError as error:
            reason = error.strerror or "the folder cannot be read"
            return {name: missing("B", reason) for name in ("disk_used", "disk_free")}
        figures = {
            "disk_used": measured(size, "B", "sizes of its files"),
            "disk_free": measured(free, "B", "the file system"),
        }
        first_ns = self._so_far.first_ns
        seconds = 0.0 if first_ns is None else (now_ns - first_ns) * 1e-9
        if seconds > 10 and state == RECORDING:
            hour = measured(size / seconds * 3600, "B", "sizes of its files", "in an hour")
            figures["disk_an_hour"] = hour
        return figures

    def _history(self) -> dict[str, tuple[float | None, ...]]:
        series = {
            "step_time": self._so_far.steps.history,
            "power": self._so_far.meters.history(),
            "temperature": self._device.temperature_history(),
        }
        last = self._so_far.now_ns // BIN_NS
        return {
            name: tuple(values.get(n) for n in range(last - BINS + 1, last + 1)) if values else ()
            for name, values in series.items()
        }


def _setting(info: RunInfo) -> tuple[str, ...]:
    words = [] if info.batch_size is None else [f"batch {info.batch_size}"]
    words += [str(each) for each in (info.precision, info.engine) if each]
    return (*words, info.target) if info.target != "local" else tuple(words)
