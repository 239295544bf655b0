"""Result of the regression: groups of operations with power, energy and interval, and its basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, missing


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """A memory beside a plain average of the same samples.

    Attributes:
        seconds: Time constant with which it forgets.
        delay: Of the sensor besides, in s.
        window: That is averaged plainly before, in s.
        loss: By how much less it leaves of samples that it has not seen, in blocks of steps, in
            units of the variance that the plain average leaves, shape (blocks,).
        change: Powers of kinds in W with it less those without, shape (k,).
        watts: Powers of kinds in W with it, shape (k,).
    """

    seconds: float
    delay: float
    window: float
    loss: FloatArray
    change: FloatArray
    watts: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Operations that were told from all others, together.

    Attributes:
        members: Kinds in it, shape (g,).
        level: The level of `Kinds` at which they were merged; 0: one kind by itself.
        seconds: What they take of a mean clean step in s.
        power: Mean power in W while they run.
        energy: Of a mean clean step in J.
        resolved: Whether the interval is as narrow as was asked for.
    """

    members: IntArray
    level: int
    seconds: float
    power: Figure
    energy: Figure
    resolved: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """The outcome; `reason` says why there are no groups, and is None where there are.

    Attributes:
        groups: Every kind is in one of them; their energies add up to that of the step.
        kinds: Energy of each kind by itself in J, however wide its interval, in the order of `Kinds`.
        step_energy: Of a mean clean step in J.
        delay: Of the sensor in s, as the samples have it.
        window: Over which the sensor averages, in s.
        locked: How step and sampler were locked in phase, in words; "" where they were not.
        notes: What the reader must know besides.
        observations: How many samples took part.
        time_error: Relative error (one standard deviation) of the kinds' times that the samples
            speak of, or that was given; NaN where there are no groups.
        together: What `combined` asks.
        memories: Of the sensor, or of power itself, that the samples leave plausible.
    """

    groups: Sequence[Group]
    kinds: Sequence[Figure]
    step_energy: Figure
    delay: Figure
    window: Figure
    locked: str
    notes: tuple[str, ...]
    observations: int
    time_error: float
    reason: str | None = None
    together: Callable[[IntArray], tuple[Figure, Figure]] | None = None
    memories: tuple[Memory, ...] = ()

    def combined(self, members: IntArray) -> tuple[Figure, Figure]:
        """Mean power in W and energy in J of any kinds together, whatever groups they are in.

        Args:
            members: Their numbers.
        """
        if self.together is None:
            reason = self.reason or "no regression"
            return missing("W", reason), missing("J", reason)
        return self.together(members)
