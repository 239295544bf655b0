"""Figures as rows of plain columns: value, unit, ends of the interval, status, source, reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wattstep.exporting.columns import FIGURE
from wattstep.records.figure import Figure


def figure_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a column for each part of each figure; the labels stay as they are."""
    return [
        {
            name: value
            for key, thing in row.items()
            for name, value in (
                _parts(key, thing) if isinstance(thing, Figure) else ((key, thing),)
            )
            if key != "key" and not isinstance(thing, (list, tuple, dict))
        }
        for row in rows
    ]


def _parts(name: str, figure: Figure) -> Iterator[tuple[str, Any]]:
    parts = (
        figure.value, figure.unit, figure.low, figure.high, figure.status.value, figure.source,
        figure.reason,
    )  # fmt: skip
    return zip((f"{name}{suffix}" for suffix in FIGURE), parts, strict=True)


def metric_rows(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each figure; those of a list or a mapping tell which part they are of."""
    return [
        {
            "metric": name,
            "part": ".".join(part) or None,
            **figure.to_dict(),
        }
        for name, thing in metrics.items()
        for part, figure in _figures_in(thing, ())
    ]


def _figures_in(thing: Any, part: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Figure]]:
    if isinstance(thing, Figure):
        yield part, thing
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _figures_in(value, (*part, str(key)))
    elif isinstance(thing, (list, tuple)):
        for number, value in enumerate(thing):
            yield from _figures_in(value, (*part, str(number)))
