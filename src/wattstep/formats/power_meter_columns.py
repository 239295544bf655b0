"""Columns of a power meter's log by their headings, which name a quantity, its unit, and little else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.formats.plain_csv import UNITS, mega_or_milli, name_of, stated_units
from wattstep.formats.recording import FormatError
from wattstep.formats.rows import SECOND_NS, TIME_UNITS_NS

FORMAT: Final = "log of a power meter"
_NAMES: Final = {
    "time": ("timestamp", "datetime", "time", "date", "elapsed", "seconds", "t"),
    "power": ("power", "watts", "watt", "p"),
    "voltage": ("voltage", "volts", "volt", "vbus", "v", "u"),
    "current": ("current", "amperes", "amps", "ampere", "amp", "i"),
    "energy": ("energy",),
}
_UNITS: Final = {
    "power": {"w": 1.0, "mw": 1e-3, "uw": 1e-6, "µw": 1e-6, "kw": 1e3, "watts": 1.0, "watt": 1.0},
    "voltage": {"v": 1.0, "mv": 1e-3, "uv": 1e-6, "µv": 1e-6, "volts": 1.0, "volt": 1.0},
    "current": {"a": 1.0, "ma": 1e-3, "ua": 1e-6, "µa": 1e-6, "amperes": 1.0, "amps": 1.0},
    "energy": {"j": 1.0, "mj": 1e-3, "kj": 1e3, "joules": 1.0, "wh": 3600.0, "mwh": 3.6, "kwh": 3.6e6},
    "time": {
        **{unit: ns / SECOND_NS for unit, ns in TIME_UNITS_NS.items()},
        "sec": 1.0, "second": 1.0, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0,
    },
}  # fmt: skip
# Words that leave a quantity what it is. Any other, as in power_limit_W, power_factor or
# power_gpu_W, makes it something else: no column is taken by its first word alone.
_SI: Final = {"W": "power", "V": "voltage", "A": "current"}
_EXAMPLES: Final = {"power": "mW", "voltage": "mV", "current": "mA"}
# Names that say the unit, too.
_UNIT_NAMES: Final = frozenset(
    {"watts", "watt", "volts", "volt", "v", "amperes", "ampere", "amps", "amp"}
)
_MEANS: Final = frozenset({"avg", "average", "mean"})
_PLAIN: Final = _MEANS | {
    "main", "total", "system", "wall", "input", "active", "real", "draw", "consumption", "measured"
}  # fmt: skip
_PLAIN_TIMES: Final = _PLAIN | {
    "time", "stamp", "timestamp", "elapsed", "relative", "since", "start", "unix", "epoch", "utc",
    "gmt", "local",
}  # fmt: skip
_SHOWN: Final = 6  # headings in an error


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column that is read.

    Attributes:
        index: Where it stands, from 0.
        quantity: What of.
        factor: To SI; None: the heading says no unit.
        doubt: Less is better where several columns are of one quantity: one with a unit first,
            then one that is no mean.
    """

    index: int
    quantity: str
    factor: float | None
    doubt: tuple[bool, int] = (False, 0)


def columns_of(header: Sequence[str], line: int, units: Sequence[str] = ()) -> dict[str, Column]:
    """The columns by quantity, each the one that is surest to be it.

    Args:
        header: The headings.
        line: Where they stand, for errors.
        units: Of columns whose heading says none: "mW" for all of them, "NAME=mW" for one.

    Raises:
        FormatError: There is none of a time, or none of power; or two may as well be the power; or
            nothing says its unit.
        InvalidValueError: A unit is not known, or every heading says its own.
    """
    every = [column for n, cell in enumerate(header) if (column := _column(n, cell)) is not None]
    if units:
        every = _with_units(every, header, units)
    columns: dict[str, Column] = {}
    for quantity in _NAMES:
        mine = [column for column in every if column.quantity == quantity]
        if not mine:
            continue
        best = min(column.doubt for column in mine)
        alike = [column for column in mine if column.doubt == best]
        if quantity != "time" and len(alike) > 1:
            if quantity == "energy" or (quantity != "power" and "power" in columns):
                continue
            named = ", ".join(header[column.index][:40] for column in alike)
            raise FormatError(
                FORMAT, line, f"which is its {quantity}? {named}: leave one", id="several-columns"
            )
        columns[quantity] = mine[0] if quantity == "time" else alike[0]
    columns, unsaid = _by_known_unit(columns)
    if "time" not in columns:
        raise FormatError(
            FORMAT,
            line,
            f"the header names no time (time_s, timestamp){_else(header)}",
            id="no-time-column",
        )
    if "power" not in columns and not {"voltage", "current"} <= set(columns):
        if "power" in unsaid or {"voltage", "current"} <= {*columns, *unsaid}:
            raise FormatError(FORMAT, line, _no_unit(unsaid, header), id="no-unit")
        raise FormatError(
            FORMAT,
            line,
            f"the header names neither watts (power_W) nor volts and amperes{_else(header)}",
            id="no-power-column",
        )
    return columns


