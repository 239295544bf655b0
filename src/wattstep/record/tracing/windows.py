"""Tracing windows of a recording: when one opens, how it ends, and that it leaves time and memory clean."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wattstep.errors import WattstepError
from wattstep.record.tracing.giving_way import Waits, waited_most, waits
from wattstep.record.tracing.schedule import Schedule, TraceMode
from wattstep.schema.engine import Engine
from wattstep.schema.journal import Mark
from wattstep.schema.run_info import NO_TRACE
from wattstep.schema.tracer import LayerMarks, TracedStep, Tracer
from wattstep.store.files import write_whole
from wattstep.store.marks import MarkJournal

NOT_LOADED = f"{NO_TRACE}no framework was loaded when the steps began"
NOT_TRACED = NO_TRACE + "{} tells no times of operations, in whichever step"
FOREIGN = "no further operations: the script runs a profiler of its own"


class Windows:
    """Opens a window around a step now and then, and keeps what it costs out of the record.

    Args:
        mode: Value of `--trace`.
        warmup: Steps before the first window.
        marks: Journal in which windows are marked.
        operations: Descriptor of the journal of operations.
        note: Told of what the reader must know.
        engine: Finds what trains, when a tracer is first wanted; None: nothing that is known.
        process: Whose memory is asked: a process id, or "self".
        devices: Descriptor of the journal of work on devices; None: the tracer tells of none.

    Attributes:
        traced: True if the step that runs is traced.
        opening: True if a profiler that is being made just now is ours.
        stopped_ns: Time since which nothing is traced any more, or None.
    """

    def __init__(
        self,
        mode: TraceMode,
        warmup: int,
        marks: MarkJournal,
        operations: int,
        note: Callable[[str], None],
        engine: Callable[[], Engine | None],
        process: int | str = "self",
        devices: int | None = None,
    ) -> None:
        self._process = process
        self.schedule = Schedule(mode, warmup)
        self.traced = False
        self.opening = False
        self.stopped_ns: int | None = None
        self._wanted = mode.tracing
        self._marks = marks
        self._operations = operations
        self._devices = devices
        self._note = note
        self._phases: list[tuple[int, str]] = []
        self._begin_ns = 0
        self._waits: Waits = {}
        self._find = engine
        self._engine: Engine | None = None
        self._tracer: Tracer | None = None

    # --- the tracer -------------------------------------------------------------------------

    def ready(self) -> bool:
        """True if there is a tracer; makes it once a framework is loaded."""
        if self._tracer is None and self._wanted:
            self._engine = self._find()
            if self._engine is not None:
                self._tracer = self._engine.tracer(self._marks.code)
        return self._tracer is not None

    def learn(self, model: Any, *, alone: bool) -> None:
        """Names the model's layers, once a framework is loaded; see `Tracer.learn`."""
        if self.ready():
            self._tracing.learn(model, alone=alone)

    def layer_marks(
        self, model: Any, entered: Callable[[int], None], left: Callable[[int], None]
    ) -> LayerMarks:
        """Marks for the top-level layers of a model that was learned; see `Tracer.layer_marks`."""
        return self._tracing.layer_marks(
            model, lambda layer: self._marks.code("layer", layer), entered, left
        )

    @property
    def _tracing(self) -> Tracer:
        assert self._tracer is not None  # `ready` was asked
        return self._tracer

    # --- one window -------------------------------------------------------------------------

    def open(self) -> bool:
        """Opens a window; False where nothing can be traced, with a note.

        Raises:
            OSError: The disk is full.
        """
        if not self.ready():
            self.stop(NOT_LOADED if self._engine is None else NOT_TRACED.format(self._engine.name))
            return False
        tracer = self._tracing
        if tracer.foreign_profiler():
            self.stop(FOREIGN)
            return False
        self.mark_peak()
        self._marks.add(Mark.RESIDENT, 0, self._size("VmRSS"))
        self._begin_ns = time.perf_counter_ns()
        self._marks.add(Mark.WINDOW_START)
        self._phases = []
        self.traced = self.opening = True
        try:
            self._guarded(tracer.start)
        finally:
            self.opening = False
        self._waits = waits()
        return self.traced

    def boundary(self) -> int:
        """Marks a place of the traced step; returns when it was, in ns."""
        return int(self._tracing.mark())

    def phase(self, name: str, since_ns: int) -> None:
        """A phase of the traced step has begun at a boundary."""
        self._phases.append((since_ns, name))

    def finish(self) -> Mapping[int, int]:
        """The step has ended: nothing after it is traced.

        Returns:
            Boundaries of its phases that have moved, and where to, in ns (`Tracer.moved`).

        Raises:
            OSError: The disk is full.
        """
        waited_ns, gave_way = waited_most(self._waits, waits())
        moved: dict[int, int] = {}
        with _no_collection():
            self._guarded(self._tracing.finish)
            if self.traced:  # else it has failed
                self._guarded(lambda: moved.update(self._tracing.moved()))
        self._marks.add(Mark.WAITED, min(gave_way, 0xFFFF), waited_ns)
        return moved

    def close(self, step: int) -> None:
        """Writes the rows of the step that was traced.

        Raises:
            OSError: The disk is full.
        """
        if not self.traced:
            return
        steps: list[TracedStep] = []
        number, phases = self.schedule.windows, self._phases
        with _no_collection():
            self._guarded(lambda: steps.append(self._tracing.rows(step, number, phases)))
        for traced in steps:
            for note in traced.notes:
                self._note(note)
            # First what counts only with the other: a kill between the two leaves no half of a step.
            if self._devices is not None:
                write_whole(self._devices, traced.device_rows)
            write_whole(self._operations, traced.rows)
            if math.isfinite(traced.device_cost_ns):
                self._marks.add(Mark.DEVICE_COST, 0, traced.device_cost_ns)
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
                self._tracing.cancel()

    def _cancel(self) -> None:
        # A tracer that cannot even be ended must not end the training.
        with contextlib.suppress(RuntimeError):
            self._tracing.cancel()
        self._end()

    def _end(self) -> None:
        """Marks what a window leaves behind, and begins the peak anew."""
        self.traced = False
        self._marks.add(Mark.WINDOW_END)
        self._marks.add(Mark.RESIDENT, 1, self._size("VmRSS"))
        self._marks.add(Mark.PEAK, 1, self._size("VmHWM"))
        self.reset_peak()

    def _guarded(self, work: Callable[[], Any]) -> None:
        """Runs a part of the tracer; an error of it ends the tracing, never somebody's training."""
        try:
            work()
        except OSError:
            raise
        except WattstepError as error:
            self.stop(f"{NO_TRACE}{error}")
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
        self._marks.add(Mark.PEAK, 0, self._size("VmHWM"))

    def highest_resident(self) -> float:
        """The high-water mark since it was last reset, in bytes.

        Raises:
            OSError: There is no such process.
            ValueError: It has ended, and has no memory any more.
        """
        return self._size("VmHWM")

    def _size(self, key: str) -> float:
        return size_of_process(self._process, key)

    def end_apart(self) -> None:
        """Marks the peak of what has just run as no part of the training, and ends it.

        Raises:
            OSError: The disk is full.
        """
        self._marks.add(Mark.PEAK, 2, self._size("VmHWM"))
        self.reset_peak()

    def reset_peak(self) -> None:
        """Sets the high-water mark back to what is resident now (Linux 4.0 and later)."""
        try:
            Path(f"/proc/{self._process}/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            self._note(
                "the high-water mark of memory could not be reset: the peak covers the process's "
                "whole life, tracing included"
            )


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """The events are many and hold no cycles: collecting would walk the training's own objects."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def size_of_process(process: int | str, key: str) -> float:
    """A size from a process's status, in bytes.

    Raises:
        OSError: There is no such process.
        ValueError: It has ended, and has no memory any more.
    """
    data = Path(f"/proc/{process}/status").read_bytes()
    at = data.index(key.encode() + b":")
    return float(data[at + len(key) + 1 : at + 40].split(None, 1)[0]) * 1024
