"""Records a training that runs already, from outside: what it takes, and no steps."""

from __future__ import annotations

import contextlib
import os
import re
import select
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from wattstep.errors import RecordingError
from wattstep.record.recorder import Recorder
from wattstep.record.sensors.process_cpu import open_clocks
from wattstep.schema.journal import Mark

LOOK_S: Final = 0.25  # between two looks at the process
INTERPRETER: Final = re.compile(r"(python|pypy)[\d.]*(t|d)?")


class AttachedRecorder(Recorder):
    """Records a process that trains already: its time on the cores, memory, power; no operations.

    Args:
        pid: The process.
        path: Folder of the new run; a name below `runs/` is made where it is None.
        settings: `interval`, `keep`, `power_model` and `target` of `Recorder`.

    Raises:
        RecordingError: There is no such process.
    """

    def __init__(self, pid: int, path: str | Path | None = None, **settings: Any) -> None:
        try:
            self._ends = os.pidfd_open(pid)
        except (OSError, OverflowError):  # also of a thread: EINVAL
            raise RecordingError(f"there is no process {pid}", id="process-gone") from None
        self._pid = pid
        self._highest = 0.0
        called = program_of(pid)
        about = {
            "workload": called, "title": called, "engine": "not known",
            "options": {"attached": True},
        }  # fmt: skip
        super().__init__(path, trace="none", warmup=0, about=about, **settings)

    @property
    def _process(self) -> int:
        return self._pid

    def _open_clocks(self, without: Collection[int] | None) -> list[int]:
        # Its children were there before us: they are the training's from the first read on.
        return open_clocks(self._pid, without or ())

    def _environment(self) -> dict[str, Any]:
        return {}

    def __enter__(self) -> AttachedRecorder:
        self.start()
        return self

    def watch(self, until_s: float | None = None) -> bool:
        """Waits until the process ends, or for so many seconds.

        Returns:
            True if it has ended.
        """
        poll = select.poll()
        poll.register(self._ends, select.POLLIN)
        until = None if until_s is None else time.monotonic() + until_s
        while True:
            self._look_at_memory()
            self._look()
            left = LOOK_S if until is None else min(LOOK_S, until - time.monotonic())
            if left <= 0:
                return False
            if poll.poll(left * 1000):
                return True

    def close(self) -> None:
        """Ends the recording; what is recorded goes on."""
        super().close()
        with contextlib.suppress(OSError):
            os.close(self._ends)

    def _look_at_memory(self) -> None:
        """Marks the high-water mark where it rose: once the process has ended, nobody knows it."""
        with contextlib.suppress(OSError, ValueError):
            highest = self._windows.highest_resident()
            if highest > self._highest:
                self._highest = highest
                self._guarded(self._mark_last_peak)

    def _mark_last_peak(self) -> None:
        if self._highest:
            self._steps.add(Mark.PEAK, 0, self._highest)


def program_of(pid: int) -> str:
    """Name of a script or program that runs, without its folder."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if INTERPRETER.fullmatch(Path(words[0]).name):
            return _script(words[1:])
        if words[0]:
            return Path(words[0]).name
    return "training"


def _script(words: list[str]) -> str:
    """What a Python interpreter runs, by its arguments."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "-m":
            return following or "python"
        if word and not word.startswith("-"):
            return Path(word).stem
        if word == "-c":
            break
    return "python"
