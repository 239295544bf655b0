"""The hot path of a plain step: what marking it touches, all of it in one object."""

from __future__ import annotations

from collections.abc import Callable

from wattstep.store.marks import MarkJournal


class PlainSteps(MarkJournal):
    """What a plain step touches: one that carries no marks but its own, and follows another.

    Most steps are plain. What marking one takes is counted in microseconds, because the training has
    swept the caches: each object, function and module that is touched comes from memory, and calls
    and lookups are most of it. So the begin of a plain step is the clock itself, its end is one
    function that looks up no global and writes one row, and all that it needs lies in one object:
    the journal with a few fields behind the journal's own.

    Attributes:
        begin: Begins a step, and gives the time in ns; 0: nothing is recorded. The clock of the
            steps where the next step is plain.
        mark: `phase` while the step that runs carries marks of phases, else what does nothing.
    """

    __slots__ = (
        "_clock",
        "_due",
        "_last_plain",
        "_row",
        "begin",
        "mark",
    )
    begin: Callable[[], int]
    mark: Callable[..., None]
    _clock: Callable[[], int]
    _last_plain: int  # the row of steps before it is below: they are plain, and so is what follows
    _due: int  # when something else is to be done behind a step; 0 where the row says other samples
    _row: int  # last word of the next row: kind, code and number of the step

    def end(self, begun_ns: int, loss: float) -> None:
        """The step that runs is done.

        Args:
            begun_ns: As `begin` gave it.
            loss: Its loss; NaN: not known.
        """
        clock = self._clock  # of a slot, `self._clock()` would look for a method first
        now = clock()
        at, row = self.at, self._row
        if row < self._last_plain and now < self._due and at <= 32_764:  # the last place for a mark
            ints = self.ints
            ints[at] = begun_ns
            ints[at + 1] = now
            self.floats[at + 2] = loss
            ints[at + 3] = row
            self.at = at + 4
            self._row = row + 0x1_0000_0000
        else:
            self._end_rare(begun_ns, now, loss)

    def _end_rare(self, begun_ns: int, now: int, loss: float) -> None:
        """The end of any other step."""
        raise NotImplementedError
