"""Whether the course of a step repeats from step to step, for anything that is sampled finely enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from wattstep.analysis.period import rates
from wattstep.analysis.power import spoken
from wattstep.analysis.repeatability import repeatability
from wattstep.analysis.statistics import mean_figure
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.observations.deciding import Part, Region
from wattstep.observations.estimates import Estimate, of_processes
from wattstep.observations.evidence import Observed
from wattstep.observations.growth import above
from wattstep.records.figure import Figure, Status, missing
from wattstep.run import Run

A_STEP = 5  # values of a counter that a step must hold for its course to be seen
LEAST_STEPS = 10
ALIKE = 0.5  # correlation of one step's course with another's: more than half of what moves
STEADY = 0.05  # of full load, or of the mean power: what moves less repeats anyway


def steps_of(run: Run) -> tuple[IntArray, IntArray]:
    """Begin and end of the counted steps in ns."""
    steps = run.series.steps
    clean = np.flatnonzero(steps.clean)
    return steps.start_ns[clean], steps.end_ns[clean]


def of_counter(
    run: Run, t_ns: IntArray, total: FloatArray, resolution_s: float, source: str, status: Status
) -> dict[str, Figure]:
    """The same of something that adds up; its differences span the time between two reads.

    Args:
        run: Whose steps.
        t_ns: Times of the reads in ns, shape (n,).
        total: What was read, shape (n,).
        resolution_s: The shortest time that reads can tell apart, in s.
        source: What was read.
        status: Of the reads.
    """
    if reason := too_short(run, resolution_s, source):
        return {"alike": missing("ratio", reason)}
    return of_gauge(run, *rates(t_ns, total), source, status)


def of_gauge(
    run: Run, t_ns: IntArray, value: FloatArray, source: str, status: Status
) -> dict[str, Figure]:
    """`alike`, `alike_at_most` and `movement` of something that is read at an instant.

    `alike` is the correlation of one step's course with another's, `alike_at_most` the same with
    what differs from sample to sample taken as noise of the sensor, `movement` the root mean square
    about the mean, in the unit of the values.
    """
    start, end = steps_of(run)
    if len(start) < LEAST_STEPS:
        reason = f"{len(start)} counted steps: {LEAST_STEPS} are the least to see what repeats"
        return {"alike": missing("ratio", run.series.steps.absent or reason)}
    found = repeatability(t_ns, value, start, end, source, status)
    return {
        "alike": found.correlation,
        "alike_at_most": found.corrected,
        "movement": _movement(t_ns, value, start, end, source, status),
    }


def too_short(run: Run, resolution_s: float, source: str) -> str | None:
    """Why the course of a step cannot be seen; None where it can."""
    start, end = steps_of(run)
    if not len(start):
        return run.series.steps.none_clean
    length = float(np.median(end - start)) * 1e-9
    if length >= A_STEP * resolution_s:
        return None
    return (
        f"steps of {spoken(length)} are too short to see a course in: {source} tells times of "
        f"{spoken(resolution_s)} apart, and a step must hold {A_STEP}"
    )


def _movement(
    t_ns: IntArray, value: FloatArray, start: IntArray, end: IntArray, source: str, status: Status
) -> Figure:
    """Root mean square about the mean, of the samples in counted steps; by step for the interval."""
    step = np.searchsorted(start, t_ns, side="right") - 1
    inside = (step >= 0) & (t_ns < end[np.maximum(step, 0)]) & np.isfinite(value)
    step, value = step[inside], value[inside]
    if len(value) < 2:
        return missing("ratio", f"no samples of {source} in counted steps")
    _, group = np.unique(step, return_inverse=True)
    squares = np.bincount(group, (value - value.mean()) ** 2) / np.bincount(group)
    mean = mean_figure(squares, "ratio", source, status)

    def root(number: float | None) -> float | None:
        return None if number is None else math.sqrt(max(number, 0.0))

    return Figure(
        value=root(mean.value), unit="ratio", status=status, source=source, n=mean.n,
        low=root(mean.low), high=root(mean.high), confidence=mean.confidence,
        method=f"root of the mean square about the mean; {mean.method}",
    )  # fmt: skip


def part_of(
    runs: Sequence[Observed], observation: str, name: str, words: str, *, needed: bool
) -> Part:
    """What must hold of one quantity: one step's course is like another's, or it hardly moves.

    It fails only where even the most that the correlation can be, noise of the sensor allowed for,
    is too little.

    Args:
        runs: Processes of one configuration.
        observation: Whose `measure` made the figures.
        name: Prefix of the figures: "training", "gpu".
        words: What it is.
        needed: Whether the case cannot be tested without it.
    """

    def estimate(key: str) -> Estimate | str:
        return of_processes([run.measured(observation, f"{name}_{key}", "ratio") for run in runs])

    movement = estimate("movement")
    if isinstance(movement, Estimate) and movement.interval()[1] < STEADY:
        return Part(
            name=f"{name}_steady", words=f"movement of {words}", estimate=movement,
            region=Region(high=STEADY), needed=needed,
        )  # fmt: skip
    at_most = estimate("alike_at_most")
    return Part(
        name=f"{name}_alike", words=f"correlation of one step's course with another's, {words}",
        estimate=estimate("alike"), region=above(ALIKE), needed=needed,
        at_most=at_most if isinstance(at_most, Estimate) else None,
    )  # fmt: skip


def prefixed(name: str, figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """Figures of one quantity under its name."""
    return {f"{name}_{key}": figure for key, figure in figures.items()}
