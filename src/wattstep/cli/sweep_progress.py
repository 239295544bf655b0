"""Progress of a sweep on standard error: a bar in a terminal, a line an outcome elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from wattstep.cli.progress import LINE_EVERY_S, Warned
from wattstep.report.sweep_table import spell_duration
from wattstep.schema.outcome import Configuration, Outcome
from wattstep.train.progress import Progress as Stage


class _OutcomeLines:
    """Outcomes and warnings as lines, beside something that is drawn in a terminal.

    Args:
        quiet: Show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.warned = Warned(quiet=quiet)
        self._console = Console(stderr=True)
        self._draws = not quiet and self._console.is_terminal
        self._left = ""  # how long the rest will take

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """As `SweepListener.ends`."""
        self._left = "" if not left_s else f"about {spell_duration(left_s)} left"
        rest = "" if self._draws or not self._left else f", {self._left}"
        self._print(f"{done}/{total} {_ended(outcome)}{rest}")

    def warns(self, text: str) -> None:
        """As `SweepListener.warns`; no warning twice, though its numbers differ."""
        if not self.warned.to_show(text):
            return
        self._console.print(
            f"wattstep: warning: {text}", style="yellow", markup=False, soft_wrap=True
        )

    def _print(self, line: str) -> None:
        if not self._quiet:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class SweepProgress(_OutcomeLines):
    """Shows how far a sweep of this machine is, and how long the rest will take: a bar."""

    _bar: Progress | None = None
    _now = ""
    _line_at = 0.0

    def __enter__(self) -> SweepProgress:
        if self._draws:
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
        """As `SweepListener.begins`."""
        self._now = configuration.name
        self._line_at = time.monotonic() + LINE_EVERY_S
        if self._bar is not None:
            self._bar.update(self._task, description=self._now, completed=done, total=total)

    def progresses(self, progress: Stage) -> None:
        """As `SweepListener.progresses`."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._now}: {_where(progress)}")
        elif time.monotonic() > self._line_at:
            self._line_at = time.monotonic() + LINE_EVERY_S
            left = f", {self._left}" if self._left else ""
            self._print(f"{self._now}: {_where(progress)}{left}")

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """As `SweepListener.ends`."""
        super().ends(outcome, done, total, left_s)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, left=self._left)


class HostsProgress(_OutcomeLines):
    """Shows what each host does: a table in a terminal, a line an event elsewhere."""

    _live: Live | None = None

    def __enter__(self) -> HostsProgress:
        self._rows: dict[str, tuple[str, str, str]] = {}  # what, where it is, how many are done
        if self._draws:
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

    def begins(self, configuration: Configuration, done: int, total: int) -> None:
        """As `HostsListener.begins`; the row of its host says it."""

    def stands(self, host: str, doing: str, done: int, total: int) -> None:
        """As `HostsListener.stands`."""
        before = self._rows.get(host, ("", "", ""))
        stage = before[1] if before[0] == doing else ""
        self._rows[host] = doing, stage, f"{done}/{total}"
        self._draw()

    def progresses(self, host: str, progress: Stage) -> None:
        """As `HostsListener.progresses`."""
        doing, _, done = self._rows[host]
        self._rows[host] = doing, _where(progress), done
        self._draw()

    def says(self, host: str, text: str) -> None:
        """As `HostsListener.says`."""
        self._print(f"{host}: {text}")

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self._table())

    def _table(self) -> Table:
        table = Table("device", "configuration", "where it is", "done", caption=self._left or None)
        for host, cells in self._rows.items():
            table.add_row(*(Text(text) for text in (host, *cells)))
        return table


def _where(progress: Stage) -> str:
    """The stage of a training, and its steps."""
    return f"{progress.stage}, step {progress.steps}" if progress.steps else progress.stage


def _ended(outcome: Outcome) -> str:
    """Outcome of a configuration, and how long it took."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    took = outcome.ended - outcome.started
    return f"{outcome.configuration.name}: {outcome.status}{reason}, {took:.1f} s"
