"""Plans of a training's updates by a policy, from times measured here, and what of it a run records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import torch

from wattstep.engines.torch.scheduled import kept_times
from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.learning import Learned, learn
from wattstep.schedule import policies
from wattstep.schedule.machine import Machine, equal_cores
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.study import Planned, Study, study
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import MachineTimes
from wattstep.schema.cores import spell_cores
from wattstep.schema.figure import Figure, Status
from wattstep.schema.run_documents import PlannedCluster, Relearning, ScheduleFacts

Plan = Callable[[TaskGraph], Schedule]
Clusters = Sequence[Sequence[int]]  # the system's numbers of the cores of each kind
DEFAULT: Final = "default"  # the policy that asks for no times
GIVEN: Final = "given"  # a plan that somebody else made
MOST_MEMORY: Final = 1.1  # of what torch's own order holds
METHOD: Final = (
    "simulated by times of operations that were measured in the first steps; its ends have every operation at "
    "that end of its own interval at once"
)


@dataclass(frozen=True, kw_only=True)
class PlannedUpdate:
    """One parameter update's plan.

    Attributes:
        schedule: The plan.
        studied: It and the default's, simulated; None: of times nothing is known.
        learned: How its times were measured; None: they were not.
    """

    schedule: Schedule
    studied: Study | None = None
    learned: Learned | None = None


class Planner:
    """Plans updates for as many cores as torch has threads.

    Args:
        policy: Its name.
        plan: Makes the plans in place of a policy; None: none does.
        clusters: As of `here`.

    Attributes:
        relearned: When steps no longer took what they had, and what came of it.
        remarks: What a reader must know of kept times.
    """

    def __init__(self, policy: str, plan: Plan | None, clusters: Clusters = ()) -> None:
        self._policy, self._plan, self._clusters = policy, plan, clusters
        self._times: TaskTimes | None = None
        self._machine: Machine | None = None
        self._known_before = False
        self._planned: dict[int, PlannedUpdate] = {}
        self.relearned: list[Relearning] = []
        self.remarks: list[str] = []

    @property
    def measures(self) -> bool:
        """True if plans are made by times that are measured."""
        return self._plan is None and self._policy != DEFAULT

    def plan(
        self,
        key: int,
        captured: Captured,
        batch: Sequence[torch.Tensor],
        optimizer: torch.optim.Optimizer,
    ) -> PlannedUpdate:
        """A plan of an update, after measuring what is not known of its tasks.

        Args:
            key: The same for the same update.
            captured: The update.
            batch: Tensors that it takes.
            optimizer: Whose state it changes.
        """
        graph = captured.graph
        if self._plan is not None:
            planned = PlannedUpdate(schedule=self._plan(graph))
        elif not self.measures:
            machine = here(torch.get_num_threads())
            made = policies.find(self._policy)(graph, MachineTimes(machine), machine)
            planned = PlannedUpdate(schedule=unpinned(made))
        else:
            times, machine = self._model()
            numbers = numbers_of(machine, self._clusters)
            learned = learn(captured, batch, machine, optimizer, times, numbers)
            self._remark(learned.problem)
            self._remark(kept_times.keep(times, machine))
            studied = study(self._policy, graph, times, machine, (DEFAULT, self._policy))
            schedule = unpinned(studied.plans[-1].schedule, numbers)
            planned = PlannedUpdate(schedule=schedule, studied=studied, learned=learned)
        self._planned[key] = planned
        return planned

    def forget(self) -> None:
        """Updates will be captured anew."""
        self._planned.clear()

    def _model(self) -> tuple[TaskTimes, Machine]:
        """The performance model, from before where one is kept."""
        if self._times is None or self._machine is None:
            self._machine = here(torch.get_num_threads(), self._clusters)
            self._times, problem = kept_times.read(self._machine)
            self._known_before = self._times.known > 0
            self._remark(problem)
        return self._times, self._machine

    def _remark(self, problem: str) -> None:
        if problem:
            self.remarks.append(f"performance model: {problem}")

    def facts(self, drawn_s: Sequence[float]) -> ScheduleFacts | None:
        """What a run records of the plans; None before there are any.

        Args:
            drawn_s: Seconds that drawing the batches of a step took, of some steps.
        """
        if not self._planned:
            return None
        updates = list(self._planned.values())
        facts: ScheduleFacts = {
            "policy": self._policy if self._plan is None else GIVEN,
            "updates": [
                {
                    "tasks": len(each.schedule.placed),
                    "workers": each.schedule.workers,
                    "threads": {
                        str(threads): count
                        for threads, count in sorted(
                            Counter(one.threads for one in each.schedule.placed).items()
                        )
                    },
                    "pinned": any(one.cores for one in each.schedule.placed),
                    "policy": each.schedule.policy,
                }
                for each in updates
            ],
        }
        if self._times is None or self._machine is None:
            return facts
        studies = [each.studied for each in updates if each.studied is not None]
        learned = [each.learned for each in updates if each.learned is not None]
        outside_s = sum(each.outside_s for each in learned)
        drawn = (median(drawn_s), min(drawn_s), max(drawn_s)) if drawn_s else (0.0, 0.0, 0.0)
        beside_s = (drawn[0] + outside_s, drawn[1] + outside_s, drawn[2] + outside_s)
        facts["cores"] = self._machine.count
        facts["predicted"] = _figure([each.plans[-1] for each in studies], beside_s).to_dict()
        facts["default"] = _figure([each.plans[0] for each in studies], beside_s).to_dict()
        facts["bound_s"] = sum(each.bound_s for each in studies)
        facts["path_s"] = sum(each.path_s for each in studies)
        facts["work_s"] = sum(each.work_s for each in studies)
        facts["beside_s"] = beside_s[0]
        facts["times"] = "kept" if self._known_before else "learned"
        facts["learning_steps"] = sum(each.steps for each in learned)
        factors = [each.factor for each in learned if each.factor is not None]
        facts["changed_by"] = median(factors) if factors else None
        facts["handover_s"] = self._times.handover_s()
        kinds = {task.kind for each in studies for task in each.graph.tasks}
        facts["interference"] = [
            {
                "kind": kind,
                "beside": other,
                "value": factor.value,
                "low": factor.low,
                "high": factor.high,
            }
            for (kind, other), factor in self._times.pairs().items()
            if kind in kinds and other in kinds
        ]
        facts["relearned"] = list(self.relearned)
        if len(self._machine.clusters) > 1:
            facts["clusters"] = list(_shares(self._machine, [each.plans[-1] for each in studies]))
        return facts


def _shares(machine: Machine, plans: Sequence[Planned]) -> Iterator[PlannedCluster]:
    """What each cluster has of the plans of a step; operations on the cores of all count for each."""
    for number, cluster in enumerate(machine.clusters):
        own = [
            each.timeline.end_s[placed.task] - each.timeline.begin_s[placed.task]
            for each in plans
            for placed in each.schedule.placed
            if number in {machine.cluster_of[core] for core in placed.cores}
        ]
        yield {"cores": cluster.name, "tasks": len(own), "tasks_s": sum(own)}


def _figure(plans: Sequence[Planned], beside_s: tuple[float, float, float]) -> Figure:
    """Time of a step by its plans, with what lies beside the tasks."""
    return Figure(
        value=sum(each.timeline.makespan_s for each in plans) + beside_s[0],
        low=sum(each.quick_s for each in plans) + beside_s[1],
        high=sum(each.slow_s for each in plans) + beside_s[2],
        unit="s",
        status=Status.PREDICTED,
        method=METHOD,
    )


def here(cores: int, clusters: Clusters = ()) -> Machine:
    """What plans are made for: so many cores, whose teams of threads stay together as OpenMP has them.

    After an operation GNU's OpenMP has the threads of a team wait for the next one on their cores for about 3 ms
    (its manual, GOMP_SPINCOUNT), or, with more threads than cores, lie down at once, which makes each operation
    longer. DCGAN's step took 8.3 ms on two threads, and 16 to 24 ms by two workers some of whose tasks were divided
    among both cores.

    Args:
        cores: Number of them.
        clusters: Kinds of cores that are told apart, of which those that this process may use count, the first ones
            first; where that leaves one, all are equal.
    """
    machine = replace(equal_cores(cores), keeps_teams=True, most_memory=MOST_MEMORY)
    kinds = _used(cores, clusters)
    if len(kinds) < 2:
        return machine
    [alike] = machine.clusters  # what rates they have, their times tell
    own = tuple(replace(alike, name=spell_cores(each), cores=len(each)) for each in kinds)
    return replace(machine, clusters=own)


def _used(cores: int, clusters: Clusters) -> list[list[int]]:
    """The cores of each kind that are planned for, so many in all."""
    usable = os.sched_getaffinity(os.getpid())
    kinds = []
    for cluster in clusters:
        own = [core for core in cluster if core in usable][:cores]
        cores -= len(own)
        kinds += [own] if own else []
    return kinds


def numbers_of(machine: Machine, clusters: Clusters) -> tuple[int, ...]:
    """The number of each core of a machine among those that this process may use; none where all are equal.

    Args:
        machine: As `here` makes it.
        clusters: As it was made with.
    """
    if len(machine.clusters) < 2:
        return ()
    usable = sorted(os.sched_getaffinity(os.getpid()))
    return tuple(usable.index(core) for kind in _used(machine.count, clusters) for core in kind)


def unpinned(schedule: Schedule, numbers: Sequence[int] = ()) -> Schedule:
    """A plan in which nothing runs beside anything else, or always on the same cores, needs not be kept to them.

    Args:
        schedule: The plan.
        numbers: As of `numbers_of`: then only what is on all of them needs not.
    """
    if numbers and {placed.cores for placed in schedule.placed} != {tuple(range(len(numbers)))}:
        return schedule.on_cores(numbers)
    if schedule.workers > 1 and len({placed.cores for placed in schedule.placed}) > 1:
        return schedule
    placed = tuple(replace(each, cores=()) for each in schedule.placed)
    return replace(schedule, placed=placed)
