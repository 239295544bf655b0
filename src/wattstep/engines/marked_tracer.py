"""A tracer of one step a window whose clock is mapped to the run's by marks."""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattstep.engines.marked_clock import AT_THE_ENDS, MarkedClock
from wattstep.engines.step_phases import FORWARD
from wattstep.schema.journal import DEVICE_OPERATION, DEVICE_OPERATION_FIELDS, OPERATION, UNTOLD
from wattstep.schema.operation_kinds import kind_of
from wattstep.schema.tracer import Code, TracedStep, Tracer

SHAPES_SHOWN = 6  # inputs whose shapes are written down; beyond, lists of hundreds of tensors


@dataclass(slots=True, eq=False)
class Operation:
    """Operation of a traced step.

    Attributes:
        name: e.g. "aten::mm".
        start: Begin in ns of the tracer's own clock.
        end: End in ns of that clock.
        kind: As `schema.operation_kinds` has them; empty: by its name.
        layer: Path of the layer that it runs for; None: no single one.
        phase: Of the step; empty: by the marks of the step.
        shapes: Of its inputs, see `shapes_text`.
        thread: That it ran on.
        parent: Position of the operation within which it ran; -1: none.
        flops: Floating-point operations; -1: not known.
        bytes: That it read; -1: not known.
        allocated: Bytes allocated minus freed; `UNTOLD`: not known, as of engines whose allocator is not seen.
        outermost: 1 where no operation of the framework encloses it, else 0.
    """

    name: str
    start: int
    end: int
    kind: str = ""
    layer: str | None = None
    phase: str = ""
    shapes: str = ""
    thread: int = field(default_factory=threading.get_ident)
    parent: int = -1
    flops: int = -1
    bytes: int = -1
    allocated: int = UNTOLD
    outermost: int = 1


@dataclass(slots=True, eq=False)
class DeviceOperation(Operation):
    """Work on a device, which nothing encloses.

    Attributes:
        processor: "gpu0", ...; `thread` is the number of its stream.
        launch: Position of the operation or call that launched it; -1: not known.
    """

    processor: str = ""
    launch: int = -1


