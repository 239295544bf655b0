"""Policies beside each other: what their plans of one step would take on one machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, lower_bound
from wattstep.schedule.policies import POLICIES, find
from wattstep.schedule.simulate import Timeline, simulate
from wattstep.schedule.tasks import Schedule, Task, TaskGraph
from wattstep.schedule.times import Factor, Running, Seconds, Times
from wattstep.schema.figure import Figure, Status

ALL: Final = "all"
DEFAULT: Final = "default"
METHOD: Final = "simulated; its ends have every operation at that end of its own interval at once"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One policy's plan.

    Attributes:
        policy: Its name.
        schedule: The plan.
        timeline: By the performance model's values.
        quick_s: Makespan in s with every operation at the low end of its interval.
        slow_s: And at the high end.
    """

    policy: str
    schedule: Schedule
    timeline: Timeline
    quick_s: float
    slow_s: float

    def figures(self, default_s: float | None, bound_s: float) -> dict[str, Figure]:
        """Time and energy of a step, idle share, memory, time of the default's, and of the bound that no plan goes below.

        Args:
            default_s: Makespan in s of the default policy; None: it was not planned.
            bound_s: As of `Study`.
        """
        timeline = self.timeline
        values: dict[str, tuple[float, str]] = {
            "energy_per_step": (timeline.joules, "J"),
            "idle_share": (timeline.idle_share, "ratio"),
            "copy_time": (timeline.copy_s, "s"),
            "switch_time": (timeline.switch_s, "s"),
            "peak_made": (timeline.peak_bytes, "B"),
            "over_bound": (timeline.makespan_s / bound_s if bound_s else 1.0, "ratio"),
        }
        if default_s:
            values["of_default"] = (timeline.makespan_s / default_s, "ratio")
        step = Figure(
            value=timeline.makespan_s,
            unit="s",
            low=self.quick_s,
            high=self.slow_s,
            status=Status.PREDICTED,
            method=METHOD,
        )
        return {
            "step_time": step,
            **{
                name: Figure(value=value, unit=unit, status=Status.PREDICTED, method="simulated")
                for name, (value, unit) in values.items()
            },
        }


@dataclass(frozen=True, kw_only=True)
class Study:
    """Plans of one step.

    Attributes:
        title: Of the training.
        graph: Of the step.
        machine: Where.
        plans: By the order in which policies were asked for.
        path_s: Seconds of the critical path, each operation as fast as it can be.
        work_s: Seconds of the least work, shared evenly among all processors.
    """

    title: str
    graph: TaskGraph
    machine: Machine
    plans: tuple[Planned, ...]
    path_s: float
    work_s: float

    @property
    def bound_s(self) -> float:
        """Seconds that no plan goes below."""
        return max(self.path_s, self.work_s)

    @property
    def default_s(self) -> float | None:
        """Makespan of the default policy, if it is among the plans."""
        return next((one.timeline.makespan_s for one in self.plans if one.policy == DEFAULT), None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "title": self.title,
            "machine": {
                "name": self.machine.name,
                "title": self.machine.title,
                "clusters": [vars(one) for one in self.machine.clusters],
                "assumptions": list(self.machine.assumptions),
            },
            "tasks": len(self.graph.tasks),
            "critical_path_s": self.path_s,
            "shared_work_s": self.work_s,
            "policies": [
                {
                    "policy": one.policy,
                    "what": POLICIES[one.policy][1],
                    "workers": one.schedule.workers,
                    "figures": {
                        name: figure.to_dict()
                        for name, figure in one.figures(self.default_s, self.bound_s).items()
                    },
                }
                for one in self.plans
            ],
        }


class _AtEnd:
    """A performance model with every operation, and what operations do to each other, at one end of its interval.

    Args:
        times: The model.
        end: "low" or "high".
    """

    def __init__(self, times: Times, end: str) -> None:
        self._times, self._end = times, end

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        value = float(getattr(self._times.seconds(task, threads, cluster), self._end))
        return Seconds(value, value, value)

    def switch_s(self, from_threads: int, to_threads: int) -> float:
        return self._times.switch_s(from_threads, to_threads)

    def slowdown(self, one: Running, others: Sequence[Running]) -> Factor:
        value = float(getattr(self._times.slowdown(one, others), self._end))
        return Factor(value, value, value)

    def handover_s(self) -> float:
        return self._times.handover_s()


def parse_policies(text: str) -> tuple[str, ...]:
    """Names of policies with commas; "all" for each there is.

    Raises:
        InvalidValueError: There is no such policy, or none is named.
    """
    names = [word.strip() for word in text.split(",") if word.strip()]
    if not names:
        raise InvalidValueError(
            f"--policy: none is named; there are {', '.join(POLICIES)}", id="unknown-policy"
        )
    if ALL in names:
        return tuple(POLICIES)
    for name in names:
        find(name)
    return tuple(dict.fromkeys(names))


def study(
    title: str, graph: TaskGraph, times: Times, machine: Machine, names: Iterable[str]
) -> Study:
    """Plans by some policies.

    Args:
        title: Of the training.
        graph: Of the step.
        times: The performance model.
        machine: Where.
        names: Of policies.

    Raises:
        InvalidValueError: A policy does not exist, or the graph has no tasks.
    """
    if not graph.tasks:
        raise InvalidValueError(f"{title} has no tasks to schedule", id="damaged-tasks")
    path_s, work_s = lower_bound(Costs(graph, times, machine))
    ends = _AtEnd(times, "low"), _AtEnd(times, "high")
    plans = []
    for name in names:
        schedule = find(name)(graph, times, machine)
        quick, slow = (simulate(graph, schedule, end, machine).makespan_s for end in ends)
        timeline = simulate(graph, schedule, times, machine)
        plans.append(
            Planned(
                policy=name, schedule=schedule, timeline=timeline, quick_s=quick, slow_s=slow
            )
        )  # fmt: skip
    return Study(
        title=title, graph=graph, machine=machine, plans=tuple(plans), path_s=path_s, work_s=work_s
    )
