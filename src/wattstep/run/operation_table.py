"""Rows of operations as a caller may take them: as Figures, or as an Arrow, pandas or polars table."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from wattstep.records.figure import Figure, missing

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

    Tables hold the values in SI units, and the status of time and energy beside them.
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
        """What a notebook shows."""
        # Reports lie above this package: they are called by name, as `import wattstep` does it.
        return str(importlib.import_module("wattstep.reports.pages.notebook").operations(self.rows))

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        columns: dict[str, list[Any]] = {}
        for row in self.rows:
            for key, value in row.items():
                plain = value.value if isinstance(value, Figure) else value
                columns.setdefault(key, []).append(plain)
                if key in ("time", "energy"):
                    columns.setdefault(f"{key}_status", []).append(value.status.value)
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """As a pandas DataFrame (pandas must be installed)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """As a polars DataFrame (polars must be installed)."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_arrow(self.to_arrow())
