"""Labels of the rows of each table of operations: which traced rows belong together, and their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from wattstep.attribution.codes import Codes, compact
from wattstep.attribution.tables.naming import Combined, Names, combined
from wattstep.attribution.traced_rows import CompensatedRows
from wattstep.schema.arrays import BoolArray

NO_LAYER = "(no single layer)"


class RowLabels:
    """Labels of traced rows, by table.

    Args:
        column: Gives a column of names, one for each traced row.
        compensated: The rows on the mean clean step.
        outer: The outermost operation that each row belongs to.
        operation: Whether a row is an operation's, not a scope's own time.
        several: Whether operations ran on several processors, which tables then tell apart.
    """

    def __init__(
        self,
        column: Callable[[str], Names],
        compensated: CompensatedRows,
        outer: Codes,
        operation: BoolArray,
        several: bool,
    ) -> None:
        self._column, self._compensated = column, compensated
        self._outer, self._operation, self._several = outer, operation, several
        self._known: dict[str, tuple[Combined, Codes | None]] = {}

    def of(self, table: str) -> tuple[Combined, Codes | None]:
        """Labels of a table's rows, and the pieces in which a row lasts (None: in calls)."""
        if table not in self._known:
            self._known[table] = self._labels_of(table)
        return self._known[table]

    def _labels_of(self, table: str) -> tuple[Combined, Codes | None]:
        def named(column: str) -> Names:
            names = self._column(column)
            return names.renamed("", NO_LAYER if column == "layer" else "").at(self._outer)

        names = {
            "operations": ("name", "layer", "phase", *(["processor"] if self._several else [])),
            "layers": ("layer",),
            "phases": ("phase",),
            "kinds": ("kind",),
        }[table]
        labels = {column: named(column) for column in names}
        extra = {"kind": named("kind")} if table == "operations" else {}
        lasting = table in ("layers", "phases")  # forward and backward apart
        return combined(labels, extra, self._operation), named("phase").code if lasting else None

    @cached_property
    def alike(self) -> tuple[Codes, int]:
        """A number of each row, the same for rows that no table tells apart, and how many there are.

        A scope's own time is told by the phase in which it begins.
        """
        labels, _ = self.of("operations")
        kinds, _ = self.of("kinds")
        phases = len(self._compensated.edges_s) - 1  # numbers below that are of scopes
        code = labels.key.astype(np.int64) * (int(kinds.key.max(initial=0)) + 1) + kinds.key
        used, code = compact(code)
        code = np.where(self._operation, code + phases, self._compensated.phase)
        return code.astype(np.int32), len(used) + phases
