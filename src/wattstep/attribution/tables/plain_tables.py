"""Tables of operations as samples alone have them, before regression tells of short rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.attribution.breakdown import Breakdown, unattributed_columns
from wattstep.attribution.codes import compact
from wattstep.attribution.tables.row_labels import RowLabels
from wattstep.attribution.tables.step_kinds import NOT_TRACED
from wattstep.attribution.traced_rows import CompensatedRows
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import missing
from wattstep.schema.figures import Figures
from wattstep.schema.report_rows import CostRow

PHASE_RESTS = (
    "data",
    "game",
    "evaluation",
    NOT_TRACED,
)  # what is uncovered there is no framework's work


def unattributed_of(phase: str) -> str:
    """Names of the unattributed time of each phase."""
    return phase if phase in PHASE_RESTS else "framework"


class PlainTables:
    """Tables of a breakdown; nothing is computed before it is asked for.

    Args:
        breakdown: The quantities of traced rows.
        labels: What makes the rows of each table.
        compensated: The traced rows on the mean clean step.
        operation: Whether a row is an operation's, not a scope's own time.
        outermost: Whether no other operation encloses it.
        tells_allocations: Whether the trace tells what operations allocated.
    """

    def __init__(
        self,
        breakdown: Breakdown,
        labels: RowLabels,
        compensated: CompensatedRows,
        operation: BoolArray,
        outermost: BoolArray,
        tells_allocations: bool,
    ) -> None:
        self._breakdown, self._labels, self._compensated = breakdown, labels, compensated
        self._operation, self._outermost = operation, outermost
        self._tells_allocations = tells_allocations
        self._known: dict[str, dict[int, CostRow]] = {}
        self._short: dict[str, Figures] = {}

    def rows(self, table: str) -> dict[int, CostRow]:
        """Rows of a table by key, as in `RowLabels`; the longest first."""
        if table not in self._known:
            self._known[table] = self._table_of(table)
        return self._known[table]

    def _table_of(self, table: str) -> dict[int, CostRow]:
        labels, part = self._labels.of(table)
        by_key = self._breakdown.rows(labels.key, self._operation, part)
        if not self._tells_allocations:
            unknown = missing("B", "the trace does not tell what operations allocated")
            by_key = {key: figures.updated(memory=unknown) for key, figures in by_key.items()}
        return {
            key: CostRow(labels=labels.shown[key], figures=figures)
            for key, figures in by_key.items()
        }

    def codes(self, table: str) -> dict[int, IntArray]:
        """Kinds, as in `labelled`, of each row of a table, by its key."""
        labels, _ = self._labels.of(table)
        own = self._outermost & self._operation
        code, count = self._labels.alike
        pairs, _ = compact(labels.key[own].astype(np.int64) * count + code[own])
        keys, first = np.unique(pairs // count, return_index=True)
        return dict(zip(keys.tolist(), np.split(pairs % count, first[1:]), strict=True))

    def shared(self, quantity: str) -> FloatArray | None:
        """Cost of each kind in a mean step by overlap alone; None where it is not known.

        Args:
            quantity: "energy", say.
        """
        attributed = self._with_scopes[1].quantities.get(quantity)
        if attributed is None:
            return None
        code, count = self._labels.alike
        mine = self._operation
        sums = np.bincount(code[mine], attributed.rows[mine], minlength=count).astype(np.float64)
        sums[: attributed.unattributed.shape[1]] += attributed.unattributed.sum(axis=0)
        return sums / len(attributed.unattributed)

    @property
    def code_count(self) -> int:
        """Number of possible kinds."""
        return self._labels.alike[1]

    def too_short(self, table: str) -> Figures:
        """Cost that rows of a table and unattributed time leave out, by samples alone, by quantity."""
        if table not in self._short:
            names, breakdown = self._with_scopes
            labels, part = self._labels.of(table)
            unresolved = breakdown.unresolved(labels.key, self._operation, part, names)
            self._short[table] = unresolved
        return self._short[table]

    def unattributed(self) -> dict[str, Figures]:
        """Unattributed costs, by samples alone."""
        names, breakdown = self._with_scopes
        return breakdown.unattributed(names)

    @property
    def unattributed_columns(self) -> dict[str, list[int]]:
        """The phases of each rest."""
        return unattributed_columns(self._with_scopes[0])

    @cached_property
    def _with_scopes(self) -> tuple[list[str], Breakdown]:
        """Names of the rests by phase, and the breakdown with the scopes' own time in its rests."""
        names = [unattributed_of(name) for name in self._breakdown.phase_names]
        breakdown = self._breakdown
        windows, phases = breakdown.windows, len(breakdown.phase_names)
        scope = ~self._operation
        cell = breakdown.window[scope].astype(np.int64) * phases + self._compensated.phase[scope]

        def of_scopes(values: FloatArray) -> FloatArray:
            sums = np.bincount(cell, values[scope], minlength=windows * phases)
            return sums.astype(np.float64, copy=False).reshape(windows, phases)

        quantities = {}
        for name, quantity in breakdown.quantities.items():
            moved = quantity.moved
            if moved is not None:
                moved = replace(moved, unattributed=moved.unattributed + moved.sums[:, :phases])
            taking, bounds = quantity.taking, quantity.bounds
            if taking is not None:
                its = taking.unattributed_s + of_scopes(taking.time_s)
                taking = replace(taking, unattributed_s=its)
            if bounds is not None:
                its = np.stack([of_scopes(rows) for rows in bounds.rows])
                bounds = replace(bounds, unattributed=bounds.unattributed + its)
            quantities[name] = replace(
                quantity,
                unattributed=quantity.unattributed + of_scopes(quantity.rows),
                moved=moved,
                taking=taking,
                bounds=bounds,
            )
        # What was taken off a scope for the events in it was taken off a rest.
        events = breakdown.events
        held = (
            np.bincount(self._compensated.phase[scope], events[scope], minlength=phases) / windows
        )
        return names, replace(
            breakdown,
            quantities=quantities,
            events=np.where(scope, 0.0, events),
            unattributed_off_s=breakdown.unattributed_off_s + breakdown.cost_s * held,
        )
