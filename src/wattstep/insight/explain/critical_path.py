"""The critical path of a step: which operations make it as long as it is, and which have time to spare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from wattstep.attribution.critical_path import NONE, Path, Pieces, dependencies, longest
from wattstep.attribution.gaps import Spans
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.device.utilization import within
from wattstep.insight.explain.device_gaps import (
    FRAMEWORK,
    TracedStep,
    by_phase,
    traced_steps,
    waits_of,
)
from wattstep.insight.explain.operations import attributed, nothing_traced
from wattstep.insight.explain.section import Row, Section, Table
from wattstep.run import Run
from wattstep.schema.figure import Figure

TITLE: Final = "Critical path of a step"
MOST_STEPS: Final = 20
MOST_ROWS: Final = 300_000  # traced rows of all steps that are looked at
SHOWN: Final = 70  # letters of a name
OF_TRACED: Final = (
    "Times here are shares of whole traced steps, waits included, times the mean step; other "
    "sections lay each phase on its own mean time and may say less where a traced step was disturbed."
)
COLUMNS: Final = {
    "name": "piece", "layer": "layer", "where": "where", "time": "on the path",
    "share": "of the path", "slack": "least slack elsewhere",
}  # fmt: skip


def critical_path(run: Run) -> Section:
    """The longest chain of dependent work in a mean traced step."""
    breakdown = run.breakdown
    if reason := nothing_traced(run):
        return Section(name="critical_path", title=TITLE, reason=reason)
    paths = [_StepPath(one) for one in _chosen(breakdown)]
    paths = [one for one in paths if len(one.cut.pieces.start_ns)]
    if not paths:
        return Section(name="critical_path", title=TITLE, reason="no traced step holds any work")
    step = breakdown.step_time.value or np.nan
    share = np.array([one.path.length_ns / one.step_ns for one in paths])
    busy = np.array([float(one.cut.pieces.work_ns.sum()) / one.step_ns for one in paths])
    figures = {
        "critical_path_time": attributed(breakdown, share * step, _words(paths, breakdown)),
        "critical_path_share": within(
            attributed(breakdown, share, "longest chain over the traced step", "ratio")
        ),
        "work_at_once": attributed(
            breakdown, busy / share, "work of all lanes over the longest chain", "ratio"
        ),
    }
    rows = _rows(paths, step, breakdown)
    return Section(
        name="critical_path",
        title=TITLE,
        sentences=tuple(_sentences(paths, figures, rows, breakdown)),
        figures=figures,
        tables=(Table(name="path", title="On the path", columns=COLUMNS, rows=tuple(rows)),),
    )


def _words(paths: Sequence[_StepPath], breakdown: RunBreakdown) -> str:
    of = len(breakdown.window_steps)
    return (
        f"longest chain of dependent work in {len(paths)} of {of} traced steps, as a share of each, "
        "times the mean step; code between operations is work of the thread that goes on"
    )


def _chosen(breakdown: RunBreakdown) -> Iterator[_Cut]:
    """Traced steps as pieces; some, evenly spread, where there are many."""
    steps = _one_of_each(breakdown)
    rows = max(len(breakdown.rows.window), 1)
    most = min(MOST_STEPS, max(1, MOST_ROWS * len(steps) // rows))
    for at in np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).astype(int)):
        yield _Cutting(breakdown, steps[at]).cut()


def _one_of_each(breakdown: RunBreakdown) -> list[TracedStep]:
    """Each traced step once, as it is in one of the courses, which take turns."""
    courses = len(breakdown.timeline.courses)
    steps = traced_steps(breakdown)
    return [steps[at + at // courses % courses] for at in range(0, len(steps), courses)]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cut:
    """A step as pieces of work.

    Attributes:
        pieces: The work.
        label: Of each: name, layer, where it ran.
        step_ns: Length of the step.
        lanes: Names of the lanes.
    """

    pieces: Pieces
    label: Sequence[tuple[str, str, str]]
    step_ns: int
    lanes: Sequence[str]


class _StepPath:
    """The path of one step."""

    def __init__(self, cut: _Cut) -> None:
        self.cut = cut
        self.step_ns = cut.step_ns
        self.path: Path = longest(cut.pieces, dependencies(cut.pieces))


class _Cutting:
    """Cuts a traced step into pieces that begin and end where something may have waited."""

    def __init__(self, breakdown: RunBreakdown, step: TracedStep) -> None:
        self._breakdown, self._step = breakdown, step
        self._rows = replace(breakdown.rows, start_ns=step.start_ns, end_ns=step.finish_ns)
        self._columns: dict[str, list[int]] = {
            key: [] for key in ("start", "end", "lane", "host", "waits", "launched", "launcher")
        }
        self._label: list[tuple[str, str, str]] = []
        self._lanes: dict[tuple[str, int], int] = {}
        self._name, self._layer = breakdown.label("name"), breakdown.label("layer")

    def cut(self) -> _Cut:
        """All pieces."""
        own = self._step.rows
        on_cpu = self._breakdown.processor.at(own).named("cpu")
        self._cut_host(own[on_cpu])
        self._cut_devices(own[~on_cpu])
        columns = {key: np.array(values, np.int64) for key, values in self._columns.items()}
        pieces = Pieces(
            start_ns=columns["start"],
            end_ns=columns["end"],
            lane=columns["lane"],
            host=columns["host"].astype(bool),
            waits=columns["waits"].astype(bool),
            launched_ns=columns["launched"],
            launcher=columns["launcher"],
        )
        return _Cut(
            pieces=pieces,
            label=self._label,
            step_ns=self._step.end_ns - self._step.begin_ns,
            lanes=[f"{where} {number}" for where, number in self._lanes],
        )

    def _lane(self, where: str, thread: int) -> int:
        return self._lanes.setdefault((where, thread), len(self._lanes))

    def _add(
        self, start: int, end: int, lane: int, label: tuple[str, str, str], **extra: int
    ) -> None:
        start, end = max(start, self._step.begin_ns), min(end, self._step.end_ns)
        if end <= start:
            return
        values = {"start": start, "end": end, "lane": lane, "host": 1, "waits": 0}
        values |= {"launched": NONE, "launcher": NONE, **extra}
        for key, value in values.items():
            self._columns[key].append(value)
        self._label.append(label)

    def _labelled(self, row: int, where: str) -> tuple[str, str, str]:
        return self._name.of(row)[:SHOWN], self._layer.of(row), where

    def _cut_host(self, rows: Any) -> None:
        """Outermost operations of threads, cut at launches and waits, and what lies between all."""
        breakdown, traced = self._breakdown, self._rows
        outer = rows[breakdown.outermost[rows] & breakdown.is_operation[rows]]
        outer = outer[np.argsort(traced.start_ns[outer], kind="stable")]
        waits = rows[waits_of(breakdown, rows)]
        launches = np.unique(breakdown.launch[self._step.rows])
        launches = launches[launches >= 0]
        done: dict[int, int] = {}
        for thread in np.unique(traced.thread[outer]):
            lane = self._lane("thread", int(thread))
            mine = waits[traced.thread[waits] == thread]
            idle = Spans.of(traced.start_ns[mine], traced.end_ns[mine]).union()
            cuts = traced.start_ns[launches[traced.thread[launches] == thread]]
            edges = np.unique(np.concatenate([cuts, idle.start_ns, idle.end_ns]))
            for row in outer[traced.thread[outer] == thread].tolist():
                begin = max(int(traced.start_ns[row]), done.get(lane, 0))
                self._cut_one(row, begin, lane, edges, idle)
                done[lane] = max(int(traced.end_ns[row]), done.get(lane, 0))
        self._fill(outer)

    def _cut_one(self, row: int, begin: int, lane: int, edges: Any, idle: Spans) -> None:
        end = int(self._rows.end_ns[row])
        inside = edges[(edges > begin) & (edges < end)]
        times = [begin, *inside.tolist(), end]
        label = self._labelled(row, "cpu")
        for low, high in pairwise(times):
            waits = int(idle.covers(np.array([low]))[0])
            self._add(low, high, lane, label, waits=waits)

    def _fill(self, outer: Any) -> None:
        """Time in which no thread carries out an operation: code between, on the thread that goes on."""
        step, traced = self._step, self._rows
        busy = Spans.of(traced.start_ns[outer], traced.end_ns[outer])
        holes = busy.holes(step.begin_ns, step.end_ns)
        causes = by_phase(self._breakdown, step, step.rows)
        starts = traced.start_ns[outer]
        for begin, end in zip(holes.start_ns.tolist(), holes.end_ns.tolist(), strict=True):
            at = int(np.searchsorted(starts, end))
            thread = int(traced.thread[outer[min(at, len(outer) - 1)]]) if len(outer) else 0
            middle = np.array([(begin + end) // 2])
            cause = next((c for c, spans in causes.items() if spans.covers(middle)[0]), FRAMEWORK)
            self._add(begin, end, self._lane("thread", thread), (cause, "", "cpu"))

    def _cut_devices(self, rows: Any) -> None:
        traced, launch = self._rows, self._breakdown.launch
        done: dict[int, int] = {}
        for row in rows[np.argsort(traced.start_ns[rows], kind="stable")].tolist():
            where = self._breakdown.processor.of(row)
            lane = self._lane(where, int(traced.thread[row]))
            begin = max(int(traced.start_ns[row]), done.get(lane, 0))
            by = int(launch[row])
            extra = {"host": 0}
            if by >= 0:
                extra["launched"] = int(traced.start_ns[by])
                extra["launcher"] = self._lane("thread", int(traced.thread[by]))
            self._add(begin, int(traced.end_ns[row]), lane, self._labelled(row, where), **extra)
            done[lane] = max(int(traced.end_ns[row]), done.get(lane, 0))


def _rows(paths: Sequence[_StepPath], step: float, breakdown: RunBreakdown) -> list[dict[str, Any]]:
    """By label: what it has on the path, and the least slack of what it has beside it."""
    on_path: dict[tuple[str, str, str], Any] = {}
    slack: dict[tuple[str, str, str], float] = {}
    for number, one in enumerate(paths):
        chosen = set(one.path.pieces.tolist())
        work, spare = one.cut.pieces.work_ns.tolist(), one.path.slack_ns.tolist()
        for at, label in enumerate(one.cut.label):
            if label not in on_path:
                on_path[label] = np.zeros(len(paths))
            if at in chosen:
                on_path[label][number] += work[at] / one.step_ns
            elif spare[at] > 0:
                least = spare[at] / one.step_ns * step
                slack[label] = min(slack.get(label, np.inf), least)
    length = float(np.mean([one.path.length_ns / one.step_ns for one in paths]))
    rows = []
    for label, shares in on_path.items():
        time = attributed(
            breakdown, shares * step, "its pieces on the path, as a share of each traced step"
        )
        rows.append(
            {
                "name": label[0], "layer": label[1], "where": label[2], "time": time,
                "share": time.share_of(length * step) if length else None,
                "slack": _slack(slack.get(label), breakdown),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: -(row["time"].value or 0.0))


def _slack(seconds: float | None, breakdown: RunBreakdown) -> Figure | None:
    if seconds is None:
        return None
    return attributed(
        breakdown,
        np.array([seconds]),
        "least over the traced steps, of its pieces that are not on the path",
    )


def _sentences(
    paths: Sequence[_StepPath],
    figures: Mapping[str, Figure],
    rows: Sequence[Row],
    breakdown: RunBreakdown,
) -> list[str]:
    lanes = {lane for one in paths for lane in one.cut.lanes}
    if len(lanes) == 1:
        return [
            "One thread carries out everything that the trace shows: the critical path is the step "
            "itself, and nothing has time to spare. Threads within an operation do not show.",
            OF_TRACED,
        ]
    share = figures["critical_path_share"].value or np.nan
    at_once = figures["work_at_once"].value or np.nan
    lines = [
        f"The longest chain of dependent work makes {100 * share:.0f} % of a step; the rest is "
        "waiting that the trace does not explain.",
        f"{len(lanes)} lanes (threads and streams) do {at_once:.2g} times as much as the chain: "
        "with more of them, and the same dependencies, a step cannot become shorter than the chain.",
    ]
    if rows:
        lines.append(f"Most of the path: {rows[0]['name']} on {rows[0]['where']}.")
    return [*lines, OF_TRACED]
