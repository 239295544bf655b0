"""The windows of a recording of the agent: traces of the board's torch, or times by layer, as operations of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wattstep.errors import DamagedRunError, MissingPartError, WattstepError
from wattstep.remote.agent.checking import (
    UINT32,
    read_bytes,
    text,
    time_ns,
)
from wattstep.remote.agent.layer_rows import layer_columns
from wattstep.remote.agent.layout import LAYERS, TRACES, WINDOWS
from wattstep.remote.agent.traces import TraceColumns, read_trace_window
from wattstep.schema.checks import INT32, parse_json, whole

MOST_BYTES: Final = 1 << 30  # of the times by layer of one window
MOST_LISTED: Final = 64 << 20  # bytes of the list of windows
METHODS: Final = ("kineto", "autograd", LAYERS)

Columns = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Traced step, as the agent listed it.

    Attributes:
        number: Counted from 0.
        step: Index of the step.
        method: "kineto", "autograd" or "layers".
        file: Its name in the folder of traces.
        phases: Begin in ns of the monotonic clock, and name.
        dropped: Why it is of no use, or "".
    """

    number: int
    step: int
    method: str
    file: str
    phases: tuple[tuple[int, str], ...]
    dropped: str = ""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Operations and notes of a recording's windows.

    Attributes:
        batches: Columns of operations, a batch a window, in order.
        notes: Notes for the reader of the run.
    """

    batches: tuple[Columns, ...]
    notes: tuple[str, ...]


def read_windows(folder: Path) -> Windows:
    """Reads all windows of a recording; one that cannot be read is left out, with a note.

    Raises:
        DamagedRunError: The list of windows is no such thing.
        MissingPartError: The library that reads traces is not installed.
    """
    batches: list[Columns] = []
    notes: dict[str, None] = {}
    uncertainty_ns = 0
    windows, bad = list_windows(folder)
    if bad:
        notes[
            f"{bad} lines of {WINDOWS} are garbled: the operations of their steps are missing"
        ] = None
    for window in windows:
        if window.dropped:
            notes[f"the traced step {window.step} has no operations: {window.dropped}"] = None
            continue
        path = folder / TRACES / window.file
        try:
            _check_file(path)
            if window.method == LAYERS:
                batches.append(_layer_window(path, window))
                continue
            columns: TraceColumns = read_trace_window(
                path, window.step, window.number, window.phases
            )
        except MissingPartError:  # nothing is wrong with the recording
            raise
        except (WattstepError, OSError, ValueError, OverflowError, RecursionError) as error:
            why = getattr(error, "strerror", None) or str(error)
            notes[f"the trace of step {window.step} is left out: {text(why)}"] = None
            continue
        batches += columns.batches
        uncertainty_ns = max(uncertainty_ns, columns.uncertainty_ns)
        notes.update(dict.fromkeys(columns.notes))
    if uncertainty_ns:
        notes[
            "operations are from traces that the board's torch exported; their clock was mapped to "
            f"that of the samples to ±{max(uncertainty_ns / 1e3, 0.1):.1f} µs"
        ] = None
    if any("by layer" in str(batch.get("method")) for batch in batches):
        notes[
            "operations are layers, timed by events around their forward and backward passes "
            "(no kernel times were to be had); a layer that overlaps another shares its time"
        ] = None
    return Windows(batches=tuple(_numbered(batches)), notes=tuple(notes))


def _numbered(batches: Sequence[Columns]) -> Iterator[Columns]:
    for batch in batches:
        yield {key: value for key, value in batch.items() if key != "method"}


def list_windows(folder: Path) -> tuple[list[Window], int]:
    """The windows that were written to their end, and how many lines are garbled.

    A last line that was cut off is neither: a kill leaves such.

    Raises:
        DamagedRunError: The list is longer than any can be, or no file.
    """
    path = folder / WINDOWS
    if not path.exists():
        return [], 0
    try:
        lines = read_bytes(path, MOST_LISTED).splitlines(keepends=True)
    except ValueError as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from error
    windows: list[Window] = []
    bad = 0
    for line in lines:
        try:
            windows.append(_window(line))
        except (ValueError, TypeError, KeyError):
            bad += line.endswith(b"\n")
    return windows, bad


def _window(line: bytes) -> Window:
    """Reads a line of the list.

    Raises:
        ValueError: It is garbled; or TypeError, KeyError.
    """
    document = parse_json(line)
    method, file = document["method"], document["file"]
    if method not in METHODS or not isinstance(file, str):
        raise ValueError("it names no method or no file")
    if file in ("", "..") or Path(file).name != file:
        raise ValueError("its file does not lie among the traces")
    return Window(
        number=whole(0, INT32)(document["window"]),
        step=whole(0, UINT32)(document["step"]),
        method=method,
        file=text(file),
        phases=tuple((time_ns(t_ns), text(name)) for t_ns, name in document["phases"]),
        dropped=text(document.get("dropped", "")),
    )


def _check_file(path: Path) -> None:
    """Refuses what only stands for a file: a link would lead out of the recording."""
    if path.parent.is_symlink() or path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError("it is no ordinary file")


def _layer_window(path: Path, window: Window) -> Columns:
    document = parse_json(read_bytes(path, MOST_BYTES))
    try:
        columns = layer_columns(document["processor"], document["rows"], window.step, window.number)
    except (KeyError, TypeError) as error:
        raise ValueError(f"its times by layer are garbled ({error})") from error
    return {**columns, "method": "by layer"}
