"""Data sets for benchmarks of labeling: those that come with scikit-learn and river, none downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST_OF_CLASS = 3  # labeled samples of each class, where 5 % would be fewer


def _sklearn(name: str) -> Callable[[], tuple[Array, Array]]:
    def load() -> tuple[Array, Array]:
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return np.asarray(x, dtype=float), np.asarray(y)

    return load


def _river(name: str, most: int | None = None) -> Callable[[], tuple[Array, Array]]:
    def load() -> tuple[Array, Array]:
        from river import datasets

        rows = list(getattr(datasets, name)())
        x = np.array([[float(value) for value in row.values()] for row, _ in rows])
        y = np.unique([str(label) for _, label in rows], return_inverse=True)[1]
        if most is not None and len(x) > most:
            chosen = np.random.default_rng(0).choice(len(x), most, replace=False)
            x, y = x[chosen], y[chosen]
        return x, y

    return load


SETS: dict[str, Callable[[], tuple[Array, Array]]] = {
    "digits": _sklearn("digits"),
    "segments": _river("ImageSegments"),
    "wine": _sklearn("wine"),
    "iris": _sklearn("iris"),
    "breast cancer": _sklearn("breast_cancer"),
    "phishing": _river("Phishing"),
    "bananas": _river("Bananas"),
    "shuttle": _river("Shuttle", 6000),
}
# Two classes: none is held back, but for shuttle, whose second class is what is not normal.
ONE_CLASS_HELD = ("shuttle",)


@dataclass(frozen=True, kw_only=True)
class Split:
    """One draw of a data set; -1 is a class that has no label.

    Attributes:
        x, y: Labeled samples and their classes.
        pool, pool_y: What arrives without labels, in its order, and what it is.
        pool_classes: True classes, held back or not.
        test, test_y: Held out.
        test_classes: True classes, held back or not.
        unknown: Whether classes are held back.
    """

    x: Array
    y: Array
    pool: Array
    pool_y: Array
    pool_classes: Array
    test: Array
    test_y: Array
    test_classes: Array
    unknown: bool


def split(name: str, seed: int, share: float = 0.05) -> Split:
    """A draw: one class in four held back (of three and more), 30 % to judge, 5 % of the known rest labeled."""
    x, y = SETS[name]()
    random = np.random.default_rng(seed)
    classes = np.unique(y)
    held = np.empty(0, dtype=y.dtype)
    if name in ONE_CLASS_HELD:
        held = np.array([1])
    elif len(classes) >= 3:
        held = random.choice(classes, max(1, round(len(classes) / 4)), replace=False)
    order = random.permutation(len(x))
    test = np.zeros(len(x), dtype=bool)
    labeled = np.zeros(len(x), dtype=bool)
    for label in classes:
        rows = order[y[order] == label]
        cut = round(0.3 * len(rows))
        test[rows[:cut]] = True
        if label not in held:
            count = max(LEAST_OF_CLASS, round(share * (len(rows) - cut)))
            labeled[rows[cut : cut + count]] = True
    told = np.where(np.isin(y, held), -1, y)
    pool = order[~test[order] & ~labeled[order]]
    judged, known = np.flatnonzero(test), np.flatnonzero(labeled)
    return Split(
        x=x[known], y=told[known], pool=x[pool], pool_y=told[pool], pool_classes=y[pool],
        test=x[judged], test_y=told[judged], test_classes=y[judged], unknown=len(held) > 0,
    )  # fmt: skip
