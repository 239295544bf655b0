"""Progress on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from wattstep.cli.saying import say
from wattstep.train.loop import Progress as Stage

if TYPE_CHECKING:
    from wattstep.cli.live_view import Beside

LINE_EVERY_S = 5.0
SCRIPT_LINE_EVERY_S = 10.0  # beside a script, which prints lines of its own


class TrainingProgress:
    """Shows how far one training is.

    Args:
        title: Title of the workload.
        quiet: Show warnings only.
        run: Folder of the run, where it is written on this machine.
        live: Show a screen instead, where standard error is a terminal.
        warned: Warnings of the trainings before, but for their numbers: none is shown twice.
    """

    def __init__(
        self,
        title: str,
        *,
        quiet: bool,
        run: Path | None = None,
        live: bool = False,
        warned: set[str] | None = None,
    ) -> None:
        self._warned = set() if warned is None else warned
        self._title = title
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._view = _view(run, self._console) if live and not quiet else None
        self._bar: Progress | None = None
        self._line_at = 0.0
        self._stage = ""
        self._told = False

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
        if self._view is not None:
            self._view.__exit__(kind, error, trace)
        if self._bar is not None:
            self._bar.stop()

    def update(self, stage: Stage) -> None:
        """Takes note of where the training is."""
        if self._quiet or self._view is not None:
            return
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
            say(f"{self._title}: {detail} ({stage.share:.0%})")

    def warn(self, text: str) -> None:
        """Shows a warning, quiet or not; once a command."""
        if not is_new(text, self._warned):
            return
        if self._view is not None:
            self._view.say(f"wattstep: warning: {text}")
            return
        self._print(f"wattstep: warning: {text}", style="yellow")

    def _print(self, text: str, style: str = "") -> None:
        """Prints a sentence, folded between words in a terminal and as one line elsewhere."""
        folded = self._console.is_terminal
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=not folded)


def is_new(text: str, warned: set[str]) -> bool:
    """True if no such warning was shown, whatever its numbers are; from then on it was."""
    kind = re.sub(r"\d[\d.,]*", "N", text)
    known = kind in warned
    warned.add(kind)
    return not known


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
def list_progress(title: str, total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows how far a list is; what it yields is told each item as it begins."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda item: None
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[item]}"),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(title, total=total, item="", completed=-1)

        def advance(item: str) -> None:
            bar.update(task, advance=1, item=item)

        yield advance


@contextmanager
def stages_of(title: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows, in a terminal, the stage of work whose length is unknown; what it yields is told each stage."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda stage: None
        return
    with console.status(Text(title)) as status:
        yield lambda stage: status.update(Text(f"{title}: {stage}"))


@contextmanager
def bar_of(title: str, *, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Shows how far one piece of work is; what it yields is told what is done, and how much (0 to 1).

    Outside of a terminal it writes a line now and then.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda stage, share: None
        return
    if not console.is_terminal:
        due = [time.monotonic() + LINE_EVERY_S]

        def line(stage: str, share: float) -> None:
            if time.monotonic() > due[0]:
                due[0] = time.monotonic() + LINE_EVERY_S
                say(f"{title}: {stage} ({share:.0%})")

        yield line
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"),
        TimeElapsedColumn(), console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, share: bar.update(task, completed=share, stage=stage)
