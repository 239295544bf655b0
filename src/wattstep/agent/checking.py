"""Checks what a recording of the agent says: it comes from another machine, and may be garbled or made up."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, get_args

from wattstep.records.channel import Channel, Domain, Kind, Origin
from wattstep.store.folder import read_plain

MOST_TEXT: Final = 20_000  # characters
MOST_NUMBER: Final = 1e30  # no scale, limit or resolution of a sensor is beyond it
MOST_TIME_NS: Final = 1 << 61  # differences of two such times are int64
INT32: Final = (1 << 31) - 1
UINT32: Final = (1 << 32) - 1
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"

Check = Callable[[Any], Any]


def read_bytes(path: Path, most: int) -> bytes:
    """What a small file holds.

    Raises:
        ValueError: It is longer than that, a link or no file.
        OSError: It cannot be read.
    """
    try:
        return read_plain(path, most)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.EFBIG):
            raise ValueError(str(error.strerror)) from error
        raise


def parse_json(data: bytes) -> Any:
    """JSON of another machine.

    Raises:
        ValueError: It is none, or nested without end.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def text(value: Any) -> str:
    """A text; what cannot be printed or written in UTF-8 (a script's name may be such) is replaced.

    Raises:
        ValueError: It is none, or too long.
    """
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise ValueError(f"{_shown(value)} is no text of at most {MOST_TEXT} characters")
    if value.isprintable():
        return value
    words = value.replace("\n", " ").replace("\t", " ")
    return "".join(letter if letter.isprintable() else _REPLACED for letter in words)


def whole(value: Any, least: int, most: int) -> int:
    """A whole number within limits.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{_shown(value)} is no whole number from {least} to {most}")
    return value


def time_ns(value: Any) -> int:
    """A time in ns.

    Raises:
        ValueError: It is none, or lies further away than any clock can.
    """
    return whole(value, -MOST_TIME_NS, MOST_TIME_NS)


def number(value: Any) -> float:
    """A finite number.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_shown(value)} is no number")
    if not -MOST_NUMBER <= value <= MOST_NUMBER:  # also where it is NaN
        raise ValueError(f"{_shown(value)} is no finite number of a sensor")
    return float(value)


def mapping(value: Any, check: Check) -> dict[str, Any]:
    """A mapping of texts to what a check lets through.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is no mapping")
    return {text(key): check(entry) for key, entry in value.items()}


def listed(value: Any, check: Check) -> list[Any]:
    """A list of what a check lets through.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is no list")
    return [check(entry) for entry in value]


