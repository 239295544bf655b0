"""The kinds of steps of a run that take turns, and the phases of traced steps, each kind's beside the others'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.step_kinds import (
    follows,
    kinds_of_windows,
    rotation_of,
    rotation_of_times,
    rotation_with_times,
)
from wattstep.attribution.tables.clean_phases import clean_phases, seconds_beside
from wattstep.attribution.tables.traced import TracedColumns
from wattstep.attribution.window_means import Windows
from wattstep.recorded.marks import Marks
from wattstep.recorded.phases import Phases
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.schema.report_rows import StepKind
from wattstep.schema.spelling import rounded
from wattstep.stats.statistics import mean_figure, share_figure

NOT_TRACED: Final = "steps that were not traced"  # the phase of a kind of which no step was
UNKNOWN: Final = "which clean steps are of this kind is not known: they follow no turn"
MOST_OF: Final = 0.95  # of windows: with fewer that have the phases of most, the step is one phase
OFTEN: Final = 0.02  # of steps that have a sequence of phases: rarer ones are no kind
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWX"


@dataclass(frozen=True, kw_only=True, eq=False)
class StepKinds:
    """Kind of each step.

    Attributes:
        count: How many kinds there are; 1 where all steps are alike, or are not known to differ.
        of_step: Of each step, from 0; -1 where it is not known, shape (steps,).
        of_window: Of each window, shape (windows,).
        rotation: The kind of each place in a turn; None where they follow none.
    """

    count: int
    of_step: IntArray
    of_window: IntArray
    rotation: IntArray | None

    @property
    def placed(self) -> bool:
        """True if clean steps have a kind as well: then each kind is compensated to its own."""
        return self.rotation is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Their letters, in the order in which they come."""
        return tuple(LETTERS[: self.count])


def find_kinds(
    columns: TracedColumns | None, marks: Marks, steps: Steps, clean: IntArray, windows: IntArray
) -> StepKinds:
    """The kinds of steps of a run: by what traced ones run, by the phases of all, or by their times.

    Args:
        columns: Its traced operations; None where there are none.
        marks: Of the run.
        steps: All of its steps.
        clean: Positions of the clean ones.
        windows: Positions of the traced ones that have operations.
    """
    index = steps.index[windows]
    of_window = _by_what_ran(columns, index)
    rotation = rotation_of(index, of_window)
    if rotation is None:
        rotation = rotation_with_times(index, of_window, steps.index[clean], steps.seconds[clean])
    if rotation is None:
        rotation = _rotation_of_clean(marks, steps, clean)
        if rotation is not None:
            rotation = _as_traced(rotation, index, of_window)
    count = int(of_window.max(initial=0)) + 1
    if rotation is None and count == 1:  # one number for all of them, and no memory for each
        alike = np.broadcast_to(np.int64(0), steps.index.shape)
        return StepKinds(count=1, of_step=alike, of_window=of_window, rotation=None)
    of_step = np.full(len(steps.index), -1, np.int64)
    if rotation is not None:
        # Places of a turn that were never traced are a kind by themselves.
        rotation = np.where(rotation < 0, count, rotation)
        count = int(rotation.max()) + 1
        of_step = rotation[steps.index % len(rotation)]
        of_window = of_step[windows]
    of_step[windows] = of_window
    return StepKinds(count=count, of_step=of_step, of_window=of_window, rotation=rotation)


def _as_traced(rotation: IntArray, index: IntArray, of_window: IntArray) -> IntArray | None:
    """A turn of clean steps by what ran in traced ones; None where it leaves no kinds.

    What was traced tells kinds apart that last alike, and unites those that ran the same, however
    long they took. A place that was not traced is as those that were and last as it does.
    """
    traced = follows(index, of_window, len(rotation))
    if traced is None:  # it is no turn of what ran
        return None
    kinds = rotation + of_window.max(initial=-1) + 1
    for level in np.unique(rotation):
        mine = rotation == level
        known = np.unique(traced[mine & (traced >= 0)])
        if len(known) == 1:
            kinds[mine] = known[0]
    kinds = np.unique(np.where(traced >= 0, traced, kinds), return_inverse=True)[1].astype(np.int64)
    return kinds if kinds.max() > 0 else None


def _by_what_ran(columns: TracedColumns | None, index: IntArray) -> IntArray:
    if columns is not None and len(index):
        for with_shapes in (True, False):
            kinds = kinds_of_windows(index, *_what_ran(columns, index, with_shapes))
            if kinds.max(initial=0):
                return kinds
    return np.zeros(len(index), np.int64)


def _rotation_of_clean(marks: Marks, steps: Steps, clean: IntArray) -> IntArray | None:
    """The turn that clean steps follow by their phases, else by their times."""
    rows, sequence = marks.sequences(clean)
    often = np.bincount(sequence, minlength=1) >= OFTEN * max(len(sequence), 1)
    frequent = often[sequence]
    rotation = rotation_of(steps.index[rows[frequent]], sequence[frequent])
    if rotation is not None and (rotation >= 0).all():
        return rotation
    return rotation_of_times(steps.index[clean], steps.seconds[clean])


