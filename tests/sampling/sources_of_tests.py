"""Push sources that do what real ones do, well and badly. The collector imports them by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from wattstep.record.push_sources import Emit, ticks
from wattstep.schema.journal import MISSING


class Counting:
    """Two reads: a count, and a pair of which one value is missing."""

    def __init__(self, period_s: float, first: int = 1) -> None:
        self._period_s, self._first = period_s, first

    def run(self, emit: Emit, stop: threading.Event) -> None:
        for number, now in enumerate(ticks(self._period_s, stop), self._first):
            emit(0, now, 0, (number,))
            emit(1, now, 0, (-number, MISSING))


class Failing:
    """Its source fails so often, always (times < 0) or until it is there."""

    def __init__(self, period_s: float, made: str, times: int) -> None:
        self._period_s, self._made, self._times = period_s, Path(made), times

    def run(self, emit: Emit, stop: threading.Event) -> None:
        with self._made.open("a") as file:
            file.write("tried\n")
        if self._times < 0 or len(self._made.read_text().splitlines()) <= self._times:
            raise OSError(19, "No such device")
        for now in ticks(self._period_s, stop):
            emit(0, now, 0, (7,))


class Hanging:
    """Three rows, then it answers nobody."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s

    def run(self, emit: Emit, stop: threading.Event) -> None:
        for _ in range(3):
            emit(0, time.monotonic_ns(), 0, (3,))
            time.sleep(self._period_s)
        while True:
            time.sleep(60)


class Starting:
    """It cannot even be made."""

    def __init__(self, period_s: float) -> None:
        time.sleep(60)


class Crashing:
    """Its author made a mistake, which shows after the first row."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s

    def run(self, emit: Emit, stop: threading.Event) -> None:
        emit(0, time.monotonic_ns(), 0, (5,))
        raise ValueError("no such key")


class Ending:
    """Its source ends by itself after a few rows."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s

    def run(self, emit: Emit, stop: threading.Event) -> None:
        for number, now in enumerate(ticks(self._period_s, stop)):
            emit(0, now, 0, (number,))
            if number == 4:
                return


class Partly:
    """Failed rows among good ones, as a push source itself tells them."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s

    def run(self, emit: Emit, stop: threading.Event) -> None:
        for number, now in enumerate(ticks(self._period_s, stop)):
            emit(0, now, 11, None) if number % 2 else emit(0, now, 0, (9,))


class Running:
    """A command that uses the processor, and ends when its input does."""

    def __init__(self, period_s: float, pid_file: str) -> None:
        self._pid_file = Path(pid_file)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        burn = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(600)"
        process = subprocess.Popen([sys.executable, "-c", burn], start_new_session=True)
        self._pid_file.write_text(str(process.pid))
        emit(0, time.monotonic_ns(), 0, (os.getpid(),))
        while True:
            time.sleep(60)


class Wide:
    """Rows that fill a disk."""

    def __init__(self, period_s: float) -> None:
        pass

    def run(self, emit: Emit, stop: threading.Event) -> None:
        while not stop.wait(0.001):
            for _ in range(200):
                emit(0, time.monotonic_ns(), 0, (1,))
