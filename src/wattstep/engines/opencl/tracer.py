"""Operations and copies of a step by the events of OpenCL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wattstep.engines.marked_tracer import DeviceOperation, MarkedTracer, Operation
from wattstep.opencl.clock import EventClock, stamps
from wattstep.schema.tracer import Code, TracedStep

if TYPE_CHECKING:
    from wattstep.engines.opencl.execution import Ran
    from wattstep.engines.opencl.trainer import OpenClTrainer

GPU = "gpu0"


class OpenClTracer(MarkedTracer):
    """Traces steps by events, whose clock is read at both ends of a window.

    What a GPU does is work of a device, launched by calls of the host. What a CPU does for OpenCL
    runs on the cores that the host has, too: its kernels are operations like any other.

    Args:
        code: As of `MarkedTracer`.
        trainer: Gives what trains now.
    """

    def __init__(self, code: Code, trainer: Callable[[], OpenClTrainer | None]) -> None:
        super().__init__(code)
        self._trainer = trainer
        self._clock_of_events: EventClock | None = None
        self._ran: Sequence[Ran] = ()

    def open(self) -> None:
        """As `MarkedTracer.open`."""
        if (trainer := self._trainer()) is not None:
            self._clock_of_events = EventClock(trainer.execution.opened.queue)
            trainer.execution.ran = []

    def close(self) -> None:
        """As `MarkedTracer.close`."""
        if (trainer := self._trainer()) is not None and self._clock_of_events is not None:
            self._ran = trainer.execution.ran or ()
            trainer.execution.ran = None
            trainer.execution.finish()
            self._clock_of_events.mark(trainer.execution.opened.queue)

    def stamp(self) -> int:
        """As `MarkedTracer.stamp`; events are brought to this clock."""
        return time.perf_counter_ns()

    @property
    def _on_gpu(self) -> bool:
        trainer = self._trainer()
        return trainer is not None and trainer.execution.opened.device.kind != "cpu"

    def operations(self) -> Sequence[Operation]:
        """As `MarkedTracer.operations`: kernels of a CPU, or what the host called for those of a GPU."""
        if not self._on_gpu:
            return [
                Operation(
                    _name(each), *self._when(each), kind=each.kind, layer=each.layer,
                    phase=each.phase, flops=each.flops, bytes=each.bytes, thread=each.queue,
                )
                for each in self._ran
            ]  # fmt: skip
        return [
            Operation(
                "clEnqueue" + ("NDRangeKernel" if each.kernel else "Copy"), *each.asked,
                kind="runtime call", layer=each.layer, phase=each.phase,
            )
            for each in self._ran
        ]  # fmt: skip

    def device_operations(self) -> Sequence[DeviceOperation] | None:
        """As `MarkedTracer.device_operations`."""
        if not self._on_gpu:
            return None
        return [
            DeviceOperation(
                _name(each), *self._when(each), kind=each.kind, layer=each.layer, phase=each.phase,
                flops=each.flops, bytes=each.bytes, thread=each.queue, processor=GPU, launch=at,
            )
            for at, each in enumerate(self._ran)
        ]  # fmt: skip

    def _when(self, each: Ran) -> tuple[int, int]:
        """Begin and end on the run's clock, as far as its event tells them."""
        assert self._clock_of_events is not None
        at = stamps(each.event)
        begin, end = self._clock_of_events.map(at.started), self._clock_of_events.map(at.ended)
        return begin, max(begin, end)

    def rows(self, step: int, window: int, phases: Sequence[tuple[int, str]]) -> TracedStep:
        """As `MarkedTracer.rows`, with what the events' clock adds to the uncertainty."""
        off = 0
        if self._ran and self._clock_of_events is not None:
            off = max(
                int(self._clock_of_events.uncertainty_at(stamps(each.event).ended))
                for each in (self._ran[0], self._ran[-1])
            )
        traced = super().rows(step, window, phases)
        self._ran = ()
        return replace(traced, clock_uncertainty_ns=traced.clock_uncertainty_ns + off)


def _name(each: Ran) -> str:
    """Of a kernel the operation's name with its own."""
    return f"{each.name} ({each.kernel})" if each.kernel else each.name
