"""The search: threads, one knob at a time beside the best of them, combinations that are halved, then rounds of fresh processes for the verdict."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.tune.course import Course
from wattstep.tune.losses import LossCheck
from wattstep.tune.space import DEFAULT, THREADS, Candidate, Value
from wattstep.tune.turns import BEGIN_S, BEGIN_STEPS, CURVE_STEPS, Ask, Bench, Stage, Turn
from wattstep.tune.verdict import UNSAMPLED, Goal, Round, Tuned, cost_of, measured

TURN_S: Final = 0.4  # a turn of the verdict takes about so long
TURN_STEPS: Final = (3, 40)  # and so many steps at least and at most
SHORTER: Final = 3  # times: a turn of the search, where more rounds tell more than more steps
MOST_ROUNDS: Final = 5  # of single values: as many as the noise asks for
HALVING_ROUNDS: Final = 2  # of each rung, at most
PASSES: Final = 3  # through the knobs beside the best, as long as they find a better one
MOST_COMBINED: Final = 8
MOST_CLASHES: Final = 3  # sets of knobs that exclude each other, which are looked for
FINALISTS: Final = 2
PAIRS: Final = 6
ENOUGH: Final = 0.025  # standard error of a ratio, below which more turns tell nothing that matters
SURE: Final = 2.0  # standard errors
_CURVES: Final[tuple[tuple[Stage, int], ...]] = (("default", 2), ("rounding", 0))
LEAST_FREE: Final = 5  # differences of turns of one candidate, before the noise is known
HOPELESS: Final = (
    math.log(3.0),
    math.log(1.25),
)  # so much worse in one round, in several: no further turn
CLEAR: Final = math.log(0.9)  # threads that are so much better are everybody's from then on
PROMISING: Final = math.log(1.01)  # one knob's value is combined with others up to here
PLAINER: Final = 0.005  # by so much a knob more must gain to be worth it
PATIENCE: Final = 4.0  # a turn may take so many times as long as the default's

Tell = Callable[[str, float], None]
Scores = dict[Candidate, list[float]]


class Search:
    """A search over knobs.

    Args:
        values: What is tried of each knob beside the default.
        bench: Makes the steps.
        goal: What is to be the least.
        allow: Of `space.ALLOWED`, what may change what is learnt.
        tell: Hears the stage and the share that is done, by time.
        clock: Seconds.
    """

    def __init__(
        self,
        values: Mapping[str, Sequence[Value]],
        bench: Bench,
        goal: Goal = "time",
        allow: Collection[str] = (),
        tell: Tell = lambda stage, share: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._values, self._bench, self._goal = values, bench, goal
        self._allow, self._tell = allow, tell
        self._scores: Scores = {}
        self._known: list[list[float]] = []  # logs of each candidate's ratios beside one base
        self._spread = math.inf  # of them
        self._refused: dict[Candidate, str] = {}
        self._checks: dict[Candidate, LossCheck | None] = {}  # by what may change the losses
        self._differs: dict[Candidate, str] = {}  # what they learn instead; "": nothing else
        self._seen_s: dict[Candidate, float] = {}  # of a step, in the last turn
        self._base, self._base_score = DEFAULT, 0.0
        self._steps = self._passes = 0
        self._course = Course(clock)

    def run(self) -> Tuned:
        """Searches.

        Raises:
            InvalidValueError: The default cannot be trained, or nothing tells its energy.
        """
        singles = sum(map(len, self._values.values()))
        self._expect(singles, 2 * (singles + 1) + 2 * HALVING_ROUNDS * MOST_COMBINED)
        self._begin_default()
        threads = self._singles("threads", [THREADS])
        finalists = self._beside(threads)
        while self._base in self._refused:  # threads that everybody had by then crashed
            self._scores = {each: self._scores[each] for each in threads}
            finalists = self._beside(self._left(threads))
        tuned, number = self._verdict(finalists, 0), PAIRS
        while finalists and all(each in self._refused for each in finalists):
            finalists = self._polished(self._beside_base())  # all of them crashed there
            tuned, number = self._verdict(finalists, number), number + PAIRS
        return tuned

    def _beside(self, threads: Sequence[Candidate]) -> list[Candidate]:
        """The finalists, the best first: all else beside the best of these threads, where that is clearly better."""
        # As many threads as cores may be a trap, in which nothing else could be told from noise.
        self._base, self._base_score = DEFAULT, 0.0
        if threads and (best := min(threads, key=self._score)) and self._score(best) < CLEAR:
            self._base, self._base_score = best, self._score(best)
        self._settle_turns(self._seen_s[self._base])
        others = [name for name in self._values if name != THREADS]
        singles = self._singles("one by one", others)
        if self._base == DEFAULT:
            singles = [*threads, *singles]
        return self._polished(self._halved(self._combined(singles)))

    def _singles(self, stage: Stage, knobs: Sequence[str]) -> list[Candidate]:
        """Each value of some knobs beside what everybody has, after its turns."""
        singles = [
            self._base.with_value(knob, each)
            for knob in knobs
            for each in self._values.get(knob, ())
        ]
        singles = self._admitted(stage, [each for each in singles if each.makes_sense])
        self._rounds(stage, self._base, singles, self._scores, MOST_ROUNDS, self._is_settled)
        for each in singles:  # a candidate never goes without a word
            if self._base not in self._refused and each not in self._scores:
                self._refused.setdefault(each, UNSAMPLED)
        return self._left(singles)

    def _left(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those that took turns and are not refused."""
        return [each for each in candidates if each in self._scores and each not in self._refused]

    def _beside_base(self) -> list[Candidate]:
        """All whose scores are beside the base; those of threads alone may be beside the default."""
        if self._base == DEFAULT:
            return list(self._scores)
        return [
            each
            for each in self._scores
            if each == self._base or {name for name, _ in each.changes} != {THREADS}
        ]

    def _expect(self, begins: int, turns: int, finalists: int = FINALISTS) -> None:
        """Says how much is left before the verdict, and over how many finalists that will be."""
        rounds, everyone = (PAIRS, finalists + 1) if finalists else (1, 1)
        self._course.expect(
            {
                "begin": begins,
                "turn": turns,
                "process": rounds * everyone,
                "long turn": 2 * rounds * everyone,
            }
        )

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
        self._seen_s[DEFAULT] = second.step_s
        self._settle_turns(second.step_s)
        self._checks[DEFAULT] = self._check_beside(DEFAULT)

    def _settle_turns(self, step_s: float) -> None:
        """How long a turn is, from the time of a step."""
        least, most = TURN_STEPS
        self._turn_steps = max(least, min(most, round(TURN_S / step_s)))
        self._most_s = max(1.0, PATIENCE * self._turn_steps * step_s)

    def _check_beside(self, candidate: Candidate) -> LossCheck | None:
        """What the losses of those that add what must change nothing are held against; None: it does not train."""
        plain, nudged = (
            self._measure(
                Ask(
                    stage=stage, round=number, candidate=candidate, steps=CURVE_STEPS, begin=True,
                    alone=True, nudged=stage == "rounding",
                )
            )
            for stage, number in _CURVES
        )  # fmt: skip
        if reason := plain.refused or nudged.refused:
            if candidate == DEFAULT:
                raise InvalidValueError(reason, id="not-trainable")
            return None
        return LossCheck(plain.losses, nudged.losses, candidate.text if candidate.changes else "")

    def _admitted(self, stage: Stage, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that train, and whose first losses are what they must be."""
        for candidate in candidates:
            if reason := self._differs_strictly(stage, candidate):
                self._refused[candidate] = reason
            else:
                self._begin(stage, candidate)
        return [each for each in candidates if each not in self._refused]

    def _begin(self, stage: Stage, candidate: Candidate) -> None:
        """Makes the first steps of a candidate's training, once, and judges them."""
        if candidate not in self._differs:
            steps = BEGIN_STEPS + candidate.settling
            ask = Ask(stage=stage, round=-1, candidate=candidate, steps=steps, begin=True)
            self._judge(candidate, self._measure(ask))

    def _differs_strictly(self, stage: Stage, candidate: Candidate) -> str:
        """What of a candidate, without what may change its losses, changes them; "": nothing.

        A coarse precision hides what the default's own does not. What does not train without it
        (there may be no room) is held against the losses of that precision alone.
        """
        strict = candidate.without(self._allow)
        if strict in (candidate, DEFAULT) or "losses" in self._allow:
            return ""
        self._begin(stage, strict)
        without = candidate.only(self._allow).text
        return self._differs[strict] and f"without {without}, {self._differs[strict]}"

    def _judge(self, candidate: Candidate, turn: Turn) -> None:
        """Refuses a candidate that cannot be trained, or learns something else."""
        check = self._check_of(candidate)
        differs = "" if turn.refused or check is None else check.difference(turn.losses)
        self._differs[candidate] = differs
        if reason := turn.refused or self._strict_check.divergence(turn.losses) or differs:
            self._refused[candidate] = reason

    def _check_of(self, candidate: Candidate) -> LossCheck | None:
        """What its losses are held against; None where nothing is left that must not change them."""
        permitted = candidate.only(self._allow)
        if "losses" in self._allow or permitted == candidate != DEFAULT:
            return None
        if permitted not in self._checks:
            self._checks[permitted] = self._check_beside(permitted)
        return self._checks[permitted]

    @property
    def _strict_check(self) -> LossCheck:
        check = self._checks[DEFAULT]
        assert check is not None
        return check

    # --- turns ----------------------------------------------------------------------------------

    def _measure(self, ask: Ask) -> Turn:
        with self._course.goes_on(ask):
            turn = self._bench.measure(ask)
        self._steps += turn.taken
        self._tell(f"{ask.stage}: {ask.candidate.text}", self._course.share)
        return turn

    def _rounds(
        self,
        stage: Stage,
        base: Candidate,
        candidates: Sequence[Candidate],
        scores: Scores,
        most: int,
        is_settled: Callable[[Sequence[float]], bool],
        first: int = 0,
    ) -> None:
        """Turns of all beside a base, back and forth, so that what drifts evenly is in none of them.

        Args:
            stage: Of the search.
            base: Takes a turn in each round.
            candidates: Likewise, each until it is settled.
            scores: Take the logarithms of costs beside the base's.
            most: Rounds.
            is_settled: Whether a candidate with these logarithms takes no more turns.
            first: Number of the first round.
        """
        left = [each for each in candidates if each != base]
        for number in range(first, first + most):
            if not left:
                return
            order = [base, *left]
            costs: dict[Candidate, float] = {}
            for candidate in order if number % 2 == 0 else reversed(order):
                turn = self._measure(
                    Ask(
                        stage=stage, round=number, candidate=candidate,
                        steps=max(TURN_STEPS[0], math.ceil(self._turn_steps / SHORTER)),
                        most_s=self._most_s,
                    )
                )  # fmt: skip
                if turn.refused:
                    self._refused[candidate] = turn.refused
                else:
                    costs[candidate] = cost_of([turn], self._goal)
                    self._seen_s[candidate] = turn.step_s
            if base not in costs:
                if base == DEFAULT:
                    raise InvalidValueError(self._refused[base], id="not-trainable")
                return
            for candidate in left:
                ratio = math.log(costs.get(candidate, math.nan) / costs[base])
                if math.isfinite(ratio):  # else it crashed, or its power was not sampled
                    self._noted(scores, candidate).append(ratio)
            self._spread = self._turns_differ()
            left = [each for each in left if each in costs]
            left = [
                each
                for each in left
                if each not in scores
                or not (_is_hopeless(scores[each]) or is_settled(scores[each]))
            ]

    def _noted(self, scores: Scores, candidate: Candidate) -> list[float]:
        """The list that takes a candidate's ratios."""
        if candidate not in scores:
            scores[candidate] = []
            self._known.append(scores[candidate])
        return scores[candidate]

    def _turns_differ(self) -> float:
        """Standard deviation of a turn's logarithm, from all turns of one candidate; infinite where few tell it."""
        squares, free = 0.0, 0
        for each in self._known:
            mean = sum(each) / len(each)
            squares += sum((ratio - mean) ** 2 for ratio in each)
            free += len(each) - 1
        return math.sqrt(squares / free) if free >= LEAST_FREE else math.inf

    def _error(self, rounds: Sequence[float]) -> float:
        """Standard error of what rounds say."""
        return self._spread / math.sqrt(len(rounds))

    def _is_settled(self, rounds: Sequence[float]) -> bool:
        """Whether further turns would not change what is made of it: it is known, or surely no help, or surely one."""
        away = abs(statistics.median(rounds) - PROMISING)
        return self._is_known(rounds) or away > SURE * self._error(rounds)

    def _is_known(self, rounds: Sequence[float]) -> bool:
        return self._error(rounds) <= ENOUGH

    def _score(self, candidate: Candidate) -> float:
        """Log of its cost to that of what it took turns beside: median over its rounds."""
        return statistics.median(self._scores[candidate])

    # --- combining and halving ------------------------------------------------------------------

    def _combined(self, singles: Sequence[Candidate]) -> list[Candidate]:
        """Combinations of what may help, the most promising by the sum of their parts, singles included."""
        parts: dict[str, list[tuple[Value, float]]] = {}
        for single in singles:
            (name, value), score = self._added(single), self._score(single)
            if score < PROMISING:
                parts.setdefault(name, []).append((value, score))
        ways = []
        for chosen in product(*([None, *each] for each in parts.values())):
            candidate, score = self._base, 0.0
            for name, part in zip(parts, chosen, strict=True):
                if part is not None:
                    candidate, score = candidate.with_value(name, part[0]), score + part[1]
            if candidate.makes_sense and candidate not in (DEFAULT, *self._refused):
                ways.append((score, len(candidate.changes), candidate.text, candidate))
        ways.sort(key=lambda way: way[:3])
        promising = [way[-1] for way in ways]
        first = promising[:MOST_COMBINED]
        rungs = 2 * len(first) * HALVING_ROUNDS if len(first) > FINALISTS else 0
        begun = {*first, *(each.without(self._allow) for each in first)}
        self._expect(
            sum(not self._is_begun(each) for each in begun), rungs, min(len(first), FINALISTS)
        )
        return self._trainable(promising)

    def _is_begun(self, candidate: Candidate) -> bool:
        return candidate in self._scores or candidate in (DEFAULT, self._base)

    def _trainable(self, ways: Iterable[Candidate]) -> list[Candidate]:
        """The first of these that train, without those that turn knobs that were seen to exclude each other."""
        found: list[Candidate] = []
        clashes: list[set[str]] = []
        begun: dict[Candidate, bool] = {}

        def trains(way: Candidate) -> bool:
            if way not in begun:
                begun[way] = self._is_begun(way) or bool(self._admitted("combining", [way]))
            return begun[way]

        for way in ways:
            if len(found) == MOST_COMBINED or len(clashes) == MOST_CLASHES:
                break
            added = {name for name, _ in {*way.changes} - {*self._base.changes}}
            if any(clash <= added for clash in clashes):
                continue
            if trains(way):
                found.append(way)
                continue
            # To blame is whatever it trains without. One knob is not, which trains alone: two reasons meet there.
            blamed = {name for name in sorted(added) if trains(way.with_value(name, None))}
            clashes.append(blamed if len(blamed) > 1 else added)
        return found

    def _added(self, single: Candidate) -> tuple[str, Value]:
        """The knob that it turns beside the base."""
        (added,) = set(single.changes) - set(self._base.changes)
        return added

    def _halved(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The finalists."""
        left, number = list(candidates), 0
        if self._base != DEFAULT:  # it takes part as all do, and is what they are compared with
            self._scores[self._base] = [0.0]
        while len(left) > FINALISTS or any(each not in self._scores for each in left):
            self._rounds(
                "combining", self._base, left, self._scores, HALVING_ROUNDS, self._is_known, number
            )
            number += HALVING_ROUNDS
            left = self._ranked(left)
            left = left[: max(FINALISTS, math.ceil(len(left) / 2))]
        return self._ranked(left if len(left) == FINALISTS else self._beside_base())[:FINALISTS]

    def _ranked(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those that are left, the best first."""
        return sorted(
            self._left(candidates),
            key=lambda each: (self._score(each) + PLAINER * len(each.changes), each.text),
        )

    def _polished(self, finalists: Iterable[Candidate]) -> list[Candidate]:
        """The finalists, or one knob turned further or back: what alone does nothing may help beside the best."""
        no_help = {change for change in self._changes() if self._is_bad(change)}
        left = PASSES
        while left and (finalists := self._ranked(finalists)[:FINALISTS]):
            best, left, self._passes = finalists[0], left - 1, self._passes + 1
            ways = self._neighbours(best, no_help, finalists)
            self._expect(len(ways), 2 * (len(ways) + 1))
            beside: Scores = {}
            fresh = [each for each in ways if each not in self._scores]
            admitted = {*self._admitted("beside the best", fresh), *(set(ways) - set(fresh))}
            # Where none can be trained it is the best itself, perhaps: a turn of it tells.
            candidates = [each for each in ways if each in admitted] or finalists[1:]
            self._rounds(
                "beside the best", best, candidates, beside, MOST_ROUNDS, self._is_settled,
                self._passes * MOST_ROUNDS,
            )  # fmt: skip
            if best in self._refused:  # it crashed there: once more, beside the next
                finalists, left = self._beside_base(), left + 1
                continue
            beside = {each: rounds for each, rounds in beside.items() if each in ways}
            for candidate, rounds in beside.items():
                self._scores[candidate] = [score + self._score(best) for score in rounds]
            no_help |= {
                ways[each]
                for each, rounds in beside.items()
                if statistics.median(rounds) > PROMISING + SURE * self._error(rounds)
            }
            if beside:  # else the best itself may be what cannot be trained
                no_help |= {ways[each] for each in ways if each in self._refused}
            better = [each for each in beside if statistics.median(beside[each]) < -PROMISING]
            finalists = self._ranked({*better, *finalists})[:FINALISTS]
            if finalists and finalists[0] == best:
                break
        return list(finalists)

    def _neighbours(
        self,
        best: Candidate,
        no_help: Collection[tuple[str, Value | None]],
        finalists: Collection[Candidate],
    ) -> dict[Candidate, tuple[str, Value | None]]:
        """What differs from a candidate in one knob and may help, with that knob's value."""
        return {
            way: change
            for change in self._changes()
            if change not in no_help
            and (way := best.with_value(*change)) not in (*self._refused, *finalists)
            and way.makes_sense
            and not {name for name, _ in way.changes} <= {THREADS}  # which were measured first
        }

    def _changes(self) -> list[tuple[str, Value | None]]:
        """Every value of every knob, and None to turn it back."""
        return [(knob, value) for knob, values in self._values.items() for value in (None, *values)]

    def _is_bad(self, change: tuple[str, Value | None]) -> bool:
        """Whether a knob's value was refused on its own, or made steps so long that nothing beside it mends that."""
        single = self._base.with_value(*change)
        if self._base != DEFAULT and change[0] == THREADS:  # which took turns beside the default
            alone = self._score(single) if single in self._scores else 0.0
            return alone - self._base_score > HOPELESS[1]
        rounds = self._scores.get(single)
        return single in self._refused or (rounds is not None and _is_hopeless(rounds))

    # --- verdict --------------------------------------------------------------------------------

    def _verdict(self, finalists: Sequence[Candidate], first: int) -> Tuned:
        """Rounds of fresh processes from this number on, each with two turns of the default and of every finalist."""
        self._expect(0, 0, len(finalists))
        everyone = [DEFAULT, *finalists]
        rounds: dict[Candidate, list[Round]] = {each: [] for each in everyone}
        compared = 0
        for number in range(first, first + (PAIRS if finalists else 1)):
            turned = number % len(everyone)
            order = [*everyone[turned:], *everyone[:turned]]
            losses: dict[Candidate, dict[int, float]] = {each: {} for each in everyone}
            for place, candidate in enumerate([*order, *order, *reversed(order)]):
                if candidate in self._refused:
                    continue
                begin = place < len(order)
                turn = self._measure(
                    Ask(
                        stage="verdict", round=number, turn=place // len(order), candidate=candidate,
                        steps=BEGIN_STEPS + candidate.settling if begin else self._turn_steps,
                        begin=begin, alone=True, most_s=BEGIN_S if begin else self._most_s,
                    )
                )  # fmt: skip
                losses[candidate].update(turn.losses)
                self._judge(candidate, Turn(losses=losses[candidate], refused=turn.refused))
                if candidate != DEFAULT and (check := self._check_of(candidate)):
                    compared = max(compared, check.compared(losses[candidate]))
                if begin:
                    rounds[candidate].append(Round(begin=turn))
                elif not turn.refused:
                    rounds[candidate][-1].turns.append(turn)
            if DEFAULT in self._refused:
                raise InvalidValueError(self._refused[DEFAULT], id="not-trainable")
        left = [each for each in finalists if each not in self._refused]
        figures = [
            measured(each, rounds[each], rounds[DEFAULT], self._goal) for each in (DEFAULT, *left)
        ]
        # The first that is left was named before the verdict: another one's luck is no reason.
        named = figures[1] if left else None
        better = named is not None and named.ratio.high is not None and named.ratio.high < 1
        return Tuned(
            goal=self._goal,
            chosen=named if better else None,
            measured=tuple(figures),
            seen={each: math.exp(self._against_default(each)) for each in self._scores},
            refused=dict(self._refused),
            compared=compared,
            uncompared=tuple(each for each in left if self._check_of(each) is None),
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


def _is_hopeless(rounds: Sequence[float]) -> bool:
    return statistics.median(rounds) > HOPELESS[0 if len(rounds) == 1 else 1]
