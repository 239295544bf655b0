"""Columns of a run's tables from what is known of a trace: steps, spans, operations, summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wattstep.attribution.event_kinds import SCOPE, Labels, kind_in, shown
from wattstep.attribution.nesting import Bools, Family, Lanes, Rows
from wattstep.formats.trace import NONE, UNTOLD, Codes, Events, Longs, Summary
from wattstep.importing.phases import PHASES, PhaseMarks
from wattstep.importing.steps import TraceSteps
from wattstep.schema.journal import Mark

BATCH: Final = 1 << 18  # rows that become a batch of columns
OUTSIDE_STEPS: Final = "outside steps"


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Columns of `formats.trace.Events` that go into a run as they are."""

    processor: Codes
    shapes: Codes
    flops: Longs
    bytes: Longs

    @classmethod
    def of(cls, events: Events) -> Facts:
        """Those of the events."""
        return cls(
            processor=events.processor, shapes=events.shapes, flops=events.flops, bytes=events.bytes
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OperationRows:
    """Rows of operations before they become columns; arrays have shape (n,), all events in order.

    Attributes:
        rows: The events.
        family: Their nesting.
        lanes: Their threads.
        facts: Further columns, in the order of the trace; the others are not held on to.
        names: Texts by code.
        step: Position of the step, NONE outside.
        index: Of the steps.
        becomes_row: Which become rows.
        kind: Of each row.
        layer: Of each row; NONE where there is none.
        phase: Likewise.
        outermost: Whether no operation of the framework encloses it.
        launch: What asked for work on a GPU; NONE where that is not known, and for all other rows.
        allocated: Bytes allocated less freed, `UNTOLD` where not told; None: of no row.
    """

    rows: Rows
    family: Family
    lanes: Lanes
    facts: Facts
    names: tuple[str, ...]
    step: Codes
    index: Longs
    becomes_row: Bools
    kind: Labels
    layer: Labels
    phase: Labels
    outermost: Bools
    launch: Codes
    allocated: Longs | None = None

    def batches(self) -> Iterator[dict[str, Any]]:
        """Columns by name, `BATCH` rows at a time, by step and begin."""
        order = np.flatnonzero(self.becomes_row).astype(np.int32)
        order = order[np.argsort(self.step[order], kind="stable")]
        _, first, window = np.unique(self.step[order], return_index=True, return_inverse=True)
        position = np.full(len(self.rows), NONE, np.int32)
        position[order] = np.arange(len(order), dtype=np.int32) - first[window].astype(np.int32)
        self_ns = self.family.self_ns(self.rows)
        texts = _Texts(self.names)
        for low in range(0, len(order), BATCH):
            part = slice(low, low + BATCH)
            chosen = order[part]
            yield self._columns(
                chosen, window[part], self._within(chosen, self.family.parent, position),
                self._within(chosen, self.launch, position), self_ns, texts,
            )  # fmt: skip

    def _within(self, chosen: Codes, other: Codes, position: Codes) -> Codes:
        """Positions within the step of the rows that these name; one of another step is none."""
        named = other[chosen]
        same = (named != NONE) & (self.step[named] == self.step[chosen])
        return np.where(same, position[named], np.int32(NONE))

    def _columns(
        self,
        chosen: Codes,
        window: Longs,
        parent: Codes,
        launch: Codes,
        self_ns: Longs,
        texts: _Texts,
    ) -> dict[str, Any]:
        source = self.rows.source[chosen]
        facts = self.facts
        scope = np.array([text == SCOPE for text in self.kind.texts], bool)
        return {
            "name": _dictionary(texts.shown_code[self.rows.name[chosen]], texts.shown),
            "kind": _dictionary(*texts.of(self.kind, chosen)),
            "layer": _dictionary(*texts.of(self.layer, chosen)),
            "phase": _dictionary(*texts.of(self.phase, chosen)),
            "step": self.index[self.step[chosen]],
            "window": window.astype(np.int32),
            "thread": self.lanes.number[self.rows.lane[chosen]],
            "processor": _dictionary(texts.code[facts.processor[source]], texts.text),
            "start_ns": self.rows.start_ns[chosen],
            "end_ns": self.rows.end_ns[chosen],
            "self_ns": self_ns[chosen],
            "shapes": _dictionary(_recoded(facts.shapes[source], texts.code), texts.text),
            "flops": _silent(facts.flops[source]),
            "bytes": _silent(facts.bytes[source]),
            "allocated": self._allocated(chosen),
            # What encloses it and stands in no row of its step cannot speak for it.
            "outermost": self.outermost[chosen]
            | ((parent == NONE) & ~scope[self.kind.codes[chosen]]),
            "parent": _silent(parent),
            "launch": _silent(launch),
        }

    def _allocated(self, chosen: Codes) -> pa.Array:
        if self.allocated is None:
            return pa.nulls(len(chosen), pa.int64())
        values = self.allocated[chosen]
        return pa.array(values, mask=values == UNTOLD)


class _Texts:
    """Texts of the columns, each once: Parquet takes no dictionary that says a thing twice."""

    def __init__(self, names: Sequence[str]) -> None:
        self.code, self.text = _distinct(names)
        self.shown_code, self.shown = _distinct([shown(name) for name in names])
        self._labels: dict[int, tuple[Codes, pa.Array]] = {}

    def of(self, labels: Labels, chosen: Codes) -> tuple[Codes, pa.Array]:
        """Codes of the labels of chosen rows, and their texts."""
        known = self._labels.get(id(labels))
        if known is None:
            known = self._labels[id(labels)] = _distinct(labels.texts)
        return _recoded(labels.codes[chosen], known[0]), known[1]


def _distinct(texts: Sequence[str]) -> tuple[Codes, pa.Array]:
    """For each text its position among the distinct ones, and those."""
    code_of: dict[str, int] = {}
    codes = [code_of.setdefault(text, len(code_of)) for text in texts]
    return np.array(codes, np.int32), pa.array(list(code_of), pa.string())


def _recoded(codes: Codes, table: Codes) -> Codes:
    return np.where(codes == NONE, np.int32(NONE), table[codes]) if len(table) else codes


def _dictionary(codes: Codes, texts: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == NONE), texts)


