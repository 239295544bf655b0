"""A training that is played: time and power of its steps follow laws, its clock is a number."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wattstep.schema.figure import Status
from wattstep.train.governor.clocks import Clock
from wattstep.train.governor.governor import Governor

HIGHEST = 2_000_000  # kHz
CAP = Path("/played/policy0/scaling_max_freq")


def clock(**changes: Any) -> Clock:
    """A clock from 0.4 to 2 GHz whose driver takes any."""
    values: dict[str, Any] = {
        "path": CAP, "part": "cpu", "lowest": 400_000, "cap": HIGHEST, "offered": (),
        "unit_hz": 1e3,
    }  # fmt: skip
    return Clock(**{**values, **changes})


@dataclass
class Played:
    """The training, its recorder, its power sensor and its clocks, all in one.

    Args:
        step_s: Time of a step by the share of the clock and the time since the beginning.
        watts: Power by the same.
        noise: Standard deviation of the logarithm of a step's time.
        late_s: Time after which samples of the power are there.
    """

    step_s: Callable[[float, float], float]
    watts: Callable[[float, float], float]
    noise: float = 0.0
    seed: int = 3
    late_s: float = 0.5
    status: Status = Status.MEASURED
    source: str = "played"
    window_s: float = 0.0
    share: float = 1.0
    index: int = 0
    others: int = 0  # what somebody else has written
    notes: list[str] = field(default_factory=list)
    traced: list[str] = field(default_factory=list)
    set_to: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now_ns = 10**9
        self._steps: list[tuple[int, int, float]] = []
        self._random = random.Random(self.seed)
        self.info = SimpleNamespace(conditions={})

    # --- as the recorder --------------------------------------------------------------------

    def about(self, conditions: Mapping[str, Any]) -> None:
        self.info = SimpleNamespace(conditions=dict(conditions))

    def note(self, text: str) -> None:
        self.notes.append(text)

    @property
    def steps(self) -> Played:
        return self

    def pause_tracing(self) -> None:
        self.traced.append("paused")

    def resume_tracing(self) -> None:
        self.traced.append("resumed")

    # --- as the clocks ----------------------------------------------------------------------

    def cap(self, values: Mapping[Path, int]) -> None:
        self.set_to.append(values[CAP])
        self.share = values[CAP] / HIGHEST

    def says(self, path: Path) -> int:
        return self.others or round(self.share * HIGHEST)

    # --- as the power log -------------------------------------------------------------------

    def look(self) -> int:
        return self.now_ns - round(self.late_s * 1e9)

    def energies(self, spans: Sequence[tuple[int, int]]) -> list[float]:
        return [
            sum(
                max(min(end, last) - max(begin, first), 0) * 1e-9 * watts
                for begin, end, watts in self._steps
            )
            for first, last in spans
        ]

    # --- the training -----------------------------------------------------------------------

    def governor(self, allowed: float = 0.1, **changes: Any) -> Governor:
        return Governor(
            self,  # type: ignore[arg-type]
            [clock(**changes)], allowed, self, self, clock=lambda: self.now_ns,
        )  # fmt: skip

    def step(self, governor: Governor, *, counts: bool = True) -> None:
        at_s = (self.now_ns - 10**9) * 1e-9
        seconds = self.step_s(self.share, at_s) * math.exp(self._random.gauss(0, self.noise))
        begin, self.now_ns = self.now_ns, self.now_ns + round(seconds * 1e9)
        self._steps.append((begin, self.now_ns, self.watts(self.share, at_s)))
        self.index += 1
        governor.step(begin, self.now_ns, counts=counts)

    def decided(self, governor: Governor, most: int = 20_000) -> dict[str, Any]:
        """Steps until it has decided; the last look."""
        for _ in range(most):
            if not governor.looking:
                break
            self.step(governor)
        return self.looks()[-1]

    def looks(self) -> list[dict[str, Any]]:
        looks: list[dict[str, Any]] = self.info.conditions["governor"]["looks"]
        return looks
