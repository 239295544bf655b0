"""One JSON document on a stream, for scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, TextIO

from wattstep.records.figure import Figure


def dump(thing: object, stream: TextIO) -> None:
    """Writes one JSON document and a line end; NaN and infinity become null.

    The text is ASCII, so that it survives any terminal and locale.

    Raises:
        TypeError: If `thing` holds something that JSON cannot.
    """
    # Written at once: a document that cannot be encoded must not leave half of itself behind.
    stream.write(json.dumps(_plain(thing), indent=2, allow_nan=False) + "\n")


def _plain(thing: object) -> Any:
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
