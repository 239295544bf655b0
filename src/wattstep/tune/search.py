"""The search: threads, one knob at a time beside the best of them, combinations that are halved, then rounds of fresh processes for the verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal, Protocol

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.differences import CONFIDENCE
from wattstep.stats.student import half_width
from wattstep.tune.losses import LossCheck
from wattstep.tune.space import DEFAULT, THREADS, Candidate, Value

Goal = Literal["time", "energy"]
Stage = Literal[
    "default", "rounding", "threads", "one by one", "combining", "beside the best", "verdict"
]
BEGIN_STEPS: Final = 3  # first steps of a training, whose losses are compared
TURN_S: Final = 0.4  # a turn takes about so long
TURN_STEPS: Final = (3, 40)  # and so many steps at least and at most
CURVE_STEPS: Final = 20  # of a finalist, whose losses are compared with the default's
SINGLE_ROUNDS: Final = 3
HALVING_ROUNDS: Final = 2  # of each rung
MOST_COMBINED: Final = 12
FINALISTS: Final = 2
PAIRS: Final = 6
HOPELESS: Final = (
    math.log(3.0),
    math.log(1.25),
)  # so much worse in one round, in several: no further turn
CLEAR: Final = math.log(0.9)  # threads that are so much better are everybody's from then on
PROMISING: Final = math.log(1.01)  # one knob's value is combined with others up to here
PATIENCE: Final = 4.0  # a turn may take so many times as long as the default's
ROUNDS_WORDS: Final = "rounds of fresh processes"
BEGIN_S: Final = 900.0  # a first step that compiles


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Steps that a bench is to make.

    Attributes:
        stage: Of the search.
        round: Of the stage, from 0.
        turn: Of the round, from 0: a candidate may have two.
        candidate: Who makes them.
        steps: How many count.
        begin: Whether its training begins anew, and its first steps are those asked for.
        alone: Whether it has a process of its own, which it keeps within a round.
        nudged: Whether its parameters are moved by one rounding first.
        most_s: After so long no further step begins.
    """

    stage: Stage
    round: int
    candidate: Candidate
    steps: int
    turn: int = 0
    begin: bool = False
    alone: bool = False
    nudged: bool = False
    most_s: float = BEGIN_S

    @property
    def key(self) -> str:
        """Which of a tune's asks it is."""
        return f"{self.stage}/{self.round}/{self.turn}/{self.candidate.text}"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Steps that were made.

    Attributes:
        seconds: Of each step that counts.
        losses: Of the steps of its training, by their index from 0.
        taken: All steps that were made for it, those that do not count among them.
        joules: Of a step that counts, mean; None: nothing tells.
        energy: Status of that, by its name.
        memory: Most resident memory of the process so far in bytes; None: not known.
        refused: Why it cannot be trained so; "" where it can.
    """

    seconds: tuple[float, ...] = ()
    losses: Mapping[int, float] = field(default_factory=dict)
    taken: int = 0
    joules: float | None = None
    energy: str = Status.MEASURED.value
    memory: int | None = None
    refused: str = ""

    @property
    def step_s(self) -> float:
        """Mean time of a step."""
        return statistics.fmean(self.seconds)


class Bench(Protocol):
    """Makes the steps; tests have one with a made-up landscape."""

    def measure(self, ask: Ask) -> Turn:
        """Makes the steps that are asked for."""
        ...


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A candidate as the verdict's rounds have it.

    Attributes:
        candidate: Which.
        step_time: Mean over rounds, in s.
        energy: Of a step likewise, in J.
        memory: Most resident memory of its processes, in bytes.
        ratio: Of its cost to the default's, with its 95 % interval over rounds; of the default 1.
    """

    candidate: Candidate
    step_time: Figure
    energy: Figure
    memory: Figure
    ratio: Figure

    @property
    def costs(self) -> tuple[float, ...]:
        """Time, energy and memory, as far as they are known, for a front."""
        figures = (self.step_time, self.energy, self.memory)
        return tuple(0.0 if each.value is None else each.value for each in figures)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "changes": dict(self.candidate.changes),
            "text": self.candidate.text,
            "step_time": self.step_time.to_dict(),
            "energy_per_step": self.energy.to_dict(),
            "peak_memory": self.memory.to_dict(),
            "ratio": self.ratio.to_dict(),
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
        compared: Steps of the finalists' losses that were compared with the default's.
        steps: All that were made.
    """

    goal: Goal
    chosen: Measured | None
    measured: tuple[Measured, ...]
    seen: Mapping[Candidate, float]
    refused: Mapping[Candidate, str]
    compared: int
    steps: int


Tell = Callable[[str, float], None]


class Search:
    """A search over knobs.

    Args:
        values: What is tried of each knob beside the default.
        bench: Makes the steps.
        goal: What is to be the least.
        allow: Of `space.ALLOWED`, what may change what is learnt.
        tell: Hears the stage and the share that is done.
    """

    def __init__(
        self,
        values: Mapping[str, Sequence[Value]],
        bench: Bench,
        goal: Goal = "time",
        allow: Collection[str] = (),
        tell: Tell = lambda stage, share: None,
    ) -> None:
        self._values, self._bench, self._goal = values, bench, goal
        self._allow, self._tell = allow, tell
        self._scores: dict[Candidate, list[float]] = {}
        self._refused: dict[Candidate, str] = {}
        self._seen_s: dict[Candidate, float] = {}  # of a step, in the last turn
        self._base, self._base_score = DEFAULT, 0.0
        self._steps = self._asked = 0
        singles = sum(map(len, values.values()))
        combining = 2 * MOST_COMBINED * HALVING_ROUNDS
        self._expect(4 + singles + (singles + 1) * SINGLE_ROUNDS + combining, FINALISTS)

    def run(self) -> Tuned:
        """Searches.

        Raises:
            InvalidValueError: The default cannot be trained, or nothing tells its energy.
        """
        self._begin_default()
        # As many threads as cores may be a trap, in which nothing else could be told from noise.
        threads = self._singles("threads", [THREADS])
        if threads and (best := min(threads, key=self._score)) and self._score(best) < CLEAR:
            self._base, self._base_score = best, self._score(best)
            self._settle_turns(self._seen_s[best])
        others = [name for name in self._values if name != THREADS]
        singles = self._singles("one by one", others)
        if self._base == DEFAULT:
            singles = [*threads, *singles]
        finalists = self._polished(self._halved(self._combined(singles)))
        self._expect(0, len(finalists))
        return self._verdict(finalists)

    def _singles(self, stage: Stage, knobs: Sequence[str]) -> list[Candidate]:
        """Each value of some knobs beside what everybody has, after its turns."""
        singles = [
            self._base.with_value(knob, each)
            for knob in knobs
            for each in self._values.get(knob, ())
        ]
        singles = self._admitted(stage, singles)
        self._rounds(stage, singles, SINGLE_ROUNDS)
        return [each for each in singles if each in self._scores and each not in self._refused]

    def _expect(self, asks: int, finalists: int) -> None:
        """Says how much is left: so many asks, then the verdict over so many finalists."""
        verdict = PAIRS * (finalists + 1) * 3 if finalists else 3
        self._expected = self._asked + asks + verdict

    # --- beginning ------------------------------------------------------------------------------

    def _begin_default(self) -> None:
        first = self._measure(
            Ask(stage="default", round=0, candidate=DEFAULT, steps=BEGIN_STEPS, begin=True)
        )
        second = self._measure(
            Ask(stage="default", round=1, candidate=DEFAULT, steps=TURN_STEPS[0])
        )
        for turn in (first, second):
            if turn.refused:
                raise InvalidValueError(turn.refused, id="not-trainable")
        if self._goal == "energy" and second.joules is None:
            raise InvalidValueError(
                "--for energy: nothing here tells the power: --power-model models it, and wattstep doctor says "
                "what was looked for",
                id="tune-needs-power",
            )
        self._settle_turns(second.step_s)
        plain = self._curve("default", 2, nudged=False)
        self._check = LossCheck(plain, self._curve("rounding", 0, nudged=True))

    def _settle_turns(self, step_s: float) -> None:
        """How long a turn is, from the time of a step."""
        least, most = TURN_STEPS
        self._turn_steps = max(least, min(most, round(TURN_S / step_s)))
        self._most_s = max(1.0, PATIENCE * self._turn_steps * step_s)

    def _curve(self, stage: Stage, number: int, *, nudged: bool) -> Mapping[int, float]:
        """Losses of the default's first steps."""
        turn = self._measure(
            Ask(
                stage=stage, round=number, candidate=DEFAULT, steps=CURVE_STEPS, begin=True, alone=True,
                nudged=nudged,
            )
        )  # fmt: skip
        return turn.losses

    def _admitted(self, stage: Stage, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that train, and whose first losses are the default's."""
        for candidate in candidates:
            turn = self._measure(
                Ask(stage=stage, round=-1, candidate=candidate, steps=BEGIN_STEPS, begin=True)
            )
            self._judge(candidate, turn)
        return [each for each in candidates if each not in self._refused]

    def _judge(self, candidate: Candidate, turn: Turn) -> None:
        """Refuses a candidate that cannot be trained, or learns something else."""
        reason = turn.refused
        free = "losses" in self._allow or any(name in self._allow for name, _ in candidate.changes)
        if not reason and not free:
            reason = self._check.difference(turn.losses)
        if reason:
            self._refused[candidate] = reason

    # --- turns ----------------------------------------------------------------------------------

    def _measure(self, ask: Ask) -> Turn:
        turn = self._bench.measure(ask)
        self._steps += turn.taken
        self._asked += 1
        self._tell(f"{ask.stage}: {ask.candidate.text}", min(self._asked / self._expected, 0.99))
        return turn

    def _rounds(
        self, stage: Stage, candidates: Sequence[Candidate], rounds: int, first: int = 0
    ) -> None:
        """Turns of all beside the base, back and forth, so that what drifts evenly is in none of them."""
        left = list(candidates)
        for number in range(first, first + rounds):
            order = [self._base, *left]
            costs: dict[Candidate, float] = {}
            for candidate in order if number % 2 == 0 else reversed(order):
                turn = self._measure(
                    Ask(
                        stage=stage, round=number, candidate=candidate, steps=self._turn_steps,
                        most_s=self._most_s,
                    )
                )  # fmt: skip
                if turn.refused:
                    self._refused[candidate] = turn.refused
                else:
                    costs[candidate] = self._cost(turn)
                    self._seen_s[candidate] = turn.step_s
            if self._base not in costs:
                raise InvalidValueError(self._refused[self._base], id="not-trainable")
            for candidate in left:
                if candidate in costs:
                    ratio = math.log(costs[candidate] / costs[self._base])
                    self._scores.setdefault(candidate, []).append(ratio)
            left = [each for each in left if each in costs and not self._is_hopeless(each)]

    def _is_hopeless(self, candidate: Candidate) -> bool:
        rounds = self._scores[candidate]
        return self._score(candidate) > HOPELESS[0 if len(rounds) == 1 else 1]

    def _cost(self, turn: Turn) -> float:
        if self._goal == "time":
            return turn.step_s
        if turn.joules is None:
            raise InvalidValueError(
                "--for energy: the power was not sampled during a turn", id="tune-needs-power"
            )
        return turn.joules

    def _score(self, candidate: Candidate) -> float:
        """Log of its cost to that of what it took turns beside: median over its rounds."""
        return statistics.median(self._scores[candidate])

    # --- combining and halving ------------------------------------------------------------------

    def _combined(self, singles: Sequence[Candidate]) -> list[Candidate]:
        """Combinations of what may help, the most promising by the sum of their parts, singles included."""
        parts: dict[str, list[tuple[Value, float]]] = {}
        for single in singles:
            if single in self._refused or single not in self._scores:
                continue
            (name, value), score = self._added(single), self._score(single)
            if score < PROMISING:
                parts.setdefault(name, []).append((value, score))
        ways = []
        for chosen in product(*([None, *each] for each in parts.values())):
            candidate, score = self._base, 0.0
            for name, part in zip(parts, chosen, strict=True):
                if part is not None:
                    candidate, score = candidate.with_value(name, part[0]), score + part[1]
            ways.append((score, len(candidate.changes), candidate.text, candidate))
        ways.sort(key=lambda way: way[:3])
        best = [way[-1] for way in ways if way[-1] != DEFAULT][:MOST_COMBINED]
        known = [each for each in best if each in self._scores or each == self._base]
        rungs = 2 * len(best) * HALVING_ROUNDS if len(best) > FINALISTS else 0
        self._expect(len(best) - len(known) + rungs, min(len(best), FINALISTS))
        fresh = [each for each in best if each not in known]
        return [*known, *self._admitted("combining", fresh)]

    def _added(self, single: Candidate) -> tuple[str, Value]:
        """The knob that it turns beside the base."""
        (added,) = set(single.changes) - set(self._base.changes)
        return added

    def _halved(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The finalists."""
        left, number = list(candidates), 0
        if self._base != DEFAULT:  # it takes part as all do, and is what they are compared with
            self._scores[self._base] = [0.0]
        while len(left) > FINALISTS:
            self._rounds(
                "combining", [each for each in left if each != self._base], HALVING_ROUNDS, number
            )
            number += HALVING_ROUNDS
            left = [each for each in left if each not in self._refused and each in self._scores]
            left.sort(key=lambda each: (self._score(each), each.text))
            left = left[: max(FINALISTS, math.ceil(len(left) / 2))]
        return sorted(left, key=lambda each: (self._score(each), each.text))

    def _polished(self, finalists: list[Candidate]) -> list[Candidate]:
        """The finalists, or one knob more: what alone does nothing may help beside the best."""
        if not finalists:
            return finalists
        best, before = finalists[0], self._scores
        turned = dict(best.changes)
        # What alone was refused is refused beside anything.
        own = set(self._base.changes)
        refused = {
            change
            for each in self._refused
            for change in set(each.changes) - own
            if len(set(each.changes) - own) == 1
        }
        ways = [
            best.with_value(knob, value)
            for knob, values in self._values.items()
            for value in values
            if turned.get(knob) != value and (knob, value) not in refused
        ]
        ways = [each for each in ways if each not in self._refused and each not in finalists]
        self._expect(len(ways) * (1 + HALVING_ROUNDS), FINALISTS)
        base, self._base, self._scores = self._base, best, {}
        self._rounds("beside the best", self._admitted("beside the best", ways), HALVING_ROUNDS)
        found, self._base, self._scores = self._scores, base, before
        beside = self._score(best)
        for candidate, rounds in found.items():
            before[candidate] = [score + beside for score in rounds]
        better = [
            each
            for each in found
            if each not in self._refused and statistics.median(found[each]) < -PROMISING
        ]
        better.sort(key=lambda each: (self._score(each), each.text))
        return [*better, *finalists][:FINALISTS]

    # --- verdict --------------------------------------------------------------------------------

    def _verdict(self, finalists: Sequence[Candidate]) -> Tuned:
        """Rounds of fresh processes, each with two turns of the default and of every finalist."""
        everyone = [DEFAULT, *finalists]
        turns: dict[Candidate, list[list[Turn]]] = {each: [] for each in everyone}
        compared = 0
        for number in range(PAIRS if finalists else 1):
            turned = number % len(everyone)
            order = [*everyone[turned:], *everyone[:turned]]
            losses: dict[Candidate, dict[int, float]] = {each: {} for each in everyone}
            for each in everyone:
                turns[each].append([])
            for place, candidate in enumerate([*order, *order, *reversed(order)]):
                if candidate in self._refused:
                    continue
                begin = place < len(order)
                turn = self._measure(
                    Ask(
                        stage="verdict", round=number, turn=place // len(order), candidate=candidate,
                        steps=BEGIN_STEPS if begin else self._turn_steps, begin=begin, alone=True,
                        most_s=BEGIN_S if begin else self._most_s,
                    )
                )  # fmt: skip
                losses[candidate].update(turn.losses)
                self._judge(candidate, Turn(losses=losses[candidate], refused=turn.refused))
                compared = max(compared, self._check.compared(losses[candidate]))
                if not (begin or turn.refused):
                    turns[candidate][-1].append(turn)
            if DEFAULT in self._refused:
                raise InvalidValueError(self._refused[DEFAULT], id="not-trainable")
        base = [statistics.fmean(map(self._cost, pair)) for pair in turns[DEFAULT]]
        measured = [self._measured(DEFAULT, turns[DEFAULT], base)]
        for each in finalists:
            if each not in self._refused:
                measured.append(self._measured(each, turns[each], base))
        first = measured[1] if len(measured) > 1 and measured[1].candidate == finalists[0] else None
        return Tuned(
            goal=self._goal,
            chosen=first if first is not None and (first.ratio.high or math.inf) < 1 else None,
            measured=tuple(measured),
            seen={each: math.exp(self._against_default(each)) for each in self._scores},
            refused=dict(self._refused),
            compared=compared,
            steps=self._steps,
        )

    def _against_default(self, candidate: Candidate) -> float:
        """Log of its cost to the default's, where it may have taken turns beside the base."""
        alone = [name for name, _ in candidate.changes] == [THREADS]
        if self._base == DEFAULT:
            return self._score(candidate)
        if candidate == self._base:
            return self._base_score
        return self._score(candidate) + (0.0 if alone else self._base_score)

    def _measured(
        self, candidate: Candidate, pairs: Sequence[Sequence[Turn]], base: Sequence[float]
    ) -> Measured:
        costs = [statistics.fmean(map(self._cost, pair)) for pair in pairs]
        logs = np.log(np.array(costs) / np.array(base))
        half = 0.0 if candidate == DEFAULT else half_width(logs, CONFIDENCE)
        every = [turn for pair in pairs for turn in pair]
        joules = [turn.joules for turn in every if turn.joules is not None]
        memory = [turn.memory for turn in every if turn.memory is not None]
        mean = float(logs.mean())

        def figure(value: float, unit: str, method: str, status: str = "measured") -> Figure:
            return Figure(
                value=value, unit=unit, status=Status(status), n=len(pairs), method=method
            )

        return Measured(
            candidate=candidate,
            step_time=figure(
                statistics.fmean(turn.step_s for turn in every), "s", f"mean over {ROUNDS_WORDS}"
            ),
            energy=figure(statistics.fmean(joules), "J", f"mean over {ROUNDS_WORDS}", every[0].energy)
            if joules
            else missing("J", "it was not asked for: --for energy"),
            memory=figure(max(memory), "B", f"most resident memory, {ROUNDS_WORDS}")
            if memory
            else missing("B", "not known"),
            ratio=Figure(
                value=math.exp(mean), unit="ratio", low=math.exp(mean - half), high=math.exp(mean + half),
                confidence=CONFIDENCE, n=len(pairs), status=Status.MEASURED,
                method=f"Student's t over the logarithms of the ratios of {ROUNDS_WORDS}",
            ),
        )  # fmt: skip
