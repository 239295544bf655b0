"""Trains a workload on torch by a plan of its operations."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

import torch

from wattstep.engines.step_phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from wattstep.engines.torch.memory import MemoryTracker, tensors_in
from wattstep.engines.torch.scheduled.calls import Recording
from wattstep.engines.torch.scheduled.capture import Captured, capture
from wattstep.engines.torch.scheduled.learning import learn
from wattstep.engines.torch.scheduled.recording import Recorder
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.engines.torch.scheduled.tracer import ScheduledEngine
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.errors import InvalidValueError
from wattstep.schedule import policies
from wattstep.schedule.machine import equal_cores
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schedule.times import MachineTimes
from wattstep.schema.engine import Mark
from wattstep.schema.step_memory import Meter
from wattstep.schema.workload import ParameterUpdate, Preparation
from wattstep.workloads.torch.workload import TorchWorkload

Plan = Callable[[TaskGraph], Schedule]
DEFAULT: Final = "default"  # the policy that asks for no times
SCHEDULED: Final = "scheduled"  # phase of what several workers do at once
# The first step makes the optimizer's state; the next two are recorded.
EAGER, RECORDED = 1, 2


def in_order(graph: TaskGraph) -> Schedule:
    """The framework's own plan: one worker, its order, and its number of threads."""
    threads = torch.get_num_threads()
    placed = [Placed(task=task, worker=0, threads=threads) for task in range(len(graph.tasks))]
    return Schedule(workers=1, placed=tuple(placed))


def _unpinned(schedule: Schedule) -> Schedule:
    """A plan that always uses the same cores needs not be kept to them."""
    if len({placed.cores for placed in schedule.placed}) > 1:
        return schedule
    placed = tuple(replace(each, cores=()) for each in schedule.placed)
    return replace(schedule, placed=placed)


