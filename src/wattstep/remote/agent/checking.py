"""Checks what a recording of the agent says: it comes from another machine, and may be garbled or made up."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wattstep.schema.checks import (
    INT32,
    INT64,
    Check,
    listed,
    mapping,
    named,
    number,
    one_of,
    or_none,
    record,
    shown,
    whole,
    yes_no,
)
from wattstep.schema.run_checks import CHANNEL, WITH_DEFAULT
from wattstep.store.folder import read_plain

MOST_TEXT: Final = 20_000  # characters
MOST_TIME_NS: Final = 1 << 61  # differences of two such times are int64
UINT32: Final = (1 << 32) - 1
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"


def read_bytes(path: Path, most: int) -> bytes:
    """Content of a small file.

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


def text(value: Any) -> str:
    """A text; what cannot be printed or written in UTF-8 (a script's name may be such) is replaced.

    Raises:
        ValueError: It is none, or too long.
    """
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise ValueError(f"{shown(value)} is no text of at most {MOST_TEXT} characters")
    if value.isprintable():
        return value
    words = value.replace("\n", " ").replace("\t", " ")
    return "".join(letter if letter.isprintable() else _REPLACED for letter in words)


def time_ns(value: Any) -> int:
    """A time in ns.

    Raises:
        ValueError: It is none, or lies further away than any clock can.
    """
    return int(whole(-MOST_TIME_NS, MOST_TIME_NS)(value))


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
        checked[name] = named(name, check, document[name])
    return checked


def _interval(value: Any) -> float:
    seconds = number(value)
    if not 1e-6 <= seconds <= 1e6:
        raise ValueError(f"{shown(value)} is no interval between samples")
    return seconds


def _pair_of_clocks(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{shown(value)} is no pair of times")
    # The wall clock less the monotonic one: further away than a time, and never calculated with.
    return [time_ns(value[0]), whole(-INT64, INT64)(value[1])]


def _device(value: Any) -> dict[str, Any]:
    """The facts of the device that reports put into words; others are left out."""
    given = mapping(lambda fact: fact, text)(value)
    checked = {n: named(n, or_none(_DEVICE[n]), given[n]) for n in given.keys() & _DEVICE.keys()}
    return {name: checked[name] for name in _DEVICE if name in checked}


def _reads(value: Any) -> list[Any]:
    reads: list[Any] = listed(record(_READ))(value)
    numbers = [read["number"] for read in reads]
    names = [channel["name"] for read in reads for channel in read["channels"]]
    if len(set(numbers)) != len(numbers) or len(set(names)) != len(names):
        raise ValueError("two of them have the same number or name")
    if not all(read["channels"] for read in reads):
        raise ValueError("one of them gives no channel")
    return reads


_WORDS: Final[Mapping[str, Check]] = dict.fromkeys(("name", "unit", "role", "source", "note"), text)
_READ: Final[Mapping[str, Check]] = {
    "number": whole(0, 99_999),
    "sensor": text,
    "path": text,
    "parser": text,
    "every": whole(1, INT32),
    "channels": listed(record({**CHANNEL, **_WORDS}, WITH_DEFAULT)),
}
_LOOK: Final[Mapping[str, Check]] = {
    "at_ns": time_ns,
    "compute_s": listed(number),
    "memory_s": listed(number),
    "right": yes_no,
}
_CANARY: Final[Mapping[str, Check]] = {
    "version": whole(0, INT32),
    "kind": text,
    "before": record(_LOOK),
    "after": record(_LOOK),
}
_LATER: Final = ("canary",)  # what agents of the first versions do not write
_CLUSTER: Final[Mapping[str, Check]] = {
    "kind": text,
    "cores": listed(whole(0, INT32)),
    "max_hz": or_none(number),
}
_DEVICE: Final[Mapping[str, Check]] = {
    "model": text,
    "board": text,
    "cpu": text,
    "architecture": text,
    "cores": whole(0, INT32),
    "clusters": listed(record(_CLUSTER)),
    "governors": mapping(text, text),
    "power_mode": text,
    "memory": whole(0, 1 << 62),
    "kernel": text,
    "system": text,
    "virtual": yes_no,
    "hypervisor": text,
}
_FIELDS: Final[Mapping[str, Check]] = {
    "state": one_of("recording", "closed"),
    "created": text,
    "title": text,
    "python": text,
    "torch": or_none(text),
    "threads": or_none(whole(1, INT32)),
    "interval_s": _interval,
    "warmup": whole(0, INT32),
    "trace": text,
    "scheduling": text,
    "clocks": listed(_pair_of_clocks),
    "notes": listed(text),
    "lost": mapping(time_ns, text),
    "canary": record(_CANARY, optional=_CANARY),
    "device": _device,
    "absent": mapping(text, text),
    "reads": _reads,
}
