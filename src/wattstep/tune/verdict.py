"""The verdict: what rounds of fresh processes say of the default and the finalists."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.differences import CONFIDENCE
from wattstep.stats.student import half_width
from wattstep.tune.space import DEFAULT, Candidate
from wattstep.tune.turns import Turn

Goal = Literal["time", "energy"]
UNSAMPLED: Final = "its power was not sampled"
ROUNDS_WORDS: Final = "rounds of fresh processes"
LEAST_ROUNDS: Final = 2  # for an interval


@dataclass(kw_only=True)
class Round:
    """Turns of one candidate in one round.

    Attributes:
        begin: Its first steps, in a fresh process.
        turns: Those that count.
    """

    begin: Turn
    turns: list[Turn] = field(default_factory=list)

    def cost(self, goal: Goal) -> float:
        """Of a step, in s or J; NaN: its power was not sampled."""
        return cost_of(self.turns, goal)

    @property
    def extra_begin_s(self) -> float:
        """What its begin took beyond as many steps as any others; NaN: not known."""
        if self.begin.begin_s is None:
            return math.nan
        return self.begin.begin_s - self.begin.taken * cost_of(self.turns, "time")


def cost_of(turns: Sequence[Turn], goal: Goal) -> float:
    """Of a step, in s or J, mean over turns; NaN: its power was not sampled."""
    if goal == "time":
        return statistics.fmean(turn.step_s for turn in turns)
    return statistics.fmean(math.nan if turn.joules is None else turn.joules for turn in turns)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A candidate as the verdict's rounds have it.

    Attributes:
        candidate: Which.
        step_time: Mean over rounds, in s.
        energy: Of a step likewise, in J.
        memory: Most resident memory of its processes, in bytes.
        ratio: Of its cost to the default's, with its 95 % interval over rounds; of the default 1.
        begin: By how much longer than the default it takes until its first steps are made, beyond what
            these steps take, in s, likewise: compiling, planning.
        earned: Steps after which that is earned back.
    """

    candidate: Candidate
    step_time: Figure
    energy: Figure
    memory: Figure
    ratio: Figure
    begin: Figure
    earned: Figure

    @property
    def costs(self) -> tuple[float, ...]:
        """Time, energy and memory for a front; what is not known beats nothing."""
        figures = (self.step_time, self.energy, self.memory)
        return tuple(math.inf if each.value is None else each.value for each in figures)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "changes": dict(self.candidate.changes),
            "text": self.candidate.text,
            "step_time": self.step_time.to_dict(),
            "energy_per_step": self.energy.to_dict(),
            "peak_memory": self.memory.to_dict(),
            "ratio": self.ratio.to_dict(),
            "longer_begin": self.begin.to_dict(),
            "earned_after_steps": self.earned.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What a search ended with.

    Attributes:
        goal: What is the less the better.
        chosen: The best, where it is better than the default beyond doubt; else None.
        measured: The default, then the finalists, the best first.
        seen: Cost against the default's of all candidates that took turns, by medians over rounds.
        refused: Why others were refused, by candidate.
        compared: Steps of the finalists' losses that were compared with the default's in the same precision.
        uncompared: Finalists whose losses were not, since nothing is left that must not change them.
        steps: All that were made.
    """

    goal: Goal
    chosen: Measured | None
    measured: tuple[Measured, ...]
    seen: Mapping[Candidate, float]
    refused: Mapping[Candidate, str]
    compared: int
    uncompared: tuple[Candidate, ...]
    steps: int


def measured(
    candidate: Candidate, rounds: Sequence[Round], base: Sequence[Round], goal: Goal
) -> Measured:
    """Figures of a candidate over its rounds, beside the default's in the same rounds."""
    turns = [turn for each in rounds for turn in each.turns]
    times = _costs(rounds, "time"), _costs(base, "time")
    begin = _begin(candidate, rounds, base)
    return Measured(
        candidate=candidate,
        step_time=_mean(times[0], "s"),
        energy=_energy(rounds, turns, goal),
        memory=_memory([turn.memory for turn in turns if turn.memory is not None], len(rounds)),
        ratio=_ratio(
            candidate,
            _costs(rounds, goal),
            _costs(base, goal),
            Status.MEASURED if goal == "time" else Status(turns[0].energy),
        ),
        begin=begin,
        earned=_earned(begin, *times),
    )


