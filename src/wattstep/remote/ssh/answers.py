"""Answers of a board: JSON that is checked before anything believes it, and messages without its names."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from wattstep.errors import RecordingError
from wattstep.remote.ssh import Finished
from wattstep.remote.ssh.bootstrap import ENVIRONMENT, JOB_NAME, KINDS
from wattstep.remote.ssh.wording import inert
from wattstep.schema.diagnosis import Diagnosis
from wattstep.train.progress import Progress

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
    return RecordingError(
        f"{UNCLEAR} ({what}): is another program answering for its Python?", id="unclear-answer"
    )


def parse_answer(data: bytes) -> dict[str, Any]:
    """Reads a line of JSON that holds an object.

    Raises:
        RecordingError: It is none.
    """
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise unclear("no JSON") from error
    if not isinstance(answer, dict):
        raise unclear("no object")
    return answer


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
    values = part(answer, key, list)
    if not all(isinstance(each, str) for each in values):
        raise unclear(key)
    return tuple(values)


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
    """Reads the progress of a job, as `remote_entry` wrote it.

    Raises:
        RecordingError: It is something else.
    """
    try:
        progress = Progress(**part(answer, "progress", dict))
        share, _ = float(progress.share), float(progress.loss or 0.0)  # a loss need not be finite
    except (TypeError, ValueError, OverflowError) as error:
        raise unclear("progress") from error
    known = (progress.stage, str), (progress.said, str), (progress.steps, int)
    numbers = all(
        type(each) in (int, float, type(None)) for each in (progress.share, progress.loss)
    )
    if not numbers or not all(type(each) is kind for each, kind in known) or math.isnan(share):
        raise unclear("progress")
    if not 0 <= progress.steps < INT_MOST:
        raise unclear("progress")
    share = min(max(share, 0.0), 1.0)
    return replace(progress, share=share, stage=inert(progress.stage), said=inert(progress.said))


@dataclass(frozen=True, kw_only=True)
class BoardJob:
    """A job on a board, as a list of them shows it.

    Attributes:
        id: Its name there.
        title: In words.
        kind: "train", "measure", "profile" or "diagnose".
        run: Name of its run; "" for none.
        state: "running", "finished", "restarted" or "died".
        recorded: True if its run is there.
    """

    id: str
    title: str
    kind: str
    run: str
    state: str
    recorded: bool


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """End of a job.

    Attributes:
        state: "finished", "restarted" or "died".
        ending: What the job wrote at its end; empty where it wrote nothing.
    """

    state: str
    ending: dict[str, Any]


def parse_end(answer: dict[str, Any]) -> JobEnd:
    """Checks the last line of a job that is followed.

    Raises:
        RecordingError: It is something else.
    """
    return JobEnd(state=one_of(answer, "state", STATES), ending=part(answer, "ending", dict))


def parse_job(answer: Any) -> BoardJob:
    """Checks the description of a job, as `bootstrap.job` has it.

    Raises:
        RecordingError: It is something else, or has a name that leads elsewhere.
    """
    if not isinstance(answer, dict):
        raise unclear("jobs")
    name, run = part(answer, "id", str), part(answer, "run", str)
    if not JOB_NAME.fullmatch(name) or not is_plain(name) or (run and not is_plain(run)):
        raise unclear("jobs")
    return BoardJob(
        id=name,
        title=inert(part(answer, "title", str)),
        kind=one_of(answer, "kind", KINDS),
        run=run,
        state=one_of(answer, "state", STATES),
        recorded=part(answer, "recorded", bool),
    )


def parse_diagnosis(diagnosis: dict[str, Any]) -> Diagnosis:
    """Checks the findings of `doctor` on a board, as `train.doctor.diagnose` has them.

    Raises:
        RecordingError: It is something else.
    """
    try:
        _check_diagnosis(diagnosis)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise unclear("found") from error
    return cast(Diagnosis, diagnosis)


def _check_diagnosis(diagnosis: dict[str, Any]) -> None:
    device, total = diagnosis["device"], diagnosis["total"]
    facts = [device.get(key) for key in ("model", "cpu", "system", "kernel", "sensors_of")]
    _check_texts(
        *facts,
        *("" + note for note in diagnosis["notes"]),
        *(total[key] for key in ("source", "status", "note")),
    )
    _check_numbers(device["cores"], device.get("memory"), diagnosis["disk_bytes_an_hour"])
    if device.get("virtual") not in (True, False, None):
        raise ValueError("virtual")
    for sensor in diagnosis["sensors"]:
        # None of it is None: it is put together with other words.
        _check_texts(
            sensor["name"] + sensor["description"], sensor["reason"], str(sensor["present"])
        )
        for row in sensor["channels"]:
            _check_texts(row["name"], row["unit"], row.get("note"))
            numbers = ("value", "resolution_seen", "update_interval", "read_cost")
            _check_numbers(*(row[key] for key in numbers))
    for thing in diagnosis["sampler"].values():
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
    names = texts(answer, "installed")
    if not all(ENVIRONMENT.fullmatch(name) for name in names):
        raise unclear("installed")
    return names


def is_plain(name: str) -> bool:
    """True if it names something in a folder, and leads nowhere else."""
    plain = name not in ("", ".", "..") and Path(name).name == name and name.isprintable()
    return plain and len(os.fsencode(name)) <= NAME_MOST


def complaint(finished: Finished) -> str:
    """Complaint of a command there, as a person may see it, without the board's paths."""
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
