"""Progress on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
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

    def __enter__(self) -> TrainingProgress:
        if not self._quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[detail]}"),
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
