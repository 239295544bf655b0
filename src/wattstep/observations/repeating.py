"""Whether the course of a step repeats from step to step, for anything that is sampled finely enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.analysis.curves import Curve
from wattstep.analysis.repeatability import repeatability
from wattstep.analysis.statistics import mean_figure
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.observations.deciding import Part
from wattstep.observations.estimates import Estimate, of_processes
from wattstep.observations.evidence import Observed
from wattstep.observations.growth import above
from wattstep.observations.spreads import COURSES, TIMES
from wattstep.records.figure import Figure, Status, missing
from wattstep.run import Run

A_STEP = 5  # values of a counter that a step must hold for its course to be seen
LEAST_STEPS = 10
ALIKE = 0.5  # correlation of one step's course with another's: more than half of what moves
MOST = 0.5  # of the steps
STEADY = 0.05  # of full load, or of the mean power: what moves less has no busy and idle times
STILL = "{} hardly moves: there is no course of busy and less busy times that could repeat"


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What was read, and what its figures are at best."""

    source: str
    status: Status


def steps_of(run: Run) -> tuple[IntArray, IntArray]:
    """Begin and end of the counted steps in ns."""
    steps = run.series.steps
    clean = np.flatnonzero(steps.clean)
    return steps.start_ns[clean], steps.end_ns[clean]


def of_counter(run: Run, curve: Curve, resolution_s: float, about: Sampled) -> dict[str, Figure]:
    """`alike`, `alike_at_most` and `movement` of something that adds up.

    Its differences span the time between two reads, so that a step must hold several of them.

    Args:
        run: Whose steps.
        curve: What added up.
        resolution_s: The shortest time that reads can tell apart, in s.
        about: What was read.
    """
    if reason := too_short(run, resolution_s, about.source):
        return {"alike": missing("1", reason)}
    return _found(run, *_evenly(curve, round(resolution_s * 1e9)), curve, about)


def _evenly(curve: Curve, every_ns: int) -> tuple[IntArray, FloatArray]:
    """Rates in equal windows, each at its middle; NaN in gaps.

    Not between reads: where one came late and the next at once, an error of microseconds in a time
    makes a rate of a hundred cores.
    """
    edges = np.arange(curve.t_ns[0], curve.t_ns[-1] + 1, max(every_ns, 1))
    gains, covered = curve.difference(edges[:-1], edges[1:])
    rate = np.where(covered > 0.99, gains / (every_ns * 1e-9), np.nan)
    return edges[:-1] + every_ns // 2, rate


def of_gauge(
    run: Run, t_ns: IntArray, value: FloatArray, curve: Curve, about: Sampled
) -> dict[str, Figure]:
    """The same of something that is read at an instant, which may be folded over many steps.

    Args:
        run: Whose steps.
        t_ns: Times of the samples in ns, shape (n,).
        value: The samples, shape (n,).
        curve: Their integral.
        about: What was read.
    """
    return _found(run, t_ns, value, curve, about)


def _found(
    run: Run, t_ns: IntArray, value: FloatArray, curve: Curve, about: Sampled
) -> dict[str, Figure]:
    """`alike`: correlation of one step's course with another's; `alike_at_most`: the same with
    what differs from sample to sample taken as noise; `movement`: root mean square about the mean.
    """
    start, end = steps_of(run)
    if len(start) < LEAST_STEPS:
        reason = f"{len(start)} counted steps: {LEAST_STEPS} are the least to see what repeats"
        return {"alike": missing("1", run.series.steps.absent or reason)}
    found = repeatability(t_ns, value, start, end, about.source, about.status)
    return {
        "alike": replace(found.correlation, unit="1"),
        "alike_at_most": replace(found.corrected, unit="1"),
        "movement": _movement(curve, start, end, about),
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
        f"steps are too short to see a course in: {source} tells less than {A_STEP} times of a step "
        "apart (train with larger batches, or sample more finely)"
    )


