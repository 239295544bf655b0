"""What a board answers: JSON that is checked before anything believes it, and messages without its names."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, TypeVar

from wattstep.errors import RecordingError
from wattstep.fleet.remote import Finished
from wattstep.fleet.remote.on_board import ENVIRONMENT, JOB_NAME, KINDS

UNCLEAR: Final = "the board answers what wattstep does not understand"
STATES: Final = ("running", "finished", "restarted", "died")
HIDDEN: Final = "…"
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
        "title": part(told, "title", str),
        "kind": one_of(told, "kind", KINDS),
        "run": run,
        "state": one_of(told, "state", STATES),
        "recorded": part(told, "recorded", bool),
    }


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
    return name not in ("", ".", "..") and Path(name).name == name and name.isprintable()


def said(finished: Finished) -> str:
    """What a command there complained of, without the board's paths."""
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
