"""Recent samples and labeled ones, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wattstep.labeling.arrays import Bools, Floats, Ints


def _no_samples() -> Floats:
    return np.empty((0, 0))


def _no_numbers() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(kw_only=True)
class Recent:
    """Samples without labels: a new one takes the place of one drawn at random, so that memory fades with age.

    Attributes:
        most: How many are held.
        x: Shape (held, d).
        numbers: Of each in the order of arrival, from 0, shape (held,).
    """

    most: int
    x: Floats = field(default_factory=_no_samples)
    numbers: Ints = field(default_factory=_no_numbers)

    def add(self, x: Floats, first: int, random: np.random.Generator) -> None:
        """Takes samples in, shape (n, d), whose numbers begin with `first`."""
        numbers = first + np.arange(len(x))
        if not len(self.x):
            self.x = np.empty((0, x.shape[1]))
        if len(x) >= self.most:
            chosen = np.sort(random.choice(len(x), self.most, replace=False))
            self.x, self.numbers = x[chosen], numbers[chosen]
            return
        room = min(self.most - len(self.x), len(x))
        self.x = np.concatenate([self.x, x[:room]])
        self.numbers = np.concatenate([self.numbers, numbers[:room]])
        if room < len(x):
            slots = random.choice(self.most, len(x) - room, replace=False)
            self.x[slots], self.numbers[slots] = x[room:], numbers[room:]

    def forget_before(self, number: int) -> None:
        """Holds only what came from this number on."""
        later = self.numbers >= number
        self.x, self.numbers = self.x[later], self.numbers[later]


@dataclass(kw_only=True)
class Labeled:
    """Labeled samples, in the order in which they came, each class with its share of the room.

    Attributes:
        most: How many are held.
        x: Shape (held, d).
        codes: Their classes.
        symbols: What the heuristics, which were not made from them, say of them, shape (held, h).
        folds: The part of them that each belongs to, for what is learned without it, shape (held,).
    """

    most: int
    x: Floats
    codes: Ints
    symbols: Ints
    folds: Ints = field(default_factory=_no_numbers)

    def add(self, x: Floats, codes: Ints, symbols: Ints) -> None:
        """Takes samples in; the oldest of the largest class makes room."""
        self.x = np.concatenate([self.x, x])
        self.codes = np.concatenate([self.codes, codes])
        self.symbols = np.concatenate([self.symbols, symbols])
        # In turns: no heuristic of now was made from these.
        parts = int(self.folds.max(initial=0)) + 1
        self.folds = np.concatenate([self.folds, np.arange(len(codes)) % parts])
        surplus = len(self.codes) - self.most
        if surplus <= 0:
            return
        sizes = np.bincount(self.codes)
        dropped = np.zeros_like(sizes)
        for _ in range(surplus):
            dropped[(sizes - dropped).argmax()] += 1
        staying = np.ones(len(self.codes), dtype=bool)
        for code, count in enumerate(dropped):
            staying[np.flatnonzero(self.codes == code)[:count]] = False
        self._keep(staying)

    def keep_last(self, count: int, of_each: int) -> None:
        """Holds the last ones only, and of each class at least this many."""
        staying = np.arange(len(self.codes)) >= len(self.codes) - count
        for code in np.unique(self.codes):
            staying[np.flatnonzero(self.codes == code)[-of_each:]] = True
        self._keep(staying)

    def _keep(self, staying: Bools) -> None:
        self.x, self.codes = self.x[staying], self.codes[staying]
        self.symbols, self.folds = self.symbols[staying], self.folds[staying]
