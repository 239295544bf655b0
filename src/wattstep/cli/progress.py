"""Progress on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from wattstep.cli.saying import say
from wattstep.report.sweep_table import spell_duration
from wattstep.schema.sanitize import plain

if TYPE_CHECKING:
    from wattstep.cli.live_view import Beside
    from wattstep.train.progress import Progress as Stage

SHOWN_FROM_S = 2.0  # what takes less is over before anybody asks
PREPARING = "preparing"  # the stage in which a training is refused
LEAST_SHARE = 0.03  # done before its time says how long the others take
LINE_EVERY_S = 5.0
SCRIPT_LINE_EVERY_S = 10.0  # beside a script, which prints lines of its own


class Warned:
    """Warnings of one command: each once, whatever its numbers are.

    Args:
        quiet: Hold them back until the result is there, which may say the same.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._kinds: set[str] = set()
        self._quiet = quiet
        self._held: list[str] = []

    def to_show(self, text: str) -> bool:
        """True if a warning is to be shown now: no such one was, and the command is not quiet."""
        kind = re.sub(r"\d[\d.,]*", "N", text)
        if kind in self._kinds:
            return False
        self._kinds.add(kind)
        if self._quiet:
            self._held.append(text)
        return not self._quiet

    def say_others(self, notes: Collection[str]) -> None:
        """Prints those held back that the result does not say.

        Args:
            notes: What it says.
        """
        # Loads the recorder, which commands that only read runs do without.
        from wattstep.train.environment.crowding import as_note

        for text in self._held:
            if text not in notes and as_note(text) not in notes:
                say(f"wattstep: warning: {text}")
        self._held.clear()


class _Held:
    """Lines that wait two seconds, or for the next: what is refused at once is one line, the refusal's."""

    def __init__(self) -> None:
        self._lines: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._waits = True
        self._timer = threading.Timer(SHOWN_FROM_S, self.show)
        self._timer.daemon = True

    def add(self, show: Callable[[], None]) -> None:
        """Shows a line later; at once where others were shown already."""
        with self._lock:
            if not self._waits:
                show()
                return
            if not self._lines:
                self._timer.start()
            self._lines.append(show)

    def show(self) -> None:
        """Shows all of them now, and those to come at once."""
        with self._lock:
            self._waits = False
            for show in self._lines:
                show()
            self._lines.clear()

    def drop(self) -> None:
        """Shows none of them any more."""
        self._timer.cancel()
        with self._lock:
            self._lines.clear()


class TrainingProgress:
    """Shows how far one training is.

    Args:
        title: Title of the workload.
        quiet: Show nothing.
        run: Folder of the run, where it is written on this machine.
        live: Show a screen instead, where standard error is a terminal.
        warned: Warnings of the trainings before.
    """

    def __init__(
        self,
        title: str,
        *,
        quiet: bool,
        run: Path | None = None,
        live: bool = False,
        warned: Warned | None = None,
    ) -> None:
        self._warned = warned or Warned()
        self._title = title
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._view = _view(run, self._console) if live and not quiet else None
        self._bar: Progress | None = None
        self._line_at = 0.0
        self._stage = ""
        self._told = False
        self._held = _Held()

    def __enter__(self) -> TrainingProgress:
        if self._view is not None:
            self._view.__enter__()
        elif not self._quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[detail]}", markup=False),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=1.0, detail="preparing")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._held.show()
        self._held.drop()
        if self._view is not None:
            self._view.__exit__(kind, error, trace)
        if self._bar is not None:
            self._bar.stop()

    def update(self, stage: Stage) -> None:
        """Takes note of where the training is."""
        if self._quiet or self._view is not None:
            return
        if stage.stage != PREPARING:
            self._held.show()
        detail = stage.stage if not stage.steps else f"{stage.stage}, step {stage.steps}"
        if stage.loss is not None:
            detail += f", loss {stage.loss:.3f}"
        if stage.said:
            detail += f", {stage.said}"
        if stage.ahead:
            detail += f", {stage.ahead}"
        if stage.unpowered and not self._told:
            self._told = True
            self._print(f"{self._title}: joules to finish cannot be determined: {stage.unpowered}")
        if self._bar is not None:
            self._bar.update(self._task, completed=stage.share, detail=detail)
            return
        now = time.monotonic()
        if now > self._line_at or stage.stage != self._stage:
            self._line_at, self._stage = now + LINE_EVERY_S, stage.stage
            line = f"{self._title}: {detail} ({100 * stage.share:.0f} %)"
            self._held.add(partial(say, line))

    def warn(self, text: str) -> None:
        """Shows a warning; once a command."""
        if not self._warned.to_show(text):
            return
        if self._view is not None:
            self._view.say(f"wattstep: warning: {text}")
            return
        self._held.add(partial(self._print, f"wattstep: warning: {text}", style="yellow"))

    def _print(self, text: str, style: str = "") -> None:
        """Prints a sentence, folded between words in a terminal and as one line elsewhere."""
        folded = self._console.is_terminal
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=not folded)


