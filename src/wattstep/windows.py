"""Tracing windows of a recording: when one opens, how it ends, and that it leaves time and memory clean."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wattstep.records.journal import Mark
from wattstep.store.files import write_whole
from wattstep.store.marks import MarkJournal
from wattstep.tracing.giving_way import Waits, waited_most, waits
from wattstep.tracing.schedule import Schedule, TraceMode

NO_TORCH = "no operations: torch was not loaded when the steps began"
FOREIGN = "no further operations: the script runs a profiler of its own"


class Windows:
    """Opens a window around a step now and then, and keeps what it costs out of the record.

    Args:
        mode: What is asked for.
        warmup: Steps before the first window.
        marks: Where windows are marked.
        operations: Descriptor of the journal of operations.
        note: Told of what the reader must know.

    Attributes:
        traced: Whether the step that runs is traced.
        opening: Whether a profiler that is being made just now is ours.
        stopped_ns: Since when nothing is traced any more, or None.
    """

    def __init__(
        self,
        mode: TraceMode,
        warmup: int,
        marks: MarkJournal,
        operations: int,
        note: Callable[[str], None],
    ) -> None:
        self.schedule = Schedule(mode, warmup)
        self.traced = False
        self.opening = False
        self.stopped_ns: int | None = None
        self._wanted = mode.tracing
        self._marks = marks
        self._operations = operations
        self._note = note
        self._phases: list[tuple[int, str]] = []
        self._begin_ns = 0
        self._waits: Waits = {}
        self._tracer: Any = None

    # --- the tracer -------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether there is a tracer; makes it once the framework is loaded."""
        if self._tracer is None and self._wanted and "torch" in sys.modules:
            from wattstep.tracing.torch_tracer import TorchTracer

            self._tracer = TorchTracer(self._marks.code)
        return self._tracer is not None

    def learn(self, model: Any, *, alone: bool) -> None:
        """Names the model's layers, once the framework is loaded; see `TorchTracer.learn`."""
        if self.ready():
            self._tracer.learn(model, alone=alone)

    def layer_of(self, module: Any) -> str:
        """The name of a layer of a model that was learned."""
        return str(self._tracer.layer_of(module))

    # --- one window -------------------------------------------------------------------------

    def open(self) -> bool:
        """Opens a window; False where nothing can be traced, with a note.

        Raises:
            OSError: The disk is full.
        """
        if not self.ready():
            self.stop(NO_TORCH)
            return False
        if self._tracer.foreign_profiler():
            self.stop(FOREIGN)
            return False
        self.mark_peak()
        self._marks.add(Mark.RESIDENT, 0, own_status("VmRSS"))
        self._begin_ns = time.perf_counter_ns()
        self._marks.add(Mark.WINDOW_START)
        self._phases = []
        self.traced = self.opening = True
        try:
            self._guarded(self._tracer.start)
        finally:
            self.opening = False
        self._waits = waits()
        return self.traced

    def boundary(self) -> int:
        """Marks a place of the traced step; returns when it was, in ns."""
        return int(self._tracer.mark())

    def phase(self, name: str, since_ns: int) -> None:
        """A phase of the traced step has begun at a boundary."""
        self._phases.append((since_ns, name))

    def finish(self) -> None:
        """The step has ended: nothing after it is traced.

        Raises:
            OSError: The disk is full.
        """
        waited_ns, gave_way = waited_most(self._waits, waits())
        self._guarded(self._tracer.finish)
        self._marks.add(Mark.WAITED, min(gave_way, 0xFFFF), waited_ns)

    def close(self, step: int) -> None:
        """Writes the rows of the step that was traced.

        Raises:
            OSError: The disk is full.
        """
        if not self.traced:
            return
        rows: list[bytes] = []
        number, phases = self.schedule.windows, self._phases
        # The events are many and hold no cycles: collecting would walk the training's own objects.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._guarded(lambda: rows.append(self._tracer.rows(step, number, phases).rows))
        finally:
            if collecting:
                gc.enable()
        if rows:
            write_whole(self._operations, rows[0])
            self.schedule.after_window(step, time.perf_counter_ns() - self._begin_ns)
        if self.traced:
            self._end()

    def abandon(self, next_step: int) -> None:
        """The step that was to be traced turned out to be something else; the next one is."""
        if self.traced:
            self._cancel()
            self.schedule.next_step = next_step

    def stop(self, reason: str) -> None:
        """No further windows; an open one is given up."""
        self._note(reason)
        self.schedule.next_step = math.inf
        if self.stopped_ns is None:
            self.stopped_ns = time.perf_counter_ns()
        if self.traced:
            self._cancel()

    def forget(self) -> None:
        """In a forked child: takes the tracer's hooks out, and writes nothing."""
        self.schedule.next_step = math.inf
        if self.traced:
            self.traced = False
            with contextlib.suppress(Exception):  # whatever it says, this process is not ours
                self._tracer.cancel()

    def _cancel(self) -> None:
        # A tracer that cannot even be ended must not end the training.
        with contextlib.suppress(RuntimeError):
            self._tracer.cancel()
        self._end()

    def _end(self) -> None:
        """What a window leaves behind is marked, and the peak begins anew."""
        self.traced = False
        self._marks.add(Mark.WINDOW_END)
        self._marks.add(Mark.RESIDENT, 1, own_status("VmRSS"))
        self._marks.add(Mark.PEAK, 1, own_status("VmHWM"))
        self.reset_peak()

    def _guarded(self, work: Callable[[], Any]) -> None:
        """Runs a part of the tracer; an error of it ends the tracing, never somebody's training."""
        try:
            work()
        except OSError:
            raise
        except Exception as error:
            # Its words may name files: they are for who sits there, not for the run.
            print(f"wattstep: the tracer failed: {error}", file=sys.stderr)
            self.stop(f"no further operations: the tracer failed ({type(error).__name__})")

    # --- peaks of memory --------------------------------------------------------------------

    def mark_peak(self) -> None:
        """Marks the high-water mark since it was last reset.

        Raises:
            OSError: The disk is full.
        """
        self._marks.add(Mark.PEAK, 0, own_status("VmHWM"))

    def end_apart(self) -> None:
        """What has just run is no part of the training: its peak is marked as such, and ends.

        Raises:
            OSError: The disk is full.
        """
        self._marks.add(Mark.PEAK, 2, own_status("VmHWM"))
        self.reset_peak()

    def reset_peak(self) -> None:
        """Sets the high-water mark back to what is resident now (Linux 4.0 and later)."""
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            self._note(
                "the high-water mark of memory could not be reset: the peak covers the process's "
                "whole life, tracing included"
            )


def own_status(key: str) -> float:
    """A size from this process's own status, in bytes."""
    data = Path("/proc/self/status").read_bytes()
    at = data.index(key.encode() + b":")
    return float(data[at + len(key) + 1 : at + 40].split(None, 1)[0]) * 1024
