"""Text in windows of characters: Shakespeare from disk, or Python's own source text in its place."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import Bytes, Samples, describe, find_file, read_bytes
from wattstep.workloads.data.words import byte_tokens

NAME = "Shakespeare"
FILES = ("input.txt", "shakespeare.txt")
WINDOW = 128
# 7-bit ASCII, whatever the text: the model is the same for the official text and the stand-in.
CHARACTERS = 128
STAND_IN_LENGTH = 500_000


def read_text(data_dir: Path | None, window: int = WINDOW) -> Samples:
    """Windows (N, window) of characters; the targets (N, window) are the same, one character on.

    The last tenth of the text, of the official one as of the stand-in, is held out.

    Raises:
        InvalidValueError: The text is there, but cannot be read, or is too short.
    """
    path = None if data_dir is None else find(data_dir)
    return _stand_in(window) if path is None else _official(path, window)


def find(data_dir: Path) -> Path | None:
    """The file with the text, or None; as the catalogue asks for it.

    Raises:
        InvalidValueError: `data_dir` is no folder.
    """
    return find_file(data_dir, *FILES)


def _official(path: Path, window: int) -> Samples:
    content = read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{path}: not text in UTF-8 ({error})", id="not-utf8") from error
    if "\0" in text:
        raise InvalidValueError(f"{path}: not a text, it holds bytes of 0", id="not-a-text")
    return _split(text, path=path, name=NAME, stands_for=None, window=window)


def _stand_in(window: int) -> Samples:
    folder = Path(sysconfig.get_path("stdlib"))
    text = "".join(_sources(folder))
    if not text:
        raise InvalidValueError(
            f"{folder}: this Python comes without source text; "
            f"give a folder with Shakespeare as {FILES[0]} (--data)"
        )
    name = f"source text of the standard library of Python {platform.python_version()}"
    return _split(text, path=folder, name=name, stands_for=NAME, window=window)


def _sources(folder: Path) -> Iterator[str]:
    """Modules in the order of their names, the last one cut, 500,000 characters in all."""
    left = STAND_IN_LENGTH
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")[:left]
        left -= len(text)
        yield text
        if not left:
            return


def _split(text: str, *, path: Path, name: str, stands_for: str | None, window: int) -> Samples:
    characters = np.frombuffer(text.encode("ascii", errors="replace"), np.uint8).copy()
    count = len(characters) - len(characters) // 10
    inputs, targets = cut_windows(characters[:count], window)
    if not len(inputs):
        raise InvalidValueError(
            f"{path}: {len(characters)} characters, the last tenth of which is held out, "
            f"do not fill a window of {window}",
            id="text-too-short",
        )
    held_out = cut_windows(characters[count:], window)
    return describe(
        name=name, inputs=inputs, targets=targets, held_out=held_out, stands_for=stands_for
    )


def read_byte_tokens(data_dir: Path | None, *, held_out: int) -> Samples:
    """As `read_text`, in GPT-2's tokens of single bytes (N, 128).

    Longer tokens need a file of merges, which would have to be downloaded.

    Args:
        data_dir: Likewise.
        held_out: Windows to judge by, at most: each has 128 × 50,257 scores, 26 MB.

    Raises:
        InvalidValueError: The file is there, but cannot be read.
    """
    text, tokens = read_text(data_dir), byte_tokens()
    judged = text.held_out_inputs[:held_out], text.held_out_targets[:held_out]
    return describe(
        name=f"{text.facts.name}, in GPT-2's tokens of bytes",
        inputs=tokens[text.inputs],
        targets=tokens[text.targets],
        held_out=(tokens[judged[0]], tokens[judged[1]]),
        stands_for=text.facts.stands_for,
    )


def cut_windows(characters: Bytes, window: int) -> tuple[Bytes, Bytes]:
    """Windows (N, window) side by side, and the same one character on; a rest is left out."""
    length = max(0, len(characters) - 1) // window * window
    return (
        characters[:length].reshape(-1, window),
        characters[1 : length + 1].reshape(-1, window),
    )
