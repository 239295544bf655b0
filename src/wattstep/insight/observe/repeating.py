"""Repetition of loads and power from step to step: observations 2 and 7."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wattstep.insight.observe.deciding import Part, above
from wattstep.insight.observe.estimates import Estimate, of_processes
from wattstep.insight.observe.evaluators import Make
from wattstep.insight.observe.evidence import Observed
from wattstep.insight.observe.groups import Group
from wattstep.insight.observe.observation import Case
from wattstep.insight.observe.sensors import without_gpus
from wattstep.insight.observe.spreads import COURSES, TIMES
from wattstep.schema.figure import Figure, Missing

LOADS = {
    "training": "the training's CPU time",
    "cores": "the load of the cores",
    "gpu": "the load of the GPU",
}
POWERS = {
    "total": "the power of the device",
    "gpu": "the power of the GPU",
    "cpu": "the power of the CPU",
    "memory": "the power of memory",
}
ALIKE = 0.5  # correlation of one step's course with another's: more than half of what moves
MOST = 0.5  # of the steps
STEADY = 0.05  # of full load, or of the mean power: what moves less has no busy and idle times
STILL = "{} hardly moves: there is no course of busy and less busy times that could repeat"


def repeats(observation: str, quantities: Mapping[str, str], needed: str = "") -> Make:
    """A case: the course of each quantity that can be seen is the same in every step.

    Args:
        observation: Whose figures are read.
        quantities: Their names in words, by the prefix of their figures.
        needed: The one without which nothing can be tested.
    """

    def make(group: Group) -> Case:
        runs = group.runs
        seen = {key.partition("_")[0] for run in runs for key in run.extra.get(observation, {})}
        at_rest = without_gpus(runs) and any(
            not run.figure("gpu_utilization", "ratio").missing for run in runs
        )
        names = [name for name in quantities if name == needed or name in seen]
        parts = [
            part
            for name in names
            if not (name == "gpu" and at_rest)
            for part in _parts(runs, observation, name, quantities[name], needed=name == needed)
        ]
        reason = "" if parts else _of_none(runs, observation)
        return Case(
            label=group.label, parts=tuple(parts), runs=runs, reason=reason,
            batches="" if reason else group.words,
        )  # fmt: skip

    return make


def _of_none(runs: Sequence[Observed], observation: str) -> str:
    """Reason why nothing of these runs can be looked at."""
    figures = [figure for run in runs for figure in run.extra.get(observation, {}).values()]
    reasons = [figure.reason for figure in figures if figure.missing and figure.reason]
    return "; ".join(dict.fromkeys(reasons)) or "the run does not tell it"


def _parts(
    runs: Sequence[Observed], observation: str, name: str, words: str, *, needed: bool
) -> tuple[Part, ...]:
    """Parts of a case for one quantity: one step's course is like another's, and there is one.

    What hardly moves has no course, and cannot be tested. The course fails only where it surely moves
    and even the most that the correlation can be, noise of the sensor allowed for, is too little;
    never where other work disturbed most steps, and may be what moved.
    """

    def figures(key: str, unit: str = "1") -> list[Figure]:
        return [run.measured(observation, f"{name}_{key}", unit) for run in runs]

    alike, at_most = (
        of_processes(figures(key), between=COURSES) for key in ("alike", "alike_at_most")
    )
    moves = _movement(figures("movement", "ratio"), words)
    if isinstance(moves, Missing) and not isinstance(alike, Missing):
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
    if isinstance(alike, Missing) or isinstance(moves, Missing):
        return (course,)
    return course, Part(
        name=f"{name}_moves", words=f"movement of {words}", estimate=moves,
        region=above(math.log(STEADY)), needed=needed,
    )  # fmt: skip


def _movement(figures: Sequence[Figure], words: str) -> Estimate | Missing:
    """By how much a quantity moves, as a logarithm; or that it hardly does, or why nobody knows."""
    known = [figure.value for figure in figures if figure.value is not None]
    if known and min(known) <= 0:
        return Missing(STILL.format(words))
    movement = of_processes(figures, logarithm=True, between=TIMES)
    if isinstance(movement, Estimate) and movement.interval()[1] < math.log(STEADY):
        return Missing(STILL.format(words))
    return movement
