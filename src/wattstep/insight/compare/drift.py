"""Drift of the machine between runs, by the canaries around them, and how much it may explain."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.errors import DamagedRunError
from wattstep.schema.condition_documents import CanaryFacts
from wattstep.schema.figure import Figure, Status
from wattstep.stats.differences import Observed, differences, ratio_of

NUMPY: Final = "numpy"
LEAST: Final = 0.03  # a change of the canary that is smaller is not worth a word
WITHIN: Final = 0.10  # likewise, of one that is from before a run to after it
PARTS: Final = {"compute_s": "computing", "memory_s": "copying memory"}
NONE = "no canary on a side: runs under a memory limit, of Recorder and of --no-canary have none"


@dataclass(frozen=True, kw_only=True)
class Canary:
    """Times of the fixed work around a run.

    Attributes:
        version: Of the work.
        kind: Implementation of the work: "numpy", or an interpreter ("python 3.11").
        looks: By part ("compute_s", "memory_s"): the median pass in s before and after, as far as
            they were made.
    """

    version: int
    kind: str
    looks: Mapping[str, tuple[float, ...]]

    def log(self, part: str) -> float:
        """Logarithm of the time of a part, mean of before and after."""
        return statistics.fmean(math.log(look) for look in self.looks[part])


def canary_of(document: CanaryFacts) -> Canary | None:
    """The canary of a run from its description; None where there is none, or its work came out wrong.

    Raises:
        DamagedRunError: It is garbled.
    """
    documents = [
        look for look in (document.get("before"), document.get("after")) if look is not None
    ]
    try:
        if not documents or not all(each["right"] for each in documents):
            return None
        looks = {
            "compute_s": tuple(statistics.median(each["compute_s"]) for each in documents),
            "memory_s": tuple(statistics.median(each["memory_s"]) for each in documents),
        }
        if not all(0 < look < math.inf for part in looks.values() for look in part):
            raise ValueError("a time is not above 0")
        version = document["version"]
        if version is None:
            raise ValueError("it has no version")
        kind = str(document.get("kind", NUMPY))  # runs from before there were others
        return Canary(version=version, kind=kind, looks=looks)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRunError(
            f"run.json garbles its canary: {error}", id="damaged-field"
        ) from error


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Change of the machine from side A to side B.

    Attributes:
        parts: By part of the canary: its time in B over that in A.
        low: Logarithm of the least that a time may have changed by with the machine, at most 0.
        high: Of the most, at least 0.
        sentences: Sentences for the answer.
        reason: Why nothing is known; None where something is.
    """

    parts: Mapping[str, Figure]
    low: float = 0.0
    high: float = 0.0
    sentences: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def shown(self) -> bool:
        """True if the machine changed."""
        return self.low < 0 or self.high > 0

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "parts": dict(self.parts),
            "shown": self.shown,
            "explains_low": math.exp(self.low),
            "explains_high": math.exp(self.high),
            "reason": self.reason,
        }


def drift_between(a: Sequence[Canary | None], b: Sequence[Canary | None]) -> Drift:
    """Drift of the machine between the runs of two sides.

    Of several processes a side, a part of the canary changed where its interval (Student's t over
    processes, Welch) excludes no change and it is 3 % or more; of one process against one, where
    both its looks lie beyond both of the other's by 3 % or more. The time of a training may then
    have changed with the machine by anything between nothing and the part that changed most: by so
    much intervals are widened.

    Args:
        a: Canaries of the processes of A.
        b: Of B.
    """
    known_a, known_b = ([each for each in side if each is not None] for side in (a, b))
    if len(known_a) < len(a) or len(known_b) < len(b):
        return Drift(parts={}, reason=NONE)
    kinds = {(each.version, each.kind): each.kind for each in (*known_a, *known_b)}
    if len(kinds) > 1:
        did = ", ".join(sorted(kinds.values()))
        return Drift(parts={}, reason=f"the canaries of these runs did different work ({did})")
    parts, logs = {}, [0.0]
    for part, words in PARTS.items():
        figure, shown = _change(known_a, known_b, part)
        parts[words] = figure
        assert figure.value is not None
        if shown:
            logs.append(math.log(figure.value))
    drift = Drift(parts=parts, low=min(logs), high=max(logs))
    return Drift(parts=parts, low=drift.low, high=drift.high, sentences=_sentences(drift))


def _change(a: Sequence[Canary], b: Sequence[Canary], part: str) -> tuple[Figure, bool]:
    """The time of a part of the canary in B over that in A, and whether it changed."""
    difference = differences(_logs(a, part), _logs(b, part))
    value = float(difference.value[0])
    if difference.basis == "one each":
        mine, theirs = a[0].looks[part], b[0].looks[part]
        gap = max(math.log(min(theirs) / max(mine)), math.log(min(mine) / max(theirs)))
        shown, low, high = gap >= math.log1p(LEAST), None, None
        method = "medians of the canary, before and after, of one process of each"
    else:
        low, high = ratio_of(float(difference.low[0])), ratio_of(float(difference.high[0]))
        shown = (low > 1 or high < 1) and abs(value) >= math.log1p(LEAST)
        method = f"medians of the canary; {difference.method}"
    figure = Figure(
        value=math.exp(value), low=low, high=high, unit="ratio", n=len(a) + len(b),
        confidence=None if low is None else 0.95, status=Status.MEASURED, method=method,
        source="canary",
    )  # fmt: skip
    return figure, shown


def _logs(side: Sequence[Canary], part: str) -> Observed:
    values = np.array([[each.log(part)] for each in side])
    unknown = np.full_like(values, np.nan)
    return Observed(values=values, low=unknown, high=unknown)


def _sentences(drift: Drift) -> tuple[str, ...]:
    if not drift.shown:
        return ()
    changes = []
    for words, figure in drift.parts.items():
        change = (figure.value or 1.0) - 1
        percent = f"{100 * abs(change):.0f}"
        much = f"{percent} % {'more' if change > 0 else 'less'}" if percent != "0" else "as much"
        changes.append(f"{words} took {much} time")
    ends = [f"{100 * abs(math.expm1(end)):.0f} %" for end in (drift.low, drift.high)]
    range_ = (
        f"between {ends[0]} less and {ends[1]} more" if drift.low < 0 < drift.high
        else f"up to {ends[1]} more" if drift.high > 0 else f"up to {ends[0]} less"
    )  # fmt: skip
    return (
        f"The machine itself changed from A to B: in its canary {' and '.join(changes)}. That alone "
        f"may make a step take {range_} time: intervals of time and energy are widened by so much.",
    )


def drift_within(canary: Canary | None) -> tuple[float, str] | None:
    """The part that changed most while a run lasted, by 10 % or more: its change and what it is.

    None where none did, or nobody knows.
    """
    if canary is None:
        return None
    changes = [
        (canary.looks[part][-1] / canary.looks[part][0] - 1, words) for part, words in PARTS.items()
    ]
    most = max(changes, key=lambda one: abs(math.log1p(one[0])))
    return most if abs(math.log1p(most[0])) > math.log1p(WITHIN) else None
