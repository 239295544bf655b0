"""A landscape of costs in place of real steps: each knob a factor, pairs that do not add up, noise and drift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from wattstep.tune.space import DEFAULT, Candidate, Value
from wattstep.tune.turns import Ask, Turn

WATTS = 5.0
BEGIN_S = 2.0  # of the default, before its first step


class MadeBench:
    """Turns whose costs are known.

    Args:
        factors: Of a step's time, by knob and value.
        together: Further factors of two values that meet.
        noise: Spread of a turn, relative.
        of_process: Spread of a process, relative.
        bursts: Spread of a turn as a whole, relative: other programs come and go.
        drift: By so much the machine grows slower with each turn, relative.
        walk: Spread of what the machine's speed moves by from turn to turn, up or down, relative.
        apart: Knobs that cannot be turned together.
        crashing: After how many turns a process with this knob ends, by knob.
        curves: What is added to every loss, by knob, or by several with "+" that are turned together.
        roundings: By how much more than 1e-7 one rounding of every parameter moves a loss, by knob.
        refused: Why a knob's value cannot be trained, by knob.
        step_s: Time of a step of the default.
        begin_s: By how much longer the begin of a training takes, by knob.
        unpowered: Every so many turns the power is not sampled; None: nothing tells it.
        seed: Of the draws.
    """

    def __init__(
        self,
        factors: Mapping[tuple[str, Value], float],
        *,
        together: Mapping[frozenset[str], float] | None = None,
        noise: float = 0.0,
        of_process: float = 0.0,
        bursts: float = 0.0,
        drift: float = 0.0,
        walk: float = 0.0,
        apart: frozenset[str] = frozenset(),
        crashing: Mapping[str, int] | None = None,
        curves: Mapping[str, float] | None = None,
        roundings: Mapping[str, float] | None = None,
        refused: Mapping[str, str] | None = None,
        step_s: float = 0.02,
        begin_s: Mapping[str, float] | None = None,
        unpowered: int | None = None,
        seed: int = 0,
    ) -> None:
        self._factors, self._together = factors, together or {}
        self._noise, self._of_process, self._bursts = noise, of_process, bursts
        self._drift, self._walk, self._speed = drift, walk, 1.0
        self._left, self._apart = dict(crashing or {}), apart
        self._curves, self._roundings = curves or {}, roundings or {}
        self._refused, self._step_s = refused or {}, step_s
        self._begin_s, self._unpowered = begin_s or {}, unpowered
        self._random = np.random.default_rng(seed)
        self._processes: dict[tuple[int, str], float] = {}
        self.asks: list[Ask] = []

    def cost(self, candidate: Candidate) -> float:
        """Time of a step in truth, beside the default's."""
        names = {name for name, _ in candidate.changes}
        cost = 1.0
        for change in candidate.changes:
            cost *= self._factors[change]
        for pair, factor in self._together.items():
            cost *= factor if pair <= names else 1.0
        return cost

    def measure(self, ask: Ask) -> Turn:
        """As `Bench.measure`."""
        self.asks.append(ask)
        names = {name for name, _ in ask.candidate.changes}
        if self._apart and self._apart <= names:
            return Turn(refused=f"{' and '.join(sorted(self._apart))}: choose one")
        for name in sorted(names):
            if name in self._refused:
                return Turn(refused=self._refused[name])
            if name in self._left:
                self._left[name] -= 1
                if self._left[name] < 0:
                    return Turn(refused="its process was killed by signal 11")
        process = (ask.round if ask.alone else -1, ask.candidate.text)
        if process not in self._processes:
            self._processes[process] = 1 + self._of_process * self._random.normal()
        self._speed *= (1 + self._drift) * math.exp(self._walk * self._random.normal())
        now = self._speed * math.exp(self._bursts * self._random.normal())
        step_s = self._step_s * self.cost(ask.candidate) * self._processes[process] * now
        spread = 1 + self._noise * self._random.normal(size=ask.steps)
        moved = sum(
            by for those, by in self._curves.items() if frozenset(those.split("+")) <= names
        )
        coarsest = max((self._roundings.get(name, 0.0) for name in names), default=0.0)
        rounding = max(1e-7, coarsest) if ask.nudged else 0.0
        losses = dict.fromkeys(range(ask.steps if ask.begin else 0), 2.0 + moved + rounding)
        seconds = step_s * np.maximum(spread, 0.1)
        longer = sum(self._begin_s.get(name, 0.0) for name in names)
        sampled = self._unpowered is not None and len(self.asks) % self._unpowered
        return Turn(
            seconds=tuple(seconds),
            losses=losses,
            taken=ask.steps,
            joules=float(seconds.mean()) * WATTS if sampled else None,
            energy="modelled",
            memory=1 << 28,
            begin_s=float(seconds.sum()) + longer + BEGIN_S if ask.begin else None,
        )


