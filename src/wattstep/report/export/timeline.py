"""A run as intervals on tracks, whatever the format: operations, steps, phases, layers, conditions.

Operations come in pieces, each of whole tracing windows; they are the only table that is too large
to be held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wattstep.attribution.tables.naming import Names, names_of
from wattstep.run.lanes import phase_ends
from wattstep.run.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.journal import Mark

NONE: Final = -1
# Of an operation, as arguments of its slice.
ANNOTATIONS: Final = ("layer", "phase", "shapes")
COUNTED: Final = ("step", "flops", "bytes", "allocated", "self_ns")
_COLUMNS: Final = (
    "name", "kind", "window", "thread", "processor", "start_ns", "end_ns", "launch", *ANNOTATIONS, *COUNTED,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Masked:
    """Numbers of which some are not known.

    Attributes:
        values: Of dtype int64, float64 or bool, shape (n,).
        mask: Mask of the known ones, shape (n,).
    """

    values: Any
    mask: BoolArray

    def at(self, rows: IntArray) -> Masked:
        """Those of these rows."""
        return Masked(values=self.values[rows], mask=self.mask[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class Slices:
    """Intervals of one track; shape (n,) each.

    Attributes:
        start_ns: Begins.
        end_ns: Ends, none before its begin.
        names: Names of the slices.
        numbers: Where given, a number behind each name: "step" and 12 are "step 12".
        kinds: Kinds of the slices, or None.
        annotations: Texts beside them, by name; "" is none.
        counted: Numbers beside them, by name.
        number: Of each one in the whole run, to tell it by; NONE: nothing points to it.
        launched_by: `number` of what asked for it (on a GPU), or NONE.
    """

    start_ns: IntArray
    end_ns: IntArray
    names: Names
    numbers: IntArray | None = None
    kinds: Names | None = None
    annotations: Mapping[str, Names] = field(default_factory=dict)
    counted: Mapping[str, Masked] = field(default_factory=dict)
    number: IntArray | None = None
    launched_by: IntArray | None = None

    def __len__(self) -> int:
        return len(self.start_ns)

    def at(self, rows: IntArray) -> Slices:
        """Those of these rows, in this order."""

        def of(values: IntArray | None) -> IntArray | None:
            return None if values is None else values[rows]

        return Slices(
            start_ns=self.start_ns[rows],
            end_ns=self.end_ns[rows],
            names=self.names.at(rows),
            numbers=of(self.numbers),
            kinds=None if self.kinds is None else self.kinds.at(rows),
            annotations={name: column.at(rows) for name, column in self.annotations.items()},
            counted={name: column.at(rows) for name, column in self.counted.items()},
            number=of(self.number),
            launched_by=of(self.launched_by),
        )


@dataclass(frozen=True, order=True)
class TrackKey:
    """Thread of the CPU, or stream of another processor, on which operations ran."""

    processor: str
    thread: int

    @property
    def on_cpu(self) -> bool:
        """True if it is a thread."""
        return self.processor == "cpu"

    @property
    def name(self) -> str:
        """For readers."""
        return f"{'thread' if self.on_cpu else f'{self.processor} stream'} {self.thread}"


def pieces(run: Run, rows: int = 1 << 15) -> Iterator[dict[TrackKey, Slices]]:
    """The traced instances, a piece at a time, by the track on which they ran.

    A piece is of whole windows, so that what asked a GPU for work is in the piece of that work.

    Args:
        run: The run.
        rows: About how many are in memory at once.
    """
    first = 0
    for table in _whole_windows(run.tables.batches("operations", _COLUMNS, rows)):
        slices, rows_by_track = _operations_of(table, first)
        first += len(table)
        yield {track: slices.at(chosen) for track, chosen in rows_by_track.items()}


def _whole_windows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables that begin and end with a window, each of as many rows as come at once or more."""
    waiting: list[pa.RecordBatch] = []
    held = NONE  # the window that the waiting rows end with
    for batch in batches:
        if not len(batch):
            continue
        window = batch.column(batch.schema.get_field_index("window")).to_numpy()
        changes = np.flatnonzero(np.diff(window))
        cut = int(changes[-1]) + 1 if len(changes) else 0
        if waiting and (cut or int(window[0]) != held):
            whole = cut if int(window[0]) == held else 0
            yield pa.Table.from_batches([*waiting, batch.slice(0, whole)])
            batch, cut, waiting = batch.slice(whole), cut - whole, []
        if cut:
            yield pa.Table.from_batches([batch.slice(0, cut)])
            batch = batch.slice(cut)
        waiting.append(batch)
        held = int(window[-1])
    if waiting:
        yield pa.Table.from_batches(waiting)