def _movement(curve: Curve, start: IntArray, end: IntArray, about: Sampled) -> Figure:
    """Root mean square about the mean, of each fifth of the counted steps; by step for the interval.

    Single samples would show the jitter of reading as movement.
    """
    edges = start[:, None] + np.rint(
        (end - start)[:, None] * np.linspace(0.0, 1.0, A_STEP + 1)
    ).astype(np.int64)
    gains, covered = curve.difference(edges[:, :-1].ravel(), edges[:, 1:].ravel())
    seconds = np.diff(edges, axis=1) * 1e-9
    level = gains.reshape(seconds.shape) / np.maximum(seconds, 1e-12)
    level = level[(covered.reshape(seconds.shape) > 0.99).all(axis=1)]
    if len(level) < LEAST_STEPS:
        return missing("ratio", f"{about.source} was sampled throughout in {len(level)} steps only")
    squares = ((level - level.mean()) ** 2).mean(axis=1)
    mean = mean_figure(squares, "ratio", about.source, about.status)

    def root(number: float | None) -> float | None:
        return None if number is None else math.sqrt(max(number, 0.0))

    return replace(
        mean, value=root(mean.value), low=root(mean.low), high=root(mean.high),
        method=f"root of the mean square about the mean, of fifths of a step; {mean.method}",
    )  # fmt: skip


def of_none(runs: Sequence[Observed], observation: str) -> str:
    """Why nothing of these runs can be looked at."""
    figures = [figure for run in runs for figure in run.extra.get(observation, {}).values()]
    reasons = [figure.reason for figure in figures if figure.missing and figure.reason]
    return "; ".join(dict.fromkeys(reasons)) or "the run does not tell it"


def parts_of(
    runs: Sequence[Observed], observation: str, name: str, words: str, *, needed: bool
) -> tuple[Part, ...]:
    """What must hold of one quantity: one step's course is like another's, and there is one.

    What hardly moves has no course, and cannot be tested. The course fails only where it surely moves
    and even the most that the correlation can be, noise of the sensor allowed for, is too little;
    never where other work disturbed most steps, and may be what moved.

    Args:
        runs: Processes of one configuration.
        observation: Whose `measure` made the figures.
        name: Prefix of the figures: "training", "gpu".
        words: What it is.
        needed: Whether the case cannot be tested without it.
    """

    def figures(key: str, unit: str = "1") -> list[Figure]:
        return [run.measured(observation, f"{name}_{key}", unit) for run in runs]

    alike, at_most = (
        of_processes(figures(key), between=COURSES) for key in ("alike", "alike_at_most")
    )
    moves = movement_of(figures("movement", "ratio"), words)
    if isinstance(moves, str) and not isinstance(alike, str):
        alike, needed = moves, needed and moves != STILL.format(words)
    unsure = isinstance(moves, Estimate) and moves.interval()[0] <= math.log(STEADY)
    disturbed = any((run.disturbed or 0.0) >= MOST for run in runs)
    if isinstance(alike, Estimate) and (unsure or disturbed):
        # Where no course is seen its ceiling is not known; here it could be anything all the same.
        known = at_most if isinstance(at_most, Estimate) else alike
        at_most = replace(known, error=math.inf)
    course = Part(
        name=f"{name}_alike", words=f"correlation of one step's course with another's, {words}",
        estimate=alike, region=above(ALIKE), needed=needed, unit="1",
        at_most=at_most if isinstance(at_most, Estimate) else None,
    )  # fmt: skip
    if isinstance(alike, str) or isinstance(moves, str):
        return (course,)
    return course, Part(
        name=f"{name}_moves", words=f"movement of {words}", estimate=moves,
        region=above(math.log(STEADY)), needed=needed,
    )  # fmt: skip


def movement_of(figures: Sequence[Figure], words: str) -> Estimate | str:
    """By how much a quantity moves, as a logarithm; or that it hardly does, or why nobody knows."""
    known = [figure.value for figure in figures if figure.value is not None]
    if known and min(known) <= 0:
        return STILL.format(words)
    found = of_processes(figures, logarithm=True, between=TIMES)
    if isinstance(found, Estimate) and found.interval()[1] < math.log(STEADY):
        return STILL.format(words)
    return found


def prefixed(name: str, figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """Figures of one quantity under its name."""
    return {f"{name}_{key}": figure for key, figure in figures.items()}
