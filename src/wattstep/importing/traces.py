"""Formats of traces, known by their contents, and the reading of one."""

from __future__ import annotations

import gzip
import importlib
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.formats.mistaken import UTF16, mistaken
from wattstep.formats.registry import PERFETTO, format_of
from wattstep.formats.trace import Trace

LOOK_BYTES: Final = 1 << 16  # of a file, to tell its format
Progress = Callable[[float], None]


@dataclass(frozen=True, kw_only=True)
class TraceFormat:
    """A format of traces.

    Attributes:
        name: For readers.
        known_by: What its first 64 KiB hold, unpacked; the first format in the list that fits is
            taken.
        read: "module:function" that takes the path, and what is told how far it is (0 to 1).
    """

    name: str
    known_by: re.Pattern[bytes]
    read: str


TRACES: Final = (
    TraceFormat(
        name="ExecuTorch ETDump",
        known_by=re.compile(rb"(?s)\A.{4}(?:.{4})?ED\d\d"),
        read="wattstep.formats.etdump:read",
    ),
    TraceFormat(
        name="nvprof CSV",
        known_by=re.compile(
            rb'(?m)NVPROF is profiling|Profiling result|^"?Time\(%\)"?,"?Time"?,'
            rb'|^"?Start"?,"?Duration"?,'
        ),
        read="wattstep.formats.nvprof:read",
    ),
    TraceFormat(
        name="nsys CSV",
        known_by=re.compile(
            rb"(?m)^[^\n{]*(?:Time ?\(%\),\"?Total|Total Time|Start ?\((?:ns|us|ms|s)\))[^\n]*,"
            rb"|^Total \((?:[kMG]?B)\),Count"
        ),
        read="wattstep.formats.nsys:read",
    ),
    TraceFormat(
        name="Kineto / Chrome JSON",
        known_by=re.compile(rb"\A(?:\xef\xbb\xbf)?\s*(?:\{\s*\"|\[\s*(?:\{|\]|\Z))"),
        read="wattstep.formats.kineto:read",
    ),
    TraceFormat(
        name="Perfetto",
        known_by=re.compile(PERFETTO),
        read="wattstep.formats.perfetto_trace:read",
    ),
)


def read_trace(path: Path, on_progress: Progress | None = None) -> Trace:
    """The operations of a trace, whatever its format.

    Args:
        path: The file.
        on_progress: Told how far it is, from 0 to 1.

    Raises:
        InvalidValueError: It is not there, of no known format, damaged, or empty; with what to do.
    """
    head = _head(path)
    for form in TRACES:
        if form.known_by.search(head):
            module, _, function = form.read.partition(":")
            trace: Trace = getattr(importlib.import_module(module), function)(path, on_progress)
            _refuse_empty(path, form, trace)
            return trace
    raise InvalidValueError(
        f"--trace {path.name}: {_no_trace(path, head)}", id="unknown-trace-format"
    )


def _refuse_empty(path: Path, form: TraceFormat, trace: Trace) -> None:
    """A trace of nothing is a recording that failed, no run."""
    counters = trace.counters is not None and trace.counters.values
    if not (trace.events is not None and len(trace.events)) and not trace.summaries:
        if counters:
            return
        left = ", ".join(f"{reason} ({count:,})" for reason, count in trace.ignored.items())
        raise InvalidValueError(
            f"--trace {path.name}: it ({form.name}) holds no operations"
            f"{f', only what is not read here: {left[:300]}' * bool(left)}: record again, with the "
            "profiler running over some steps",
            id="empty-recording",
        )


def is_trace(path: Path) -> bool:
    """True if a file looks like a trace of operations.

    Raises:
        InvalidValueError: It cannot be read.
    """
    head = _head(path)
    return not mistaken(head) and any(form.known_by.search(head) for form in TRACES)


def _no_trace(path: Path, head: bytes) -> str:
    if not head and not path.stat().st_size:
        return "it is empty"
    if what := mistaken(head):
        return f"it is {what}"
    if head.startswith(UTF16):
        return "it is text in UTF-16, as PowerShell writes it: save it as UTF-8"
    if (form := format_of(head)) is not None:
        return f"it is a log of sensors ({form.name}): give it with --telemetry"
    if _is_cut(path):
        return "its gzip data is cut or damaged: copy it again"
    known = ", ".join(form.name for form in TRACES)
    return f"it is of no known format; there are {known}"


def _head(path: Path) -> bytes:
    """The first bytes of what a file holds, unpacked."""
    try:
        with path.open("rb") as file:
            head = file.read(LOOK_BYTES)
        if not head.startswith(b"\x1f\x8b"):
            return head
        with gzip.open(path) as unpacked:
            return _some(unpacked)
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise InvalidValueError(f"{path}: {words}") from error


def _is_cut(path: Path) -> bool:
    """True for a file packed by gzip whose packing ends or is damaged near its begin."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return False
    try:
        with gzip.open(path) as unpacked:
            unpacked.read(LOOK_BYTES)
    except (OSError, EOFError, zlib.error):
        return True
    return False


def _some(file: gzip.GzipFile) -> bytes:
    """As much of the beginning as is whole."""
    content = b""
    try:
        while len(content) < LOOK_BYTES and (part := file.read1(LOOK_BYTES - len(content))):
            content += part
    except (EOFError, zlib.error):  # cut or damaged further on: its reader says where
        pass
    return content
