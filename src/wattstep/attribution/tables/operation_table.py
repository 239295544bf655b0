"""Rows of operations as a caller may take them: as Figures, or as an Arrow, pandas or polars table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from wattstep.attribution.tables.figure_columns import figure_rows
from wattstep.schema import views
from wattstep.schema.figure import Figure, missing
from wattstep.schema.report_rows import CostRow

Row = dict[str, Any]


def with_power(row: Row) -> Row:
    """A row as it is shown: its mean power beside its energy."""
    row = {key: value for key, value in row.items() if key != "key"}
    if "power" in row:
        return row
    energy: Figure = row["energy"]
    power = missing("W", energy.reason or "it takes no time")
    if energy.value is not None and row["time"].value:
        power = energy.scaled(1 / row["time"].value, "W")
        power = replace(power, method=f"{energy.method}; over its time")
    return {**row, "power": power}


class OperationTable:
    """Operations as the caller likes them: a list of rows of Figures, or a table of numbers.

    Tables hold each figure in columns of plain values in SI units: `energy`, `energy_unit`,
    `energy_low`, `energy_high`, `energy_status`, `energy_source`, `energy_reason`; the energy of a
    power rail likewise, as `energy_by_rail.NAME`.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"OperationTable({len(self.rows)} operations)"

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        rows = [CostRow.from_dict(row) for row in self.rows]
        return views.show("operations_in_notebook", rows)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        rows = figure_rows(self.rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})

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
