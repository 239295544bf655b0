"""Progress on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wattstep.training import Progress as Stage

LINE_EVERY_S = 5.0


class TrainingProgress:
    """Shows how far one training is.

    Args:
        title: What trains.
        quiet: Show warnings only.
    """

    def __init__(self, title: str, *, quiet: bool) -> None:
        self._title = title
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._line_at = 0.0
        self._stage = ""
        self._told = False

    def __enter__(self) -> TrainingProgress:
        if not self._quiet and self._console.is_terminal:
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
        if self._bar is not None:
            self._bar.stop()

    def update(self, stage: Stage) -> None:
        """Takes note of where the training is."""
        if self._quiet:
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
            self._console.print(
                f"{self._title}: joules to finish cannot be told: {stage.unpowered}", markup=False
            )
        if self._bar is not None:
            self._bar.update(self._task, completed=stage.share, detail=detail)
            return
        now = time.monotonic()
        if now > self._line_at or stage.stage != self._stage:
            self._line_at, self._stage = now + LINE_EVERY_S, stage.stage
            print(f"{self._title}: {detail} ({stage.share:.0%})", file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Shows a warning, quiet or not."""
        self._console.print(f"wattstep: warning: {text}", style="yellow", markup=False)


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
                print(f"{title}: {stage} ({share:.0%})", file=sys.stderr, flush=True)

        yield line
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"),
        TimeElapsedColumn(), console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, share: bar.update(task, completed=share, stage=stage)
