"""Times the operations of real training steps one by one, beside the sizes that a capture notes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from wattstep.engines.torch.capture import StepCapture
from wattstep.engines.torch.memory import tensors_there
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.errors import RecordingError
from wattstep.schema.arrays import FloatArray
from wattstep.schema.operation_times import OperationTimes
from wattstep.schema.step_graph import StepGraph

CLEAN_S: Final = 1.0  # of steps that nothing is attached to
LEAST_CLEAN: Final = 2
MOST_CLEAN: Final = 50
# Steps of the same operations that are timed: the least of each operation counts. An epoch ends within some steps,
# and a player moves at random in others: their operations are not those of the rest.
TIMED: Final = 3
LEAST_TIMED: Final = 2  # where these take `TIMED_S`
TIMED_S: Final = 10.0
MOST_TIMED: Final = 16  # of any operations


class _TimedCapture(StepCapture):  # type: ignore[no-untyped-call]
    """A capture that also times."""

    def __init__(self, trainer: TorchTrainer, clock: Callable[[], int]) -> None:
        optimizers = [each.optimizer for each in trainer.updates]
        # All tensors are the training's.
        super().__init__(trainer.model, optimizers, before=0, there=tensors_there)
        self._clock = clock
        self.times: list[int] = []

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        begin = self._clock()
        made = super()._call(func, args, kwargs)
        self.times.append(self._clock() - begin)
        return made


def time_operations(trainer: TorchTrainer) -> OperationTimes:
    """Takes a few steps of a training that has made some.

    With one thread its own time counts, in which nothing else runs on its core; with several, time that goes by.

    Raises:
        RecordingError: No two steps of many have the same operations.
    """
    alone = trainer.threads == 1
    clock = time.thread_time_ns if alone else time.perf_counter_ns
    steps: list[float] = []
    while len(steps) < LEAST_CLEAN or (sum(steps) < CLEAN_S and len(steps) < MOST_CLEAN):
        begin = clock()
        trainer.step()
        steps.append((clock() - begin) / 1e9)
    graphs: list[StepGraph] = []
    times: list[FloatArray] = []
    same: list[int] = []  # places of those with the operations that most have
    while len(same) < TIMED and len(graphs) < MOST_TIMED:
        taking = _TimedCapture(trainer, clock)
        with taking:
            losses = [trainer.take(update, taking.phase) for update in trainer.updates]
        graphs.append(taking.graph(trainer.samples_per_step, trainer.model))
        times.append(np.array(taking.times, float) / 1e9)
        del losses
        same = _most_alike(graphs)
        if len(same) >= LEAST_TIMED and sum(float(each.sum()) for each in times) >= TIMED_S:
            break
    if len(same) < LEAST_TIMED:
        raise RecordingError(
            f"no two of {MOST_TIMED} steps of it have the same operations: they cannot be timed"
        )
    return OperationTimes(
        graph=graphs[same[-1]],
        seconds=np.min([times[i] for i in same], axis=0),
        steps=tuple(steps),
        clock="thread" if alone else "wall",
    )


def _most_alike(graphs: Sequence[StepGraph]) -> list[int]:
    """Places of the graphs whose operations most of them have."""
    places: dict[tuple[str, ...], list[int]] = {}
    for place, graph in enumerate(graphs):
        places.setdefault(graph.names, []).append(place)
    return max(places.values(), key=len)
