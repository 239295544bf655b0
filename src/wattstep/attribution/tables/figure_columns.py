"""Figures as plain columns: value, unit, ends of the interval, status, source, reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from wattstep.schema.figure import Figure

FIGURE: Final = ("", "_unit", "_low", "_high", "_status", "_source", "_reason")


def figure_rows(rows: Iterable[Mapping[str, object]]) -> list[dict[str, Any]]:
    """Rows with a column for each part of each figure; the labels stay as they are.

    A mapping of figures, as the energy by rail, has columns for each of them: "energy_by_rail.NAME",
    "energy_by_rail.NAME_low".
    """
    return [
        {
            name: value
            for key, thing in row.items()
            if key != "key"
            for name, value in _columns(key, thing)
        }
        for row in rows
    ]


def _columns(name: str, thing: object) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Figure):
        parts = (
            thing.value, thing.unit, thing.low, thing.high, thing.status.value, thing.source,
            thing.reason,
        )  # fmt: skip
        yield from zip((f"{name}{suffix}" for suffix in FIGURE), parts, strict=True)
    elif isinstance(thing, Mapping):
        for key, inner in thing.items():
            yield from _columns(f"{name}.{key}", inner)
    elif not isinstance(thing, (list, tuple)):
        yield name, thing
