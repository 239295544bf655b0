"""Tables of figures: columns with the status of what stands in them, and the reasons for what does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from wattstep.report.values import Notation, Shown, exact, plain, show
from wattstep.schema.figure import Figure
from wattstep.schema.report_rows import CostRow, EnergyGroup

# Rows that a browser lays out at once without a wait.
MOST_DRAWN = 40

Cell: TypeAlias = str | Shown | None
Row: TypeAlias = Mapping[str, object]  # texts and figures by column


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of a table.

    Attributes:
        key: The key of its cells in the rows of the document.
        label: Heading.
        numeric: True if its cells are figures.
        status: The status of all its values; "" for text, and where they differ.
        detail: Method and source of all its values; "" for text, and where they differ.
        unit: Unit of the numbers in all its cells, without a prefix; "" for text, and where they
            differ.
        rare: True if a page shows it on request.
    """

    key: str
    label: str
    numeric: bool
    status: str = ""
    detail: str = ""
    unit: str = ""
    rare: bool = False

    @property
    def mixed(self) -> bool:
        """True if each cell has to say its own status."""
        return self.numeric and not self.status


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of figures, ready to be shown.

    Attributes:
        columns: The columns that have something in them.
        rows: A cell for each column: text, a figure, or None where the row has no such figure.
        notes: Notes on missing figures, with reasons.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]

    @property
    def drawn(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows that a page has as they are; the browser makes the others when asked for."""
        return self.rows[:MOST_DRAWN]

    @property
    def more(self) -> dict[str, Any]:
        """The other rows, JSON-ready, by columns: alike stands beside alike, which packs well.

        "places" has where each row stands in the document. A column of texts is a list; one of
        figures has lists of what `_told` makes of them, "" where a row has none, and in "figure" the
        end of the pointers after the place of the row, or all of them where that is not how they are.
        """
        rows = self.rows[MOST_DRAWN:]
        if not rows:
            return {}
        places = [_place(row) for row in rows]
        by_column = zip(self.columns, zip(*rows, strict=True), strict=True)
        return {
            "places": places,
            "columns": [_column_data(column, cells, places) for column, cells in by_column],
        }


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


# Columns of costs that a page shows on request, where there are more than it has room for.
_RARE = frozenset(
    (
        "kind",
        "processor",
        "step_kinds",
        "span",
        "power",
        "calls",
        "busy_time",
        "cpu_utilization",
        "flops",
        "bytes",
    )
)
_FEW = 8  # columns that stand beside each other on a page

_LASTS = ", this lasts "
_TOGETHER = "not resolvable: cannot be distinguished"
_IN_GROUPS = "these cannot be distinguished from others, and stand with them in groups"
_MOST_MEMBERS = 3
_OF_ENERGY = "power"  # missing where energy is, for the same reason


def costs(rows: Sequence[Row], first: str = "name", **labels: str) -> Table:
    """The table of operations, layers, phases or rests.

    Args:
        rows: Labels and figures side by side.
        first: The text column that names a row; it comes first.
        labels: Other labels, by key.
    """
    order = [first, *(key for key in _TEXTS if key != first)]
    unknown = [
        key for row in rows for key in row if isinstance(row[key], Figure) and key not in _FIGURES
    ]
    named = {**{key: key.replace("_", " ") for key in unknown}, **_FIGURES, **labels}
    texts = {key: labels.get(key, _TEXTS.get(key, key)) for key in order}
    whole = table(rows, texts, {key: named[key] for key in (*_FIGURES, *dict.fromkeys(unknown))})
    if len(whole.columns) <= _FEW:
        return whole
    columns = [replace(column, rare=column.key in _RARE) for column in whole.columns]
    return replace(whole, columns=tuple(columns))


def table(rows: Sequence[Row], texts: Mapping[str, str], figures: Mapping[str, str]) -> Table:
    """A table with some text columns, then some of figures.

    A column with nothing in it is left out; one in which every figure is missing becomes a note.
    """
    heads = [
        Column(key=key, label=name, numeric=False)
        for key, name in texts.items()
        if any(row.get(key) for row in rows)
    ]
    cells = {column.key: [plain(row.get(column.key) or "") for row in rows] for column in heads}
    shown: dict[str, list[Shown | None]] = {}
    missing: dict[str, list[str]] = {}
    for key, name in figures.items():
        column_cells = [_cell(row.get(key), key) for row in rows]
        for note in [] if key == _OF_ENERGY else _missing_notes(column_cells):
            missing.setdefault(note, []).append(name)
        if any(cell is not None and not cell.missing for cell in column_cells):
            heads.append(_column(key, name, [cell for cell in column_cells if cell is not None]))
            shown[key] = column_cells
    columns = [shown[column.key] if column.numeric else cells[column.key] for column in heads]
    notes = (
        f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} missing{note}"
        for note, names in missing.items()
    )
    return Table(columns=tuple(heads), rows=tuple(zip(*columns, strict=True)), notes=tuple(notes))


def groups(rows: Sequence[EnergyGroup], listed: bool = False) -> Table:
    """Operations whose energy is known together only.

    Args:
        rows: The groups.
        listed: True if some of them are named; else they are counted.
    """
    members_of = _members if listed else len
    shown = [{**vars(row), "members": str(members_of(row.members))} for row in rows]
    texts = {"name": "what they share", "members": "operations"}
    return table(shown, texts, {"time": "time", "energy": "energy", "power": "power"})


def _members(names: Sequence[str]) -> str:
    listed = ", ".join(plain(name) for name in names[:_MOST_MEMBERS])
    more = len(names) - _MOST_MEMBERS
    return f"{listed} and {more} more" if more > 0 else listed


def seconds(row: CostRow) -> float:
    """The time of a row, to sort by; rows whose time is missing come last of those that took any."""
    return -1.0 if row.time is None or row.time.value is None else row.time.value


def _missing_notes(cells: Iterable[Shown | None]) -> list[str]:
    """The ends of notes on missing figures of a column: one for each reason."""
    shown = [cell for cell in cells if cell is not None]
    # Each row that is too short for a sensor says how long it lasts: one line for all of them.
    common = [_common_reason(cell.reason) for cell in shown if cell.missing]
    reasons: dict[str, int] = {}
    for reason in common:
        reasons[reason] = reasons.get(reason, 0) + 1
    return [
        f"{'' if count == len(shown) else f' in {count} of {len(shown)} rows'}: {reason}"
        for reason, count in reasons.items()
    ]


def _common_reason(reason: str) -> str:
    if reason.startswith(_TOGETHER):
        return _IN_GROUPS
    head, lasts, _ = reason.partition(_LASTS)
    return f"{head}, and this is shorter" if lasts else head


def _cell(thing: object, key: str) -> Shown | None:
    notation: Notation = "count" if key == "calls" else "unit"
    return show(thing, notation) if isinstance(thing, Figure) else None


def _attributes(column: Column, cell: Shown) -> dict[str, str]:
    """A figure for the browser, under the names that the macro `marks` gives its attributes."""
    words = {
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
    return {key: text for key, text in words.items() if text}


def _place(row: Sequence[Cell]) -> str:
    pointers = (cell.pointer for cell in row if isinstance(cell, Shown))
    return next(pointers, "").rpartition("/")[0]


def _column_data(column: Column, cells: Sequence[Cell], places: Sequence[str]) -> Any:
    """A column for the browser: see `Table.more`."""
    if not column.numeric:
        return list(cells)
    attributes = [_attributes(column, cell) if isinstance(cell, Shown) else {} for cell in cells]
    parts: dict[str, Any] = {
        key: [each.get(key, "") for each in attributes]
        for key in dict.fromkeys(k for t in attributes for k in t)
    }
    ends = {
        pointer.removeprefix(place) if pointer.startswith(place) else None
        for place, pointer in (
            (place, each.get("figure", ""))
            for place, each in zip(places, attributes, strict=True)
            if each
        )
    }
    if len(ends) == 1 and None not in ends:
        parts["figure"] = ends.pop()
    return parts


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
    distinct = set(texts)
    return distinct.pop() if len(distinct) == 1 else ""
