"""Figures as plain columns: value, unit, ends of the interval, status, source, reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from wattstep.schema.figure import Figure
from wattstep.schema.report_rows import CostRow

FIGURE: Final = ("", "_unit", "_low", "_high", "_status", "_source", "_reason")


def figure_columns(rows: Iterable[CostRow]) -> dict[str, list[Any]]:
    """Columns by name, one for each label and for each part of each figure; None where a row has none.

    A mapping of figures, as the energy by rail, has columns for each of them: "energy_by_rail.NAME",
    "energy_by_rail.NAME_low".
    """
    cells = [
        {name: cell for key, thing in row.to_dict().items() for name, cell in _cells(key, thing)}
        for row in rows
    ]
    names = dict.fromkeys(name for row in cells for name in row)
    return {name: [row.get(name) for row in cells] for name in names}


def _cells(name: str, thing: object) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Figure):
        parts = (
            thing.value, thing.unit, thing.low, thing.high, thing.status.value, thing.source,
            thing.reason,
        )  # fmt: skip
        yield from zip((f"{name}{suffix}" for suffix in FIGURE), parts, strict=True)
    elif isinstance(thing, Mapping):
        for key, inner in thing.items():
            yield from _cells(f"{name}.{key}", inner)
    elif not isinstance(thing, (list, tuple)):
        yield name, thing
