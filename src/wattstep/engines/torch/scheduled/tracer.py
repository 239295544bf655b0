"""Traces steps that are carried out by a plan: workers note when each task begins and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from wattstep.engines.marked_tracer import MarkedTracer, Operation, shapes_text
from wattstep.engines.step_phases import DATA, OPTIMIZER
from wattstep.engines.torch.engine import TorchEngine
from wattstep.engines.torch.layers import OUTSIDE
from wattstep.engines.torch.scheduled.capture import WHOLE
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.schema.tracer import Code, Tracer

Executors = Callable[[], Sequence[TorchThreads]]
BATCH: Final = "wattstep::next_batch"


class ScheduledEngine(TorchEngine):
    """torch whose operations a trainer's workers run.

    Args:
        executors: Gives those of the updates of a step.
        drawn: Where the trainer notes when it draws the batches of traced steps: begin and end in ns.
    """

    def __init__(self, executors: Executors, drawn: list[tuple[int, int]]) -> None:
        self._executors, self._drawn = executors, drawn

    def tracer(self, code: Code) -> Tracer:
        """As `Engine.tracer`."""
        return ScheduledTracer(code, self._executors, self._drawn)


class ScheduledTracer(MarkedTracer):
    """The tasks of a step by the times that their workers noted, in the run's own clock.

    Args:
        code: As `MarkedTracer` takes it.
        executors: As `ScheduledEngine` takes it.
        drawn: Likewise.
    """

    def __init__(self, code: Code, executors: Executors, drawn: list[tuple[int, int]]) -> None:
        super().__init__(code)
        self._executors, self._drawn = executors, drawn
        self._times: list[tuple[TorchThreads, list[int]]] = []

    def open(self) -> None:
        """As `MarkedTracer.open`."""
        self._times = [(each, each.trace()) for each in self._executors()]
        self._drawn.clear()

    def close(self) -> None:
        """As `MarkedTracer.close`."""
        for each, _ in self._times:
            each.untrace()

    def stamp(self) -> int:
        """As `MarkedTracer.stamp`."""
        return time.perf_counter_ns()

    def operations(self) -> Sequence[Operation]:
        """As `MarkedTracer.operations`; batches are one each."""
        rows = [
            Operation(BATCH, begin, end, kind="data movement", phase=DATA, layer=OUTSIDE)
            for begin, end in self._drawn
        ]
        for executor, times in self._times:
            rows += _tasks(executor, times)
        return sorted(rows, key=lambda row: row.start)


def _tasks(executor: TorchThreads, times: Sequence[int]) -> list[Operation]:
    threads = executor.thread_ids()
    rows = []
    for placed in executor.schedule.placed:
        number = placed.task
        begin, end = times[2 * number], times[2 * number + 1]
        if not end:  # it never ran: the step failed
            continue
        task, call = executor.captured.graph.tasks[number], executor.captured.calls[number]
        inside = task.layer or (None if task.phase == OPTIMIZER else OUTSIDE)
        rows.append(
            Operation(
                task.name, begin, end, kind=OPTIMIZER if task.name == WHOLE else "", layer=inside,
                phase=task.phase, shapes="" if call is None else shapes_text(call.shapes),
                thread=threads[placed.worker], flops=task.flops or -1, bytes=task.bytes_moved,
            )
        )  # fmt: skip
    return rows
