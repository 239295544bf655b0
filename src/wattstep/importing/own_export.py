"""Exports of our own as they come back: what they say of steps, phases, layers and rests is taken as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wattstep.attribution.event_kinds import Labels
from wattstep.attribution.nesting import Bools
from wattstep.formats.trace import NONE, OWN_TRACKS, Codes, Events, Longs, Own
from wattstep.schema.journal import Mark

MARKS: Final = "of a track of phases, layers, updates, rests, conditions or gaps: they stand elsewhere in the run"
STEPS, PHASES, LAYERS, RESTS, *_, UPDATES = range(len(OWN_TRACKS))
# Of exports that tell no order: a layer ends before the next begins at the same moment, and after
# a phase began.
_ORDER: Final = {Mark.LAYER_END: 0, Mark.PHASE: 1, Mark.LAYER_START: 2, Mark.UPDATE: 3}


def is_row(own: Own) -> Bools:
    """Mask of the events that are operations or steps."""
    rows: Bools = (own.track == NONE) | (own.track == STEPS)
    return rows


def labels(own: Codes, names: tuple[str, ...], derived: Labels, is_own: Bools) -> Labels:
    """Labels of our own export where it has them, NONE among them; else those derived from events."""
    codes = np.where(is_own, own, derived.codes)
    shifted = np.where(~is_own & (codes != NONE), codes + len(names), codes)
    return Labels(shifted.astype(np.int32), (*names, *derived.texts))


def step_positions(number: Longs, index: Longs, positions: Codes) -> Codes:
    """Position of the step of each row: of the number that is told, else as it was found."""
    if not len(index):
        return positions
    at = np.minimum(np.searchsorted(index, number), len(index) - 1)
    return np.where(index[at] == number, at, positions).astype(np.int32)


def with_flags(columns: dict[str, Any], own: Own, warmup: int) -> dict[str, Any]:
    """Columns of steps with what is said of each; `own` has a row a step."""
    count = len(own.track)
    flags = {
        name: pa.array(values, mask=~np.isfinite(values))
        for name, values in (("samples", own.samples), ("loss", own.loss))
    }
    return {
        **columns,
        **flags,
        "warmup": (own.warmup == 1) | (np.arange(count) < warmup),
        "traced": own.traced != 0,
        "waited_ns": pa.array(own.waited, mask=own.waited == NONE),
    }


def with_marks(
    columns: dict[str, Any], events: Events, own: Own, names: Sequence[str]
) -> dict[str, Any]:
    """Columns of steps with the marks of their phases and layers."""
    index = np.asarray(columns["index"])
    marks_of_steps: list[list[tuple[int, int, Mark, str]]] = [[] for _ in index]
    position = {int(number): at for at, number in enumerate(index)}
    kinds = {PHASES: Mark.PHASE, LAYERS: Mark.LAYER_START, UPDATES: Mark.UPDATE}
    for row in np.flatnonzero(np.isin(own.track, list(kinds))).tolist():
        at = position.get(int(own.number[row]))
        if at is None:
            continue
        kind, name = kinds[int(own.track[row])], names[events.name[row]]
        marks_of_steps[at].append((int(own.mark[row]), int(events.start_ns[row]), kind, name))
        if kind == Mark.LAYER_START:
            end_ns = int(events.end_ns[row])
            marks_of_steps[at].append((int(own.end_mark[row]), end_ns, Mark.LAYER_END, name))
    for each in marks_of_steps:
        each.sort(key=lambda mark: (*mark[:2], _ORDER[mark[2]]))
    return {
        **columns,
        "mark_ns": pa.array(
            [[m[1] for m in each] for each in marks_of_steps], pa.list_(pa.int64())
        ),
        "mark_kind": pa.array(
            [[int(m[2]) for m in each] for each in marks_of_steps], pa.list_(pa.int8())
        ),
        "mark_name": pa.array(
            [[m[3] for m in each] for each in marks_of_steps], pa.list_(pa.string())
        ),
    }


def spans_of(events: Events, own: Own, names: Sequence[str]) -> dict[str, Any]:
    """Columns of spans: tracing windows, and rests with a name."""
    rows = np.flatnonzero(own.track == RESTS)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    kinds = [names[code] if code != NONE else "rest" for code in own.kind[rows].tolist()]
    return {
        "start_ns": events.start_ns[rows],
        "end_ns": events.end_ns[rows],
        "kind": kinds,
        "name": [names[code] for code in events.name[rows].tolist()],
    }