def _with_units(
    every: Sequence[Column], header: Sequence[str], units: Sequence[str]
) -> list[Column]:
    """The columns, those whose heading says no unit with the one that was stated."""
    stated = stated_units(units, header)
    with_units = [_with_unit(column, header[column.index], stated) for column in every]
    if with_units == every:
        raise InvalidValueError(
            f"--unit {' --unit '.join(units)}: every power, voltage or current of the {FORMAT} says "
            "its unit itself, or is in another: leave --unit out"
        )
    return with_units


def _with_unit(column: Column, heading: str, stated: Mapping[str, str]) -> Column:
    unit = stated.get(name_of(heading), stated.get("", ""))
    si, factor = UNITS.get(unit, ("", None))
    if column.factor is not None or _SI.get(si) != column.quantity:
        return column
    return replace(column, factor=factor, doubt=(False, column.doubt[1]))


def _by_known_unit(columns: dict[str, Column]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns whose unit is known (a time is in s), and the others, which are not read."""
    unsaid = {q: each for q, each in columns.items() if q != "time" and each.factor is None}
    said = {q: each for q, each in columns.items() if q not in unsaid}
    unsaid.pop("energy", None)  # power is enough without it
    return said, unsaid


def _no_unit(unsaid: Mapping[str, Column], header: Sequence[str]) -> str:
    # A power is enough by itself.
    wanted = {"power": unsaid["power"]} if "power" in unsaid else unsaid
    named = " and ".join(header[column.index][:40] for column in wanted.values())
    stated = " ".join(
        f"--unit {_EXAMPLES[quantity]}"
        if len(wanted) == 1
        else f'--unit "{header[column.index][:40]}={_EXAMPLES[quantity]}"'
        for quantity, column in wanted.items()
    )
    written = ", ".join(f"{quantity}_{_EXAMPLES[quantity]}" for quantity in wanted)
    return (
        f"the heading {named} says no unit, and none is guessed: state it, as in {written}, or as "
        f"in wattstep import {stated}"
    )


def _else(header: Sequence[str]) -> str:
    """Headings that are nearly of a quantity, for an error."""
    names = {name for names in _NAMES.values() for name in names}
    near = [
        cell[:40]
        for n, cell in enumerate(header)
        if _column(n, cell) is None and names & set(_words(cell))
    ]
    return f"; not known here: {', '.join(near[:_SHOWN])}" if near else ""


def _words(cell: str) -> list[str]:
    return [word for word in re.split(r"[^a-zµ%]+", cell.lower().replace("μ", "µ")) if word]


def _column(index: int, cell: str) -> Column | None:
    """Column of a heading; None for one that is not read, or only resembles one."""
    words = _words(cell)
    while words and words[0] in _PLAIN:
        words = [*words[1:], words[0]]
        if all(word in _PLAIN for word in words):
            return None
    for quantity, names in _NAMES.items():
        if words and words[0] in names:
            units, plain = _UNITS[quantity], _PLAIN_TIMES if quantity == "time" else _PLAIN
            if any(word not in units and word not in plain for word in words[1:]):
                return None
            said = () if mega_or_milli(cell) else words[1:]
            factors = [units[word] for word in said if word in units]
            means = sum(word in _MEANS for word in words)
            return Column(
                index=index,
                quantity=quantity,
                factor=factors[0] if factors else (1.0 if words[0] in _UNIT_NAMES else None),
                doubt=(not factors, means),
            )
    return None
