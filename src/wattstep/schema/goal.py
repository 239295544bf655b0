"""Goal of a training: a measure of its evaluation, and how good it must become."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wattstep.errors import InvalidValueError

# Which way each measure of `Training.evaluate` improves.
HIGHER_IS_BETTER = {"accuracy": True, "loss": False}
_GOAL = re.compile(r"([a-z_]+)\s*=\s*(\d+(?:\.\d+)?(?:e-?\d+)?)")


@dataclass(frozen=True, kw_only=True)
class Goal:
    """For example accuracy=0.6 or loss=1.2.

    Attributes:
        measure: A key of `HIGHER_IS_BETTER`.
        value: At least this where higher is better, else at most.
    """

    measure: str
    value: float

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Reads "accuracy=0.6".

        Raises:
            InvalidValueError: It is no goal, or one that cannot be reached.
        """
        match = _GOAL.fullmatch(text.strip())
        if match is None or match[1] not in HIGHER_IS_BETTER:
            raise InvalidValueError(
                f"--until {text!r}: write accuracy=0.6 or loss=1.2", id="malformed-goal"
            )
        goal = cls(measure=match[1], value=float(match[2]))
        if goal.measure == "accuracy" and not 0 < goal.value <= 1:
            raise InvalidValueError(
                f"--until {text}: an accuracy lies above 0, and at 1 at most", id="out-of-range"
            )
        return goal

    def reached(self, value: float) -> bool:
        """True if a measured value is good enough."""
        return value >= self.value if HIGHER_IS_BETTER[self.measure] else value <= self.value

    def reached_by(self, evaluation: Mapping[str, float]) -> bool:
        """True if an evaluation is good enough; one whose loss is no finite number never is."""
        return math.isfinite(evaluation.get("loss", 0.0)) and self.reached(evaluation[self.measure])

    def better(self, a: float, b: float) -> float:
        """The better of two values; one that is no number is worse than any."""
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return max(a, b) if HIGHER_IS_BETTER[self.measure] else min(a, b)

    def __str__(self) -> str:
        return f"{self.measure}={self.value:g}"
