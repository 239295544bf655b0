"""The steps of a run as arrays, and which of them count as clean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Training steps in the order of time; all arrays have shape (n,).

    Attributes:
        index: Number of the step in its run.
        start_ns: Begin.
        end_ns: End.
        samples: Samples of the step; NaN where not known.
        loss: NaN where not known.
        warmup: Whether it is one of the first steps, which do not count.
        traced: Whether it was traced.
        window_ns: Begin and end of tracing windows, shape (w, 2).
        rest_ns: Begin and end of stretches with a name (evaluation), by name, each shape (r, 2).
    """

    index: IntArray
    start_ns: IntArray
    end_ns: IntArray
    samples: FloatArray
    loss: FloatArray
    warmup: BoolArray
    traced: BoolArray
    window_ns: IntArray
    rest_ns: Mapping[str, IntArray]

    @property
    def seconds(self) -> FloatArray:
        """Durations in s."""
        return (self.end_ns - self.start_ns).astype(np.float64) * 1e-9

    @property
    def settling(self) -> BoolArray:
        """The step after a traced one: caches and allocator find back to their habits in it."""
        after = np.zeros(len(self.index), bool)
        after[1:] = self.traced[:-1]
        return after

    @property
    def clean(self) -> BoolArray:
        """Steps that time, throughput and energy rest on."""
        return ~(self.warmup | self.traced | self.settling)

    @property
    def follows(self) -> BoolArray:
        """Whether a step goes on straight from a clean step before it, nothing named between."""
        clean = self.clean
        follows = np.zeros(len(self.index), bool)
        follows[1:] = clean[1:] & clean[:-1] & (self.index[1:] == self.index[:-1] + 1)
        for spans in (self.window_ns, *self.rest_ns.values()):
            if len(spans):
                # A span between the end of the step before and the start of this one.
                nth = np.searchsorted(spans[:, 0], self.start_ns, side="right") - 1
                begin = spans[np.maximum(nth, 0), 0]
                before = np.concatenate([[0], self.end_ns[:-1]])
                follows &= ~((nth >= 0) & (begin >= before))
        return follows

    @property
    def gap_s(self) -> FloatArray:
        """Time since the step before in s, for steps that follow; 0 for the others."""
        gap = np.zeros(len(self.index))
        gap[1:] = (self.start_ns[1:] - self.end_ns[:-1]) * 1e-9
        return np.where(self.follows, gap, 0.0)

    def stretches(self) -> IntArray:
        """Runs of clean steps without anything between: begin and end in ns, shape (s, 2)."""
        clean = np.flatnonzero(self.clean)
        if not len(clean):
            return np.empty((0, 2), np.int64)
        first = np.flatnonzero(~self.follows[clean])
        last = np.append(first[1:] - 1, len(clean) - 1)
        return np.stack([self.start_ns[clean[first]], self.end_ns[clean[last]]], axis=1)


def slices(stretches: IntArray, least_ns: int) -> IntArray:
    """Stretches cut into slices of at least `least_ns`; what is shorter stays one slice."""
    parts = []
    for begin, end in stretches:
        count = max(1, int((end - begin) // least_ns))
        edges = np.linspace(begin, end, count + 1).astype(np.int64)
        parts.append(np.stack([edges[:-1], edges[1:]], axis=1))
    return np.concatenate(parts) if parts else np.empty((0, 2), np.int64)