@dataclass(frozen=True, kw_only=True)
class MadeSpace:
    """Knobs whose values' factors are drawn, and the machine on which they are tried.

    Attributes:
        values: Of each knob.
        ways: All that can be trained.
        bursts: Spread of a turn as a whole.
        bench: Makes the steps.
    """

    values: Mapping[str, tuple[Value, ...]]
    ways: Sequence[Candidate]
    bursts: float
    bench: MadeBench

    @property
    def best(self) -> float:
        """Cost of the best of all ways, beside the default's."""
        return min(map(self.bench.cost, self.ways))


APART = frozenset({"channels_last", "policy"})  # one machine in four refuses these together
MANY_VALUES: Mapping[str, tuple[Value, ...]] = {
    "channels_last": (True,),
    "optimizer_kernel": ("fused", "foreach"),
    "allocator": ("keep", "keep-huge"),
    "compiled": (True,),
    "policy": ("default", "per-kind", "fill"),
    "interop_threads": (1,),
}


def made_space(seed: int, bursts: float) -> MadeSpace:
    """A space that is drawn: a third of all values do nothing, pairs of knobs do not add up, one in ten crashes.

    Args:
        seed: Of all draws.
        bursts: Spread of a turn as a whole: 0.01 on a quiet machine, 0.08 beside other programs.
    """
    random = np.random.default_rng(seed)
    values: dict[str, tuple[Value, ...]] = {
        "threads": (1,) if random.random() < 0.6 else (1, 2, 4),
        **{name: each for name, each in MANY_VALUES.items() if random.random() < 0.8},
    }
    factors = {}
    for name, each in values.items():
        spread = 0.3 if name in ("compiled", "threads") else 0.12
        for value in each:
            drawn = math.exp(spread * random.normal())
            factors[name, value] = 1.0 if random.random() < 1 / 3 else drawn
    if random.random() < 0.1:
        factors["threads", 1] = float(random.uniform(0.01, 0.2))  # the default is in the trap
    together = {
        frozenset(pair): math.exp(0.06 * random.normal())
        for pair in combinations(values, 2)
        if random.random() < 0.2
    }
    crashing = {}
    if len(values) > 1 and random.random() < 0.1:
        crashing[sorted(set(values) - {"threads"})[0]] = int(random.integers(0, 12))
    apart = APART if random.random() < 0.25 else frozenset()
    bench = MadeBench(
        factors, together=together, noise=0.1, bursts=bursts, of_process=float(random.choice([0.005, 0.01, 0.02])),
        drift=0.0002, walk=0.003, crashing=crashing, apart=apart, seed=seed,
        step_s=math.exp(random.uniform(math.log(0.001), math.log(0.3))),
    )  # fmt: skip
    return MadeSpace(
        values=values, ways=tuple(_ways(values, set(crashing), apart)), bursts=bursts, bench=bench
    )


def _ways(
    values: Mapping[str, tuple[Value, ...]], crashing: set[str], apart: frozenset[str]
) -> Iterator[Candidate]:
    """All that can be trained to the end."""
    steady = {name: each for name, each in values.items() if name not in crashing}
    for chosen in product(*([None, *each] for each in steady.values())):
        candidate = DEFAULT
        for name, value in zip(steady, chosen, strict=True):
            candidate = candidate.with_value(name, value)
        together = apart and {name for name, _ in candidate.changes} >= apart
        if candidate.makes_sense and not together:
            yield candidate
