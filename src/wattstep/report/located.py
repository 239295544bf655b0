"""Figures that know where they stand in the document that `--json` prints, so that pages can say it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from wattstep.schema.figure import Figure
from wattstep.schema.figures import Figures
from wattstep.schema.run_report import json_name

Part = TypeVar("Part")

# What a pointer spells as it is; all else by its bytes, as RFC 6901 does in fragments of addresses.
_PLAIN = "/~ :.,;()[]@+=*!$'"


@dataclass(frozen=True, kw_only=True)
class LocatedFigure(Figure):
    """A figure, and where it stands.

    Attributes:
        pointer: A JSON pointer (RFC 6901) into the document, e.g. "/runs/0/metrics/step_time";
            characters that an attribute cannot hold are spelt as in the fragment of an address.
    """

    pointer: str


def located(thing: Part, pointer: str) -> Part:
    """A report, or a part of one, in which every figure knows its place.

    Whoever makes rows of it keeps the figures as they are: `show` reads the place from them, and
    the macros of `parts.html` write it as `data-figure`.

    Args:
        thing: A report, a row, some of them by name or in a list, or a figure.
        pointer: Where that stands, e.g. "/runs/0/operations".
    """
    result: Any = thing
    if isinstance(thing, Figure):
        result = LocatedFigure(**{**vars(thing), "pointer": pointer})
    elif isinstance(thing, Figures):
        result = type(thing)({name: located(thing[name], _below(pointer, name)) for name in thing})
    elif isinstance(thing, Mapping):
        result = {name: located(part, _below(pointer, name)) for name, part in thing.items()}
    elif isinstance(thing, tuple):
        result = tuple(located(part, _below(pointer, n)) for n, part in enumerate(thing))
    elif is_dataclass(thing) and not isinstance(thing, type):
        places = {each.name: _below(pointer, json_name(each)) for each in fields(thing)}
        parts = {name: located(getattr(thing, name), place) for name, place in places.items()}
        result = replace(thing, **parts)
    return result  # type: ignore[no-any-return]


def _below(pointer: str, key: object) -> str:
    """The place of a part; "" is one whose own parts stand beside the others."""
    text = str(key)
    if not text:
        return pointer
    return f"{pointer}/{text if text.isidentifier() and text.isascii() else _spelt(text)}"


@functools.lru_cache(maxsize=4096)
def _spelt(key: str) -> str:
    text = key.replace("~", "~0").replace("/", "~1")
    return quote(text, safe=_PLAIN, errors="surrogatepass")
