"""Labels of events in wattstep's own exports in Chrome's format: layer, phase, kind, and the flags of steps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.kineto import words
from wattstep.formats.trace import NONE, OWN_TRACKS, UNTOLD, Own

if TYPE_CHECKING:
    from wattstep.formats.kineto.decoding import Event

# The category of a track's events, and the track.
_TRACKS: Final = {
    "phase": "phases", "layer": "layers", "rest": "between steps", "condition": "conditions",
    "gap": "gaps", "update": "updates",
}  # fmt: skip
_TEXTS: Final = ("layer", "phase", "kind")
_NUMBERS: Final = (
    "number", "allocated", "warmup", "traced", "waited", "mark", "end_mark", "samples", "loss",
)  # fmt: skip


class OwnColumns:
    """Takes events and gives the columns of `Own`.

    Args:
        code: Of a text among the names of the trace.
    """

    def __init__(self, code: Callable[[str], int]) -> None:
        self._code = code
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._known: dict[bytes, Any] = {b"": None}

    def add(self, events: Sequence[Event]) -> None:
        """Those of some events, in their order."""
        rows = [self._row(event) for event in events]
        names = ("track", *_TEXTS, *_NUMBERS)
        self._parts.append(
            {key: np.array(each) for key, each in zip(names, zip(*rows, strict=True), strict=True)}
        )

    def finish(self) -> Own | None:
        """All of them; None where there are none."""
        if not self._parts:
            return None
        joined = {
            key: np.concatenate([part[key] for part in self._parts]) for key in self._parts[0]
        }
        kinds = {"samples": np.float64, "loss": np.float64, "track": np.int32}
        kinds |= dict.fromkeys(_TEXTS, np.int32)
        return Own(**{key: each.astype(kinds.get(key, np.int64)) for key, each in joined.items()})

    def _row(self, event: Event) -> tuple[Any, ...]:
        fields = event.args
        track = "steps" if event.name.startswith(words.STEP) else _TRACKS.get(event.cat)
        texts = (self._value(getattr(fields, key)) for key in _TEXTS)
        return (
            NONE if track is None else OWN_TRACKS.index(track),
            *(self._code(text) if isinstance(text, str) else NONE for text in texts),
            _whole(self._value(fields.step), NONE),
            _whole(self._value(fields.own_allocated), UNTOLD),
            _whole(self._value(fields.warmup), NONE),
            _whole(self._value(fields.traced), NONE),
            _whole(self._value(fields.waited_ns), NONE),
            _whole(self._value(fields.mark), NONE),
            _whole(self._value(fields.end_mark), NONE),
            _number(self._value(fields.samples)),
            _number(self._value(fields.loss)),
        )

    def _value(self, raw: Any) -> Any:
        text = bytes(raw)
        if text not in self._known:
            value = _decoded(text)
            if len(text) > 64:
                return value
            self._known[text] = value
        return self._known[text]


def decoded_text(raw: bytes) -> str:
    """A text as it stands in the file; "" where there is none."""
    text = _decoded(raw)
    return text if isinstance(text, str) else ""


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _whole(value: Any, other: int) -> int:
    return int(value) if isinstance(value, int) and abs(value) < 1 << 62 else other


def _number(value: Any) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good else math.nan
