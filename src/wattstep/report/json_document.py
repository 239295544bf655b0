"""Writes a JSON document to a stream, for scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, TextIO

from wattstep.schema.figure import Figure


def dump(thing: object, stream: TextIO, *, indented: bool = True) -> None:
    """Writes one JSON document and a line end; NaN and infinity become null.

    The text is ASCII, so that it survives any terminal and locale.

    Args:
        thing: Object that becomes the document.
        stream: Where to write.
        indented: True if lines are broken and indented; on one line, large documents are written
            in a tenth of the time.

    Raises:
        TypeError: If `thing` holds something that JSON cannot.
    """
    # Written at once: a document that cannot be encoded must not leave half of itself behind.
    text = json.dumps(_plain(thing), indent=2, allow_nan=False) if indented else _one_line(thing)
    stream.write(text + "\n")


def _one_line(thing: object) -> str:
    try:  # what json knows, it writes without a call into Python
        return json.dumps(thing, default=_known, allow_nan=False)
    except ValueError:  # a NaN or infinity somewhere
        return json.dumps(_plain(thing), allow_nan=False)


def _known(thing: object) -> Any:
    """JSON form of a thing that json does not know, one level deep."""
    if isinstance(thing, Figure):
        return thing.to_dict()
    converted = _plain(thing)
    if converted is thing:
        raise TypeError(f"{type(thing).__name__} has no place in JSON")
    return converted


def _plain(thing: object) -> Any:
    if thing is None or type(thing) in (str, int, bool):  # most of any document
        return thing
    if isinstance(thing, Figure):
        return _plain(thing.to_dict())
    if isinstance(thing, Enum):
        return _plain(thing.value)
    if isinstance(thing, float):
        return float(thing) if math.isfinite(thing) else None
    if isinstance(thing, PurePath):
        return str(thing)
    if isinstance(thing, Mapping):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_plain(value) for value in thing]
    if hasattr(thing, "tolist"):  # numbers and arrays of numpy, without loading it
        return _plain(thing.tolist())
    return thing
