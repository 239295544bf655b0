"""Guess of a file's format, for the error about a file of another format."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import FormatError

Parsed = TypeVar("Parsed")

LOOK_BYTES: Final = 4096
MOST_BYTES: Final = 4 << 30  # of a file that is read as a whole, unpacked
GZIP: Final = b"\x1f\x8b"

# The first that fits is named; each with what to do, where something can be done.
_SIGNATURES: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rb"(?s)\A.{4}(?:.{4})?ED\d\d", "an ExecuTorch ETDump"),
        (rb"\ASQLite format 3\0", "an SQLite database: nsys stats --format csv turns it into CSV"),
        (rb"(?s)\A.{0,64}QDSTRM", "a report of nsys: nsys stats --format csv turns it into CSV"),
        (rb"\A\x1f\x8b", "a file packed by gzip"),
        (rb"\APK\x03\x04", "a zip archive: unpack it"),
        (rb"(?i)\A\s*<(?:!doctype\s+html|html)", "a page of HTML"),
        (rb"(?m)NVPROF is profiling|Profiling result:", "CSV of nvprof"),
        (
            rb"(?m)^\"?Time ?\(%\)\"?,\"?Total Time|^[^\n{]{0,200}Start \([mun]?s\)",
            "CSV of nsys",
        ),
        (rb"\bRAM \d+/\d+MB", "a log of tegrastats: give it as telemetry"),
        (rb"(?m)^[^\n{]{0,200}(?:power\.draw|utilization\.gpu)", "CSV of nvidia-smi: telemetry"),
        (rb"\A(?:\xef\xbb\xbf)?\s*(?:\{\s*\"|\[\s*\{)", "JSON, as Kineto and Chrome traces are"),
        (rb"\A(?:\s*#[^\n]*\n)*\s*packet\s*:?\s*\{", "a Perfetto trace in text form"),
        (rb"\A\x0a", "a Perfetto trace"),
    )
)


class BinaryFormatError(FormatError):
    """Bytes that are not of the format, with the place at which they stop being so."""

    id = "malformed-bytes"

    def __init__(self, format_name: str, at: int, problem: str, id: str = "") -> None:
        InvalidValueError.__init__(self, f"byte {at} is no {format_name}: {problem}", id=id)
        self.line = 0


def looks_like(data: bytes) -> str:
    """Guess of a format from the beginning of a file, with the command that reads it."""
    head = data[:LOOK_BYTES]
    if not head.strip(b"\0 \t\r\n"):
        return "an empty file" if not data else "a file of nothing but blanks or zeros"
    for pattern, words in _SIGNATURES:
        if pattern.search(head):
            return words
    text = head.decode(errors="replace")
    readable = sum(letter.isprintable() or letter in "\r\n\t" for letter in text)
    return "some other text" if readable > 0.9 * len(text) else "some other binary file"


def read_whole(
    path: Path, parse: Callable[[bytes], Parsed], on_progress: Callable[[float], None] | None = None
) -> Parsed:
    """Parsed content of a file that is read in one piece; what `whole_file` and `parse` raise."""
    parsed = parse(whole_file(path))
    if on_progress:
        on_progress(1.0)
    return parsed


def whole_file(path: Path) -> bytes:
    """Content of a file, unpacked where it is packed by gzip; at most 4 GiB.

    Raises:
        InvalidValueError: It cannot be read, is cut or damaged within its packing, or too large.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
        with gzip.open(path) if packed else path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidValueError(f"{path.name}: its gzip data is cut or damaged: {error}") from error
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise InvalidValueError(f"{path.name}: {words}") from error
    if len(data) > MOST_BYTES:
        raise InvalidValueError(f"{path.name}: it is larger than {MOST_BYTES >> 30} GiB: cut it")
    return data
