"""A landscape of costs in place of real steps: each knob a factor, pairs that do not add up, noise and drift."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wattstep.tune.search import Ask, Turn
from wattstep.tune.space import Candidate, Value


class MadeBench:
    """Turns whose costs are known.

    Args:
        factors: Of a step's time, by knob and value.
        together: Further factors of two values that meet.
        noise: Spread of a turn, relative.
        of_process: Spread of a process, relative.
        drift: By so much the machine grows slower with each turn, relative.
        curves: What is added to every loss, by knob.
        refused: Why a knob's value cannot be trained, by knob.
        step_s: Time of a step of the default.
        seed: Of the draws.
    """

    def __init__(
        self,
        factors: Mapping[tuple[str, Value], float],
        *,
        together: Mapping[frozenset[str], float] | None = None,
        noise: float = 0.0,
        of_process: float = 0.0,
        drift: float = 0.0,
        curves: Mapping[str, float] | None = None,
        refused: Mapping[str, str] | None = None,
        step_s: float = 0.02,
        seed: int = 0,
    ) -> None:
        self._factors, self._together = factors, together or {}
        self._noise, self._of_process, self._drift = noise, of_process, drift
        self._curves, self._refused, self._step_s = curves or {}, refused or {}, step_s
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
        for name, _ in ask.candidate.changes:
            if name in self._refused:
                return Turn(refused=self._refused[name])
        process = (ask.round if ask.alone else -1, ask.candidate.text)
        if process not in self._processes:
            self._processes[process] = 1 + self._of_process * self._random.normal()
        now = (1 + self._drift) ** len(self.asks)
        step_s = self._step_s * self.cost(ask.candidate) * self._processes[process] * now
        spread = 1 + self._noise * self._random.normal(size=ask.steps)
        moved = sum(self._curves.get(name, 0.0) for name, _ in ask.candidate.changes)
        rounding = 1e-7 if ask.nudged else 0.0
        losses = dict.fromkeys(range(ask.steps if ask.begin else 0), 2.0 + moved + rounding)
        return Turn(
            seconds=tuple(step_s * np.maximum(spread, 0.1)),
            losses=losses,
            taken=ask.steps,
            memory=1 << 28,
        )
