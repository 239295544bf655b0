"""JSON text of events as records; the only module that needs msgspec, see `wattstep.schema.extras`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from wattstep.formats.kineto.cutting import UndecodableError
from wattstep.formats.trace import NONE

NOTHING = msgspec.Raw(b"")
LARGEST = 1 << 63
Long = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST - 1)]


class Arguments(
    msgspec.Struct,
    gc=False,
    rename={
        "external": "External id",
        "external_before": "external id",  # of torch 1.8
        "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
        "dims": "Input Dims",
        "dims_before": "Input dims",  # up to torch 1.12
        "allocation": "Bytes",
        "allocated": "Total Allocated",
        "reserved": "Total Reserved",
        "device_id": "Device Id",
        "device_type": "Device Type",
        "own_allocated": "allocated (B)",
    },
):
    """Arguments of an event that are read; NONE or `NOTHING` where it lacks one."""

    external: Long = NONE
    external_before: Long = NONE
    correlation: Long = NONE
    sequence: Long = NONE
    forward_thread: Long = NONE
    dims: msgspec.Raw = NOTHING
    dims_before: msgspec.Raw = NOTHING
    flops: Long = NONE
    bytes: Long = NONE
    size: Long | str = NONE  # of ROCm, at the call that copies
    device: Long = NONE
    allocation: Long | None = None
    allocated: Long | None = None
    reserved: Long | None = None
    device_id: Long = NONE
    device_type: Long = 0
    # What our own exports say; in other files anything may stand there.
    layer: msgspec.Raw = NOTHING
    phase: msgspec.Raw = NOTHING
    kind: msgspec.Raw = NOTHING
    step: msgspec.Raw = NOTHING
    own_allocated: msgspec.Raw = NOTHING
    warmup: msgspec.Raw = NOTHING
    traced: msgspec.Raw = NOTHING
    waited_ns: msgspec.Raw = NOTHING
    mark: msgspec.Raw = NOTHING
    end_mark: msgspec.Raw = NOTHING
    shapes: msgspec.Raw = NOTHING
    samples: msgspec.Raw = NOTHING
    loss: msgspec.Raw = NOTHING


class Event(msgspec.Struct, gc=False):
    """Event of a trace; times as written."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Long | str = NONE
    tid: Long | str = NONE
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: Arguments = msgspec.field(default_factory=Arguments)


class Counted(msgspec.Struct, gc=False):
    """Values of a counter event (phase "C") by name."""

    ph: str = ""
    args: Any = None


@dataclass(frozen=True, kw_only=True)
class Block:
    """Events that stand one behind the other.

    Attributes:
        events: In the order of the file.
        counted: Values of the counter events among them, by place.
        damaged: How many texts were no events.
    """

    events: Sequence[Event]
    counted: Mapping[int, Mapping[str, Any]]
    damaged: int = 0


_EVENTS = msgspec.json.Decoder(list[Event])
_EVENT = msgspec.json.Decoder(Event)
_COUNTED = msgspec.json.Decoder(list[Counted])
_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
_WHOLE = frozenset(
    name
    for name, value in zip(Arguments.__struct_fields__, Arguments.__struct_defaults__, strict=True)
    if value is not NOTHING
)


def decode(text: bytes) -> Block:
    """Events of a JSON list.

    Raises:
        UndecodableError: It is no list, or one of its events is not as Kineto writes them.
    """
    try:
        events = _EVENTS.decode(text)
        counters = [place for place, event in enumerate(events) if event.ph == "C"]
        values = _COUNTED.decode(text) if counters else []
    except _ERRORS as error:
        raise UndecodableError from error
    return Block(events=events, counted={p: _mapping(values[p].args) for p in counters})


def decode_each(texts: list[bytes]) -> Block:
    """Events of texts of which each may be damaged, or be written by another program."""
    events: list[Event] = []
    counted: dict[int, Mapping[str, Any]] = {}
    damaged = 0
    for text in texts:
        try:
            event = _EVENT.decode(text)
            values = _COUNTED.decode(b"[%b]" % text)[0].args if event.ph == "C" else None
        except _ERRORS:
            loose = _loose(text)
            if loose is None:
                damaged += 1
                continue
            event, values = loose
        if event.ph == "C":
            counted[len(events)] = _mapping(values)
        events.append(event)
    return Block(events=events, counted=counted, damaged=damaged)


def _mapping(values: object) -> Mapping[str, Any]:
    return values if isinstance(values, dict) else {}


def _loose(text: bytes) -> tuple[Event, object] | None:
    """An event with fields of unusual types (NaN, numbers as text, lone surrogates); None: none.

    Numbers keep their digits: they are read as text.
    """
    try:
        document = json.loads(
            text.decode("utf-8", "replace"), parse_int=str, parse_float=str, parse_constant=str
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    given = document.get("args")
    event = Event(
        ph=_text(document.get("ph")),
        cat=_text(document.get("cat")),
        name=_text(document.get("name")),
        pid=_label(document.get("pid")),
        tid=_label(document.get("tid")),
        ts=_raw(document.get("ts")),
        dur=_raw(document.get("dur")),
        args=_arguments(given) if isinstance(given, dict) else Arguments(),
    )
    return event, given


def _arguments(given: Mapping[str, Any]) -> Arguments:
    names = zip(Arguments.__struct_fields__, Arguments.__struct_encode_fields__, strict=True)
    fields: dict[str, Any] = {}
    for name, key in names:
        value = given.get(key)
        if name in _WHOLE and (number := _whole(value)) is not None:
            fields[name] = number
        elif name in ("dims", "dims_before") and isinstance(value, list):
            fields[name] = msgspec.Raw(json.dumps(value).replace('"', "").encode())
    return Arguments(**fields)


def _text(value: object) -> str:
    """A text that can be written as UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _label(value: object) -> int | str:
    number = _whole(value)
    return _text(value) if number is None else number


def _whole(value: object) -> int | None:
    if not isinstance(value, str) or not value.removeprefix("-").isdecimal() or len(value) > 19:
        return None
    number = int(value)
    return number if -LARGEST <= number < LARGEST else None


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(value.encode("utf-8", "replace")) if isinstance(value, str) else NOTHING
