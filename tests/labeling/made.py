"""Streams whose truth is known, and processors whose costs are."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from wattstep.labeling.lookup import Found, Index, look_up

Array = np.ndarray[Any, Any]
CENTERS = np.array(
    [[0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 0.0, 0.0], [0.0, 6.0, 0.0, 0.0], [0.0, 0.0, 6.0, 0.0]]
)


def blobs(count: int, classes: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """Round clouds of spread 1 whose centers are 6 and more apart, in turns: samples (count, 4), classes."""
    random = np.random.default_rng(seed)
    y = np.array(classes)[np.arange(count) % len(classes)]
    return CENTERS[y] + random.normal(size=(count, 4)), y


X = np.random.default_rng(2).normal(size=(500, 4)).astype(np.float32)


class Clock(threading.local):
    """Seconds that a thread has worked, as its processors say."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Made:
    """A processor that takes so many seconds a piece and a sample."""

    def __init__(
        self, clock: Clock, name: str, piece: float, sample: float, hold: float = 0.5
    ) -> None:
        self.name, self.device, self.copy = name, "made", hold
        self.clock, self.piece, self.sample = clock, piece, sample
        self.held, self.moved = 0, 0
        self.sizes: list[int] = []

    def hold(self, index: Index) -> None:
        self.index = index
        self.held += 1
        self.clock.now += self.copy

    def look_up(self, space: np.ndarray, standard: np.ndarray) -> Found:
        self.sizes.append(len(space))
        self.clock.now += self.piece + self.sample * len(space)
        found = look_up(self.index, space, standard)
        found.near.nodes[:1] += self.moved
        return found
