"""Recent samples and labeled ones, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wattstep.labeling.arrays import Bools, Floats, Ints, among


def _no_samples() -> Floats:
    return np.empty((0, 0))


def _no_numbers() -> Ints:
    return np.empty(0, dtype=np.int64)


def _none() -> Bools:
    return np.empty(0, dtype=bool)


@dataclass(kw_only=True)
class Recent:
    """Samples without labels: a new one takes the place of one drawn at random, so that memory fades with age.

    Attributes:
        most: How many are held.
        x: Shape (held, d).
        order: In which they came, from 0, shape (held,).
        numbers: Of each among all samples that came, unreadable ones counted in, from 0, shape (held,).
        asked, answered: Whether a person was asked for its label, and gave it, shape (held,).
    """

    most: int
    x: Floats = field(default_factory=_no_samples)
    order: Ints = field(default_factory=_no_numbers)
    numbers: Ints = field(default_factory=_no_numbers)
    asked: Bools = field(default_factory=_none)
    answered: Bools = field(default_factory=_none)

    def add(self, x: Floats, first: int, numbers: Ints, random: np.random.Generator) -> None:
        """Takes samples in, shape (n, d), whose order begins with `first`."""
        came = {
            "x": x, "order": first + np.arange(len(x)), "numbers": numbers,
            "asked": np.zeros(len(x), dtype=bool), "answered": np.zeros(len(x), dtype=bool),
        }  # fmt: skip
        if not len(self.x):
            self.x = np.empty((0, x.shape[1]))
        if len(x) >= self.most:
            chosen = np.sort(random.choice(len(x), self.most, replace=False))
            for name, rows in came.items():
                setattr(self, name, rows[chosen])
            return
        room = min(self.most - len(self.x), len(x))
        slots = _no_numbers()
        if room < len(x):
            slots = random.choice(self.most, len(x) - room, replace=False)
        for name, rows in came.items():
            held = np.concatenate([getattr(self, name), rows[:room]])
            held[slots] = rows[room:]
            setattr(self, name, held)

    def answer(self, raw: Floats) -> Bools:
        """Takes it that a person labeled these, and which of them were asked for, shape (n,).

        Args:
            raw: Their first features, by which they are recognised, shape (n, k).
        """
        held = self.x[:, : raw.shape[1]]
        asked = among(raw, held[self.asked])
        self.answered = self.answered | among(held, raw)
        return asked

    def forget_before(self, order: int) -> None:
        """Holds only what came from this one on."""
        later = self.order >= order
        for name in ("x", "order", "numbers", "asked", "answered"):
            setattr(self, name, getattr(self, name)[later])


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
