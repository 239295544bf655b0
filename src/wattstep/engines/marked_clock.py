"""The clock of a tracer, by marks in its trace that were stamped on the run's clock as well."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

AT_THE_ENDS = 3  # marks at either end of a window: the tightest counts


class MarkedClock:
    """A tracer's times as the run's (`schema.clock.Clock`), from marks stamped on both.

    Offset and rate come from the mark of either end that was stamped most tightly. What lies
    between two marks stays between them: a thread that is stopped between its two stamps moves
    no operation into another phase.

    Args:
        theirs: The tracer's times of the marks, in order.
        brackets: Ours just before and after each.

    Attributes:
        uncertainty_ns: Half of the wider of the two brackets.
        rate: Ours in one of theirs.
    """

    def __init__(self, theirs: Sequence[int], brackets: Sequence[tuple[int, int]]) -> None:
        if len(theirs) != len(brackets):
            raise RuntimeError(f"the trace has {len(theirs)} of {len(brackets)} marks")
        self._theirs = theirs
        self._from = [after for _, after in brackets]
        self._until = [before for before, _ in brackets]
        self._at = {after: t for t, (_, after) in zip(theirs, brackets, strict=True)}
        width = [after - before for before, after in brackets]
        places = range(len(brackets))
        first = min(places[:AT_THE_ENDS], key=width.__getitem__)
        last = min(places[-AT_THE_ENDS:], key=width.__getitem__)
        self.uncertainty_ns = max(width[first], width[last]) // 2
        ours = [(brackets[n][0] + brackets[n][1]) // 2 for n in (first, last)]
        span = theirs[last] - theirs[first]
        self.rate = (ours[1] - ours[0]) / span if span > 0 else 1.0
        self._first_theirs, self._first_ours = theirs[first], ours[0]

    def of_mark(self, t_ns: int) -> int:
        """The tracer's time of the mark whose bracket ended at this time of ours."""
        return self._at[t_ns]

    def map(self, t_ns: int) -> int:
        """As `Clock.map`."""
        ours = int(self._first_ours + round((t_ns - self._first_theirs) * self.rate))
        after = bisect_right(self._theirs, t_ns)
        if after > 0:
            ours = max(ours, self._from[after - 1])
        if after < len(self._until):
            ours = min(ours, self._until[after])
        return ours

    def uncertainty_at(self, t_ns: int) -> int:
        """As `Clock.uncertainty_at`: the same for the whole window, beyond which there is nothing."""
        return self.uncertainty_ns
