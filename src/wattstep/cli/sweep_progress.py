"""Progress of a sweep on standard error: a bar in a terminal, a line an outcome elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from wattstep.fleet.outcome import Configuration, Outcome
from wattstep.reports.sweep_table import spell_duration
from wattstep.training import Progress as Stage


class SweepProgress:
    """Shows how far a sweep is, and how long the rest will take.

    Args:
        quiet: Show warnings only.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._now = ""

    def __enter__(self) -> SweepProgress:
        if not self._quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task("sweep", total=None, left="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begins(self, configuration: Configuration, done: int, total: int) -> None:
        """As `Watcher.begins`."""
        self._now = configuration.name
        if self._bar is not None:
            self._bar.update(self._task, description=self._now, completed=done, total=total)

    def progresses(self, progress: Stage) -> None:
        """As `Watcher.progresses`."""
        if self._bar is not None:
            step = f", step {progress.steps}" if progress.steps else ""
            self._bar.update(self._task, description=f"{self._now}: {progress.stage}{step}")

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """As `Watcher.ends`."""
        if self._quiet:
            return
        left = "" if not left_s else f"about {spell_duration(left_s)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, left=left)
        rest = "" if self._bar is not None or not left else f", {left}"
        self._console.print(
            f"{done}/{total} {_ended(outcome)}{rest}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def warns(self, text: str) -> None:
        """As `Watcher.warns`."""
        self._console.print(
            f"wattstep: warning: {text}", style="yellow", markup=False, soft_wrap=True
        )


class FleetProgress:
    """Shows what each device does: a table in a terminal, a line an event elsewhere.

    Args:
        quiet: Show warnings only.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._rows: dict[str, tuple[str, str, str]] = {}  # what, where it is, how many are done
        self._left = ""

    def __enter__(self) -> FleetProgress:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(self._table(), console=self._console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def stands(self, device: str, doing: str, done: int, total: int) -> None:
        """As `FleetWatcher.stands`."""
        before = self._rows.get(device, ("", "", ""))
        stage = before[1] if before[0] == doing else ""
        self._rows[device] = doing, stage, f"{done}/{total}"
        self._draw()

    def progresses(self, device: str, progress: Stage) -> None:
        """As `FleetWatcher.progresses`."""
        doing, _, done = self._rows[device]
        step = f", step {progress.steps}" if progress.steps else ""
        self._rows[device] = doing, f"{progress.stage}{step}", done
        self._draw()

    def says(self, device: str, text: str) -> None:
        """As `FleetWatcher.says`."""
        if not self._quiet:
            self._print(f"{device}: {text}")

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """As `FleetWatcher.ends`."""
        if self._quiet:
            return
        self._left = "" if not left_s else f"about {spell_duration(left_s)} left"
        rest = "" if self._live is not None or not self._left else f", {self._left}"
        self._print(f"{done}/{total} {_ended(outcome)}{rest}")

    def warns(self, text: str) -> None:
        """As `FleetWatcher.warns`."""
        self._console.print(
            f"wattstep: warning: {text}", style="yellow", markup=False, soft_wrap=True
        )

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self._table())

    def _table(self) -> Table:
        table = Table("device", "configuration", "where it is", "done", caption=self._left or None)
        for device, cells in self._rows.items():
            table.add_row(*(Text(text) for text in (device, *cells)))
        return table


def _ended(outcome: Outcome) -> str:
    """What became of a configuration, and how long it took."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    took = outcome.ended - outcome.started
    return f"{outcome.configuration.name}: {outcome.status}{reason}, {took:.1f} s"