class MarkedTracer(Tracer):
    """Base of tracers of all frameworks: marks, the clock, phases, and packing.

    A framework's own tracer opens and closes its profiler, stamps marks, and gives the operations.

    Args:
        code: Gives the number that stands for a name (`MarkJournal.code`).

    Attributes:
        stamps: Times of the window's marks, in ns of the profiler's clock.
        enclosed: Of those that lie within an operation, when it began.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.stamps: list[int] = []
        self.enclosed: dict[int, int] = {}
        self._brackets: list[tuple[int, int]] = []
        self._operations: Sequence[Any] = ()  # of the window that was finished

    # --- what a framework gives -----------------------------------------------------------------

    @abstractmethod
    def open(self) -> None:
        """Starts the framework's profiler."""

    @abstractmethod
    def close(self) -> None:
        """Ends it; also where it did not start whole."""

    @abstractmethod
    def stamp(self) -> int:
        """The profiler's clock now, in ns.

        Where only the trace tells times, puts a mark into it, and `operations` sets `stamps`, and
        `enclosed` where marks may lie within operations.
        """

    @abstractmethod
    def operations(self) -> Sequence[Operation]:
        """The operations of the window that was closed."""

    def name_phases(self, operations: Sequence[Any], phases: Sequence[tuple[int, str]]) -> None:
        """Gives each operation that has none its phase.

        Args:
            operations: As `operations` gave them.
            phases: Begin in the profiler's time and name, in order.
        """
        starts, names = phase_bounds(phases)
        for each in operations:
            if not each.phase:
                each.phase = names[bisect_right(starts, each.start)]

    def device_operations(self) -> Sequence[DeviceOperation] | None:
        """Work on devices in the window, asked when phases are named; None: devices are not traced."""
        return None

    def device_cost_ns(self) -> float:
        """What tracing costs a device for each piece of work; NaN: it was not measured in this window."""
        return math.nan

    def notes(self) -> Sequence[str]:
        """What a reader must know of the window."""
        return ()

    def describe(self, operation: Any) -> tuple[int, int, int]:
        """The numbers that stand for an operation's name, kind and shapes."""
        return (
            self.code("operation", operation.name),
            self.code("kind", operation.kind or kind_of(operation.name)),
            self.code("shapes", operation.shapes),
        )

    # --- as `Tracer` ----------------------------------------------------------------------------

    def start(self) -> None:
        """As `Tracer.start`."""
        self._brackets.clear()
        self.stamps.clear()
        self.open()
        for _ in range(AT_THE_ENDS):
            self.mark()

    def mark(self) -> int:
        """As `Tracer.mark`; by what it returns `rows` knows the mark."""
        before = time.perf_counter_ns()
        stamp = self.stamp()
        after = time.perf_counter_ns()
        self.stamps.append(stamp)
        self._brackets.append((before, after))
        return after

    def finish(self) -> None:
        """As `Tracer.finish`."""
        for _ in range(AT_THE_ENDS):
            self.mark()
        self.close()
        self._operations = self.operations()
        self._clock = MarkedClock(self.stamps, self._brackets)

    def moved(self) -> Mapping[int, int]:
        """As `Tracer.moved`."""
        marks = zip(self.stamps, self._brackets, strict=True)
        return {
            after: self._clock.map(self.enclosed[stamp])
            for stamp, (_, after) in marks
            if stamp in self.enclosed
        }

    def cancel(self) -> None:
        """As `Tracer.cancel`."""
        self.close()

    def rows(self, step: int, window: int, phases: Sequence[tuple[int, str]]) -> TracedStep:
        """As `Tracer.rows`."""
        operations, clock = self._operations, self._clock
        self._operations = ()
        starts = [clock.of_mark(t_ns) for t_ns, _ in phases]
        names = [name for _, name in phases]
        begins = [self.enclosed.get(start, start) for start in starts]
        self.name_phases(operations, list(zip(begins, names, strict=True)))
        devices = self.device_operations()
        rows = [OPERATION.pack(*self._fields(each, step, window)) for each in operations]
        return TracedStep(
            rows=b"".join(rows),
            operations=len(rows),
            clock_uncertainty_ns=clock.uncertainty_ns,
            device_rows=b"" if devices is None else self._device_rows(devices, step, window),
            notes=tuple(self.notes()),
            device_cost_ns=self.device_cost_ns(),
        )

    def _fields(self, each: Any, step: int, window: int) -> tuple[int, ...]:
        """As `operation_fields`, on the run's clock."""
        placed = self._clock.map(each.start), self._clock.map(each.end)
        return operation_fields(self.code, self.describe(each), each, step, window, placed)

    def _device_rows(self, devices: Sequence[DeviceOperation], step: int, window: int) -> bytes:
        """One row says that nothing ran, so that a window that was cut can be told from it."""
        if not devices:
            nothing = [-1] * len(DEVICE_OPERATION_FIELDS)
            nothing[:2], nothing[-1] = [step, window], 1
            return DEVICE_OPERATION.pack(*nothing)
        code = self.code
        return b"".join(
            DEVICE_OPERATION.pack(
                *self._fields(each, step, window),
                code("processor", each.processor),
                each.launch,
                len(devices),
            )
            for each in devices
        )


def operation_fields(
    code: Code,
    described: tuple[int, int, int],
    each: Any,
    step: int,
    window: int,
    placed: tuple[int, int],
) -> tuple[int, ...]:
    """An operation's row as `schema.journal.OPERATION_FIELDS` has it.

    Args:
        code: As of `MarkedTracer`.
        described: As `MarkedTracer.describe` gives it.
        each: The operation.
        step: That it ran in.
        window: Number of that window.
        placed: Begin and end in ns of the run's clock.
    """
    return (
        step,
        window,
        *described[:2],
        -1 if each.layer is None else code("layer", each.layer),
        code("phase", each.phase) if each.phase else -1,
        described[2],
        each.thread,
        *placed,
        each.parent,
        each.flops,
        each.bytes,
        each.allocated,
        each.outermost,
    )


def phase_bounds(phases: Sequence[tuple[int, str]]) -> tuple[list[int], list[str]]:
    """Times at which phases begin, and the names of what runs before the first of them and after each."""
    before = phases[0][1] if phases else FORWARD
    return [start for start, _ in phases], [before, *(name for _, name in phases)]


def shapes_text(shapes: Sequence[Any]) -> str:
    """Shapes of inputs as a run keeps them, e.g. "64x160;160x160".

    Args:
        shapes: Of each input a shape, a list of shapes, or None for what is no tensor.
    """
    return ";".join(_shape_text(shape) for shape in shapes if shape is not None)


def _shape_text(shape: Any) -> str:
    if shape and isinstance(shape[0], list):
        shown = ",".join("x".join(map(str, part)) for part in shape[:SHAPES_SHOWN])
        more = f",+{len(shape) - SHAPES_SHOWN}" if len(shape) > SHAPES_SHOWN else ""
        return f"[{shown}{more}]"
    return "x".join(map(str, shape)) or "scalar"
