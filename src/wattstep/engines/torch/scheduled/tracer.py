"""Traces steps that are carried out by a plan: workers note when each task begins and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median_low
from typing import Final

from wattstep.engines.marked_tracer import MarkedTracer, Operation, shapes_text
from wattstep.engines.step_phases import DATA, OPTIMIZER
from wattstep.engines.torch.engine import TorchEngine
from wattstep.engines.torch.layers import OUTSIDE
from wattstep.engines.torch.scheduled.capture import WHOLE
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.schema.operation_kinds import WORKER_WAIT
from wattstep.schema.run_documents import Team
from wattstep.schema.tracer import Code, Tracer

Executors = Callable[[], Sequence[TorchThreads]]
BATCH: Final = "wattstep::next_batch"
SCHEDULED: Final = "scheduled"  # phase of what several workers do at once


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
            rows += _waits(executor, times)
        return sorted(rows, key=lambda row: row.start)


def teams(executors: Sequence[TorchThreads]) -> list[Team]:
    """Cores by operation, as `ScheduleFacts` has them; none where no two that run at once differ in them."""
    differ = any(
        each.schedule.workers > 1 and len({one.threads for one in each.schedule.placed}) > 1
        for each in executors
    )
    if not differ:
        return []
    threads: dict[tuple[str, str, str, str], list[int]] = {}
    for executor in executors:
        for placed in executor.schedule.placed:
            name, layer, phase, shapes = _labels(executor, placed.task)
            threads.setdefault((name, layer or "", phase, shapes), []).append(placed.threads)
    return [
        {
            "name": name,
            "layer": layer,
            "phase": phase,
            "shapes": shapes,
            "cores": median_low(counts),
        }
        for (name, layer, phase, shapes), counts in threads.items()
    ]


def _labels(executor: TorchThreads, number: int) -> tuple[str, str | None, str, str]:
    """Name, layer, phase and shapes of a task as traces show them."""
    task, call = executor.captured.graph.tasks[number], executor.captured.calls[number]
    layer = task.layer or (None if task.phase == OPTIMIZER else OUTSIDE)
    return task.name, layer, task.phase, "" if call is None else shapes_text(call.shapes)


def _tasks(executor: TorchThreads, times: Sequence[int]) -> list[Operation]:
    threads = executor.thread_ids()
    rows = []
    for placed in executor.schedule.placed:
        number = placed.task
        begin, end = times[2 * number], times[2 * number + 1]
        if not end:  # it never ran: the step failed
            continue
        task = executor.captured.graph.tasks[number]
        name, layer, phase, shapes = _labels(executor, number)
        rows.append(
            Operation(
                name, begin, end, kind=OPTIMIZER if name == WHOLE else "", layer=layer, phase=phase, shapes=shapes,
                thread=threads[placed.worker], flops=task.flops or -1, bytes=task.bytes_moved,
            )
        )  # fmt: skip
    return rows


def _waits(executor: TorchThreads, times: Sequence[int]) -> list[Operation]:
    """Waits of workers for each other, and at the end for the last of them."""
    threads, count = executor.thread_ids(), len(executor.captured.graph.tasks)
    worker_of = {placed.task: placed.worker for placed in executor.schedule.placed}
    spans = [
        (worker_of[before], times[2 * (count + place)], times[2 * (count + place) + 1])
        for place, before in enumerate(executor.waits)
    ]
    ends = times[1 : 2 * count : 2]
    last = max(ends, default=0)
    for worker, own in enumerate(executor.schedule.by_worker()):
        if own and executor.schedule.workers > 1:
            spans.append((worker, max(ends[one.task] for one in own), last))
    return [
        Operation(WORKER_WAIT, begin, end, kind="scope", phase=SCHEDULED, thread=threads[worker], outermost=0)
        for worker, begin, end in spans
        if 0 < begin < end
    ]  # fmt: skip