def _silent(values: Any) -> pa.Array:
    """A column in which NONE is null."""
    return pa.array(values, mask=values == NONE)


def no_marks() -> PhaseMarks:
    """No phases are known."""
    nothing = np.zeros(0, np.int64)
    return PhaseMarks(step=nothing, t_ns=nothing, phase=np.zeros(0, np.int32))


def step_columns(steps: TraceSteps, marks: PhaseMarks, warmup: int) -> dict[str, Any]:
    """Columns of the table of steps; all are traced, the first `warmup` do not count.

    What a trace does not tell (samples, loss, CPU time) is null.
    """
    count = len(steps)
    offsets = pa.array(np.searchsorted(marks.step, np.arange(count + 1)).astype(np.int32))
    texts = pa.array([PHASES[phase] for phase in marks.phase.tolist()], pa.string())

    def listed(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array(values, kind))

    kinds = np.full(len(marks.step), int(Mark.PHASE), np.int8)
    return {
        "index": steps.index,
        "start_ns": steps.start_ns,
        "end_ns": steps.end_ns,
        "cpu_start_ns": pa.nulls(count, pa.int64()),
        "cpu_end_ns": pa.nulls(count, pa.int64()),
        "samples": pa.nulls(count, pa.float64()),
        "loss": pa.nulls(count, pa.float64()),
        "warmup": np.arange(count) < warmup,
        "traced": np.ones(count, bool),
        "mark_ns": listed(marks.t_ns, pa.int64()),
        "mark_kind": listed(kinds, pa.int8()),
        "mark_name": listed(texts, pa.string()),
    }


def span_columns(steps: TraceSteps, start_ns: Longs, end_ns: Longs) -> dict[str, Any]:
    """Stretches between steps in which something ran that belongs to none.

    Args:
        steps: Of the trace.
        start_ns: Begins of what ran outside of steps, in order.
        end_ns: Their ends.
    """
    spans: list[tuple[int, int]] = []
    gap = np.searchsorted(steps.start_ns, start_ns, side="right")
    for number in np.unique(gap).tolist():
        mine = gap == number
        low, high = int(start_ns[mine].min()), int(end_ns[mine].max())
        if number > 0:
            low = max(low, int(steps.end_ns[number - 1]))
        if number < len(steps):
            high = min(high, int(steps.start_ns[number]))
        if high > low:
            spans.append((low, high))
    return {
        "start_ns": [low for low, _ in spans],
        "end_ns": [high for _, high in spans],
        "kind": ["rest"] * len(spans),
        "name": [OUTSIDE_STEPS] * len(spans),
    }


def summary_columns(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Columns of the table of summaries."""
    keys = ("calls", "total_s", "mean_s", "median_s", "least_s", "most_s", "deviation_s")
    return {
        "name": [shown(one.name) for one in summaries],
        "kind": [kind_in(one.category, one.name) for one in summaries],
        "processor": [one.processor for one in summaries],
        **{key: [getattr(one, key) for one in summaries] for key in keys},
    }
