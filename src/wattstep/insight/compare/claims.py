"""Reasons why a difference that is seen in runs is not shown to be that of their configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wattstep.insight.compare.process import Process

UNLIKE: Final = 0.10  # of the steps: disturbed in so many more of one side, the sides are unlike
UNAFFECTED: Final = ("peak_memory",)  # by other work on the machine
ONE_EACH: Final = "two runs of one and the same program may differ as much"


def not_claimed(name: str, a: Sequence[Process], b: Sequence[Process]) -> tuple[str, ...]:
    """Reasons why a difference of a metric is one of these runs and not shown to be the program's.

    Empty where several processes, disturbed alike or not at all, stand behind it.

    Args:
        name: Of the metric; "operations" for those.
        a: Processes of A.
        b: Of B.
    """
    reasons = [ONE_EACH] if len(a) == len(b) == 1 else []
    shares = [_disturbed(side) for side in (a, b)]
    if name not in UNAFFECTED and abs(shares[1] - shares[0]) > UNLIKE:
        words = [f"{100 * share:.0f} %" for share in shares]
        reasons.append(
            f"other work disturbed {words[0]} of the steps of A and {words[1]} of those of B"
        )
    return tuple(reasons)


def _disturbed(side: Sequence[Process]) -> float:
    """Share of the steps that other work disturbed, mean over processes."""
    return sum(process.marred.get("disturbed", 0.0) for process in side) / len(side)
