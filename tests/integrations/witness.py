"""What really happened while a trainer trained, to hold the record against."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from wattstep.run import Run


@dataclass
class Witness:
    """Begin and end in ns of the batches that were trained on, and of evaluations; losses."""

    batches: list[tuple[int, int]] = field(default_factory=list)
    evaluations: list[tuple[int, int]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def batch(self, begin_ns: int, loss: float) -> None:
        self.batches.append((begin_ns, time.perf_counter_ns()))
        self.losses.append(loss)

    def evaluation(self, begin_ns: int) -> None:
        self.evaluations.append((begin_ns, time.perf_counter_ns()))


def batches_by_step(run: Run, witness: Witness) -> list[int]:
    """How many batches lie within each step of the run, from begin to end."""
    steps = run.series.steps
    begin, end = np.array(witness.batches).T
    return [
        int(((begin >= a) & (end <= b)).sum())
        for a, b in zip(steps.start_ns, steps.end_ns, strict=True)
    ]


def within_rest(run: Run, witness: Witness, name: str) -> bool:
    """Whether each evaluation lies in a rest of that name, and in no step."""
    rests = run.series.steps.rest_ns[name]
    return all(
        any(a <= begin and end <= b for a, b in rests) for begin, end in witness.evaluations
    ) and not any(
        begin < b and end > a
        for begin, end in witness.evaluations
        for a, b in zip(run.series.steps.start_ns, run.series.steps.end_ns, strict=True)
    )


def samples(run: Run) -> list[float]:
    return [float(each) for each in run.series.steps.samples]