def _view(run: Path | None, console: Console) -> Beside | None:
    """The live view of a run that is written here; None, and a word about it, where there can be none."""
    from wattstep.cli.live_view import NO_TERMINAL, Beside

    if run is None:
        print(
            "wattstep: --live shows runs of this machine: lines are shown instead", file=sys.stderr
        )
        return None
    if not console.is_terminal:
        print(NO_TERMINAL, file=sys.stderr)
        return None
    return Beside(run, console)


@contextmanager
def watched_script(run: Path | None, *, live: bool, quiet: bool) -> Iterator[int | None]:
    """Shows how far a script is that runs meanwhile; yields where all that it prints is to go.

    Args:
        run: Folder of its run; None where that is on another device.
        live: Show a screen, where standard error is a terminal.
        quiet: Show nothing.
    """
    from wattstep.cli.live_view import Lines, kept_output

    view = _view(run, Console(stderr=True)) if live and not quiet else None
    if view is not None:
        with kept_output() as output, view:
            yield output.fileno()
    elif quiet or run is None:
        yield None
    else:
        with Lines(run, SCRIPT_LINE_EVERY_S):
            yield None


@contextmanager
def bar_of(title: str, *, quiet: bool) -> Iterator[Callable[[str, float | None], None]]:
    """Shows how far one piece of work is, and for how long it goes on, once it has taken two seconds.

    A bar in a terminal, a line now and then elsewhere, also while the work itself says nothing.
    What it yields is told the stage, and how much is done (0 to 1; None: not known).
    """
    work = Course(title)
    if quiet:
        yield lambda stage, share: None
        return
    console = Console(stderr=True)
    beside = _bar_beside(work, console) if console.is_interactive else _lines_beside(work)
    with beside as show:
        yield show


@contextmanager
def stages_of(title: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """As `bar_of`, of work whose length is unknown; what it yields is told each stage."""
    with bar_of(title, quiet=quiet) as show:
        yield lambda stage: show(stage, None)


@contextmanager
def list_progress(
    title: str, total: int, *, quiet: bool, weights: Sequence[float] | None = None
) -> Iterator[Callable[[str], None]]:
    """As `bar_of`, of a list; what it yields is told each item as it begins.

    Args:
        title: What is done with each.
        total: Number of items.
        quiet: Show nothing.
        weights: How long each takes beside the others; None: alike.
    """
    each = [1.0] * total if weights is None else weights
    shares = [sum(each[:n]) / sum(each) for n in range(total)]
    begun = iter(enumerate(shares, 1))
    with bar_of(title, quiet=quiet) as show:

        def advance(item: str) -> None:
            number, share = next(begun, (total, 1.0))
            if total > 1:
                show(f"{item}, {number} of {total}", share)
            else:
                show(item, None)

        yield advance


class Course:
    """How far a piece of work is, and what is left of it.

    Args:
        title: What is done.
        clock: Seconds.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self._clock = plain(title), clock  # a run's name may steer the terminal
        self.stage = ""
        self.share: float | None = None
        self.begun = self._told_at = clock()

    def stands(self, stage: str, share: float | None) -> None:
        """Takes note of where the work is."""
        self.stage, self.share, self._told_at = plain(stage), share, self._clock()

    @property
    def elapsed_s(self) -> float:
        """Since its begin."""
        return self._clock() - self.begun

    @property
    def left(self) -> str:
        """Time left, by what was done so far; "" where that tells nothing: at first, and once it is over."""
        if self.share is None or self.share < LEAST_SHARE or self.elapsed_s < SHOWN_FROM_S:
            return ""
        took_s = self._told_at - self.begun
        left_s = took_s / self.share - self.elapsed_s
        return f"about {spell_duration(left_s)} left" if left_s >= 1 else ""

    def __str__(self) -> str:
        share = "" if self.share is None else f"{100 * self.share:.0f} %"
        how_far = ", ".join(
            filter(None, (share, self.left or f"{spell_duration(self.elapsed_s)} so far"))
        )
        return (
            f"{self.title}: {self.stage} ({how_far})" if self.stage else f"{self.title} ({how_far})"
        )


@contextmanager
def _lines_beside(work: Course) -> Iterator[Callable[[str, float | None], None]]:
    """A line after two seconds and every five from then on."""
    done = threading.Event()

    def lines() -> None:
        wait_s = SHOWN_FROM_S
        while not done.wait(wait_s):
            say(work)
            wait_s = LINE_EVERY_S

    thread = threading.Thread(target=lines, name="progress", daemon=True)
    thread.start()
    try:
        yield work.stands
    finally:
        done.set()
        thread.join()


@contextmanager
def _bar_beside(work: Course, console: Console) -> Iterator[Callable[[str, float | None], None]]:
    class Stage(ProgressColumn):
        """The stage and the time left, as they are when the bar is drawn."""

        def render(self, task: Task) -> Text:
            return Text(", ".join(filter(None, (work.stage, work.left))))

    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), Stage(), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(work.title, total=None)

        def show(stage: str, share: float | None) -> None:
            work.stands(stage, share)
            bar.update(task, completed=share or 0.0, total=None if share is None else 1.0)

        yield show
