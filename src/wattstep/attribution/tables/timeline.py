"""When the host and devices did what in the traced steps of a run, as it would have been untraced where that is known."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from wattstep.attribution.gaps import Spans
from wattstep.attribution.gpu_idle import UNKNOWN
from wattstep.attribution.tables.naming import Names
from wattstep.attribution.tables.step_kinds import KindPhases
from wattstep.attribution.traced_rows import TracedRows
from wattstep.attribution.undisturbed import (
    SOON,
    Delays,
    Need,
    TracingCost,
    Window,
    delays_of,
    fit_host_cost,
    fit_piece_cost,
    interpolated,
    replay,
)
from wattstep.recorded.marks import Marks
from wattstep.recorded.phases import Phases
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

ALMOST: Final = 0.02  # of a phase: so much waiting or idling is none
COURSES: Final = 60  # replays of windows, all together
MOST_PIECES: Final = 100_000  # of work in all replays: more take seconds
STEADY: Final = 0.05  # by so much clean phases of a device that always works differ, middle half
# Calls by which one stream waits for another.
_JOINS: Final = re.compile(r"^(cuda|hip|cu)StreamWaitEvent")


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """Times of traced steps and their rows; of steps in the order of windows.

    Attributes:
        start_ns: Begin of each row, shape (n,).
        finish_ns: Its end, shape (n,).
        begin_ns: Of each step, where a device trains when that came to it, shape (windows,).
        end_ns: Likewise.
        edges_ns: When the host began each phase, and ended the last, shape (windows, phases + 1).
    """

    start_ns: IntArray
    finish_ns: IntArray
    begin_ns: IntArray
    end_ns: IntArray
    edges_ns: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """Rows and bounds of traced steps in time.

    Attributes:
        rows: The traced rows; replayed ones have the times that they would have had untraced.
        courses: The same steps once more, one course or several: a device is at some clean steps
            further behind the host than at others, and what it waits for follows from that.
        cost: Of tracing; None: steps are as they were traced.
        residual: Mean length of the replayed steps over that of clean ones, less 1; NaN likewise.
    """

    rows: TracedRows
    courses: tuple[Course, ...]
    cost: TracingCost | None = None
    residual: float = math.nan


def as_traced(rows: TracedRows, traced: Phases) -> Timeline:
    """The timeline of the trace itself."""
    edges = traced.edges_ns
    course = Course(
        start_ns=rows.start_ns, finish_ns=rows.end_ns, begin_ns=edges[:, 0], end_ns=edges[:, -1],
        edges_ns=edges,
    )  # fmt: skip
    return Timeline(rows=rows, courses=(course,))


@dataclass(frozen=True, kw_only=True, eq=False)
class Traced:
    """The traced rows of a run whose steps lie on a device's timeline.

    Attributes:
        rows: All of them.
        name: Of each row.
        runtime: Which are calls of the runtime, shape (n,).
        launch: The row that asked for each, or -1, shape (n,).
        followed: Which are work of the device that is followed, shape (n,).
    """

    rows: TracedRows
    name: Names
    runtime: BoolArray
    launch: IntArray
    followed: BoolArray


def untraced(
    traced: Traced,
    by_kind: KindPhases,
    kind_of_window: IntArray,
    kind_of_clean: IntArray,
    marks: Marks,
    steps: Steps,
    clean: IntArray,
    piece_s: float = math.nan,
) -> Untraced | None:
    """What the traced steps are untraced; None where nothing tells when the host was where.

    Args:
        traced: The rows.
        by_kind: Phases of traced and clean steps.
        kind_of_window: Kind of each window, shape (windows,).
        kind_of_clean: Kind of each clean step, shape (c,).
        marks: Of the run.
        steps: All of its steps.
        clean: Positions of clean ones.
        piece_s: What tracing costs the device for each piece of work, where that was measured.
    """
    if steps.host_ns is None or marks.host_ns is None:
        return None
    begun, ended = np.isfinite(steps.host_ns).T
    known: BoolArray = begun & ended
    of_known = known[clean]
    clean, kind_of_clean = clean[of_known], kind_of_clean[of_known]
    if not len(clean) or not known[by_kind.windows].all():
        return None
    return Untraced(traced, by_kind, kind_of_window, kind_of_clean, marks, steps, clean, piece_s)


class Untraced:
    """Fits what tracing cost, and replays each traced step without it; arguments as of `untraced`."""

    def __init__(
        self,
        traced: Traced,
        by_kind: KindPhases,
        kind_of_window: IntArray,
        kind_of_clean: IntArray,
        marks: Marks,
        steps: Steps,
        clean: IntArray,
        piece_s: float,
    ) -> None:
        assert steps.host_ns is not None
        self._traced, self._by_kind, self._piece_s = traced, by_kind, piece_s
        self._of_window, self._of_clean = kind_of_window, kind_of_clean
        self._marks, self._steps, self._clean = marks, steps, clean
        self._host_ns = steps.host_ns.astype(np.int64, copy=False)
        self._count = len(by_kind.windows)
        rows = traced.rows
        self._bounds = np.searchsorted(rows.window, np.arange(self._count + 1))
        joins = np.array([bool(_JOINS.match(str(text))) for text in traced.name.texts], bool)
        none = np.zeros(len(rows.window), bool)
        self._waits = none if rows.waits is None else rows.waits
        self._joins = joins[traced.name.code] & rows.on_host
        on_gpu = ~rows.on_host
        threads = np.unique(rows.thread[np.unique(traced.launch[on_gpu & (traced.launch >= 0)])])
        # What other threads do costs the training's own nothing.
        self._own = rows.on_host & (np.isin(rows.thread, threads) if len(threads) else True)

    @cached_property
    def _windows(self) -> Sequence[Window]:
        return [self._window(number) for number in range(self._count)]

    @cached_property
    def timeline(self) -> Timeline:
        """The traced steps as they would have run."""
        delays = delays_of(self._windows)
        needs = [window.needs(delays.launch) for window in self._windows]
        times = max(min(COURSES // self._count, MOST_PIECES // max(sum(map(len, needs)), 1)), 1)
        rows, (mean,) = self._traced.rows, self._strata(1)
        course = self._course(needs, delays, mean)
        courses = [course]
        if times > 1:
            courses = [self._course(needs, delays, strata) for strata in self._strata(times)]
        seconds = float(self._steps.seconds[self._clean].mean())
        lasting = float(np.mean([(each.end_ns - each.begin_ns).mean() for each in courses])) * 1e-9
        return Timeline(
            rows=replace(rows, start_ns=course.start_ns, end_ns=course.finish_ns),
            courses=tuple(courses),
            cost=self.cost,
            residual=lasting / seconds - 1 if seconds else math.nan,
        )

    def _course(
        self,
        needs: Sequence[Sequence[Need]],
        delays: Delays,
        strata: Sequence[_Stratum],
    ) -> Course:
        """Each window replayed as the clean steps are for which it stands."""
        rows, edges = self._traced.rows, self._host_edges.copy()
        start, finish = rows.start_ns.copy(), rows.end_ns.copy()
        begin, end = np.zeros((2, self._count), np.int64)
        for number, stratum in enumerate(strata):
            base, window = self._base(number), self._as_clean(number, stratum)
            again = replay(window, needs[number], delays, self.cost)
            part = np.arange(self._bounds[number], self._bounds[number + 1])
            host, device = part[rows.on_host[part]], self._pieces(number)
            start[host] = base + np.rint(again.host(rows.start_ns[host] - base))
            finish[host] = base + np.rint(again.host(rows.end_ns[host] - base))
            start[device] = base + np.rint(again.start_ns)
            finish[device] = base + np.rint(again.finish_ns)
            begin[number] = base + round(again.begin_ns)
            end[number] = base + round(again.end_ns)
            edges[number] = base + np.rint(again.host(edges[number] - base))
        return Course(start_ns=start, finish_ns=finish, begin_ns=begin, end_ns=end, edges_ns=edges)

    def _base(self, number: int) -> int:
        """When the host began the step of a window."""
        return int(self._host_ns[self._by_kind.windows[number], 0])

    def _pieces(self, number: int) -> IntArray:
        """Rows of work on devices of a window, in order of begin."""
        rows = self._traced.rows
        part = np.arange(self._bounds[number], self._bounds[number + 1])
        part = part[~rows.on_host[part]]
        return part[np.argsort(rows.start_ns[part], kind="stable")]

    def _window(self, number: int) -> Window:
        """A window as it was traced, with times from the begin of its step on the host."""
        rows, traced, base = self._traced.rows, self._traced, self._base(number)
        part = np.arange(self._bounds[number], self._bounds[number + 1])
        pieces = self._pieces(number)
        launch = traced.launch[pieces]
        waits = part[self._waits[part]]
        waits = waits[np.argsort(rows.end_ns[waits], kind="stable")]
        joins = part[self._joins[part]]
        step = self._by_kind.windows[number]
        return Window(
            begin_ns=0,
            end_ns=int(self._host_ns[step, 1]) - base,
            reached_ns=int(self._steps.start_ns[step]) - base,
            stamps_ns=np.zeros(0, np.int64),
            untraced_ns=np.zeros(0),
            waits_ns=np.stack([rows.start_ns[waits], rows.end_ns[waits]], axis=1) - base,
            joins_ns=np.sort(rows.start_ns[joins]) - base,
            start_ns=rows.start_ns[pieces] - base,
            finish_ns=rows.end_ns[pieces] - base,
            stream=rows.thread[pieces].astype(np.int64),
            call_ns=np.where(launch >= 0, rows.start_ns[launch] - base, UNKNOWN),
            followed=traced.followed[pieces],
            backlog_ns=0.0,
        )

    def _as_clean(self, number: int, clean: _Stratum) -> Window:
        """A window with the host as fast as in clean steps, and streams as full as they are in those."""
        rows, base, cost = self._traced.rows, self._base(number), self.cost
        window, edges = self._windows[number], self._host_edges[number]
        part = np.arange(self._bounds[number], self._bounds[number + 1])
        own = part[self._own[part]]
        each = np.where(self._traced.runtime[own], _ns(cost.call_s), _ns(cost.operation_s))
        stamps = np.concatenate([rows.start_ns[own], rows.end_ns[own]]) - base
        order = np.argsort(stamps, kind="stable")
        stamps = stamps[order]
        since = _cost_since(np.concatenate([each, each])[order] / 2, order < len(own))
        # What two stamps are too close to hold is taken off later ones.
        untraced = np.maximum.accumulate(stamps - np.cumsum(since))
        times = np.union1d(stamps, edges - base)
        untraced = interpolated(times.astype(np.float64), stamps.astype(np.float64), untraced)
        return replace(
            window,
            stamps_ns=times,
            untraced_ns=_scaled(untraced, times, edges - base, window.waits_ns, clean.phases_ns),
            backlog_ns=clean.late_ns,
        )

    # --- what tracing cost --------------------------------------------------------------------

    @cached_property
    def _host_edges(self) -> IntArray:
        """When the host began each phase of each window, and ended the last."""
        traced = self._by_kind.traced
        edges = np.zeros((self._count, len(traced.names) + 1), np.int64)
        for kind, (first, last) in enumerate(self._by_kind.spans):
            mine = np.flatnonzero(self._of_window == kind)
            phases, _ = self._on_host(self._by_kind.windows[mine], traced.names[first:last])
            padding = [(0, 0), (first, len(traced.names) - last)]
            edges[mine] = np.pad(phases, padding, mode="edge")
        return edges

    def _on_host(self, chosen: IntArray, names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
        """When the host began the phases of those of these steps that have them, and which do.

        Shape (m, phases + 1), and (m,), in the order of the steps.
        """
        if len(names) == 1:
            return self._host_ns[chosen], chosen
        known = self._marks.host_phases(self._steps, chosen, names)
        assert known is not None
        return known[0].edges_ns, known[1]

    @cached_property
    def cost(self) -> TracingCost:
        """What tracing cost, by the kind of steps that was traced most."""
        kind = int(np.bincount(self._of_window).argmax()) if self._count else 0
        first, last = self._by_kind.spans[kind]
        mine = np.flatnonzero(self._of_window == kind)
        names = self._by_kind.traced.names[first:last]
        clean = self._clean[self._of_clean == kind]
        edges = self._host_edges[mine, first : last + 1]
        on_device = self._by_kind.traced.edges_ns[mine, first : last + 1]
        begins = self._host_ns[self._by_kind.windows[mine], :1]
        operation, call, host_residual = self._fit_host(mine, edges, self._on_host(clean, names)[0])
        piece, within, device_residual = self._fit_device(
            [self._windows[number] for number in mine.tolist()], on_device - begins, clean, names
        )
        return TracingCost(
            operation_s=operation, call_s=call, piece_s=piece, within_s=within,
            host_residual=host_residual, device_residual=device_residual,
        )  # fmt: skip

    def _fit_host(
        self, mine: IntArray, edges: IntArray, clean: IntArray
    ) -> tuple[float, float, float]:
        """Costs for the host, by phases in which it does not wait."""
        rows, traced = self._traced.rows, self._traced
        if not len(clean):
            return fit_host_cost(*np.zeros((4, 0, 0)))
        beside = np.median(np.diff(clean, axis=1), axis=0) * 1e-9
        lasting = np.diff(edges, axis=1) * 1e-9
        shape = lasting.shape
        operations, calls, waiting = np.zeros((3, *shape))
        for at, number in enumerate(mine.tolist()):
            part = np.arange(self._bounds[number], self._bounds[number + 1])
            part = part[self._own[part]]
            phase = np.searchsorted(edges[at], rows.start_ns[part], side="right") - 1
            inside = (phase >= 0) & (phase < shape[1])
            part, phase = part[inside], phase[inside]
            runtime = traced.runtime[part]
            operations[at] = np.bincount(phase[~runtime], minlength=shape[1])
            calls[at] = np.bincount(phase[runtime], minlength=shape[1])
            waits = self._waits[part]
            seconds = (rows.end_ns - rows.start_ns)[part[waits]] * 1e-9
            waiting[at] = np.bincount(phase[waits], seconds, minlength=shape[1])
        extra = lasting - beside
        usable = np.median(waiting, axis=0) <= ALMOST * np.median(lasting, axis=0)
        usable &= (beside > 0) & (np.median(extra, axis=0) >= 0)
        chosen = [each[:, usable] for each in (extra, operations, calls)]
        middles = np.broadcast_to(beside, shape)[:, usable]
        return fit_host_cost(chosen[0], chosen[1], chosen[2], middles)

    def _fit_device(
        self,
        windows: Sequence[Window],
        edges: IntArray,
        clean: IntArray,
        names: tuple[str, ...],
    ) -> tuple[float, float, float]:
        """Cost of a piece of work and of it what lies within, by phases in which the device always works.

        Such a phase lasts as long in all clean steps, and all that works in it is one stream.
        """
        lasting = np.diff(edges, axis=1) * 1e-9
        beside = self._on_device(clean, names)
        if not len(beside):
            beside = np.zeros((1, len(names)))
        idle, pieces, aside = np.zeros((3, *lasting.shape))
        delays = delays_of(windows)
        for at, window in enumerate(windows):
            queued = window.queued(delays.launch)
            since = np.where(queued, window.before_ns, window.start_ns)
            busy = Spans.of(since[window.followed], window.finish_ns[window.followed])
            for phase, (begin, end) in enumerate(_pairs(edges[at])):
                idle[at, phase] = busy.holes(begin, end).total_s if end > begin else 0.0
                inside = window.followed & (window.start_ns >= begin) & (window.start_ns < end)
                pieces[at, phase] = inside.sum()
                aside[at, phase] = (window.stream[inside] != window.main).sum()
        low, middle, high = np.quantile(beside, (0.25, 0.5, 0.75), axis=0)
        usable = np.median(idle, axis=0) <= ALMOST * np.median(lasting, axis=0)
        usable &= (low > 0) & (high - low <= STEADY * middle) & pieces.any(axis=0)
        usable &= ~aside.any(axis=0)
        middles = np.broadcast_to(middle, lasting.shape)[:, usable]
        piece, residual = fit_piece_cost(
            lasting[:, usable] - middles, pieces[:, usable], middles, self._piece_s
        )
        any_queued = any(window.queued(delays.launch).any() for window in windows)
        within = max(piece - delays.between * 1e-9, 0.0) if any_queued and piece > 0 else 0.0
        return piece, within, residual

    def _on_device(self, clean: IntArray, names: tuple[str, ...]) -> FloatArray:
        """How long phases of clean steps last on the device in s, shape (m, phases)."""
        if len(names) == 1:
            return self._steps.seconds[clean][:, None]
        return self._marks.phases(self._steps, clean, names)[0].durations_s

    def _strata(self, times: int) -> list[list[_Stratum]]:
        """The clean steps that each window stands for, so many times over.

        As many of its kind as for the others: those that lie next to each other by how far the device is
        behind the host, for what follows from that need not grow with it.
        """
        nothing = _Stratum(late_ns=0.0, phases_ns=None)
        strata = [[nothing] * self._count for _ in range(times)]
        late = self._steps.start_ns - self._host_ns[:, 0]
        for kind, (first, last) in enumerate(self._by_kind.spans):
            mine = np.flatnonzero(self._of_window == kind)
            alike = self._clean[self._of_clean == kind]
            if not len(mine) or not len(alike):
                continue
            names = self._by_kind.traced.names
            padding = first, len(names) - last
            alike = alike[np.argsort(late[alike], kind="stable")]
            count = len(mine) * times
            means = _means_of_parts(late[alike], count)
            edges, marked = self._on_host(alike, names[first:last])
            lasting, places = np.diff(edges, axis=1), np.flatnonzero(np.isin(alike, marked))
            for at, (steps, late_ns) in enumerate(
                zip(np.array_split(np.arange(len(alike)), count), means, strict=True)
            ):
                phases = None
                if len(places):
                    phases = _with_full_queue(lasting, _near(places, steps))
                strata[at % times][int(mine[at // times])] = _Stratum(
                    late_ns=late_ns, phases_ns=None if phases is None else np.pad(phases, padding)
                )
        return strata


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stratum:
    """Clean steps that a window stands for.

    Attributes:
        late_ns: How long after the host a device comes to their begin.
        phases_ns: How long their phases last on the host, shape (phases,); None: not known.
    """

    late_ns: float
    phases_ns: FloatArray | None


def _near(places: IntArray, wanted: IntArray) -> IntArray:
    """Which of these places are among the wanted ones; the nearest where none is.

    Args:
        places: In order, at least one.
        wanted: One after the other; none: none is near.
    """
    if not len(wanted):
        return wanted
    inside = np.flatnonzero((places >= wanted[0]) & (places <= wanted[-1]))
    if len(inside):
        return inside
    return np.array([np.argmin(np.abs(places - wanted.mean()))])


def _with_full_queue(lasting: FloatArray, steps: IntArray) -> FloatArray:
    """How long phases last on the host in some steps, but for what it waits in a call, shape (phases,).

    A full queue stops the host wherever it asks for work. A phase that is longer by more than any other
    waits in a call, which a window has of its own.

    Args:
        lasting: Of all steps, shape (steps, phases).
        steps: Which; none: as where nothing stops the host.
    """
    free = np.quantile(lasting, SOON, axis=0)
    if not len(steps) or lasting.shape[1] < 2:
        return free
    ratio = lasting[steps] / np.maximum(free, 1.0)
    second = np.sort(ratio, axis=1)[:, -2:-1]
    phases: FloatArray = (np.minimum(ratio, second) * free).mean(axis=0)
    return phases


def _means_of_parts(values: IntArray, parts: int) -> list[float]:
    """Means of so many equal parts of a list; a value between two belongs to both."""
    where = np.linspace(0, len(values), parts + 1)
    total = np.append(0, np.cumsum(values)).astype(np.float64)
    sums = np.diff(np.interp(where, np.arange(len(values) + 1), total))
    means: list[float] = (sums * parts / len(values)).tolist()
    return means


def _scaled(
    untraced: FloatArray,
    times: IntArray,
    edges: IntArray,
    waits: IntArray,
    phases_ns: FloatArray | None,
) -> FloatArray:
    """Times of the host with each phase in which it does not wait as long as in clean steps.

    Args:
        untraced: The times, the edges of phases among them.
        times: The same in the trace, in order.
        edges: Of phases in the trace.
        waits: Begin and end of waits in the trace, shape (w, 2).
        phases_ns: How long phases last in clean steps; None: not known.
    """
    if phases_ns is None:
        return untraced
    before = untraced[np.searchsorted(times, edges)]
    lasting = np.diff(before)
    for phase, (begin, end) in enumerate(_pairs(edges)):
        inside = np.clip(waits, begin, end)
        waited = float((inside[:, 1] - inside[:, 0]).sum())
        if waited <= ALMOST * (end - begin):
            lasting[phase] = phases_ns[phase]
    after = before[0] + np.append(0.0, np.cumsum(lasting))
    beyond = np.maximum(untraced - before[-1], 0) + np.minimum(untraced - before[0], 0)
    scaled: FloatArray = np.interp(untraced, before, after) + beyond
    return scaled


def _pairs(edges: IntArray) -> Iterator[tuple[int, int]]:
    return zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


def _ns(cost_s: float) -> float:
    """A cost in ns; 0 where it is not known."""
    return 0.0 if np.isnan(cost_s) else cost_s * 1e9


def _cost_since(half: FloatArray, begins: BoolArray) -> FloatArray:
    """What tracing cost since the stamp before: one half of an event's before its begin, one after its end."""
    since = np.where(begins, half, 0.0)
    since[1:] += np.where(begins, 0.0, half)[:-1]
    return since
