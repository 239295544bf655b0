"""Page's test: whether values have moved away from 0 further than noise does, and from which of them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

Of = TypeVar("Of")

ALLOWANCE: Final = 0.5  # standard deviations of each value that are let pass
ALARM: Final = 8.0  # a false one every several thousand values


class PageTest(Generic[Of]):
    """Sums of what lies above and below 0, each begun anew once it falls to 0 (Page 1954).

    Args:
        alarm: Sum, in standard deviations, from which on values have moved.
    """

    def __init__(self, alarm: float = ALARM) -> None:
        self._alarm = alarm
        self._sums = {1: 0.0, -1: 0.0}
        self._since: dict[int, list[tuple[Of, float]]] = {1: [], -1: []}

    def add(self, of: Of, value: float, deviation: float) -> None:
        """One value more.

        Args:
            of: What it is of.
            value: As it is to be told.
            deviation: The value in standard deviations of its noise.
        """
        for sign in self._sums:
            self._sums[sign] = max(0.0, self._sums[sign] + sign * deviation - ALLOWANCE)
            if self._sums[sign] == 0.0:
                self._since[sign].clear()
            else:
                self._since[sign].append((of, value))

    @property
    def alarmed(self) -> bool:
        """True once the values have moved."""
        return max(self._sums.values()) > self._alarm

    def moved(self) -> Sequence[tuple[Of, float]]:
        """The last values, from where they most likely are of another level than 0: least squares."""
        values = self._since[max(self._sums, key=lambda sign: self._sums[sign])]
        total, best, first = 0.0, 0.0, len(values)
        for place in range(len(values) - 1, -1, -1):
            total += values[place][1]
            explained = total**2 / (len(values) - place)
            if explained > best:
                best, first = explained, place
        return values[first:]

    def clear(self) -> None:
        """What was seen counts no more."""
        for sign in self._sums:
            self._sums[sign] = 0.0
            self._since[sign].clear()