def _costs(rounds: Sequence[Round], goal: Goal) -> FloatArray:
    return np.array([each.cost(goal) for each in rounds])


def _mean(values: FloatArray, unit: str, status: str = Status.MEASURED.value) -> Figure:
    return Figure(
        value=float(values.mean()), unit=unit, status=Status(status), n=len(values),
        method=f"mean over {ROUNDS_WORDS}",
    )  # fmt: skip


def _energy(rounds: Sequence[Round], turns: Sequence[Turn], goal: Goal) -> Figure:
    joules = _costs(rounds, "energy")
    joules = joules[np.isfinite(joules)]
    if not len(joules):
        asked = goal == "energy"
        return missing("J", UNSAMPLED if asked else "it was not asked for: --for energy")
    return _mean(joules, "J", turns[0].energy)


def _memory(peaks: Sequence[int], rounds: int) -> Figure:
    if not peaks:
        return missing("B", "not known")
    return Figure(
        value=max(peaks), unit="B", status=Status.MEASURED, n=rounds,
        method=f"most resident memory, {ROUNDS_WORDS}",
    )  # fmt: skip


def _ratio(candidate: Candidate, costs: FloatArray, base: FloatArray, status: Status) -> Figure:
    """Within each round, so that what drifts from round to round is in neither."""
    logs = np.log(costs / base)
    logs = logs[np.isfinite(logs)]
    if len(logs) < LEAST_ROUNDS and candidate != DEFAULT:
        return missing("ratio", f"{UNSAMPLED} in two rounds or more")
    half = 0.0 if candidate == DEFAULT else half_width(logs, CONFIDENCE)
    mean = 0.0 if candidate == DEFAULT else float(logs.mean())
    return Figure(
        value=math.exp(mean), unit="ratio", low=math.exp(mean - half), high=math.exp(mean + half),
        confidence=CONFIDENCE, n=len(logs), status=status,
        method=f"Student's t over the logarithms of the ratios of {ROUNDS_WORDS}",
    )  # fmt: skip


def _begin(candidate: Candidate, rounds: Sequence[Round], base: Sequence[Round]) -> Figure:
    if candidate == DEFAULT:
        return missing("s", "it is the default's own begin that others are held against")
    longer = np.array([each.extra_begin_s for each in rounds])
    longer -= np.array([each.extra_begin_s for each in base])
    longer = longer[np.isfinite(longer)]
    if len(longer) < LEAST_ROUNDS:
        return missing("s", "the begin of its trainings was not timed")
    mean, half = float(longer.mean()), half_width(longer, CONFIDENCE)
    return Figure(
        value=mean, unit="s", low=mean - half, high=mean + half, confidence=CONFIDENCE, n=len(longer),
        status=Status.MEASURED, method=f"Student's t over differences within {ROUNDS_WORDS}",
    )  # fmt: skip


def _earned(begin: Figure, seconds: FloatArray, base: FloatArray) -> Figure:
    """Steps after which a longer begin is earned back; none where it is not longer beyond doubt."""
    if begin.value is None or begin.low is None or begin.high is None:
        return missing("count", begin.reason or "")
    gains = base - seconds
    gain, half = float(gains.mean()), half_width(gains, CONFIDENCE)
    if begin.low <= 0:
        return missing("count", "its begin takes no longer beyond doubt")
    if gain - half <= 0:
        return missing("count", "its steps are not shorter beyond doubt")
    return Figure(
        value=begin.value / gain, unit="count", low=begin.low / (gain + half),
        high=begin.high / (gain - half), n=begin.n, status=Status.PREDICTED,
        method="what its begin takes longer over what a step takes less; an end of one interval over the other end "
        "of the other",
    )  # fmt: skip
