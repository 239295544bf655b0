"""Runs side by side by one facet (engine, threads, ...), a row for each configuration of all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.comparing import drift_of
from wattstep.insight.compare.configuration import SAYS_ITSELF, check_across, facets_of
from wattstep.insight.compare.metrics import compare_metric, of_side
from wattstep.insight.compare.process import UNITS, Process
from wattstep.insight.compare.sides import Side, read
from wattstep.schema.figure import Figure

FIRST: Final = "torch"  # of engines, the one that others stand beside
SHOWN: Final = ("step_time", "throughput", "energy_per_step", "peak_memory")
MOVEMENT: Final = "data_movement_share"


@dataclass(frozen=True, kw_only=True)
class PublishedMovement:
    """Share of data movement that somebody else published.

    Attributes:
        value: Of the time of training.
        of: What trained there.
        source: Who measured it, and where that stands.
    """

    value: float
    of: str
    source: str

    @property
    def words(self) -> str:
        """In a sentence."""
        return (
            f"Published, of another device: data movement takes almost {100 * self.value:.0f} % of training "
            f"{self.of} ({self.source})."
        )

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"what": MOVEMENT, "value": self.value, "unit": "ratio", "of": self.of, "source": self.source}  # fmt: skip


DAS: Final = PublishedMovement(
    value=0.91,
    of="with MNN and OpenCL on a phone's GPU, to which the host copies (Snapdragon 8 series)",
    source="Das, Kwon, Chauhan, Mascolo 2022, arXiv 2202.10100, abstract",
)


@dataclass(frozen=True, kw_only=True)
class FacetCell:
    """Runs of one value of the facet.

    Attributes:
        paths: Of the runs.
        figures: By the names of `SHOWN`, and `MOVEMENT`.
        ratios: To the first value of the facet in this row, by the names of `SHOWN`.
    """

    paths: tuple[Path, ...]
    figures: Mapping[str, Figure]
    ratios: Mapping[str, Figure]

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "runs": list(map(str, self.paths)),
            "figures": dict(self.figures),
            "ratios": dict(self.ratios),
        }


@dataclass(frozen=True, kw_only=True)
class ByFacet:
    """A row for each configuration of all other facets, a cell for each value of this one.

    Attributes:
        facet: e.g. "engine".
        values: In the order of columns.
        rows: What sets each apart in words, and its cells by value.
    """

    facet: str
    values: tuple[str, ...]
    rows: tuple[tuple[str, Mapping[str, FacetCell]], ...]

    @property
    def published(self) -> tuple[PublishedMovement, ...]:
        """What others published of engines, where a share of data movement here can stand beside it."""
        shares = [cell.figures[MOVEMENT] for _, cells in self.rows for cell in cells.values()]
        known = self.facet == "engine" and any(not share.missing for share in shares)
        return (DAS,) if known else ()

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "by": self.facet,
            "values": list(self.values),
            "published": [each.document() for each in self.published],
            "rows": [
                {
                    "configuration": words,
                    "cells": {value: cell.document() for value, cell in cells.items()},
                }
                for words, cells in self.rows
            ],
        }


def compare_by(
    facet: str, sides: Sequence[Side], on_read: Callable[[int, int], None] | None = None
) -> ByFacet:
    """Compares runs by one facet.

    Args:
        facet: One of `FACETS`.
        sides: A side for each configuration, as `sides_among` gives them.
        on_read: As of `sides.read`.

    Raises:
        InvalidValueError: There is no such facet, or all are alike in it.
        DamagedRunError: A run cannot be read.
    """
    check_across([facet], "--by")
    return by_facet(facet, sides, read(sides, operations=True, on_read=on_read))


def by_facet(facet: str, sides: Sequence[Side], members: Sequence[Sequence[Process]]) -> ByFacet:
    """Runs that were read, by one facet; as `compare_by`.

    Args:
        facet: One of `FACETS`.
        sides: A side for each configuration.
        members: The runs of each, with their operations.

    Raises:
        InvalidValueError: All are alike in it.
    """
    facets = [facets_of(side.configuration) for side in sides]
    values = sorted({each[facet] for each in facets}, key=_first)
    if len(values) < 2:
        raise InvalidValueError(
            f"--by {facet}: all of them have {values[0] if values else 'none'}", id="one-value"
        )
    differing = [
        name for name in facets[0] if name != facet and len({each[name] for each in facets}) > 1
    ]
    rows: dict[tuple[str, ...], dict[str, list[Process]]] = {}
    for each, processes in zip(facets, members, strict=True):
        key = tuple(each[name] for name in differing)
        rows.setdefault(key, {}).setdefault(each[facet], []).extend(processes)
    return ByFacet(
        facet=facet,
        values=tuple(values),
        rows=tuple(
            (_words(differing, key), _cells(values, rows[key]))
            for key in sorted(rows, key=lambda key: [*map(_first, key)])
        ),
    )


def _words(facets: Sequence[str], values: Sequence[str]) -> str:
    """What sets a row apart: "lenet, batch 4, threads 1"."""
    told = zip(facets, values, strict=True)
    return ", ".join(
        value if facet in SAYS_ITSELF or facet == "options" else f"{facet} {value}"
        for facet, value in told
        if value
    )


def _first(value: str) -> tuple[bool, bool, float, str]:
    """Order of a facet's values: torch first, numbers by size, then by name."""
    number = value.partition(" ")[0]
    size = float(number) if number.isdecimal() else 0.0
    return number != FIRST, not number.isdecimal(), size, value


def _cells(values: Sequence[str], row: Mapping[str, Sequence[Process]]) -> dict[str, FacetCell]:
    there = [value for value in values if value in row]
    first = row[there[0]]
    cells = {}
    for value in there:
        processes = row[value]
        figures = {
            name: of_side([each.figure(name) for each in processes], UNITS[name]) for name in SHOWN
        }
        figures[MOVEMENT] = of_side([each.data_movement for each in processes], "ratio")
        ratios = {}
        if processes is not first:
            drift = drift_of(first, processes)
            ratios = {name: compare_metric(name, first, processes, drift).ratio for name in SHOWN}
        cells[value] = FacetCell(
            paths=tuple(each.path for each in processes), figures=figures, ratios=ratios
        )
    return cells
