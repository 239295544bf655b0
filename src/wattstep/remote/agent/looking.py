"""Result of `wattstep_agent.py look`: checked, and laid out as a tree that sensors can look at."""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import json
import os
import posixpath
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.record.sensors import PASSING
from wattstep.remote.agent.layout import LOOK_FORMAT, MOST_FILE_BYTES, MOST_FILES

MOST_BYTES = 64 << 20  # of the whole document
MOST_LINKS = 100_000
AGAIN = "make it again there: python3 wattstep_agent.py look > look.json"


@dataclass(frozen=True, kw_only=True)
class Look:
    """The small files of a board that sensors look at.

    Attributes:
        pid: The process whose own files stand for the training's.
        python: Version of the board's Python.
        machine: Its architecture, as `uname -m` says.
        release: Of its kernel.
        page_size: In B.
        clock_ticks: A second, in /proc/stat.
        files: Contents by path; no link is on the way.
        links: Path to path.
        unreadable: Error number by path.
        left_out: Number of files that were not copied, by reason.
        commands: Names of commands that sensors would run, and the agent does not.
    """

    pid: int
    python: str
    machine: str
    release: str
    page_size: int
    clock_ticks: int
    files: Mapping[str, bytes]
    links: Mapping[str, str]
    unreadable: Mapping[str, int]
    left_out: Mapping[str, int]
    commands: tuple[str, ...] = ()


def parse_look(data: bytes) -> Look:
    """Reads what the agent printed.

    Raises:
        InvalidValueError: It is something else, or a part of it.
    """
    if len(data) > MOST_BYTES:
        raise InvalidValueError(f"a look has at most {MOST_BYTES >> 20} MiB: this is none; {AGAIN}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(
            f"this is no look at a board, or half of one; {AGAIN}", id="damaged-look"
        ) from error
    if not isinstance(document, dict) or document.get("format") != LOOK_FORMAT:
        raise InvalidValueError(
            f"this is no look at a board ({LOOK_FORMAT!r} is missing); {AGAIN}", id="damaged-look"
        )
    try:
        _check_counts(document)
        return Look(
            pid=_positive(document["pid"]),
            python=_text(document["python"]),
            machine=_text(document["machine"]),
            release=_text(document["release"]),
            page_size=_positive(document["page_size"]),
            clock_ticks=_positive(document["clock_ticks"]),
            files={_path(path): _contents(text) for path, text in document["files"].items()},
            links={_path(path): _path(target) for path, target in document["links"].items()},
            unreadable={_path(p): _positive(code) for p, code in document["unreadable"].items()},
            left_out={_text(why): _positive(count) for why, count in document["left_out"].items()},
            commands=tuple(posixpath.basename(_text(name)) for name in document["commands"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error) as error:
        raise InvalidValueError(
            f"the look at the board is garbled ({error}); {AGAIN}", id="damaged-look"
        ) from error


def _check_counts(document: Mapping[str, Any]) -> None:
    for name, most in (("files", MOST_FILES), ("links", MOST_LINKS), ("unreadable", MOST_LINKS)):
        if len(document[name]) > most:
            raise ValueError(f"it has more than {most} {name}")


def _contents(value: Any) -> bytes:
    data = base64.b64decode(_text(value), validate=True)
    if len(data) > MOST_FILE_BYTES:
        raise ValueError(f"a file is longer than {MOST_FILE_BYTES} bytes")
    return data


def _positive(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise ValueError(f"{value!r} is no positive number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    value.encode()  # half of a surrogate pair is a ValueError as well
    return value


def _path(value: Any) -> str:
    """A path below the root: what another machine sends decides nothing about places here."""
    text = _text(value)
    if not text.startswith("/") or posixpath.normpath(text) != text or "\0" in text or text == "/":
        raise ValueError(f"{text[:80]!r} is no path")
    return text


@contextlib.contextmanager
def board_tree(look: Look) -> Iterator[Path]:
    """A context: the board's files below a folder of their own, removed afterwards.

    None of them can be executed: what another machine sends is looked at, never run.

    A file that cannot be read now, but may be later, becomes a socket, which fails in such a way
    when it is opened; one that never can is a folder.

    Raises:
        InvalidValueError: Files and links contradict each other.
    """
    with tempfile.TemporaryDirectory(prefix="wattstep-board-") as made:
        root = Path(made).resolve()
        try:
            _fill(root, look)
        except OSError as error:
            raise InvalidValueError(
                f"the look at the board contradicts itself ({error.strerror}); {AGAIN}",
                id="damaged-look",
            ) from error
        yield root


def _fill(root: Path, look: Look) -> None:
    for path, data in look.files.items():
        copy = _made(root, path)
        copy.write_bytes(data)
        copy.chmod(0o600)
    for path, code in look.unreadable.items():
        copy = _made(root, path)
        if code in PASSING:
            os.mknod(copy, stat.S_IFSOCK | 0o600)
        else:
            copy.mkdir(exist_ok=True)
    # Last, so that no file was written through one.
    for path, target in look.links.items():
        if (root / path[1:]).is_dir() and not any((root / path[1:]).iterdir()):
            (root / path[1:]).rmdir()
        _made(root, path).symlink_to(root / target[1:])


def _made(root: Path, path: str) -> Path:
    """The place of a path, with the folders above it; none of them leads out of the root."""
    target = root / path[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(root):
        raise OSError(errno.EINVAL, "a link leads out of the tree")
    return target
