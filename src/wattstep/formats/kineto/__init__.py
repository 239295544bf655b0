"""Traces in Chrome's JSON format, as PyTorch's profiler (Kineto) writes them; read piece by piece.

Facts of the format: libkineto's output_json.cpp, ActivityType.cpp and ChromeTraceBaseTime of torch
1.8 to 2.13. Times are µs: since 1970 until torch 2.3 (whole, then with three decimals); since then
counted from "baseTimeNanoseconds". A GPU's events have its number as process, its stream as thread.
"Fwd thread id" is torch's own count of threads, not the system's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.errors import InvalidValueError
from wattstep.formats.kineto import words
from wattstep.formats.kineto.columns import Columns
from wattstep.formats.kineto.cutting import NAME, Cutter, Surroundings
from wattstep.formats.kineto.numbers import LARGEST_NS
from wattstep.formats.kineto.unpacking import Unpacking
from wattstep.formats.recording import FormatError
from wattstep.formats.trace import Events, Trace
from wattstep.schema.extras import require
from wattstep.schema.run_documents import DeviceFacts

OWN = "wattstep"  # stands before the events in an export of ours, with its version
KEYS = frozenset({"baseTimeNanoseconds", "deviceProperties", "distributedInfo", OWN})
FIRST_NS = 1_000_000_000 * 1_000_000_000  # the year 2001; torch is younger
LAST_NS = 4_102_444_800 * 1_000_000_000  # the year 2100
CUT = "the file ends in the middle: {} whole events were read, the last {} bytes were left out"
OPEN = "the file ends before its list of events does: {} whole events were read"
OPEN_TAIL = "the file ends in what follows its events: {} whole events were read"
PACKING = "{}: what could be unpacked was read"
SKIPPED = "{} stretches ({} bytes) are damaged and were left out"
NO_BASE = "baseTimeNanoseconds gives no date between 2001 and 2100 and was left out"
NO_TORCH = "it holds no operation of PyTorch: is it the trace of another program?"
NO_EVENTS = "it holds no interval"


def read(path: Path, on_progress: Callable[[float], None] | None = None) -> Trace:
    """Reads a trace, plain or packed with gzip.

    What is whole in a file that is cut or damaged is read, and the notes say what was left out.
    Begin and end events ("B", "E") are joined in the order of the file. Memory: about 100 bytes an
    event and a few blocks of text, whatever the file's size.

    Args:
        path: The file.
        on_progress: Is told the share that was read, 0 to 1.

    Raises:
        FormatError: It is no such trace.
        InvalidValueError: It cannot be opened, or unpacks to more than 32 GiB, or, above 64 MiB, to
            more than 500 times its size.
        MissingPartError: msgspec is not installed.
    """
    decoding = require("wattstep.formats.kineto.decoding")
    unpacking = Unpacking(path, on_progress)
    cutter: Cutter[Any] = Cutter(unpacking.pieces(), decoding.decode, decoding.decode_each, KEYS)
    columns = Columns()
    seen = 0
    try:
        for block in cutter.blocks():
            seen += len(block.events)
            columns.add(block, own=OWN in cutter.around.values)
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-file"
        ) from error
    except FormatError as error:
        if not unpacking.damage:
            raise
        raise InvalidValueError(
            f"{path.name}: {unpacking.damage}, and what could be unpacked is no trace: copy it again",
            id="damaged-recording",
        ) from error
    notes = _damage(cutter.around, unpacking.damage, seen)
    return _trace(columns, cutter.around, notes)


def _damage(around: Surroundings, packing: str, seen: int) -> list[str]:
    notes = [PACKING.format(packing)] if packing else []
    if around.skipped:
        notes.append(SKIPPED.format(len(around.skipped), sum(around.skipped)))
    if around.cut:
        notes.append(CUT.format(seen, around.cut))
    elif not around.ended and around.form == "object":
        notes.append(OPEN.format(seen))
    elif not around.complete and around.form == "object":
        notes.append(OPEN_TAIL.format(seen))
    return notes


def _trace(columns: Columns, around: Surroundings, notes: list[str]) -> Trace:
    arrays, names = columns.finish()
    base = around.values.get("baseTimeNanoseconds")
    shift_ns, clock, note = _clock(arrays["start_ns"], arrays["end_ns"], base)
    arrays["start_ns"] += shift_ns
    arrays["end_ns"] += shift_ns
    events = Events(**arrays)
    counters = columns.counters.recording(shift_ns, clock)
    columns.ignored["damaged stretch between events"] += len(around.skipped)
    columns.ignored["unfinished event at the end of the file"] += bool(around.cut)
    return Trace(
        format=NAME,
        names=names,
        events=events,
        counters=counters,
        clock=clock,
        device=_device(around.values),
        notes=(*notes, *columns.notes, *note, *_content(events, names)),
        ignored={reason: count for reason, count in columns.ignored.items() if count},
        own=columns.own,
    )


def _clock(
    start_ns: NDArray[np.int64], end_ns: NDArray[np.int64], base: object
) -> tuple[int, str, tuple[str, ...]]:
    """Offset of all times in ns, the clock that they have with it, and a note about it."""
    if not len(start_ns):
        return 0, "unknown", ()
    usual = int(np.median(start_ns))  # single times may be damaged
    shift = base if isinstance(base, int) and not isinstance(base, bool) else 0
    is_date = usual + shift >= FIRST_NS and usual + shift < LAST_NS
    if is_date and 0 <= shift < LARGEST_NS and int(end_ns.max()) + shift < 2 * LARGEST_NS:
        return shift, "wall", ()
    return 0, "unknown", (NO_BASE,) if base is not None else ()


def _device(values: Mapping[str, Any]) -> DeviceFacts:
    """Names of GPUs and the rank: nothing that tells whose machine it is."""
    device: DeviceFacts = {}
    given = values.get("deviceProperties")
    if isinstance(given, list):
        gpus = [
            one["name"]
            for one in given
            if isinstance(one, dict) and isinstance(one.get("name"), str)
        ]
        if gpus:
            device["gpus"] = gpus
    distributed = values.get("distributedInfo")
    if isinstance(distributed, dict):
        for key in ("rank", "world_size"):
            if isinstance(distributed.get(key), int):
                device[key] = distributed[key]
    return device


def _content(events: Events, names: tuple[str, ...]) -> tuple[str, ...]:
    if not len(events):
        return (NO_EVENTS,)
    categories = {names[code] for code in np.unique(events.category).tolist()}
    return () if categories & words.OF_TORCH else (NO_TORCH,)
