"""Times of layers, as the agent takes them by events, as rows of operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from wattstep.remote.agent.checking import text, time_ns
from wattstep.schema.operation_kinds import kind_of

PHASES: Final = frozenset({"forward", "backward"})
MOST_SCOPES: Final = 1000  # that lie in each other: no model is so deep
_PROCESSOR: Final = re.compile(r"cpu|gpu\d{1,4}")


def layer_columns(
    processor: str, rows: Sequence[Sequence[Any]], step: int, window: int
) -> dict[str, list[Any]]:
    """Columns of operations (`store.tables.OPERATIONS_SCHEMA`), in order of begin.

    A leaf module is an operation named after its class, one that holds others is a scope.
    A call lies within the one that encloses it altogether; two that cross do not nest.

    Args:
        processor: Where it ran: "cpu", "gpu0".
        rows: Path, class, whether it is a leaf, phase, begin and end in ns, of each call.
        step: Index of the traced step.
        window: Number of the window.

    Raises:
        ValueError: A row is garbled.
    """
    if not isinstance(processor, str) or not _PROCESSOR.fullmatch(processor):
        raise ValueError("it does not say where its layers ran")
    calls = sorted((_checked(row) for row in rows), key=lambda row: (row[4], -row[5], row[2]))
    parents = _parents(calls)
    own = [end - begin for *_, begin, end in calls]
    for (*_, begin, end), parent in zip(calls, parents, strict=True):
        if parent is not None:
            own[parent] -= end - begin
    count = len(calls)
    return {
        "name": [kind if leaf else "module code" for _, kind, leaf, *_ in calls],
        "kind": [
            kind_of(f"nn::{kind.lower()}") if leaf else "scope" for _, kind, leaf, *_ in calls
        ],
        "layer": [path for path, *_ in calls],
        "phase": [phase for _, _, _, phase, *_ in calls],
        "step": [step] * count,
        "window": [window] * count,
        "thread": [0] * count,
        "processor": [processor] * count,
        "start_ns": [begin for *_, begin, _ in calls],
        "end_ns": [end for *_, end in calls],
        "self_ns": [max(value, 0) for value in own],
        "shapes": [None] * count,
        "flops": [None] * count,
        "bytes": [None] * count,
        "allocated": [None] * count,
        "outermost": [leaf for _, _, leaf, *_ in calls],
        "parent": parents,
    }


def _checked(row: Sequence[Any]) -> tuple[str, str, bool, str, int, int]:
    path, kind, leaf, phase, begin, end = row
    if phase not in PHASES or not isinstance(leaf, bool):
        raise ValueError("a row of its times by layer is garbled")
    # Events tell a float of ms: an end may come out a rounding before its begin.
    return text(path), text(kind), leaf, phase, time_ns(begin), max(time_ns(end), begin)


def _parents(calls: Sequence[tuple[str, str, bool, str, int, int]]) -> list[int | None]:
    """Position of the scope that encloses each call."""
    parents: list[int | None] = []
    open_scopes: list[int] = []
    for position, (*_, leaf, _phase, begin, end) in enumerate(calls):
        while open_scopes and calls[open_scopes[-1]][5] <= begin < end:
            open_scopes.pop()
        fitting = [at for at in open_scopes if calls[at][4] <= begin and end <= calls[at][5]]
        parents.append(fitting[-1] if fitting else None)
        if not leaf:
            open_scopes.append(position)
        if len(open_scopes) > MOST_SCOPES:
            raise ValueError(f"more than {MOST_SCOPES} of its layers run at a time")
    return parents
