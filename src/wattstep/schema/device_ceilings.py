"""Measured ceilings of an OpenCL device, and of the CPU beside it: tables of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from wattstep.schema.figure import Figure, FigureDocument

SCHEMA: Final = 1


class RowDocument(TypedDict):
    """A row as JSON."""

    label: str
    figures: Mapping[str, FigureDocument]
    detail: str
    brief: bool


@dataclass(frozen=True, kw_only=True)
class CeilingRow:
    """A row of a table.

    Attributes:
        label: What was measured.
        figures: By column; a column that is not there has none for this row.
        detail: What chose or limits them: a configuration, a way of measuring; "" for nothing.
        brief: Whether it is among the rows of one screen.
    """

    label: str
    figures: Mapping[str, Figure]
    detail: str = ""
    brief: bool = True

    def to_dict(self) -> RowDocument:
        """JSON-ready."""
        figures = {name: figure.to_dict() for name, figure in self.figures.items()}
        return {
            "label": self.label, "figures": figures, "detail": self.detail, "brief": self.brief,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: RowDocument) -> CeilingRow:
        """The inverse of `to_dict`."""
        figures = {name: Figure.from_dict(each) for name, each in document["figures"].items()}
        return cls(
            label=document["label"],
            figures=figures,
            detail=document["detail"],
            brief=document["brief"],
        )


@dataclass(frozen=True, kw_only=True)
class CeilingTable:
    """A table of ceilings.

    Attributes:
        name: As documents name it.
        title: What stands above it.
        columns: Names of its figures, in order.
        rows: Its rows.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[CeilingRow]


@dataclass(frozen=True, kw_only=True)
class DeviceCeilings:
    """The ceilings of an OpenCL device.

    Attributes:
        created: When they were measured.
        device: Its facts, as `opencl.device.Device.facts` has them.
        host: CPU and libraries that were measured beside it, by name.
        tables: The figures.
        seconds: How long measuring took, tuning included.
        notes: What a reader must know.
    """

    created: str
    device: Mapping[str, str | int | bool]
    host: Mapping[str, str | int]
    tables: Sequence[CeilingTable]
    seconds: float
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "schema": SCHEMA,
            "created": self.created,
            "device": dict(self.device),
            "host": dict(self.host),
            "tables": {
                table.name: {
                    "title": table.title,
                    "columns": list(table.columns),
                    "rows": [row.to_dict() for row in table.rows],
                }
                for table in self.tables
            },
            "seconds": self.seconds,
            "notes": list(self.notes),
        }
