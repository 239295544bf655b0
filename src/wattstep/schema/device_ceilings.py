"""Measured ceilings of an OpenCL device, and of the CPU beside it: tables of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from wattstep.errors import DamagedRunError
from wattstep.schema.figure import Figure, FigureDocument

SCHEMA: Final = 1


class RowDocument(TypedDict):
    """A row as JSON."""

    label: str
    figures: Mapping[str, FigureDocument]
    detail: str
    brief: bool
    amount: float


@dataclass(frozen=True, kw_only=True)
class CeilingRow:
    """A row of a table.

    Attributes:
        label: What was measured.
        figures: By column; a column that is not there has none for this row.
        detail: What chose or limits them: a configuration, a way of measuring; "" for nothing.
        brief: Whether it is among the rows of one screen.
        amount: Floating-point operations or bytes of one call, by which other sizes are set beside it;
            0 where it has neither.
    """

    label: str
    figures: Mapping[str, Figure]
    detail: str = ""
    brief: bool = True
    amount: float = 0.0

    def to_dict(self) -> RowDocument:
        """JSON-ready."""
        figures = {name: figure.to_dict() for name, figure in self.figures.items()}
        return {
            "label": self.label, "figures": figures, "detail": self.detail, "brief": self.brief,
            "amount": self.amount,
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
            amount=document["amount"],
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

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> DeviceCeilings:
        """The inverse of `to_dict`.

        Raises:
            DamagedRunError: It is something else.
        """
        try:
            if document["schema"] != SCHEMA:
                raise DamagedRunError(
                    f"ceilings of schema {document['schema']}, this reads {SCHEMA}",
                    id="damaged-ceilings",
                )
            return cls(
                created=document["created"], device=document["device"], host=document["host"],
                tables=[
                    CeilingTable(
                        name=name, title=table["title"], columns=table["columns"],
                        rows=[CeilingRow.from_dict(row) for row in table["rows"]],
                    )
                    for name, table in document["tables"].items()
                ],
                seconds=document["seconds"], notes=document["notes"],
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DamagedRunError(
                f"no ceilings of a device: {error!r}", id="damaged-ceilings"
            ) from error

    @property
    def measured(self) -> int:
        """Rows that were measured."""
        return sum(len(table.rows) for table in self.tables)

    def rows(self, table: str) -> Sequence[CeilingRow]:
        """Rows of a table; none where it is not there."""
        return next((each.rows for each in self.tables if each.name == table), ())