def _what_ran(
    columns: TracedColumns, steps: IntArray, with_shapes: bool
) -> tuple[IntArray, FloatArray]:
    """By window and operation how often it ran, and its share of the window's time.

    Networks are told apart by the layers of their forward passes: those of other operations follow
    from them, as far as they can be told at all.
    """
    names = ("name", "phase", *(("shapes",) if with_shapes else ()))
    row, codes, seconds = columns.ran_in(steps, names, layers_of="forward")
    known, which = np.unique(codes, return_inverse=True)
    place, size = row * len(known) + which, len(steps) * len(known)
    calls: IntArray = np.bincount(place, minlength=size)
    share = np.bincount(place, seconds, minlength=size).astype(np.float64)
    whole = np.bincount(row, seconds, minlength=len(steps))
    shape = (len(steps), len(known))
    return calls.reshape(shape), share.reshape(shape) / np.maximum(whole, 1e-12)[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class KindPhases:
    """Phases of traced steps and of clean ones; those of each kind of step stand beside the others'.

    Attributes:
        traced: Phases of the windows; those of other kinds of steps have no length there.
        windows: Positions of the windows' steps, in order.
        share: Of each phase in the mean clean step, shape (phases,).
        beside_s: Of each phase in the clean steps beside each window, shape (windows, phases).
        relative: Half width of the relative interval of how long each lasts in clean steps, shape
            (phases,).
        spans: First phase and the one after the last of each kind.
        stand: How windows stand for clean steps.
    """

    traced: Phases
    windows: IntArray
    share: FloatArray
    beside_s: FloatArray
    relative: FloatArray
    spans: tuple[tuple[int, int], ...]
    stand: Windows


def phases_by_kind(
    marks: Marks, steps: Steps, clean: IntArray, windows: IntArray, kinds: StepKinds
) -> KindPhases:
    """The phases of all kinds of steps, one kind after the other.

    Args:
        marks: Of the run.
        steps: All of its steps.
        clean: Positions of the clean ones.
        windows: Positions of the traced ones that have operations.
        kinds: What kind each is.
    """
    several = kinds.count if kinds.placed else 1
    of_clean = kinds.of_step[clean] if several > 1 else np.zeros(len(clean), np.int64)
    of_window = kinds.of_window if several > 1 else np.zeros(len(windows), np.int64)
    parts = [
        _phases_of(marks, steps, clean[of_clean == kind], windows[of_window == kind])
        for kind in range(several)
    ]
    ends = np.cumsum([len(traced.names) for traced, *_ in parts]).tolist()
    spans = tuple(zip([0, *ends[:-1]], ends, strict=True))
    whole = float(steps.seconds[clean].sum())
    counts = np.bincount(of_clean, minlength=several)
    edges, rows, beside, share = [], [], [], []
    for kind, ((traced, mine, lasting), (first, last)) in enumerate(zip(parts, spans, strict=True)):
        its = lasting.sum(axis=0) / max(float(lasting.sum()), 1e-12)
        of_kind = clean[of_clean == kind]
        seconds = float(steps.seconds[of_kind].sum())
        share.append(its * (seconds / whole if whole > 0 else 1 / several))
        padding = [(0, 0), (first, ends[-1] - last)]
        edges.append(np.pad(traced.edges_ns, padding, mode="edge"))
        around = seconds_beside(steps, of_kind, mine, seconds / max(len(of_kind), 1))
        beside.append(np.pad(around[:, None] * its, padding))
        rows.append(mine)
    order = np.argsort(np.concatenate(rows), kind="stable")
    of = np.repeat(np.arange(several), [len(mine) for mine in rows])[order]
    traced = Phases(
        names=tuple(name for part, *_ in parts for name in part.names),
        edges_ns=np.concatenate(edges)[order],
    )
    return KindPhases(
        traced=traced,
        windows=np.concatenate(rows)[order],
        share=np.concatenate(share),
        beside_s=np.concatenate(beside)[order],
        relative=np.concatenate(
            [
                [_relative(each) + off for each in lasting.T]
                for (_, _, lasting), off in zip(parts, _off_turn(steps, kinds, counts), strict=True)
            ]
        ),
        spans=spans,
        stand=Windows(kind=of, factor=_factors(of, counts)),
    )


def _off_turn(steps: Steps, kinds: StepKinds, counts: IntArray) -> list[float]:
    """By how much each kind is more or less often among clean steps than among all, relative.

    Which steps are clean depends on which were traced: in short runs a kind has a few more or less.
    """
    if len(counts) == 1:
        return [0.0]
    usual = np.bincount(kinds.of_step[~steps.warmup], minlength=len(counts))
    mine, theirs = counts / max(counts.sum(), 1), usual / max(usual.sum(), 1)
    deviations: list[float] = np.abs(mine / np.maximum(theirs, 1e-12) - 1).tolist()
    return deviations


def _factors(of_window: IntArray, counts: IntArray) -> FloatArray:
    """Weight of each window, where kinds come so often in clean steps."""
    traced = np.bincount(of_window, minlength=len(counts))
    share = counts / max(counts.sum(), 1)
    factor: FloatArray = (share * len(of_window) / np.maximum(traced, 1))[of_window]
    return factor


def _phases_of(
    marks: Marks, steps: Steps, clean: IntArray, windows: IntArray
) -> tuple[Phases, IntArray, FloatArray]:
    """Phases of traced steps of one kind, the rows of those steps, and how long clean ones' last in s."""
    phases, rows = marks.phases(steps, clean, None)
    if steps.only_traced and len(rows) < len(clean):
        rows = rows[:0]  # all steps take part, or their mean would not be the mean step
    if len(rows):
        traced, mine = marks.phases(steps, windows, phases.names)
        # Windows of other phases that come more than now and then must not be lost.
        if len(mine) >= MOST_OF * len(windows) > 0:
            return traced, mine, phases.durations_s
    # no marks of phases: the step is one phase
    edges = np.stack([steps.start_ns[windows], steps.end_ns[windows]], axis=1)
    names = ("step",) if len(windows) else (NOT_TRACED,)
    return Phases(names=names, edges_ns=edges), windows, steps.seconds[clean][:, None]


def _relative(seconds: FloatArray) -> float:
    """Half width of the interval of a mean over the mean; 0 where there is none."""
    figure = mean_figure(seconds, "s", "", Status.MEASURED)
    return (figure.half_width or 0.0) / figure.value if figure.value else 0.0


def clean_edges(
    marks: Marks, steps: Steps, clean: IntArray, kinds: StepKinds, phases: KindPhases
) -> tuple[IntArray, int]:
    """As `clean_phases`, for all kinds of steps: phases of other kinds have no length in a step."""
    if len(phases.spans) == 1:
        return clean_phases(marks, steps, clean, phases.traced.names)
    rows, bare, end = [], 0, phases.spans[-1][1]
    for kind, (first, last) in enumerate(phases.spans):
        mine = clean[kinds.of_step[clean] == kind]
        edges, without = clean_phases(marks, steps, mine, phases.traced.names[first:last])
        rows.append(np.pad(edges, [(0, 0), (first, end - last)], mode="edge"))
        bare += without
    whole = np.concatenate(rows)
    return whole[np.argsort(whole[:, 0], kind="stable")], bare


# --- what is told of them -----------------------------------------------------------------------


def kind_rows(kinds: StepKinds, steps: Steps, clean: IntArray) -> list[StepKind]:
    """A row for each kind of step: how often it comes, how long it takes, in how many windows."""
    if kinds.count < 2:
        return []
    rows = []
    for kind, name in enumerate(kinds.names):
        traced = int((kinds.of_window == kind).sum())
        mine = clean[kinds.of_step[clean] == kind]
        if kinds.placed:
            assert kinds.rotation is not None
            share = Figure(
                value=len(mine) / max(len(clean), 1), unit="ratio", status=Status.COUNTED,
                n=len(clean), source="clean steps", method=f"turn of {len(kinds.rotation)} steps",
            )  # fmt: skip
            time = mean_figure(steps.seconds[mine], "s", CLOCK, steps.status)
        else:
            share = share_figure(traced, len(kinds.of_window), "traced steps")
            time = missing("s", UNKNOWN)
        rows.append(StepKind(kind=name, share=share, time=time, traced=traced))
    return rows


def kind_note(kinds: StepKinds, steps: Steps, clean: IntArray) -> str | None:
    """Note on a run's kinds of steps; None where all are alike."""
    if kinds.count < 2:
        return None
    words = f"steps are of {kinds.count} kinds"
    if not kinds.placed:
        return (
            f"{words}, told by what runs in traced ones; they follow no turn, so that operations "
            "count as often as they were traced"
        )
    assert kinds.rotation is not None
    letters = "".join(kinds.names[kind] for kind in kinds.rotation)
    means = [steps.seconds[clean[kinds.of_step[clean] == kind]] for kind in range(kinds.count)]
    counts = ", ".join(
        f"{name} takes {rounded(1e3 * seconds.mean())} ms"
        for name, seconds in zip(kinds.names, means, strict=True)
        if len(seconds)
    )
    words += (
        f" that take turns ({letters}; {counts}): operations of one kind count as often as it comes"
    )
    traced = set(kinds.of_window.tolist())
    if lacking := [name for kind, name in enumerate(kinds.names) if kind not in traced]:
        words += f"; none of kind {' or '.join(lacking)} was traced: what runs in them is not known"
    return words
