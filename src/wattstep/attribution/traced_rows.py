"""Rows of traced steps, before and after they are compensated for the tracer's overhead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.attribution.correlation import Ranked, nest_ranked, share_ranked
from wattstep.recorded.curves import Curve
from wattstep.recorded.phases import Phases
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

Labels = NDArray[np.object_]
Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedRows:
    """Rows of all traced steps, in the order of windows; shape (n,) each.

    Attributes:
        window: Number of the window, counted from 0 without gaps.
        start_ns: Begin.
        end_ns: End.
        self_ns: Duration without the direct children.
        thread: Where it ran.
        parent: Index of the row that encloses it, or -1.
        scope: Whether it only groups others (module code, optimizer step, annotation).
        layer: Position of its module path in `layers`.
        layers: Module paths, "" for none, shape (layers,); a trace has millions of rows and few.
        on_gpu: Which are work on a GPU; None: none is.
        waits: Calls that wait for a GPU; None: none does.
        cores: That each kept busy, by which it shares CPU time and energy with what ran beside it; None:
            all share alike.
    """

    window: Numbers
    start_ns: IntArray
    end_ns: IntArray
    self_ns: IntArray
    thread: Numbers
    parent: Numbers
    scope: BoolArray
    layer: Numbers
    layers: Labels
    on_gpu: BoolArray | None = None
    waits: BoolArray | None = None
    cores: IntArray | None = None

    @property
    def on_host(self) -> BoolArray:
        """Rows of the CPU, which each cost the host the making of an event."""
        return np.ones(len(self.window), bool) if self.on_gpu is None else ~self.on_gpu

    @property
    def apart(self) -> BoolArray:
        """Scopes that no operation holds, for one inside an operation is a part of it; and what waits.

        A call that waits for a GPU does not work while that does, nor do the operations around it.
        """
        scopes = self._scopes_apart
        if self.waits is None or not self.waits.any():
            return scopes
        apart = scopes | self.waits
        above = self.parent[self.waits]
        while len(above := np.unique(above[above >= 0])):
            apart[above] = True
            above = self.parent[above]
        return apart

    @property
    def _scopes_apart(self) -> BoolArray:
        if not self.scope.any():
            return self.scope
        apart: BoolArray = self.scope.copy()
        at = np.flatnonzero(apart)
        above = self.parent[at]
        while len(at):
            inside = above >= 0
            at, above = at[inside], above[inside]
            held = ~self.scope[above]
            apart[at[held]] = False
            at, above = at[~held], self.parent[above[~held]]
        return apart

    def ranked(self, start_ns: IntArray, end_ns: IntArray, *, by_cores: bool = False) -> Ranked:
        """Their nesting at these times, scopes behind operations.

        Args:
            start_ns: Begin of each row, shape (n,).
            end_ns: End of each row, shape (n,).
            by_cores: Whether they share by the cores that each kept busy: wall time is no matter of these.
        """
        cores = self.cores if by_cores else None
        return nest_ranked(start_ns, end_ns, self.thread, self.apart, cores)


@dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """Cost of tracing.

    Attributes:
        cost_s: Of one event, for each phase, in s.
        residual: Relative error with which the cost fitted on odd windows predicts the clean
            steps beside even ones; NaN with fewer than four windows.
        inflation: Traced step over clean step, median.
        windows: How many windows it rests on.
        error_s: Half width of the 95 % interval of the cost, for each phase, in s: what an
            operation holds fewer events for than its share, another loses.
        unattributed_error_s: How far the rest of each phase may be off for that, a window, in s: no
            further than there are gaps in traced steps. None: not known.
        within: Share of the cost that lies within operations that enclose nothing, for each phase;
            None: none does.
        added_up: What rows and rests of phases with operations come to once the cost is off, before they
            are scaled, over the clean steps beside them, median; NaN: not known.
    """

    cost_s: FloatArray
    residual: float
    inflation: float
    windows: int
    error_s: FloatArray
    unattributed_error_s: FloatArray | None = None
    within: FloatArray | None = None
    added_up: float = math.nan

    def events(self, rows: TracedRows, phase: Numbers) -> FloatArray:
        """Of how many events each row holds the cost, shape (n,): of those inside it, or a part of its own.

        Args:
            rows: The traced rows.
            phase: Position of the phase of each.
        """
        top = rows.parent < 0
        events = np.bincount(rows.parent[~top], minlength=len(rows.parent)).astype(np.float64)
        if self.within is not None and self.within.any():
            alone = np.flatnonzero(top & rows.on_host & (events == 0))
            events[alone] = self.within[phase[alone]]
        return events


@dataclass(frozen=True, kw_only=True, eq=False)
class CompensatedRows:
    """Cost of each row in the mean clean step; a window's rows and unattributed time add up to the step.

    Attributes:
        phase: Position of the phase of each row, shape (n,).
        time_s: Share of wall time, shape (n,).
        busy_s: Duration counted in full, shape (n,).
        unattributed_s: What no operation covers, shape (windows, phases).
        correction: The cost that was taken off.
        traced: Phases of the traced steps.
        edges_s: Begin of each phase of the mean clean step, and its end, shape (phases + 1,).
    """

    phase: Numbers
    time_s: FloatArray
    busy_s: FloatArray
    unattributed_s: FloatArray
    correction: Correction
    traced: Phases
    edges_s: FloatArray


class Cells:
    """Sums over the rows of each window and phase."""

    def __init__(self, rows: TracedRows, phase: Numbers, windows: int, phases: int) -> None:
        self._shape = (windows, phases)
        self._cell = rows.window if phases == 1 else rows.window.astype(np.int64) * phases + phase

    def sums(self, weights: FloatArray | None) -> FloatArray:
        """Of these weights, or how many rows there are (None); shape (windows, phases)."""
        sums = np.bincount(self._cell, weights, minlength=self._shape[0] * self._shape[1])
        return sums.reshape(self._shape).astype(np.float64)


def within_steps(ranked: Ranked, traced: Phases, curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Share of a curve of each row, and unattributed share of each phase, in its unit."""
    shares, free = share_ranked(ranked, curve)
    base = free.t_ns[0]
    left = np.interp(traced.edges_ns - base, free.t_ns - base, free.total)
    return shares, np.diff(left, axis=1)


def clock_of_steps(traced: Phases) -> Curve:
    """Wall time in s that stands still outside of the steps."""
    begin, end = traced.edges_ns[:, 0], traced.edges_ns[:, -1]
    t_ns = np.unique(np.concatenate([begin, end]))
    opened = np.searchsorted(np.sort(begin), t_ns, side="right")
    inside = (opened > np.searchsorted(np.sort(end), t_ns, side="right"))[:-1]
    elapsed = np.concatenate([[0], np.cumsum(np.where(inside, np.diff(t_ns), 0))])
    return Curve(t_ns=t_ns, total=elapsed * 1e-9, unit="s", covered_ns=elapsed)


def own_phases(edges: IntArray) -> tuple[int, int]:
    """First and last phase of a window: those of other kinds of steps have no length in it."""
    first = int(np.searchsorted(edges, edges[0], side="right")) - 1
    last = int(np.searchsorted(edges, edges[-1], side="left")) - 1
    return first, max(first, last)