class ScheduledTrainer(TorchTrainer):
    """Steps of a workload carried out by a plan, from the fourth on; the first ones show what they consist of.

    Batches are drawn as ever, before the tasks of their update begin.

    Args:
        workload: As `TorchTrainer` takes it.
        preparation: Likewise.
        plan: Where each task runs; None: as the preparation's policy says.
        how: Likewise.

    Raises:
        InvalidValueError: Something that cannot be scheduled.
    """

    def __init__(
        self,
        workload: TorchWorkload,
        preparation: Preparation,
        *,
        plan: Plan | None = None,
        **how: Any,
    ) -> None:
        _check(preparation, **how)
        super().__init__(workload, preparation, **how)
        self._workload = workload.facts.name
        self._plan, self._policy = plan, preparation.policy or DEFAULT
        self._drawn: list[tuple[int, int]] = []  # when batches of traced steps were, in ns
        self.engine = ScheduledEngine(lambda: self.executors, self._drawn)
        self._plain = False  # each update is looked at
        self._updated: dict[int, int] = {}  # how often, by the update's identity
        self._recordings: dict[int, list[Recording]] = {}
        self._executors: dict[int, TorchThreads] = {}
        weakref.finalize(self, _close, self._executors).atexit = False  # workers end with it

    @property
    def executors(self) -> list[TorchThreads]:
        """Those of the updates of a step, in their order; empty before they were captured."""
        return list(self._executors.values())

    def memory_tracker(self, meter: Meter, device: str = "cpu") -> MemoryTracker | None:
        """As `Trainer.memory_tracker`; None where other threads than the caller's run operations, which it cannot see."""
        if any(executor.crew for executor in self.executors):
            return None
        return super().memory_tracker(meter, device)

    def load(self, path: Path) -> None:
        """As `Trainer.load`; optimizers have other state then, so the next steps show anew what they consist of."""
        super().load(path)
        _close(self._executors)
        self._recordings.clear()

    def take(self, update: ParameterUpdate, mark: Mark) -> list[torch.Tensor]:
        """As `TorchTrainer.take`."""
        key = id(update)
        executor = self._executors.get(key)
        if executor is not None:
            return self._carry_out(executor, update, mark)
        number = self._updated[key] = self._updated.get(key, 0) + 1
        if number <= EAGER:
            return super().take(update, mark)
        losses, recording, batch = self._record(update, mark)
        recordings = self._recordings.setdefault(key, [])
        recordings.append(recording)
        if len(recordings) == RECORDED:
            first, second = self._recordings.pop(key)
            captured = capture(self._workload, first, second, update.optimizer)
            schedule = self._planned(captured, batch, update.optimizer)
            self._executors[key] = TorchThreads(captured, schedule)
        return losses

    def _planned(
        self, captured: Captured, batch: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer
    ) -> Schedule:
        """A plan for as many cores as torch has threads, by what tasks were measured to take here."""
        if self._plan is not None:
            return self._plan(captured.graph)
        make, machine = policies.find(self._policy), equal_cores(torch.get_num_threads())
        if self._policy == DEFAULT:  # asks for no times
            return _unpinned(make(captured.graph, MachineTimes(machine), machine))
        times = learn(captured, batch, machine, optimizer)
        return _unpinned(make(captured.graph, times, machine))

    def _carry_out(
        self, executor: TorchThreads, update: ParameterUpdate, mark: Mark
    ) -> list[torch.Tensor]:
        mark(DATA)
        begin = perf_counter_ns()
        batches = [update.next_batch(self._phase) for _ in range(self._accumulate)]
        if executor.traced:
            self._drawn.append((begin, perf_counter_ns()))
        if not executor.in_order:
            mark(SCHEDULED)
        return executor.step(tensors_in(batches), mark)

    def _record(
        self, update: ParameterUpdate, mark: Mark
    ) -> tuple[list[torch.Tensor], Recording, Sequence[torch.Tensor]]:
        """An update as `TorchTrainer.take` makes it, recorded, with the tensors of its batch."""
        optimizer = update.optimizer
        optimizer.zero_grad()
        mark(DATA)
        batches = [update.next_batch(self._phase) for _ in range(self._accumulate)]
        losses, given = [], tensors_in(batches)
        with Recorder(self.model, self._owners(), given) as recorder:
            for batch in batches:
                mark(FORWARD)
                recorder.phase = FORWARD
                with self._autocast():
                    loss = update.loss(batch)
                mark(BACKWARD)
                recorder.phase = BACKWARD
                part = loss / self._accumulate if self._accumulate > 1 else loss
                part.backward()
                losses.append(loss.detach())
                recorder.lost(losses[-1])
            mark(OPTIMIZER)
            recorder.phase = OPTIMIZER
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            recorder.differentiated(parameters)
            optimizer.step()
            optimizer.zero_grad()
        return losses, recorder.recording(), given

    def _owners(self) -> dict[int, str]:
        """Layer of each parameter, buffer and state of an optimizer by torch's number of its storage."""
        layers: dict[int, str] = {}
        of_parameter: dict[int, str] = {}
        for path, module in self.model.named_modules():
            own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            for tensor in own:
                layers[tensor.untyped_storage()._cdata] = path
                of_parameter[id(tensor)] = path
        for update in self.updates:
            for parameter, state in update.optimizer.state.items():
                for tensor in tensors_in(state):
                    layers[tensor.untyped_storage()._cdata] = of_parameter.get(id(parameter), "")
        return layers


def _close(executors: dict[int, TorchThreads]) -> None:
    """Ends the workers of all."""
    for executor in executors.values():
        executor.close()
    executors.clear()


def _check(
    preparation: Preparation,
    *,
    processor: str = "cpu",
    precision: str = "fp32",
    threads: int | None = None,
    **_: Any,
) -> None:
    """Refuses what a plan is not for.

    Raises:
        InvalidValueError: With the option.
    """
    refused = {
        "--compile": preparation.compiled,
        "--checkpointing": preparation.checkpointing,
        "--offload": preparation.offload,
        f"--processor {processor}": processor != "cpu",
        f"--precision {precision}": precision == "amp-fp16",
    }
    for option, asked in refused.items():
        if asked:
            raise InvalidValueError(
                f"--policy and {option}: plans are made for plain steps on a CPU, choose one",
                id="not-schedulable",
            )
    cores = len(os.sched_getaffinity(0))
    if threads is not None and threads > cores:
        raise InvalidValueError(
            f"--policy and --threads {threads}: a plan has a core for each thread, and this process may use {cores}",
            id="too-many-threads",
        )
