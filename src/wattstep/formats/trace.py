"""Trace of operations, whatever the format of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.recording import Recording
from wattstep.schema.run_documents import DeviceFacts

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
NONE = -1  # in every column: the trace does not say


@dataclass(frozen=True, kw_only=True, eq=False)
class Events:
    """Intervals of a trace in the order of the file, one array a column; all have shape (n,).

    Attributes:
        name: Code of the event's name, a position in `Trace.names`.
        category: Code of what it is, one of `CATEGORIES` where the format tells it, else its own word.
        processor: Code of where it ran: "cpu", or "gpu0", "gpu1" by number; "mtia0", "hpu0" likewise.
        thread: Number of the thread, or of the stream of a GPU.
        process: Number of the process; NONE where the trace has one only.
        start_ns: Begin, in the clock of the trace.
        end_ns: End; never before the begin.
        correlation: Ties a call of a driver or runtime to the work on the GPU that it launched.
        external: Ties both to the operation of the framework that asked for them.
        sequence: Ties a backward operation to the forward one that it belongs to.
        forward_thread: Thread of that forward operation.
        shapes: Code of the shapes of the inputs, as "8x3x32x32,64".
        flops: Operations of arithmetic, multiply-adds counted as two.
        bytes: Bytes moved (a copy) or read.
    """

    name: Codes
    category: Codes
    processor: Codes
    thread: Longs
    process: Longs
    start_ns: Longs
    end_ns: Longs
    correlation: Longs
    external: Longs
    sequence: Longs
    forward_thread: Longs
    shapes: Codes
    flops: Longs
    bytes: Longs

    def __len__(self) -> int:
        return len(self.start_ns)


# What an event is. "operation": of a framework (aten::conv2d); "annotation": a name that the
# user's code gave a stretch (record_function, NVTX); "slice": either, where the format does not tell
# them apart (Perfetto); "step": such a stretch that is a training
# step; "module": a call of a layer; "python": another Python function; "runtime": a call of a
# driver or runtime on the CPU; "kernel", "copy", "set", "wait": work on a GPU; "gpu_annotation":
# where an annotation's work ran there; "overhead": the profiler's own.
CATEGORIES = (
    "operation",
    "annotation",
    "slice",
    "step",
    "module",
    "python",
    "runtime",
    "kernel",
    "copy",
    "set",
    "wait",
    "gpu_annotation",
    "overhead",
)
ON_GPU = frozenset({"kernel", "copy", "set", "wait"})
GPU_WORK = ON_GPU - {"wait"}  # waiting is none; the call that waits is there itself


# Tracks of our own exports that hold no operations.
OWN_TRACKS = ("steps", "phases", "layers", "between steps", "conditions", "gaps", "updates")


@dataclass(frozen=True, kw_only=True, eq=False)
class Own:
    """Labels of events in wattstep's own exports; all have shape (n,), in the order of `Events`.

    Attributes:
        track: Position in `OWN_TRACKS` of what is no operation; NONE: an operation.
        layer: Code of the layer, a position in `Trace.names`; NONE: none.
        phase: Likewise of the phase.
        kind: Likewise of the kind; of a rest or tracing window which of both.
        number: Of the step; NONE where none is told.
        allocated: Bytes allocated less freed; `UNTOLD` where not told.
        warmup: 1 for a step that does not count, 0 for others, NONE for what is no step.
        traced: Likewise, whether it was traced.
        waited: How long in ns a thread waited for a core in a traced step; NONE where not told.
        mark: Of a phase, a layer's begin or an update its place among the marks of the run, which
            tells the order of those of one moment; NONE: of an older export.
        end_mark: Likewise of a layer's end.
        samples: Of a step; NaN where not told.
        loss: Likewise.
    """

    track: Codes
    layer: Codes
    phase: Codes
    kind: Codes
    number: Longs
    allocated: Longs
    warmup: Longs
    traced: Longs
    waited: Longs
    mark: Longs
    end_mark: Longs
    samples: NDArray[np.float64]
    loss: NDArray[np.float64]


UNTOLD = -(1 << 62)  # of what may be negative


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of all calls of one operation, by a tool that keeps no time of each.

    Attributes:
        name: Of the kernel, copy or function.
        category: As in `CATEGORIES`.
        processor: "cpu" or "gpu0".
        calls: How many.
        total_s: Together, in s; likewise the others, None where the file does not say.
    """

    name: str
    category: str
    processor: str
    calls: int
    total_s: float
    mean_s: float | None = None
    median_s: float | None = None
    least_s: float | None = None
    most_s: float | None = None
    deviation_s: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Operations of one recording; see `Recording` for sampled values.

    Attributes:
        format: Name of the format, e.g. "Kineto trace".
        names: Texts by code.
        events: Intervals.
        summaries: Totals, from files that keep no intervals.
        counters: What the trace sampled itself (memory by tensor, power rails), in its clock.
        clock: "wall" (ns since 1970), "monotonic" (some machine's), or "unknown" (its own zero).
        device: What the trace says of the machine, e.g. {"gpus": ["NVIDIA A100"]}.
        notes: What a reader must know.
        ignored: What stands in the file and became no event, by reason: how often.
        own: What an export of our own says beside its events; None: it is none.
    """

    format: str
    names: tuple[str, ...] = ()
    events: Events | None = None
    summaries: tuple[Summary, ...] = ()
    counters: Recording | None = None
    clock: str = "unknown"
    device: DeviceFacts = field(default_factory=DeviceFacts)
    notes: tuple[str, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    own: Own | None = None


def no_events(count: int = 0) -> dict[str, Any]:
    """Columns of `Events` of this length in which nothing is said; time and codes are 0."""
    codes = {key: np.zeros(count, np.int32) for key in ("name", "category", "processor")}
    times = {key: np.zeros(count, np.int64) for key in ("thread", "start_ns", "end_ns")}
    keys = ("process", "correlation", "external", "sequence", "forward_thread", "flops", "bytes")
    silent = {key: np.full(count, NONE, np.int64) for key in keys}
    return {**codes, **times, **silent, "shapes": np.full(count, NONE, np.int32)}