def _operations_of(table: pa.Table, first: int) -> tuple[Slices, dict[TrackKey, IntArray]]:
    start = table["start_ns"].to_numpy()
    number = first + np.arange(len(table))
    slices = Slices(
        start_ns=start,
        end_ns=np.maximum(table["end_ns"].to_numpy(), start),
        names=names_of(table["name"]),
        kinds=names_of(table["kind"]),
        annotations={name: names_of(table[name]) for name in ANNOTATIONS},
        counted={name: masked(table[name]) for name in COUNTED},
        number=number,
        launched_by=_launched_by(table, number),
    )
    return slices, _rows_by_track(names_of(table["processor"]), table["thread"].to_numpy())


def _rows_by_track(processors: Names, threads: IntArray) -> dict[TrackKey, IntArray]:
    """Rows by track."""
    pairs = np.stack([processors.code.astype(np.int64), threads.astype(np.int64)], axis=1)
    used, inverse = np.unique(pairs, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(inverse.ravel(), minlength=len(used)))
    return {
        TrackKey(str(processors.texts[code]) or "cpu", thread): order[begin:end]
        for (code, thread), begin, end in zip(
            used.tolist(), [0, *ends.tolist()], ends.tolist(), strict=False
        )
    }


def _launched_by(table: pa.Table, number: IntArray) -> IntArray:
    """Number of the operation that launched each; `launch` is a position within the window."""
    launchers = np.full(len(table), NONE, np.int64)
    if "launch" not in table.column_names:
        return launchers
    window = table["window"].to_numpy()
    begins = np.append(True, np.diff(window) != 0)[: len(window)]
    begin = np.maximum.accumulate(np.where(begins, np.arange(len(window)), 0))
    launch = masked(table["launch"])
    at = np.where(launch.mask, begin + launch.values, NONE)
    valid = launch.mask & (launch.values >= 0) & (at < len(window))
    valid[valid] &= window[at[valid]] == window[valid]
    launchers[valid] = number[at[valid]]
    return launchers


def masked(column: pa.ChunkedArray) -> Masked:
    """A column of whole numbers, with what is not known."""
    mask = column.is_valid().to_numpy()
    return Masked(values=column.fill_null(0).to_numpy().astype(np.int64), mask=mask)


# --- what is beside the operations --------------------------------------------------------------


def steps(run: Run) -> Slices:
    """The steps, with samples, loss and what is said of each."""
    table = run.tables.step_table
    count = len(table)

    def numbers(name: str) -> Masked:
        if name not in table.column_names:  # known of no step
            return Masked(values=np.full(count, np.nan), mask=np.zeros(count, bool))
        values: FloatArray = table[name].to_numpy(zero_copy_only=False).astype(np.float64)
        return Masked(values=values, mask=np.isfinite(values))

    flags = {
        name: table[name].to_numpy(zero_copy_only=False).astype(bool)
        for name in ("warmup", "traced")
    }
    conditions = run.conditions
    if conditions.watched:
        flags["throttled"] = conditions.throttled[:count]
    if not conditions.unseen:
        flags["disturbed"] = conditions.disturbed[:count]
    start = table["start_ns"].to_numpy()
    everywhere = np.ones(count, bool)
    # runs of before December 2026 have none
    waited = {"waited_ns": masked(table["waited_ns"])} if "waited_ns" in table.column_names else {}
    return Slices(
        start_ns=start,
        end_ns=np.maximum(table["end_ns"].to_numpy(), start),
        names=one_name("step", count),
        numbers=table["index"].to_numpy(),
        kinds=_flagged(flags, count),
        counted={
            "samples": numbers("samples"),
            "loss": numbers("loss"),
            **{name: Masked(values=flag, mask=everywhere) for name, flag in flags.items()},
            **waited,
        },
    )


def _flagged(flags: Mapping[str, BoolArray], count: int) -> Names:
    """Flags of each step, in words: "clean" where there is none."""
    code = np.zeros(count, np.int64)
    for bit, flag in enumerate(flags.values()):
        code |= flag.astype(np.int64) << bit
    names = list(flags)
    texts = [
        ", ".join(name for bit, name in enumerate(names) if at >> bit & 1) or "clean"
        for at in range(1 << len(names))
    ]
    return Names(code=code, texts=np.array(texts, dtype=object))


