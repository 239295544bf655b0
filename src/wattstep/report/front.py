"""The time-energy front of the workloads of a sweep: which configurations no other one beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattstep.report.sweep_table import TELLING, setting_words
from wattstep.report.values import Shown, plain, quantity, show
from wattstep.schema.figure import missing
from wattstep.schema.outcome import Outcome
from wattstep.schema.sweep_report import SweepReport
from wattstep.stats.front import non_dominated


@dataclass(frozen=True, kw_only=True)
class Point:
    """Way to train a workload.

    Attributes:
        title: Settings that tell it apart, e.g. "batch 4, clock=1200MHz".
        seconds: Time of a sample in s.
        joules: Energy of a sample in J.
        energy: Energy as a figure, with its status.
        power: Mean power, or None.
        on_front: True if no other way is both quicker and cheaper.
        repeats: Number of repetitions; the one of middle speed is shown.
    """

    title: str
    seconds: float
    joules: float
    energy: Shown
    power: Shown | None
    on_front: bool = False
    repeats: int = 1

    @property
    def time(self) -> str:
        """The time of a sample, to be read."""
        return quantity(self.seconds, "s")


@dataclass(frozen=True, kw_only=True)
class Front:
    """The ways to train one workload, the quickest first."""

    workload: str
    points: tuple[Point, ...]

    @property
    def answer(self) -> str:
        """Which way is the quickest and which the cheapest, in a sentence; single runs do not tell more."""
        quickest, cheapest = self.points[0], min(self.points, key=lambda one: one.joules)
        if quickest is cheapest:
            costs = f"{quickest.time} and {quickest.energy.value} a sample"
            return f"Quickest and cheapest in these runs: {quickest.title}, {costs}."
        return (
            f"Quickest in these runs: {quickest.title}, {quickest.time} a sample. "
            f"Cheapest: {cheapest.title}, {cheapest.energy.value} a sample."
        )


def fronts(sweep: SweepReport) -> list[Front]:
    """The front of each workload that was trained in at least two ways whose energy is known."""
    by_workload: dict[str, dict[tuple[Any, ...], list[Outcome]]] = {}
    for outcome in sweep.outcomes:
        one = outcome.configuration
        if _cost(outcome) is not None:
            key = (one.batch_size, *(getattr(one, name) for name in TELLING))
            by_workload.setdefault(one.workload, {}).setdefault(key, []).append(outcome)
    return [
        Front(workload=plain(name), points=_points(ways))
        for name, ways in by_workload.items()
        if len(ways) > 1
    ]


def _points(ways: Mapping[tuple[Any, ...], Sequence[Outcome]]) -> tuple[Point, ...]:
    differing = [n for n in range(len(next(iter(ways)))) if len({key[n] for key in ways}) > 1]
    points = sorted(
        (_point(key, outcomes, differing) for key, outcomes in ways.items()),
        key=lambda p: (p.seconds, p.joules),
    )
    marks = non_dominated([(p.seconds, p.joules) for p in points])
    return tuple(replace(p, on_front=mark) for p, mark in zip(points, marks, strict=True))


def _point(key: tuple[Any, ...], outcomes: Sequence[Outcome], differing: Sequence[int]) -> Point:
    ranked = sorted(outcomes, key=lambda one: _cost(one) or (0.0, 0.0))
    middle = ranked[(len(ranked) - 1) // 2]
    seconds, joules = _cost(middle) or (0.0, 0.0)
    batch, *others = key
    words = [f"batch {batch}", *map(setting_words, TELLING, others)]
    settings = [words[n] for n in differing]
    power, energy = middle.figure("mean_power"), middle.figure("energy_per_sample")
    return Point(
        title=plain(", ".join(settings)),
        seconds=seconds,
        joules=joules,
        energy=show(missing("J", "not known") if energy is None else energy),
        power=None if power is None else show(power),
        repeats=len(outcomes),
    )


def _cost(outcome: Outcome) -> tuple[float, float] | None:
    """Time and energy of a sample, or None where one of them is not known."""
    throughput, energy = outcome.figure("throughput"), outcome.figure("energy_per_sample")
    if throughput is None or energy is None or not throughput.value or energy.value is None:
        return None
    return 1 / throughput.value, energy.value
