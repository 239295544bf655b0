"""The instances of a run's traced operations, one by one, with what makes them one operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattstep.attribution.codes import compact
from wattstep.attribution.tables.naming import Combined, Names, combined
from wattstep.attribution.variation import Instances
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

OPERATION = ("name", "layer", "phase", "processor")
SHAPED = (*OPERATION, "shapes")


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedInstances:
    """Operations that no other encloses, each instance with all that runs inside; shape (n,) each.

    Attributes:
        names: "name", "layer", "phase", "processor" and "shapes" of each.
        window: Number of the traced step, counted from 0, not falling.
        step: Rows of these steps among all steps, shape (windows,).
        start_ns: Begin, as traced.
        end_ns: End, as traced.
        seconds: What it took in s, less the cost of the tracer's events inside, on the scale of
            clean steps.
        tracer_s: What the tracer's events inside it cost, in s.
        source: The clock, or what traced it.
    """

    names: Mapping[str, Names]
    window: IntArray
    step: IntArray
    start_ns: IntArray
    end_ns: IntArray
    seconds: FloatArray
    tracer_s: FloatArray
    source: str

    @cached_property
    def operations(self) -> Combined:
        """Operation of each instance: name, layer, phase and processor."""
        return self._combined(OPERATION)

    @cached_property
    def shaped(self) -> Combined:
        """Operation of each instance, different input shapes apart."""
        return self._combined(SHAPED)

    def _combined(self, columns: tuple[str, ...]) -> Combined:
        labels = {column: self.names[column] for column in columns}
        return combined(labels, {}, np.ones(len(self.window), bool))

    @cached_property
    def of_shapes(self) -> Instances:
        """Input of variation: one operation of one shape a group."""
        return Instances(
            group=self.shaped.key,
            groups=int(self.shaped.key.max(initial=-1)) + 1,
            window=self.window,
            windows=len(self.step),
            seconds=self.seconds,
        )

    @cached_property
    def other_shapes(self) -> BoolArray:
        """Mask of windows with other input shapes than most, shape (windows,).

        Only operations count that have the same shapes in more than half of the windows: what
        comes in another shape each time has none that are usual.
        """
        windows = len(self.step)
        operation = self.operations.key.astype(np.int64)
        cell, of_cell = compact(operation * windows + self.window)
        # A random number for each operation and shape: their sum tells sets of them apart.
        kinds = int(self.shaped.key.max(initial=-1)) + 1
        marks = np.random.default_rng(0).integers(0, 2**62, kinds, dtype=np.uint64)
        sets = np.zeros(len(cell), np.uint64)
        np.add.at(sets, of_cell, marks[self.shaped.key])
        order = np.lexsort((sets, cell // windows))
        owner, ordered = (cell // windows)[order], sets[order]
        begins = np.append(True, (np.diff(owner) != 0) | (ordered[1:] != ordered[:-1]))
        first = np.flatnonzero(begins[: len(cell)])
        share = np.diff(first, append=len(cell)) / np.bincount(owner)[owner[first]]
        has_usual = np.zeros(int(owner.max(initial=-1)) + 1, bool)
        has_usual[owner[first[share > 0.5]]] = True
        run = np.cumsum(begins[: len(cell)]) - 1
        unusual = has_usual[owner] & (share[run] <= 0.5)
        differing = np.zeros(windows, bool)
        differing[(cell % max(windows, 1))[order][unusual]] = True
        return differing