def one_name(name: str, count: int) -> Names:
    """Names of so many rows, all the same."""
    return Names(code=np.zeros(count, np.int64), texts=np.array([name], dtype=object))


def _of_list(names: Sequence[str]) -> Names:
    code_of = {name: code for code, name in enumerate(dict.fromkeys(names))}
    code = np.array([code_of[name] for name in names], np.int64)
    return Names(code=code, texts=np.array([*code_of, ""], dtype=object))


def phases(run: Run) -> Slices:
    """From the mark of a phase to the next one's, or to the end of its step."""
    marks, ends = run.tables.marks, run.tables.step_table["end_ns"].to_numpy()
    at = np.flatnonzero(marks.kind == Mark.PHASE)
    step, t_ns = marks.step[at], marks.t_ns[at]
    return _marked(run, at, phase_ends(step, t_ns, ends))


def updates(run: Run) -> Slices:
    """Moments in which an optimizer had updated its parameters; they last no time."""
    marks = run.tables.marks
    at = np.flatnonzero(marks.kind == Mark.UPDATE)
    return _marked(run, at, marks.t_ns[at])


def layers(run: Run) -> Slices:
    """From a layer's mark of its begin to that of its end; a mark without its half is left out."""
    marks = run.tables.marks
    begin, end = marks.layer_pairs.T
    return _marked(run, begin, marks.t_ns[end], end_mark=end)


def _marked(run: Run, at: IntArray, end_ns: IntArray, **beside: IntArray) -> Slices:
    """From some marks to these times.

    Their positions among the marks of all steps tell the order of those of one moment.
    """
    marks, index = run.tables.marks, run.tables.step_table["index"].to_numpy()
    counted = {"step": index[marks.step[at]], "mark": at, **beside}
    everywhere = np.ones(len(at), bool)
    return Slices(
        start_ns=marks.t_ns[at],
        end_ns=np.maximum(end_ns, marks.t_ns[at]),
        names=_of_list(marks.name[at].tolist()),
        counted={name: Masked(values=values, mask=everywhere) for name, values in counted.items()},
    )


def between_steps(run: Run) -> Slices:
    """Tracing windows, and stretches with a name outside of steps (evaluation, idle)."""
    spans = run.tables.table("spans")
    start = spans["start_ns"].to_numpy()
    return Slices(
        start_ns=start,
        end_ns=np.maximum(spans["end_ns"].to_numpy(), start),
        names=names_of(spans["name"]),
        kinds=names_of(spans["kind"]),
    )


def thinned_steps(run: Run) -> Slices:
    """What stands for steps that were not kept as single ones; none where all were."""
    found = run.series.steps.thinned
    if found is None:
        return Slices(
            start_ns=np.empty(0, np.int64), end_ns=np.empty(0, np.int64), names=_of_list([])
        )
    everywhere = np.ones(len(found.steps), bool)
    counted = {"steps": found.steps, "first": found.index, "sum_ns": found.sum_ns}
    return Slices(
        start_ns=found.begin_ns,
        end_ns=found.end_ns,
        names=_of_list([f"{count} steps" for count in found.steps.tolist()]),
        counted={name: Masked(values=values, mask=everywhere) for name, values in counted.items()},
    )


def stretches(run: Run) -> Slices:
    """Throttled and disturbed stretches, with their evidence."""
    flagged = sorted(run.conditions.stretches, key=lambda one: (one.start_ns, -one.end_ns))
    everywhere = np.ones(len(flagged), bool)
    start = np.array([one.start_ns for one in flagged], np.int64)
    return Slices(
        start_ns=start,
        end_ns=np.maximum(np.array([one.end_ns for one in flagged], np.int64), start),
        names=_of_list([f"{one.kind}: {one.cause}" for one in flagged]),
        kinds=_of_list([one.kind for one in flagged]),
        annotations={"evidence": _of_list([one.evidence for one in flagged])},
        counted={
            "uncertain_s": Masked(
                values=np.array([one.uncertain_s for one in flagged], np.float64), mask=everywhere
            )
        },
    )


def reason_of(errno: int) -> str:
    """Reason why a read gave nothing, in words."""
    return os.strerror(errno) if errno else "the read gave no value"
