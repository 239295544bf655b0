"""A part of an explanation: sentences first, then figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wattstep.schema.figure import Figure

Cell: TypeAlias = str | float | bool | Sequence[str] | Figure | Mapping[str, Figure] | None
Row: TypeAlias = Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text and Figures.

    Attributes:
        name: In JSON.
        title: On a terminal.
        columns: Key in the rows to heading, in order.
        rows: Texts, counts and Figures by key.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Section:
    """Section of an explanation: the result of one view of a run.

    Attributes:
        name: As asked for on the command line.
        title: Its heading.
        sentences: The answer in plain words.
        figures: By name.
        tables: In order.
        reason: Why it can say nothing; None where it can.
        failure: Error that it failed with, where that is the reason; "" else.
    """

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    reason: str | None = None
    failure: str = ""

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "title": self.title,
            "sentences": list(self.sentences),
            "figures": dict(self.figures),
            "tables": {table.name: [dict(row) for row in table.rows] for table in self.tables},
            "reason": self.reason,
            **({"failure": self.failure} if self.failure else {}),
        }
