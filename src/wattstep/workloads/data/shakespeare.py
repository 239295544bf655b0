"""Text in windows of characters: Shakespeare from disk, or Python's own source text in its place."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import Samples, describe, folders, read_bytes

NAME = "Shakespeare"
FILES = ("input.txt", "shakespeare.txt")
WINDOW = 128
# 7-bit ASCII, whatever the text: the model is the same for the official text and the stand-in.
CHARACTERS = 128
STAND_IN_LENGTH = 500_000


def read_text(data_dir: Path | None) -> Samples:
    """Windows (N, 128) of characters; the targets (N, 128) are the same, one character on.

    Raises:
        InvalidValueError: The text is there, but cannot be read.
    """
    path = _find(data_dir)
    return _stand_in() if path is None else _official(path)


def _find(data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    candidates = (folder / name for folder in folders(data_dir) for name in FILES)
    return next((path for path in candidates if path.is_file()), None)


def _official(path: Path) -> Samples:
    content = read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{path}: not text in UTF-8 ({error})") from error
    if "\0" in text or len(text) <= WINDOW:
        raise InvalidValueError(f"{path}: not a text of more than {WINDOW} characters")
    return _cut(text, name=NAME, stands_for=None)


def _stand_in() -> Samples:
    folder = Path(sysconfig.get_path("stdlib"))
    text = "".join(_sources(folder))
    if len(text) <= WINDOW:
        raise InvalidValueError(
            f"{folder}: this Python comes without source text; "
            f"give a folder with Shakespeare as {FILES[0]} (--data)"
        )
    return _cut(
        text,
        name=f"source text of the standard library of Python {platform.python_version()}",
        stands_for=NAME,
    )


def _sources(folder: Path) -> Iterator[str]:
    """Modules in the order of their names, the last one cut, 500,000 characters in all."""
    left = STAND_IN_LENGTH
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")[:left]
        left -= len(text)
        yield text
        if not left:
            return


def _cut(text: str, *, name: str, stands_for: str | None) -> Samples:
    characters = np.frombuffer(text.encode("ascii", errors="replace"), np.uint8).copy()
    length = (len(characters) - 1) // WINDOW * WINDOW
    return describe(
        name=name,
        inputs=characters[:length].reshape(-1, WINDOW),
        targets=characters[1 : length + 1].reshape(-1, WINDOW),
        stands_for=stands_for,
    )
