"""A piece of advice: what to do, why, and what it should bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wattstep.schema.figure import Figure, Status
from wattstep.stats.speedup import Saving


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Change that would make training cheaper.

    Attributes:
        title: The change, in a few words.
        why: The condition that holds here, in a sentence.
        gain: Share of the time of a sample that it should save; predicted, or missing with the
            reason where nothing here tells.
        evidence: Figures that it rests on, by name.
        how: A command, or a line of code and a command, that tries it.
    """

    title: str
    why: str
    gain: Figure
    evidence: Mapping[str, Figure] = field(default_factory=dict)
    how: str


def gain_of(saving: Saving, step_s: float, method: str, of: Figure | None = None) -> Figure:
    """A saving of a step as a share of it; nobody ran it.

    Args:
        saving: Time that it should save of a step.
        step_s: The step.
        method: How it was worked out.
        of: The time that it is a part of, where `saving` does not know how sure that is: the lower
            end is then as much lower as that of this time is.
    """
    sure = 1.0 if of is None or of.low is None or not of.value else of.low / of.value
    return Figure(
        value=saving.value / step_s,
        unit="ratio",
        low=saving.low * sure / step_s,
        high=saving.high / step_s,
        status=Status.PREDICTED,
        source="measured shares of the step",
        method=method,
    )
