"""How far a search is: by what asks of each kind have taken so far, and how many are left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from wattstep.tune.turns import Ask

Kind = Literal["process", "begin", "turn", "long turn"]
# What one takes, in s, as long as none of its kind was made.
FIRST_S: Final[Mapping[Kind, float]] = {"process": 6.0, "begin": 3.0, "turn": 0.5, "long turn": 1.0}
ALREADY_S: Final = 1e-3  # what takes less was measured before the tune was interrupted
MOST: Final = 0.99  # until it is over


class Course:
    """Share of a search that is done, by time.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._spent: dict[Kind, list[float]] = {kind: [] for kind in FIRST_S}
        self._left: dict[Kind, int] = {}

    def expect(self, left: Mapping[Kind, int]) -> None:
        """Says how many asks of each kind are left."""
        self._left = dict(left)

    @contextmanager
    def goes_on(self, ask: Ask) -> Iterator[None]:
        """Around an ask."""
        kind, begun = kind_of(ask), self._clock()
        yield
        self._left[kind] = max(self._left.get(kind, 0) - 1, 0)
        seconds = self._clock() - begun
        if seconds >= ALREADY_S:
            self._spent[kind].append(seconds)

    @property
    def share(self) -> float:
        """Between 0 and 1, by time; what was measured before this process counts as nothing."""
        spent = sum(map(sum, self._spent.values()))
        left = sum(count * self._mean(kind) for kind, count in self._left.items())
        return min(spent / (spent + left), MOST) if left else MOST

    def _mean(self, kind: Kind) -> float:
        seconds = self._spent[kind]
        return sum(seconds) / len(seconds) if seconds else FIRST_S[kind]


def kind_of(ask: Ask) -> Kind:
    """What an ask's time goes with: whether a process or a training begins, and how many steps it makes."""
    if ask.begin:
        return "process" if ask.alone else "begin"
    return "long turn" if ask.alone else "turn"
