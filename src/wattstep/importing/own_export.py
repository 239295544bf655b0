"""Exports of our own as they come back: what they say of steps, phases, layers and rests is taken as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wattstep.formats.trace import NONE, OWN_TRACKS, Codes, Events, Longs, Own
from wattstep.importing.columns import Labels
from wattstep.importing.nesting import Bools
from wattstep.records.journal import Mark

MARKS: Final = (
    "of a track of phases, layers, rests, conditions or gaps: they stand elsewhere in the run"
)
STEPS, PHASES, LAYERS, RESTS, *_ = range(len(OWN_TRACKS))


def chosen(own: Own, which: Any) -> Own:
    """What is said of some of the events."""
    return replace(own, **{one.name: getattr(own, one.name)[which] for one in fields(own)})


def is_row(own: Own) -> Bools:
    """Which events are operations or steps."""
    rows: Bools = (own.track == NONE) | (own.track == STEPS)
    return rows


def labels(told: Codes, names: tuple[str, ...], found: Labels, is_told: Bools) -> Labels:
    """Labels as they are told, where they are, NONE among them; else as they were found."""
    codes = np.where(is_told, told, found.codes)
    shifted = np.where(~is_told & (codes != NONE), codes + len(names), codes)
    return Labels(shifted.astype(np.int32), (*names, *found.texts))


def step_positions(number: Longs, index: Longs, found: Codes) -> Codes:
    """Position of the step of each row: of the number that is told, else as it was found."""
    if not len(index):
        return found
    at = np.minimum(np.searchsorted(index, number), len(index) - 1)
    return np.where(index[at] == number, at, found).astype(np.int32)


def with_flags(columns: dict[str, Any], own: Own, warmup: int) -> dict[str, Any]:
    """Columns of steps with what is said of each; `own` has a row a step."""
    count = len(own.track)
    told = {
        name: pa.array(values, mask=~np.isfinite(values))
        for name, values in (("samples", own.samples), ("loss", own.loss))
    }
    return {
        **columns,
        **told,
        "warmup": (own.warmup == 1) | (np.arange(count) < warmup),
        "traced": own.traced != 0,
    }


def with_marks(
    columns: dict[str, Any], events: Events, own: Own, names: Sequence[str]
) -> dict[str, Any]:
    """Columns of steps with the marks of their phases and layers."""
    index = np.asarray(columns["index"])
    found: list[list[tuple[int, int, str]]] = [[] for _ in index]
    position = {int(number): at for at, number in enumerate(index)}
    marks = np.flatnonzero((own.track == PHASES) | (own.track == LAYERS))
    for row in marks.tolist():
        at = position.get(int(own.number[row]))
        if at is None:
            continue
        start, end = int(events.start_ns[row]), int(events.end_ns[row])
        name = names[events.name[row]]
        if own.track[row] == PHASES:
            found[at].append((start, int(Mark.PHASE), name))
        else:
            found[at].append((start, int(Mark.LAYER_START), name))
            found[at].append((end, int(Mark.LAYER_END), name))
    # A layer ends before the next one begins at the same moment, and after a phase began.
    order = {int(Mark.LAYER_END): 0, int(Mark.PHASE): 1, int(Mark.LAYER_START): 2}
    for each in found:
        each.sort(key=lambda mark: (mark[0], order[mark[1]]))
    return {
        **columns,
        "mark_ns": pa.array([[m[0] for m in each] for each in found], pa.list_(pa.int64())),
        "mark_kind": pa.array([[m[1] for m in each] for each in found], pa.list_(pa.int8())),
        "mark_name": pa.array([[m[2] for m in each] for each in found], pa.list_(pa.string())),
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
