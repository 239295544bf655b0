"""Rows of operations as a caller may take them: as Figures, or as an Arrow, pandas or polars table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from wattstep.attribution.tables.figure_columns import figure_columns
from wattstep.schema import views
from wattstep.schema.figure import missing
from wattstep.schema.report_rows import CostRow


def with_power(row: CostRow) -> CostRow:
    """A row as it is shown: its mean power beside its energy."""
    if "power" in row.figures:
        return row
    energy, seconds = row.figure("energy"), row.figure("time").value
    power = missing("W", energy.reason or "it takes no time")
    if energy.value is not None and seconds:
        power = energy.scaled(1 / seconds, "W")
        power = replace(power, method=f"{energy.method}; over its time")
    return replace(row, figures=row.figures.updated(power=power))


class OperationTable:
    """Operations as the caller likes them: rows of Figures, or a table of numbers.

    Tables hold each figure in columns of plain values in SI units: `energy`, `energy_unit`,
    `energy_low`, `energy_high`, `energy_status`, `energy_source`, `energy_reason`; the energy of a
    power rail likewise, as `energy_by_rail.NAME`.
    """

    def __init__(self, rows: Sequence[CostRow]) -> None:
        self._rows = rows

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Labels and Figures of each operation by name, as iterating gives them."""
        return [row.to_dict() for row in self._rows]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"OperationTable({len(self)} operations)"

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return views.show("operations_in_notebook", self._rows)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        columns = figure_columns(self._rows)
        return pa.table({name: _column(name, values) for name, values in columns.items()})

    def to_pandas(self) -> Any:
        """As a pandas DataFrame (pandas must be installed)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """As a polars DataFrame (polars must be installed)."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_arrow(self.to_arrow())


def _column(name: str, values: list[Any]) -> pa.Array:
    """A column that keeps its type where no row has a value."""
    column = pa.array(values)
    if not pa.types.is_null(column.type):
        return column
    return column.cast(pa.string() if name.endswith(("_source", "_reason")) else pa.float64())
