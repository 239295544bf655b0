"""The figures of a run, one a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wattstep.records.figure import Figure


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
