"""Text of a device on its way to a person: nothing in it steers a terminal, and it has an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

MOST: Final = 2000  # characters of what is shown in a line
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
_SPACES: Final = str.maketrans(dict.fromkeys("\n\r\t", " "))


def inert(text: str) -> str:
    """A text of a device's as a part of one line, without control characters or marks of direction.

    Args:
        text: Anything; what is longer than `MOST` characters ends with "…".
    """
    cut = text if len(text) <= MOST else f"{text[:MOST]}…"
    return _printable(cut.translate(_SPACES))


def inert_lines(text: str) -> str:
    """Inert text of an output, whose lines and tabs stay; a carriage return ends a line, too."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(each if each in "\n\t" else _printable(each) for each in plain)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """JSON value with each text in it changed, be it in a list, in a dict or a dict's key."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(key)): each_text(each, change) for key, each in value.items()}
    return [each_text(each, change) for each in value] if isinstance(value, list | tuple) else value


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _REPLACED for each in text)
