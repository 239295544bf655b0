"""The live view on a terminal: a screen that is drawn anew twice a second, beside whatever else goes on."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from wattstep.cli.saying import say
from wattstep.live.words import short_text
from wattstep.report.terminal.live import Screen, draw

if TYPE_CHECKING:
    from wattstep.live.monitor import LiveMonitor
    from wattstep.live.snapshot import Snapshot

EVERY_S: Final = 0.5
LINE_EVERY_S: Final = 5.0
NICE: Final = 10
NO_TERMINAL: Final = "wattstep: --live needs a terminal on standard error: lines are shown instead"


def picture(snapshot: Snapshot, console: Console) -> Text:
    """A snapshot as the console can show it now: it may have been resized."""
    width, height = console.size
    ascii_only = not (console.encoding or "ascii").lower().startswith("utf")
    return draw(snapshot, Screen(width=width, height=height - 1, ascii_only=ascii_only))


def watch(monitor: LiveMonitor, console: Console, wait: Callable[[], bool]) -> Snapshot:
    """Draws the run until it is over, then leaves its last picture on the terminal.

    Args:
        monitor: Of the run.
        console: A terminal.
        wait: Returns when the next picture is due: False where there is to be none.

    Returns:
        The last snapshot.
    """
    # Where all cores are busy the view gives way to the training. Of this thread alone.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    snapshot = monitor.look()
    first = picture(snapshot, console)
    with Live(
        first, console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
    ) as live:
        try:
            while not snapshot.over and wait():
                snapshot = monitor.look()
                live.update(picture(snapshot, console), refresh=True)
        except KeyboardInterrupt:  # it ends the view, and nothing else
            pass
    console.print(picture(snapshot, console))
    return snapshot


def tell(
    monitor: LiveMonitor, say: Callable[[str], None], every_s: float = LINE_EVERY_S
) -> Snapshot:
    """Prints a run that goes on in lines, where there is no terminal; returns the last snapshot."""
    due = 0.0
    while True:
        snapshot = monitor.look()
        if snapshot.over or time.monotonic() >= due:
            due = time.monotonic() + every_s
            say(line_of(snapshot))
        if snapshot.over:
            return snapshot
        time.sleep(min(every_s, EVERY_S))


def line_of(snapshot: Snapshot) -> str:
    """A snapshot in one line."""
    from wattstep.report.terminal.glyphs import brief

    parts = [snapshot.stage or snapshot.state]
    parts += [f"step {snapshot.steps:,}"] if snapshot.steps else []
    time_of_step = snapshot.figures.get("step_time")
    if time_of_step is not None and time_of_step.value is not None:
        parts.append(f"{1e3 * time_of_step.value:.3g} ms a step (median)")
    parts += [words] if (words := short_text(snapshot)) else []
    return f"{brief(snapshot.workload or snapshot.run, 60)}: {', '.join(parts)}"


def a_moment() -> bool:
    """Waits until the next picture is due."""
    time.sleep(EVERY_S)
    return True


class Beside:
    """The view in a thread of this process, while another process trains.

    Args:
        path: Folder of the run, which need not be there yet.
        console: A terminal.
    """

    def __init__(self, path: Path, console: Console) -> None:
        self._path, self._console = path, console
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="live view", daemon=True)
        self._said: list[str] = []

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        for text in self._said:
            self._console.print(text, style="yellow", markup=False)

    def say(self, text: str) -> None:
        """A line for the user, shown when the view has ended: the screen would lose it."""
        self._said.append(text)

    def _draw(self) -> None:
        from wattstep.live.monitor import LiveMonitor

        watch(LiveMonitor(self._path), self._console, lambda: not self._stop.wait(EVERY_S))


class Lines:
    """A line now and then about a run that another process records, in a thread of this one.

    Args:
        path: Folder of the run.
        every_s: Between two lines, and before the first.
    """

    def __init__(self, path: Path, every_s: float) -> None:
        self._path, self._every_s = path, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _tell(self) -> None:
        if self._stop.wait(self._every_s):
            return
        from wattstep.live.monitor import LiveMonitor

        monitor, last_line = LiveMonitor(self._path), ""
        while True:
            snapshot = monitor.look()
            if snapshot.over:
                return
            if (line := line_of(snapshot)) != last_line:  # once, where no steps are seen
                say(f"wattstep: {line}")
            last_line = line
            if self._stop.wait(self._every_s):
                return


@contextmanager
def kept_output() -> Iterator[IO[bytes]]:
    """A file for what a script prints while the view has the terminal; it is shown afterwards."""
    with tempfile.TemporaryFile() as file:
        try:
            yield file
        finally:
            file.seek(0)
            while part := file.read(1 << 16):
                sys.stderr.buffer.write(part)
            sys.stderr.flush()
