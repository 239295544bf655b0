"""Trains a workload on torch by a plan of its operations."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

import torch

from wattstep.engines.step_phases import BACKWARD, DATA, FORWARD, OPTIMIZER
from wattstep.engines.torch.memory import MemoryTracker, tensors_in
from wattstep.engines.torch.scheduled.calls import Recording
from wattstep.engines.torch.scheduled.capture import capture
from wattstep.engines.torch.scheduled.openmp import undivided
from wattstep.engines.torch.scheduled.planning import DEFAULT, Plan, PlannedUpdate, Planner
from wattstep.engines.torch.scheduled.recording import Recorder
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.engines.torch.scheduled.tracer import SCHEDULED, ScheduledEngine, teams
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.errors import InvalidValueError
from wattstep.schedule.pace import Pace
from wattstep.schedule.policies import FIRST_STEPS
from wattstep.schema.engine import Mark, ignore_phase
from wattstep.schema.run_documents import ScheduleFacts
from wattstep.schema.step_memory import Meter
from wattstep.schema.workload import ParameterUpdate, Preparation
from wattstep.workloads.torch.workload import TorchWorkload

EAGER: Final = (
    1  # steps that make the optimizer's state; those after it, up to `FIRST_STEPS`, are recorded
)
# Of the steps since operations were measured last, what measuring them again may cost at most.
MOST_LEARNING: Final = 0.05


@dataclass(kw_only=True)
class _Watched:
    """An update whose operations were measured: whether its steps still take what they took.

    Attributes:
        pace: Of its steps since then.
        batch: Tensors of the last of them.
    """

    pace: Pace = field(default_factory=Pace)
    batch: Sequence[torch.Tensor] = ()


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
        self._planner = Planner(preparation.policy or DEFAULT, plan, preparation.clusters)
        self._done = 0  # steps
        self._planned: dict[int, PlannedUpdate] = {}
        self._watched: dict[int, _Watched] = {}
        self._drawing_s: list[float] = []  # of the batches of updates, in steps that were recorded
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

    def step(self, mark: Mark = ignore_phase) -> float:
        """As `Trainer.step`."""
        loss = super().step(mark)
        self._done += 1
        return loss

    def scheduling(self) -> ScheduleFacts | None:
        """As `Trainer.scheduling`."""
        updates = max(len(self.updates), 1)
        drawn = [
            sum(self._drawing_s[at : at + updates])
            for at in range(0, len(self._drawing_s) - updates + 1, updates)
        ]
        facts = self._planner.facts(drawn)
        if facts is not None and not any(each["again"] for each in self._planner.relearned):
            facts["teams"] = teams(self.executors)
        return facts

    def remarks(self) -> Sequence[str]:
        """As `Trainer.remarks`."""
        return [*super().remarks(), *self._planner.remarks]

    def due(self) -> Callable[[], None] | None:
        """As `Trainer.due`: operations are measured again, once steps take longer or shorter than they did."""
        for watched in self._watched.values():
            if watched.pace.factor is not None and self._may_learn():
                return self._learn_again
        return None

    def _may_learn(self) -> bool:
        """True if there were enough steps since operations were measured last."""
        learning = [each.learned for each in self._planned.values() if each.learned is not None]
        steps = max((each.pace.steps for each in self._watched.values()), default=0)
        return steps * MOST_LEARNING >= max((each.steps for each in learning), default=0)

    def _learn_again(self) -> None:
        """Measures operations again, and plans anew where they have changed."""
        watched = list(self._watched.values())
        factors = [each.pace.factor for each in watched if each.pace.factor is not None]
        before = dict(self._planned)
        for update in self.updates:
            key = id(update)
            executor = self._executors.get(key)
            if executor is None:
                continue
            captured, batch = executor.captured, self._watched[key].batch
            planned = self._planner.plan(key, captured, batch, update.optimizer)
            self._planned[key], self._watched[key] = planned, _Watched()
            if planned.schedule != executor.schedule:
                executor.close()
                self._executors[key] = TorchThreads(captured, planned.schedule)
        learned = [each.learned for each in self._planned.values() if each.learned is not None]
        changes = [each.factor for each in learned if each.factor is not None]
        again = any(each.schedule != before[key].schedule for key, each in self._planned.items())
        self._planner.relearned.append(
            {
                "step": self._done,
                "steps_factor": factors[0],
                "operations_factor": changes[0] if changes else None,
                "again": again,
                "learning_steps": sum(each.steps for each in learned),
            }
        )

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
        self._planned.clear()
        self._watched.clear()
        self._planner.forget()

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
        if len(recordings) == FIRST_STEPS - EAGER:
            first, second = self._recordings.pop(key)
            captured = capture(self._workload, first, second, update.optimizer)
            planned = self._planner.plan(key, captured, batch, update.optimizer)
            self._planned[key] = planned
            self._executors[key] = TorchThreads(captured, planned.schedule)
            if self._planner.measures:
                self._watched[key] = _Watched()
        return losses

    def _carry_out(
        self, executor: TorchThreads, update: ParameterUpdate, mark: Mark
    ) -> list[torch.Tensor]:
        watched = self._watched.get(id(update))
        if watched is not None:
            watched.batch = ()  # it has its last step behind it
        mark(DATA)
        begin = perf_counter_ns()
        with undivided() if executor.takes_cores else nullcontext():
            batches = [update.next_batch(self._phase) for _ in range(self._accumulate)]
        if executor.traced:
            self._drawn.append((begin, perf_counter_ns()))
        if not executor.in_order:
            mark(SCHEDULED)
        tensors = tensors_in(batches)
        if watched is None or executor.traced:
            return executor.step(tensors, mark)
        watched.batch = tensors
        begin = perf_counter_ns()
        losses = executor.step(tensors, mark)
        watched.pace.add((perf_counter_ns() - begin) * 1e-9)
        return losses

    def _record(
        self, update: ParameterUpdate, mark: Mark
    ) -> tuple[list[torch.Tensor], Recording, Sequence[torch.Tensor]]:
        """An update as `TorchTrainer.take` makes it, recorded, with the tensors of its batch."""
        optimizer = update.optimizer
        optimizer.zero_grad()
        mark(DATA)
        begin = perf_counter_ns()
        batches = [update.next_batch(self._phase) for _ in range(self._accumulate)]
        self._drawing_s.append((perf_counter_ns() - begin) * 1e-9)
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
