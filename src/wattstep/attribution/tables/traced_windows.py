"""Traced steps of a run that stand for its clean ones: which take part, of which kinds, and the phases of both."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.attribution.tables.left_out import LeftOut, like_clean, not_preempted
from wattstep.attribution.tables.step_kinds import (
    KindPhases,
    StepKinds,
    clean_edges,
    find_kinds,
    kind_note,
    kind_rows,
    phases_by_kind,
)
from wattstep.attribution.tables.traced import COLUMNS, TracedColumns
from wattstep.recorded.imported import NO_OPERATIONS
from wattstep.recorded.phases import Phases
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.report_rows import StepKind
from wattstep.schema.run_info import NO_TRACE


class TracedWindows:
    """The traced steps of a run, and those of them that stand for its clean ones.

    `reason` says why there are no operations, and is None where there are.

    Args:
        tables: Of the run.
        series: Its samples.
    """

    def __init__(self, tables: Tables, series: Series) -> None:
        self._tables = tables
        self._series = series
        self.steps = series.steps
        self.clean = np.flatnonzero(self.steps.clean)

    @cached_property
    def reason(self) -> str | None:
        """Reason why there are no operations."""
        if self.steps.absent:
            return self.steps.absent
        if self._tables.info.trace == "none" and not self.steps.only_traced:
            foreign = self._tables.imported.is_import
            return NO_OPERATIONS if foreign else "tracing was off (--trace none)"
        if not len(self.clean):
            return self.steps.none_clean
        if not len(self._columns.steps) or not len(self._traced_windows):
            return self._none_traced
        return None

    @property
    def _none_traced(self) -> str:
        """Why no step was traced, as the recorder noted it."""
        notes = self._tables.info.notes
        reasons = (each.removeprefix(NO_TRACE) for each in notes if each.startswith(NO_TRACE))
        return next(reasons, "no step was traced to its end")

    @cached_property
    def _columns(self) -> TracedColumns:
        return TracedColumns(self._tables.table("operations", columns=COLUMNS))

    @cached_property
    def _ran(self) -> IntArray:
        """The traced steps that did not wait for a core."""
        windows = self._traced_windows
        return windows[not_preempted(self.steps, windows)]

    @cached_property
    def left_out(self) -> LeftOut:
        """Traced steps that do not stand for clean ones."""
        windows = self._ran
        preempted = len(self._traced_windows) - len(windows)
        if self.steps.only_traced:
            return LeftOut(representative=np.ones(len(windows), bool))
        of_step = self._all_kinds.of_step
        return like_clean(self.steps, self.clean, windows, of_step, preempted)

    @property
    def _windows(self) -> IntArray:
        """The traced steps that stand for clean ones."""
        return self._ran[self.left_out.representative]

    @cached_property
    def _traced_windows(self) -> IntArray:
        """Rows of the traced steps that have operations, in order.

        Where nothing but traced steps is known, they are all that the figures are of, those
        without an operation too.
        """
        if self.steps.only_traced:
            recorded = np.isin(self.steps.index[self.clean], self._columns.steps)
            return self.clean if recorded.any() else self.clean[:0]
        traced = np.flatnonzero(self.steps.traced)
        return traced[np.isin(self.steps.index[traced], self._columns.steps)]

    @cached_property
    def _all_kinds(self) -> StepKinds:
        """The kinds of steps, told by all traced steps that ran."""
        traced = None if self.reason is not None else self._columns
        windows = self.clean[:0] if traced is None else self._ran
        return find_kinds(traced, self._tables.marks, self.steps, self.clean, windows)

    @cached_property
    def step_kinds(self) -> StepKinds:
        """The kinds of steps that take turns."""
        if self.reason is not None:
            return self._all_kinds
        kinds = self._all_kinds
        return replace(kinds, of_window=kinds.of_window[self.left_out.representative])

    @cached_property
    def _kinds_compensated(self) -> StepKinds:
        """The kinds that are compensated to steps of their own: where all were traced, none need be."""
        kinds = self.step_kinds
        return replace(kinds, rotation=None) if self.steps.only_traced else kinds

    @cached_property
    def _by_kind(self) -> KindPhases:
        """Phases of traced and clean steps."""
        marks = self._tables.marks
        return phases_by_kind(marks, self.steps, self.clean, self._windows, self._kinds_compensated)

    def kinds_of_steps(self) -> list[StepKind]:
        """A row for each kind of step, where steps of several kinds take turns."""
        return kind_rows(self.step_kinds, self.steps, self.clean)

    @property
    def notes(self) -> list[str]:
        """Notes on how traced steps stand for clean ones."""
        return [note for note in (kind_note(self.step_kinds, self.steps, self.clean),) if note]

    @property
    def operations_notes(self) -> list[str]:
        """Notes below the tables of operations: traced steps that were left out, or too few."""
        return [] if self.reason is not None or self.steps.only_traced else self.left_out.notes()

    @property
    def _phases(self) -> tuple[Phases, IntArray, FloatArray]:
        """Phases of traced steps, the rows of those steps, and the shares of clean steps."""
        by_kind = self._by_kind
        return by_kind.traced, by_kind.windows, by_kind.share

    @property
    def window_steps(self) -> IntArray:
        """Of each window, the position of its step among all steps."""
        return self._phases[1]

    @cached_property
    def clean_phases(self) -> tuple[IntArray, int]:
        """When the phases of clean steps began and the last ended in ns, shape (steps, phases + 1).

        Steps without marks are left out, and those with other phases than most. The second number
        is how many had no marks.
        """
        marks = self._tables.marks
        return clean_edges(marks, self.steps, self.clean, self._kinds_compensated, self._by_kind)

    @property
    def takes_turns(self) -> bool:
        """True if steps of several kinds were put side by side."""
        return len(self._by_kind.spans) > 1
