"""Turns: steps that a search asks for, and what they took."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from wattstep.schema.figure import Status
from wattstep.tune.space import Candidate

Stage = Literal[
    "default", "rounding", "threads", "one by one", "combining", "beside the best", "verdict"
]
BEGIN_STEPS: Final = 3  # first steps of a training, whose losses are compared
CURVE_STEPS: Final = 20  # of the default, with which those of the others are compared
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
        begin_s: Where its training began: until the last of its steps was made; None: it went on.
        refused: Why it cannot be trained so; "" where it can.
    """

    seconds: tuple[float, ...] = ()
    losses: Mapping[int, float] = field(default_factory=dict)
    taken: int = 0
    joules: float | None = None
    energy: str = Status.MEASURED.value
    memory: int | None = None
    begin_s: float | None = None
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
