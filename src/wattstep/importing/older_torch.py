"""Traces of torch before 1.12, with what they say in other places put where the reader looks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from wattstep.attribution.event_kinds import ENGINE
from wattstep.formats.trace import NONE, Events, Longs, Trace
from wattstep.importing.layers import PATH

# What torch itself names so is an annotation: its optimizers and loaders of data.
ANNOTATIONS: Final = ("Optimizer.", "enumerate(DataLoader)")


def mended(trace: Trace) -> Trace:
    """Trace with annotations as such, and with numbers on the engine's own events.

    One of a later torch stays as it is. What a user's code annotated cannot be distinguished from an
    operation there.

    Args:
        trace: With events.
    """
    return _with_sequences(_with_scopes(trace))


def _with_scopes(trace: Trace) -> Trace:
    """With annotations as such: torch before 1.12 calls them operations."""
    columns = {
        code: "module" if name.startswith(PATH) else "annotation"
        for code, name in enumerate(trace.names)
        if name.startswith((PATH, *ANNOTATIONS))
    }
    events = trace.events
    if not columns or events is None:
        return trace
    wanted = ("annotation", "module", "operation")
    texts = (*trace.names, *(text for text in wanted if text not in trace.names))
    known = {text: texts.index(text) for text in wanted}
    category = np.full(len(texts), NONE, np.int32)
    category[list(columns)] = [known[text] for text in columns.values()]
    meant = category[events.name]
    called = np.isin(events.category, [known["operation"], known["annotation"]])
    changed = np.where(called & (meant != NONE), meant, events.category)
    return replace(trace, names=texts, events=replace(events, category=changed))


def _with_sequences(trace: Trace) -> Trace:
    """With numbers on the engine's own events: torch before 1.12 has them on the nodes inside."""
    events = trace.events
    if events is None:
        return trace
    inner_of = _unnumbered(trace, events)
    if not inner_of:
        return trace
    sequence, forward_thread = events.sequence.copy(), events.forward_thread.copy()
    waiting: dict[
        tuple[int, int], int
    ] = {}  # by process and thread: the engine's event that began last
    mine: Longs = np.flatnonzero(np.isin(events.name, [*inner_of, *inner_of.values()]))
    for row in mine[np.lexsort((-events.end_ns[mine], events.start_ns[mine]))].tolist():
        thread = int(events.process[row]), int(events.thread[row])
        name = int(events.name[row])
        if name in inner_of:
            waiting[thread] = row
            continue
        outer = waiting.get(thread, NONE)
        if outer != NONE and inner_of[int(events.name[outer])] == name:
            del waiting[thread]
            if sequence[outer] == NONE and events.start_ns[row] <= events.end_ns[outer]:
                sequence[outer] = events.sequence[row]
                forward_thread[outer] = events.forward_thread[row]
    return replace(trace, events=replace(events, sequence=sequence, forward_thread=forward_thread))


def _unnumbered(trace: Trace, events: Events) -> Mapping[int, int]:
    """Names of the engine's events that lack numbers, with those of the nodes that have them."""
    code_of = {name: code for code, name in enumerate(trace.names)}
    inner_of = {
        code: code_of[name.removeprefix(ENGINE)]
        for code, name in enumerate(trace.names)
        if name.startswith(ENGINE) and name.removeprefix(ENGINE) in code_of
    }
    lacking = _names(events, events.sequence == NONE)
    having = _names(events, events.sequence != NONE)
    return {
        outer: inner for outer, inner in inner_of.items() if outer in lacking and inner in having
    }


def _names(events: Events, which: np.ndarray[Any, np.dtype[np.bool_]]) -> set[int]:
    return set(np.unique(events.name[which]).tolist())
