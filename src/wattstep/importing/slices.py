"""Slices of formats that do not tell operations from groupings: what encloses others groups them, the rest is work."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from wattstep.attribution.nesting import Family, in_order, lanes_of
from wattstep.errors import InvalidValueError
from wattstep.formats.trace import NONE, Trace
from wattstep.importing.phases import phase_of_annotation

SLICE = "slice"


def told_apart(trace: Trace, step_name: str | None) -> Trace:
    """The trace with its slices as steps, annotations and operations.

    A name whose slices enclose others for most of their time is an annotation, as is one of a
    phase, and what marks a step; all others are operations.

    Args:
        trace: With events.
        step_name: Regular expression of the names that mark steps, or None.
    """
    events = trace.events
    assert events is not None
    slices = np.array([name == SLICE for name in trace.names], bool)[events.category]
    if not slices.any():
        return trace
    on_cpu = np.array([name == "cpu" for name in trace.names], bool)[events.processor]
    rows = in_order(events, trace.names, lanes_of(events, ~on_cpu), ~on_cpu)
    parent = Family(rows).parent
    encloses = np.zeros(len(rows), bool)
    encloses[parent[parent != NONE]] = True
    mine = slices[rows.source]
    length = np.maximum(rows.duration_ns, 1) * np.where(encloses, 1.0, -1.0)
    above = np.bincount(rows.name[mine], weights=length[mine], minlength=len(trace.names)) > 0
    texts = (*trace.names, *(t for t in ("operation", "annotation") if t not in trace.names))
    grouping = above | np.array([_groups(name, step_name) for name in trace.names], bool)
    meant = np.where(grouping[events.name], texts.index("annotation"), texts.index("operation"))
    category = np.where(slices, meant, events.category).astype(np.int32)
    return replace(trace, names=texts, events=replace(events, category=category))


def _groups(name: str, step_name: str | None) -> bool:
    marks = step_name is not None and named_so(name, step_name)
    return marks or phase_of_annotation(name) != NONE


def named_so(name: str, step_name: str) -> bool:
    """True for the name of a step.

    Raises:
        InvalidValueError: The regular expression is none.
    """
    try:
        return re.search(step_name, name) is not None
    except re.error as error:
        raise InvalidValueError(
            f"--step-name {step_name!r} is no regular expression: {error}"
        ) from error
