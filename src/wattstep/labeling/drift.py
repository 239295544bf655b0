"""Whether something happens more often than it did: cumulative sums over many series at once, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.labeling.arrays import Bools, Floats, Ints

LEAST_RATE, HIGHEST_RATE = 0.02, 0.97


@dataclass(kw_only=True)
class Watch:
    """Page's test (1954) of rates: log likelihood ratios of a raised rate, summed up and never below 0.

    Alarm is given at log(1 / `false_alarms`), so that without a change at least 1 / `false_alarms` values
    pass on average before one (Lorden 1971).

    Attributes:
        base: Rate before a change, shape (k,).
        raise_by: What is looked for beyond it.
        sums: Shape (k,).
        since: Values since a sum was last 0, which is where a change began if there was one, shape (k,).
        false_alarms: A value.
        learning: Values from which the rate before a change is still to be learned, shape (k,).
        happened: Events among those learned from so far, shape (k,).
        learned: Values learned from so far, shape (k,).
    """

    base: Floats
    raise_by: float
    sums: Floats
    since: Ints
    false_alarms: float
    learning: int
    happened: Ints
    learned: Ints

    def see(self, events: Bools, observed: Bools) -> Bools:
        """Takes values in, in their order; which series give alarm, shape (k,).

        A batch in which a series is still learning its rate is learned from, and gives no alarm for it.

        Args:
            events: Whether it happened, shape (n, k).
            observed: Whether there is a value, shape (n, k).
        """
        if not len(events):
            return np.zeros(len(self.base), dtype=bool)
        learns = self.learned < self.learning
        self._learn(events & observed & learns, observed & learns)
        observed = observed & ~learns
        raised = np.minimum(self.base + self.raise_by, HIGHEST_RATE)
        happened = np.log(raised / self.base)
        otherwise = np.log((1 - raised) / (1 - self.base))
        steps = np.where(observed, np.where(events, happened, otherwise), 0.0)
        summed = self.sums + np.cumsum(steps, axis=0)
        sums = summed - np.minimum(np.minimum.accumulate(summed, axis=0), 0)
        alarms: Bools = (sums >= np.log(1 / self.false_alarms)).any(axis=0)
        zero = sums <= 0
        last = np.where(zero.any(axis=0), len(zero) - 1 - zero[::-1].argmax(axis=0), -1)
        seen = np.cumsum(observed, axis=0)
        before = np.where(last >= 0, seen[last, np.arange(len(last))], 0)
        self.since = np.where(last >= 0, 0, self.since) + seen[-1] - before
        self.sums = sums[-1]
        return alarms

    def _learn(self, events: Bools, observed: Bools) -> None:
        self.happened = self.happened + events.sum(axis=0)
        self.learned = self.learned + observed.sum(axis=0)
        if self.learning:
            rate = (self.happened + 1) / (self.learned + 2)
            # The upper end of what it may be: a rate that is merely not well known is no change.
            self.base = _held(rate + 2 * np.sqrt(rate * (1 - rate) / (self.learned + 2)))


def errors_among(votes: Ints, result: Ints, codes: Ints) -> tuple[Bools, Bools]:
    """Whether each rule, and last the result, is wrong, and whether it voted, shape (n, rules + 1) each.

    Args:
        votes: Classes that the rules voted for, -1 where they abstained, shape (n, rules).
        result: The likeliest class, shape (n,).
        codes: The true one, shape (n,).
    """
    votes = np.column_stack([votes, result])
    voted = votes >= 0
    return (votes != codes[:, None]) & voted, voted


def watch(rates: Floats, raise_by: float, false_alarms: float) -> Watch:
    """A test that begins with known rates.

    Args:
        rates: Before a change, shape (k,).
        raise_by: What is looked for beyond them.
        false_alarms: A value.
    """
    return _begun(_held(rates), raise_by, false_alarms, 0)


def learning_watch(series: int, raise_by: float, false_alarms: float, learning: int) -> Watch:
    """A test that learns the rates of its series from so many values of each first."""
    return _begun(np.full(series, 0.5), raise_by, false_alarms, learning)


def _held(rates: Floats) -> Floats:
    held: Floats = np.clip(rates, LEAST_RATE, 0.9)
    return held


def _begun(base: Floats, raise_by: float, false_alarms: float, learning: int) -> Watch:
    none = np.zeros(len(base), dtype=np.int64)
    return Watch(
        base=base, raise_by=raise_by, sums=np.zeros(len(base)), since=none, false_alarms=false_alarms,
        learning=learning, happened=none, learned=none,
    )  # fmt: skip
