"""Our own exports in Perfetto's form: what stands beside their slices, as the columns of `Own`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from wattstep.formats.trace import NONE, OWN_TRACKS, UNTOLD, Events, Own

LABEL: Final = "wattstep "  # begins a label of the process in an export of ours
_PLACE: Final = re.compile(r"(?:(thread)|(\w+) stream) (-?\d+)(?:, beside)?")
_WORK: Final = (("Memcpy", "copy"), ("Memset", "set"), ("", "kernel"))
GAPS: Final = OWN_TRACKS.index("gaps")


@dataclass(frozen=True, kw_only=True)
class SliceLabels:
    """Labels beside the begin of a slice.

    Attributes:
        category: What kind it is of, or "".
        arguments: By name.
        flows: Of the work that it launched.
        ends: Of itself, where something launched it.
    """

    category: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    flows: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


def labels_of(event: Any, names: Mapping[str, Mapping[int, str]]) -> SliceLabels:
    """From a track event and what its sequence numbered.

    Args:
        event: The begin of a slice.
        names: Texts by number: "categories", "keys", "strings".
    """
    arguments: dict[str, Any] = {}
    for each in event.debug_annotations:
        key = each.name or names["keys"].get(each.name_iid, "")
        kind = each.WhichOneof("value")
        if kind == "string_value_iid":
            arguments[key] = names["strings"].get(each.string_value_iid, "")
        elif kind:
            arguments[key] = getattr(each, kind)
    categories = [*event.categories, *(names["categories"].get(n, "") for n in event.category_iids)]
    return SliceLabels(
        category=categories[0] if categories else "",
        arguments=arguments,
        flows=tuple(event.flow_ids),
        ends=tuple(event.terminating_flow_ids),
    )


def own_of(
    events: Events,
    names: list[str],
    labelled: Sequence[tuple[str, SliceLabels]],
    code: Callable[[str], int],
) -> tuple[Events, Own]:
    """The events with what is told of them, and the columns beside them.

    Args:
        events: In the order of `labelled`.
        names: Texts by code; grows.
        labelled: Name of the track of each, and what stands beside it.
        code: Of a text among the names.
    """
    places = [
        _place(track, names[name]) for (track, _), name in zip(labelled, events.name, strict=True)
    ]
    arguments = [each.arguments for _, each in labelled]

    def texts(key: str) -> Any:
        values = (one.get(key) for one in arguments)
        return np.array([code(t) if isinstance(t, str) and t else NONE for t in values], np.int32)

    def whole(key: str, other: int = NONE) -> Any:
        values = (one.get(key) for one in arguments)
        return np.array([int(n) if isinstance(n, int) else other for n in values], np.int64)

    def real(key: str) -> Any:
        values = (one.get(key) for one in arguments)
        return np.array([float(n) if isinstance(n, (int, float)) else math.nan for n in values])

    own = Own(
        track=np.array([place.track for place in places], np.int32),
        layer=texts("layer"),
        phase=texts("phase"),
        kind=np.array([code(s.category) if s.category else NONE for _, s in labelled], np.int32),
        number=whole("step"),
        allocated=whole("allocated", UNTOLD),
        warmup=whole("warmup"),
        traced=whole("traced"),
        waited=whole("waited_ns"),
        mark=whole("mark"),
        end_mark=whole("end_mark"),
        samples=real("samples"),
        loss=real("loss"),
    )
    scopes = [each.category == "scope" for _, each in labelled]
    category = [
        "annotation" if scope and place.category == "operation" else place.category
        for place, scope in zip(places, scopes, strict=True)
    ]
    placed = replace(
        events,
        category=np.array([code(each) for each in category], np.int32),
        processor=np.array([code(place.processor) for place in places], np.int32),
        thread=np.array([place.thread for place in places], np.int64),
        external=_launches([each for _, each in labelled]),
        shapes=texts("shapes"),
        flops=whole("flops"),
        bytes=whole("bytes"),
    )
    return placed, own


@dataclass(frozen=True, kw_only=True)
class _Place:
    track: int
    category: str
    processor: str = "cpu"
    thread: int = 0


def _place(track: str, name: str) -> _Place:
    match = _PLACE.fullmatch(track)
    if match is None:
        at = OWN_TRACKS.index(track) if track in OWN_TRACKS else GAPS
        return _Place(track=at, category="step" if track == "steps" else "annotation")
    if match[1]:
        return _Place(track=NONE, category="operation", thread=int(match[3]))
    work = next(kind for word, kind in _WORK if name.startswith(word))
    return _Place(track=NONE, category=work, processor=match[2], thread=int(match[3]))


def _launches(labels: Sequence[SliceLabels]) -> Any:
    """A number that what launched and what was launched have in common, NONE for others."""
    external = np.full(len(labels), NONE, np.int64)
    by = {flow: row for row, each in enumerate(labels) for flow in each.flows}
    for row, each in enumerate(labels):
        if each.flows:
            external[row] = row + 1
        for flow in each.ends:
            if flow in by:
                external[row] = by[flow] + 1
    return external
