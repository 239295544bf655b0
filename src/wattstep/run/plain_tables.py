"""Tables of operations as samples alone have them, before regression tells of short rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.analysis.breakdown import Breakdown, compact, rest_columns
from wattstep.analysis.laying import LaidRows
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray
from wattstep.records.figure import Figure, missing
from wattstep.run.operation_table import Row
from wattstep.run.row_labels import RowLabels
from wattstep.run.step_kinds import NOT_TRACED

PHASE_RESTS = (
    "data",
    "game",
    "evaluation",
    NOT_TRACED,
)  # what is uncovered there is no framework's work


def rest_of(phase: str) -> str:
    """What is called what no operation covers in a phase."""
    return phase if phase in PHASE_RESTS else "framework"


class PlainTables:
    """Tables of a breakdown; nothing is computed before it is asked for.

    Args:
        breakdown: The quantities of traced rows.
        labels: What makes the rows of each table.
        laid: The traced rows on the mean clean step.
        operation: Whether a row is an operation's, not a scope's own time.
        outermost: Whether no other operation encloses it.
        tells_allocations: Whether the trace tells what operations allocated.
    """

    def __init__(
        self,
        breakdown: Breakdown,
        labels: RowLabels,
        laid: LaidRows,
        operation: BoolArray,
        outermost: BoolArray,
        tells_allocations: bool,
    ) -> None:
        self._breakdown, self._labels, self._laid = breakdown, labels, laid
        self._operation, self._outermost = operation, outermost
        self._tells_allocations = tells_allocations
        self._known: dict[str, list[Row]] = {}
        self._short: dict[str, dict[str, Figure]] = {}

    def rows(self, table: str) -> list[Row]:
        """A table; "key" is what its rows are told by."""
        if table not in self._known:
            self._known[table] = self._table_of(table)
        return self._known[table]

    def _table_of(self, table: str) -> list[Row]:
        labels, part = self._labels.of(table)
        found = self._breakdown.rows(labels.key, self._operation, part)
        rows = [{**labels.shown[row["key"]], **row} for row in found]
        if not self._tells_allocations:
            for row in rows:
                row["memory"] = missing("B", "the trace does not tell what operations allocated")
        return rows

    def codes(self, table: str) -> dict[int, IntArray]:
        """Which kinds, as in `labelled`, make each row of a table, by its key."""
        labels, _ = self._labels.of(table)
        own = self._outermost & self._operation
        code, count = self._labels.alike
        pairs, _ = compact(labels.key[own].astype(np.int64) * count + code[own])
        keys, first = np.unique(pairs // count, return_index=True)
        return dict(zip(keys.tolist(), np.split(pairs % count, first[1:]), strict=True))

    def shared(self, quantity: str) -> FloatArray | None:
        """What each kind takes of a mean step by overlap alone; None where it is not known.

        Args:
            quantity: "energy", say.
        """
        found = self._with_scopes[1].quantities.get(quantity)
        if found is None:
            return None
        code, count = self._labels.alike
        mine = self._operation
        sums = np.bincount(code[mine], found.rows[mine], minlength=count).astype(np.float64)
        sums[: found.rests.shape[1]] += found.rests.sum(axis=0)
        return sums / len(found.rests)

    @property
    def code_count(self) -> int:
        """How many kinds there may be."""
        return self._labels.alike[1]

    def too_short(self, table: str) -> dict[str, Figure]:
        """What rows of a table and rests leave out as samples alone have them, by quantity."""
        if table not in self._short:
            names, breakdown = self._with_scopes
            labels, part = self._labels.of(table)
            found = breakdown.unresolved(labels.key, self._operation, part, names)
            self._short[table] = found
        return self._short[table]

    def rests(self) -> dict[str, dict[str, Figure]]:
        """What no operation covers, as samples alone have it."""
        names, breakdown = self._with_scopes
        return breakdown.rests(names)

    @property
    def rest_columns(self) -> dict[str, list[int]]:
        """The phases of each rest."""
        return rest_columns(self._with_scopes[0])

    @cached_property
    def _with_scopes(self) -> tuple[list[str], Breakdown]:
        """Names of the rests by phase, and the breakdown with the scopes' own time in its rests."""
        names = [rest_of(name) for name in self._breakdown.phase_names]
        breakdown = self._breakdown
        windows, phases = breakdown.windows, len(breakdown.phase_names)
        scope = ~self._operation
        cell = breakdown.window[scope].astype(np.int64) * phases + self._laid.phase[scope]
        quantities = {}
        for name, quantity in breakdown.quantities.items():
            own = np.bincount(cell, quantity.rows[scope], minlength=windows * phases)
            moved = quantity.moved
            if moved is not None:
                moved = replace(moved, rests=moved.rests + moved.sums[:, :phases])
            quantities[name] = replace(
                quantity, rests=quantity.rests + own.reshape(windows, phases), moved=moved
            )
        return names, replace(breakdown, quantities=quantities)
