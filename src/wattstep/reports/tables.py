"""Tables of figures: columns with the status of what stands in them, and the reasons for what does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from wattstep.reports.values import Notation, Shown, exact, is_figure, plain, show

# Rows that a browser lays out at once without a wait.
MOST_DRAWN = 200

Cell: TypeAlias = str | Shown | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        key: The key of its cells in the rows of the document.
        label: What stands above it.
        numeric: Whether its cells are figures.
        status: The status of all its values; "" for text, and where they differ.
        detail: Method and source of all its values; "" for text, and where they differ.
        unit: Unit of the numbers in all its cells, without a prefix; "" for text, and where they
            differ.
    """

    key: str
    label: str
    numeric: bool
    status: str = ""
    detail: str = ""
    unit: str = ""

    @property
    def mixed(self) -> bool:
        """Whether each cell has to say its own status."""
        return self.numeric and not self.status


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of figures, ready to be shown.

    Attributes:
        columns: The columns that have something in them.
        rows: A cell for each column: text, a figure, or None where the row has no such figure.
        notes: What is missing in the table, and why.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]

    @property
    def drawn(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows that a page has as they are; the browser makes the others when asked for."""
        return self.rows[:MOST_DRAWN]

    @property
    def more(self) -> list[list[Any]]:
        """The other rows, JSON-ready: text, None, or what `_told` makes of a figure."""
        return [
            [
                _told(column, cell) if isinstance(cell, Shown) else cell
                for column, cell in zip(self.columns, row, strict=True)
            ]
            for row in self.rows[MOST_DRAWN:]
        ]


_TEXTS = {
    "name": "Operation",
    "kind": "Kind",
    "layer": "Layer",
    "phase": "Phase",
    "processor": "Processor",
    "step_kinds": "Steps",
}
_FIGURES = {
    "time": "Time",
    "share": "Share",
    "span": "Begin to end",
    "energy": "Energy",
    "power": "Power",
    "calls": "Calls",
    "busy_time": "Busy time",
    "cpu_utilization": "CPU",
    "memory": "Memory",
    "flops": "FLOPs",
    "bytes": "Bytes moved",
}


_LASTS = ", this lasts "
_TOGETHER = "not resolvable: cannot be told apart"
_IN_GROUPS = "these cannot be told apart from others, and stand with them in groups"
_MOST_MEMBERS = 3
_OF_ENERGY = "power"  # missing where energy is, for the same reason


def costs(rows: Sequence[Mapping[str, Any]], first: str = "name", **labels: str) -> Table:
    """The table of operations, layers, phases or rests.

    Args:
        rows: Rows of a run document.
        first: The text column that names a row; it comes first.
        labels: Other labels, by key.
    """
    order = [first, *(key for key in _TEXTS if key != first)]
    unknown = [key for row in rows for key in row if is_figure(row[key]) and key not in _FIGURES]
    named = {**{key: key.replace("_", " ") for key in unknown}, **_FIGURES, **labels}
    texts = {key: labels.get(key, _TEXTS.get(key, key)) for key in order}
    return table(rows, texts, {key: named[key] for key in (*_FIGURES, *dict.fromkeys(unknown))})


def table(
    rows: Sequence[Mapping[str, Any]], texts: Mapping[str, str], figures: Mapping[str, str]
) -> Table:
    """A table with some text columns, then some of figures.

    A column with nothing in it is left out; one in which every figure is missing becomes a note.
    """
    kept = [
        Column(key=key, label=name, numeric=False)
        for key, name in texts.items()
        if any(row.get(key) for row in rows)
    ]
    cells = {column.key: [plain(row.get(column.key) or "") for row in rows] for column in kept}
    shown: dict[str, list[Shown | None]] = {}
    notes: list[str] = []
    for key, name in figures.items():
        found = [_cell(row.get(key), key) for row in rows]
        notes += [] if key == _OF_ENERGY else _missing_notes(name, found)
        if any(cell is not None and not cell.missing for cell in found):
            kept.append(_column(key, name, [cell for cell in found if cell is not None]))
            shown[key] = found
    columns = [shown[column.key] if column.numeric else cells[column.key] for column in kept]
    return Table(columns=tuple(kept), rows=tuple(zip(*columns, strict=True)), notes=tuple(notes))


def groups(rows: Sequence[Mapping[str, Any]], listed: bool = False) -> Table:
    """Operations whose energy is known together only.

    Args:
        rows: Groups of a run document.
        listed: Whether some of them are named; else they are counted.
    """
    said = _members if listed else len
    shown = [{**row, "members": str(said(row.get("members") or ()))} for row in rows]
    texts = {"name": "what they share", "members": "operations"}
    return table(shown, texts, {"time": "time", "energy": "energy", "power": "power"})


def _members(names: Sequence[str]) -> str:
    listed = ", ".join(plain(name) for name in names[:_MOST_MEMBERS])
    more = len(names) - _MOST_MEMBERS
    return f"{listed} and {more} more" if more > 0 else listed


def seconds(row: Mapping[str, Any]) -> float:
    """The time of a row, to sort by; rows whose time is missing come last of those that took any."""
    time = row.get("time")
    return -1.0 if not is_figure(time) or time["value"] is None else float(time["value"])


def _missing_notes(name: str, cells: Iterable[Shown | None]) -> list[str]:
    """One line for each reason why figures of a column are missing."""
    found = [cell for cell in cells if cell is not None]
    # Each row that is too short for a sensor says how long it lasts: one line for all of them.
    common = [_common_reason(cell.reason) for cell in found if cell.missing]
    reasons: dict[str, int] = {}
    for reason in common:
        reasons[reason] = reasons.get(reason, 0) + 1
    return [
        f"{name} is missing{'' if count == len(found) else f' in {count} of {len(found)} rows'}: {reason}"
        for reason, count in reasons.items()
    ]


def _common_reason(reason: str) -> str:
    if reason.startswith(_TOGETHER):
        return _IN_GROUPS
    head, lasts, _ = reason.partition(_LASTS)
    return f"{head}, and this is shorter" if lasts else head


def _cell(thing: object, key: str) -> Shown | None:
    notation: Notation = "count" if key == "calls" else "unit"
    return show(thing, notation) if is_figure(thing) else None


def _told(column: Column, cell: Shown) -> dict[str, str]:
    """A figure for the browser, under the names that the macro `marks` gives its attributes."""
    told = {
        "value": cell.value,
        "interval": cell.interval,
        "figure": cell.pointer,
        "number": exact(cell.number),
        "low": exact(cell.low),
        "high": exact(cell.high),
        "status": "" if cell.status == column.status else cell.status,
        "unit": "" if column.unit else cell.base_unit,
        "title": cell.reason if cell.missing else "" if column.detail else cell.detail,
    }
    return {key: text for key, text in told.items() if text}


def _column(key: str, name: str, cells: Sequence[Shown]) -> Column:
    known = [cell for cell in cells if not cell.missing]
    return Column(
        key=key,
        label=name,
        numeric=True,
        status=_common(cell.status for cell in known),
        detail=_common(cell.detail for cell in known),
        unit=_common(cell.base_unit for cell in cells),
    )


def _common(texts: Iterable[str]) -> str:
    found = set(texts)
    return found.pop() if len(found) == 1 else ""
