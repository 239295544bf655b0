"""The binary rows that a trainer appends while it records, and the files that a run consists of."""

from __future__ import annotations

import struct
from enum import IntEnum

# Each with its letter in `struct`, and in numpy: time in ns, CPU time of the process in ns, value,
# kind, code (a name, see NAMES), step.
MARK_FIELDS = (
    ("t", "q"),
    ("cpu", "q"),
    ("value", "d"),
    ("kind", "H"),
    ("code", "H"),
    ("index", "I"),
)
MARK = struct.Struct("<" + "".join(letter for _, letter in MARK_FIELDS))

# Files of a run.
RUN = "run.json"
JOURNAL = "journal"
MARKS = "marks.bin"
OPERATIONS = "operations.bin"
DEVICE_OPERATIONS = "device_operations.bin"
NAMES = "names.jsonl"  # one JSON line a name: [table, code, text]
TICKS = "ticks.bin"
COSTS = "costs.bin"
LOCK = "lock"
HOLDER = "holder"  # number and start time of the process that holds the lock

SAMPLES_STEM = "samples-"  # begins the names of journals of samples
SAMPLE_HEADER = 2  # t_ns, errno, then the values
MISSING = -(2**63)


def samples_name(number: int) -> str:
    """The journal of the read with this number; `record/sampling/child.py` spells it by itself."""
    return f"{SAMPLES_STEM}{number:02d}.bin"


def segment_name(name: str, number: int) -> str:
    """Name of a segment of a journal: the first has the journal's own name.

    `record/sampling/child.py` spells it by itself.

    Args:
        name: Of the journal, e.g. "marks.bin".
        number: Of the segment, from 0.
    """
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{number:04d}.{ending}" if number else name


def piece_name(name: str, number: int) -> str:
    """Name of the Parquet file that a segment becomes while the run goes on; as `segment_name`."""
    return f"{name.rpartition('.')[0]}.{number:04d}.parquet"


class Mark(IntEnum):
    """Kinds of rows in the journal of marks. 0 is a row that was never written."""

    STEP_START = 1  # value: samples of the step (NaN: not known); code: 1 where it is traced
    STEP_END = 2  # value: loss (NaN: not known)
    PHASE = 3  # code: the phase that begins; it lasts until the next one or the step's end
    LAYER_START = 4  # code: a top-level layer
    LAYER_END = 5
    WINDOW_START = 6  # a tracing window is being opened; nothing in it counts as training
    WINDOW_END = 7
    REST_START = 8  # code: a stretch between steps that has a name (evaluation)
    REST_END = 9
    MEMORY = 10  # code: category; value: bytes
    # value: high-water mark in bytes since the last PEAK; code: 1 if a window lay in it, 2 if it is
    # that of work beside the training
    PEAK = 11
    RESIDENT = 12  # value: resident bytes; code: 0 before a window, 1 after it
    EVALUATION = 13  # code: measure; value: what it came to; step: steps done
    SAMPLES = 14  # value: samples that this step takes, where its beginning did not know
    UPDATE = 15  # code: what an optimizer has just updated; all since the mark before led to it
    # value: how long in ns a thread was kept from running in the traced step, of that which waited
    # longest (NaN: not known); code: how often it was made to give way
    WAITED = 16
    # Of the mark with this time: cpu: when the device came to it, in ns of its own clock; code: the
    # device; index: how much later than the mark the device had not come to it yet, in ns; value: how
    # much later it had
    DEVICE = 17
    DEVICE_END = 18  # from here on steps have no place on a device
    # As DEVICE, of no mark of the host: the device did other work meanwhile. It tells its clock alone.
    DEVICE_ANCHOR = 19
    DEVICE_COST = 20  # value: what tracing costs the device for each piece of work, in ns
    # A step with nothing between begin and end, as most are, in one row: cpu: its end in ns; value: loss;
    # code: its samples, `NOT_KNOWN` where they are not
    STEP = 21


NOT_KNOWN = 0xFFFF


# One row an operation instance: int64 all, so that a cut file loses at most its last row.
OPERATION_FIELDS = (
    "step",
    "window",
    "name",  # code in the table of names
    "kind",  # code
    "layer",  # code; -1: no single layer
    "phase",  # code
    "shapes",  # code
    "thread",
    "start_ns",
    "end_ns",
    "parent",  # position within the window; -1: none
    "flops",  # -1: not known
    "bytes",  # read by the operation; -1: not known
    "allocated",  # bytes allocated minus freed; `UNTOLD`: not known
    "outermost",  # 1: no operation of the framework encloses it
)
OPERATION = struct.Struct(f"<{len(OPERATION_FIELDS)}q")
UNTOLD = -(1 << 62)  # of what may be negative

# One row a piece of work on a device in a traced step. Those of a window are written before its rows
# in OPERATIONS: where a kill came between, they lack what launched them, and stand for nothing.
DEVICE_OPERATION_FIELDS = (
    *OPERATION_FIELDS,
    "processor",  # code
    "launch",  # position within the window's rows in OPERATIONS; -1: not known
    "rows",  # how many this window has here; a window of fewer was cut, and is left out as a whole
)
DEVICE_OPERATION = struct.Struct(f"<{len(DEVICE_OPERATION_FIELDS)}q")
NO_WORK = -1  # in the place of a name: the device was traced, and did nothing