def check_description(document: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's description of a recording, field by field.

    Returns:
        The fields that a run takes from it, and nothing else.

    Raises:
        ValueError: A field is missing or garbled; the message names it.
    """
    checked = {}
    for name, check in _FIELDS.items():
        if name not in document:
            if name in _LATER:
                continue
            raise ValueError(f"{name} is missing")
        try:
            checked[name] = check(document[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return checked


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, list | dict) else ascii(value)[:60]


def _or_none(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _one_of(*known: str) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{_shown(value)} is none of {', '.join(known)}")
        return value

    return check


def _interval(value: Any) -> float:
    seconds = number(value)
    if not 1e-6 <= seconds <= 1e6:
        raise ValueError(f"{_shown(value)} is no interval between samples")
    return seconds


def _pair_of_clocks(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{_shown(value)} is no pair of times")
    # The wall clock less the monotonic one: further away than a time, and never calculated with.
    return [time_ns(value[0]), whole(value[1], -(1 << 63), (1 << 63) - 1)]


def _device(value: Any) -> dict[str, Any]:
    """The facts of the device that reports put into words; others are left out."""
    facts = mapping(value, lambda fact: fact)
    checked = {}
    for name in facts.keys() & _DEVICE.keys():
        try:
            checked[name] = _or_none(_DEVICE[name])(facts[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return {name: checked[name] for name in _DEVICE if name in checked}


def _yes_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def _reads(value: Any) -> list[Any]:
    reads = listed(value, _read)
    numbers = [read["number"] for read in reads]
    names = [channel["name"] for read in reads for channel in read["channels"]]
    if len(set(numbers)) != len(numbers) or len(set(names)) != len(names):
        raise ValueError("two of them have the same number or name")
    return reads


def _read(value: Any) -> dict[str, Any]:
    read = _record(value, _READ)
    if not read["channels"]:
        raise ValueError("one of them gives no channel")
    return read


def _channel(value: Any) -> dict[str, Any]:
    return _record(value, _CHANNEL, optional=_WITH_DEFAULT)


def _cluster(value: Any) -> dict[str, Any]:
    return _record(value, _CLUSTER)


def _canary(value: Any) -> dict[str, Any]:
    return _record(value, _CANARY, optional=_CANARY)


def _look_at_machine(value: Any) -> dict[str, Any]:
    return _record(value, _LOOK)


def _scale(value: Any) -> float:
    scale = number(value)
    if scale == 0:
        raise ValueError("a scale of 0 tells nothing")
    return scale


def _record(
    value: Any, checks: Mapping[str, Check], optional: Collection[str] = ()
) -> dict[str, Any]:
    """A mapping with these entries and no others; optional ones may be missing."""
    if not isinstance(value, dict) or not value.keys() <= checks.keys():
        raise ValueError(f"{_shown(value)} is no mapping of {', '.join(checks)}")
    if missing := checks.keys() - value.keys() - set(optional):
        raise ValueError(f"{sorted(missing)[0]} is missing")
    return {name: checks[name](entry) for name, entry in value.items()}


_CHANNEL: Final[Mapping[str, Check]] = {
    "name": text,
    "unit": text,
    "kind": _one_of(*get_args(Kind)),
    "domain": _one_of(*get_args(Domain)),
    "role": text,
    "source": text,
    "scale": _scale,
    "wrap": _or_none(lambda value: whole(value, 1, 1 << 64)),
    "core": _or_none(lambda value: whole(value, 0, INT32)),
    "resolution": _or_none(number),
    "status": _one_of(*get_args(Origin)),
    "window_s": _or_none(number),
    "observed_share": _or_none(number),
    "limit": _or_none(number),
    "note": text,
}
_WITH_DEFAULT: Final = frozenset(
    field.name for field in fields(Channel) if field.default is not MISSING
)
_READ: Final[Mapping[str, Check]] = {
    "number": lambda value: whole(value, 0, 99_999),
    "sensor": text,
    "path": text,
    "parser": text,
    "every": lambda value: whole(value, 1, INT32),
    "channels": lambda value: listed(value, _channel),
}
_LOOK: Final[Mapping[str, Check]] = {
    "at_ns": time_ns,
    "compute_s": lambda value: listed(value, number),
    "memory_s": lambda value: listed(value, number),
    "right": _yes_no,
}
_CANARY: Final[Mapping[str, Check]] = {
    "version": lambda value: whole(value, 0, INT32),
    "kind": text,
    "before": _look_at_machine,
    "after": _look_at_machine,
}
_LATER: Final = ("canary",)  # what agents of the first versions do not write
_CLUSTER: Final[Mapping[str, Check]] = {
    "kind": text,
    "cores": lambda value: listed(value, lambda core: whole(core, 0, INT32)),
    "max_hz": _or_none(number),
}
_DEVICE: Final[Mapping[str, Check]] = {
    "model": text,
    "board": text,
    "cpu": text,
    "architecture": text,
    "cores": lambda value: whole(value, 0, INT32),
    "clusters": lambda value: listed(value, _cluster),
    "governors": lambda value: mapping(value, text),
    "power_mode": text,
    "memory": lambda value: whole(value, 0, 1 << 62),
    "kernel": text,
    "system": text,
    "virtual": _yes_no,
    "hypervisor": text,
}
_FIELDS: Final[Mapping[str, Check]] = {
    "state": _one_of("recording", "closed"),
    "created": text,
    "title": text,
    "python": text,
    "torch": _or_none(text),
    "threads": _or_none(lambda value: whole(value, 1, INT32)),
    "interval_s": _interval,
    "warmup": lambda value: whole(value, 0, INT32),
    "trace": text,
    "scheduling": text,
    "clocks": lambda value: listed(value, _pair_of_clocks),
    "notes": lambda value: listed(value, text),
    "lost": lambda value: mapping(value, time_ns),
    "canary": _canary,
    "device": _device,
    "absent": lambda value: mapping(value, text),
    "reads": _reads,
}
