"""Checks of the values of a JSON document, put together into those of whole documents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

MOST_NUMBER: Final = 1e30  # no scale, limit or resolution of a sensor is beyond it, nor a loss
LEAST_NUMBER: Final = 1e-30  # what is closer to 0 was never measured, and its square is no number
MOST_W: Final = 1e6  # of power: a hall of machines
MOST_DEPTH: Final = 32
INT32: Final = (1 << 31) - 1
INT64: Final = (1 << 63) - 1
UINT64: Final = (1 << 64) - 1
LONG_BITS: Final = 400  # an integer of more is shown by its length: its digits take for ever

Check = Callable[
    [Any], Any
]  # gives the value back as it is to be used; ValueError where it is none


def parse_json(data: bytes | str) -> Any:
    """JSON that others wrote.

    Raises:
        ValueError: It is none, or nested without end.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def shown(value: Any) -> str:
    """A value in an error: whatever it is, a few characters."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > LONG_BITS:
        return f"a number of {value.bit_length()} bits"
    return ascii(value)[:60]


def string(value: Any) -> str:
    """A text.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no text")
    return value


def yes_no(value: Any) -> bool:
    """True or false.

    Raises:
        ValueError: It is neither.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false")
    return value


def whole(least: int, most: int) -> Check:
    """A check for a whole number within limits."""

    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{shown(value)} is no whole number from {least} to {most}")
        return value

    return check


def number(value: Any) -> float:
    """A finite number that a sensor, or a training, may give.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{shown(value)} is no number")
    if not -math.inf < value < math.inf:  # also where it is NaN
        raise ValueError(f"{shown(value)} is no finite number")
    if not -MOST_NUMBER <= value <= MOST_NUMBER:
        raise ValueError(f"{shown(value)} is beyond {MOST_NUMBER:g}")
    return float(value)


def at_least(least: float) -> Check:
    """A check for a finite number from a limit on."""

    def check(value: Any) -> float:
        if number(value) < least:
            raise ValueError(f"{shown(value)} is less than {least:g}")
        return float(value)

    return check


def or_none(check: Check) -> Check:
    """Check that lets null through."""
    return lambda value: None if value is None else check(value)


def one_of(*known: str) -> Check:
    """A check for one of some texts."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{shown(value)} is none of {', '.join(known)}")
        return value

    return check


def listed(check: Check) -> Check:
    """A check for a list of what another lets through."""

    def check_all(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{shown(value)} is no list")
        return [check(entry) for entry in value]

    return check_all


def mapping(check: Check, key: Check = string) -> Check:
    """A check for a mapping of texts to what another lets through."""

    def check_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is no mapping")
        return {key(name): named(str(name), check, entry) for name, entry in value.items()}

    return check_all


def record(checks: Mapping[str, Check], optional: Collection[str] = ()) -> Check:
    """A check for a mapping with these entries and no others; optional ones may be missing."""

    def check_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is no mapping of {', '.join(checks)}")
        if strange := value.keys() - checks.keys():
            raise ValueError(f"{min(map(shown, strange))} is none of {', '.join(checks)}")
        if lacking := checks.keys() - value.keys() - set(optional):
            raise ValueError(f"{min(lacking)} is missing")
        return {name: named(name, checks[name], entry) for name, entry in value.items()}

    return check_all


def facts(known: Mapping[str, Check] | None = None, needed: Collection[str] = ()) -> Check:
    """A check for a mapping of anything that can be shown, whose known entries are calculated with.

    Args:
        known: Checks of entries, where they are there.
        needed: Those that have to be.
    """
    checks = known or {}

    def check_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is no mapping")
        if lacking := set(needed) - value.keys():
            raise ValueError(f"{min(lacking)} is missing")
        return {key: named(key, checks.get(key, _showable), part) for key, part in value.items()}

    return check_all


def named(name: str, check: Check, value: Any) -> Any:
    """Result of a check on an entry; its error names the entry.

    Raises:
        ValueError: It does not let it through.
    """
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _showable(value: Any, depth: int = 0) -> Any:
    """Any JSON whose numbers a computer can hold, not nested without end."""
    if depth > MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    if type(value) is int:
        return whole(-UINT64, UINT64)(value)
    if type(value) is float and not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    if isinstance(value, Mapping):
        return {key: named(key, lambda x: _showable(x, depth + 1), v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_showable(part, depth + 1) for part in value]
    return value
