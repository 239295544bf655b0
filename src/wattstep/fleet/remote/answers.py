"""What a board answers: JSON that is checked before anything believes it, and messages without its names."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from wattstep.errors import RecordingError
from wattstep.fleet.remote import Finished
from wattstep.fleet.remote.on_board import ENVIRONMENT, JOB_NAME, KINDS
from wattstep.fleet.remote.wording import inert
from wattstep.training import Progress

UNCLEAR: Final = "the board answers what wattstep does not understand"
STATES: Final = ("running", "finished", "restarted", "died")
HIDDEN: Final = "…"
INT_MOST: Final = 1 << 63  # bytes, numbers of processes, places in files: none is larger
NAME_MOST: Final = 200  # bytes: with what we append, file systems take no more
_PATH: Final = re.compile(r"(?<![\w.~])/[^\s:\"'`,;()]+")

T = TypeVar("T")


def unclear(what: str) -> RecordingError:
    """The error for an answer that cannot be used.

    Args:
        what: Which part of it.
    """
    return RecordingError(f"{UNCLEAR} ({what}): is another program answering for its Python?")


def parse_answer(data: bytes) -> dict[str, Any]:
    """One line of JSON that holds an object.

    Raises:
        RecordingError: It is none.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise unclear("no JSON") from error
    if not isinstance(found, dict):
        raise unclear("no object")
    return found


def part(answer: dict[str, Any], key: str, kind: type[T]) -> T:
    """A part of an answer, of the type that it must have.

    Raises:
        RecordingError: It is missing, or something else.
    """
    value = answer.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise unclear(key)
    if isinstance(value, int) and not -INT_MOST <= value < INT_MOST:
        raise unclear(key)
    return value


def one_of(answer: dict[str, Any], key: str, known: Collection[str]) -> str:
    """A word of a few that there are.

    Raises:
        RecordingError: It is another.
    """
    word = part(answer, key, str)
    if word not in known:
        raise unclear(key)
    return word


def texts(answer: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        RecordingError: It is something else.
    """
    found = part(answer, key, list)
    if not all(isinstance(each, str) for each in found):
        raise unclear(key)
    return tuple(found)


def path(answer: dict[str, Any], key: str) -> str:
    """A path there, which can stand in a command.

    Raises:
        RecordingError: It is something else.
    """
    return _usable(part(answer, key, str), key)


def paths(answer: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of such paths.

    Raises:
        RecordingError: It is something else.
    """
    return tuple(_usable(each, key) for each in texts(answer, key))


def _usable(name: str, key: str) -> str:
    try:
        os.fsencode(name)
    except UnicodeEncodeError as error:
        raise unclear(key) from error
    if "\0" in name:
        raise unclear(key)
    return name


def parse_progress(answer: dict[str, Any]) -> Progress:
    """Where a job is, as `there` wrote it.

    Raises:
        RecordingError: It is something else.
    """
    try:
        told = Progress(**part(answer, "progress", dict))
        share, _ = float(told.share), float(told.loss or 0.0)  # a loss need not be finite
    except (TypeError, ValueError, OverflowError) as error:
        raise unclear("progress") from error
    known = (told.stage, str), (told.said, str), (told.steps, int)
    numbers = all(type(each) in (int, float, type(None)) for each in (told.share, told.loss))
    if not numbers or not all(type(each) is kind for each, kind in known) or math.isnan(share):
        raise unclear("progress")
    if not 0 <= told.steps < INT_MOST:
        raise unclear("progress")
    share = min(max(share, 0.0), 1.0)
    return replace(told, share=share, stage=inert(told.stage), said=inert(told.said))


def parse_job(told: Any) -> dict[str, Any]:
    """What one job is, as `on_board.job` has it.

    Raises:
        RecordingError: It is something else, or has a name that leads elsewhere.
    """
    if not isinstance(told, dict):
        raise unclear("jobs")
    name, run = part(told, "id", str), part(told, "run", str)
    if not JOB_NAME.fullmatch(name) or not is_plain(name) or (run and not is_plain(run)):
        raise unclear("jobs")
    return {
        "id": name,
        "title": inert(part(told, "title", str)),
        "kind": one_of(told, "kind", KINDS),
        "run": run,
        "state": one_of(told, "state", STATES),
        "recorded": part(told, "recorded", bool),
    }


def parse_diagnosis(found: dict[str, Any]) -> dict[str, Any]:
    """What `doctor` shows of a board; as `diagnosis.diagnose` has it.

    Raises:
        RecordingError: It is something else.
    """
    try:
        _check_diagnosis(found)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise unclear("found") from error
    return found


def _check_diagnosis(found: dict[str, Any]) -> None:
    device, total = found["device"], found["total"]
    facts = [device.get(key) for key in ("model", "cpu", "system", "kernel", "sensors_of")]
    _check_texts(*facts, *found["notes"], *(total[key] for key in ("source", "status", "note")))
    _check_numbers(device["cores"], device.get("memory"), found["disk_bytes_an_hour"])
    if device.get("virtual") not in (True, False, None):
        raise ValueError("virtual")
    for sensor in found["sensors"]:
        _check_texts(sensor["name"], sensor["reason"], str(sensor["present"]))
        for row in sensor["channels"]:
            _check_texts(row["name"], row["unit"], row.get("note"))
            numbers = ("value", "resolution_seen", "update_interval", "read_cost")
            _check_numbers(*(row[key] for key in numbers))
    for thing in found["sampler"].values():
        if not isinstance(thing, str):
            _check_texts(thing["unit"])
            _check_numbers(thing["value"])


def _check_texts(*values: object) -> None:
    if not all(value is None or isinstance(value, str) for value in values):
        raise TypeError("no text")


def _check_numbers(*values: Any) -> None:
    for value in values:
        if value is not None and not math.isfinite(value):
            raise ValueError("no number")


def parse_installed(answer: dict[str, Any]) -> tuple[str, ...]:
    """Names of environments of ours.

    Raises:
        RecordingError: One is none.
    """
    found = texts(answer, "installed")
    if not all(ENVIRONMENT.fullmatch(name) for name in found):
        raise unclear("installed")
    return found


def is_plain(name: str) -> bool:
    """Whether it names something in a folder, and leads nowhere else."""
    plain = name not in ("", ".", "..") and Path(name).name == name and name.isprintable()
    return plain and len(os.fsencode(name)) <= NAME_MOST


def said(finished: Finished) -> str:
    """What a command there complained of, as a person may see it, without the board's paths."""
    return _PATH.sub(HIDDEN, finished.last_error)


def nameless(value: Any, *names: str) -> Any:
    """Texts without the given folders of a board, be they in lists or dicts.

    Args:
        value: Anything that JSON holds.
        *names: Folders, the longest first; "" and "/" are none.
    """
    if isinstance(value, str):
        for name in names:
            if name.strip("/"):
                value = re.sub(rf"{re.escape(name)}(?![\w.-])", HIDDEN, value)
        return value
    if isinstance(value, dict):
        return {key: nameless(each, *names) for key, each in value.items()}
    return [nameless(each, *names) for each in value] if isinstance(value, list | tuple) else value
