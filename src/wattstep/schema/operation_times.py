"""Steps that were timed: in all, and operation by operation."""

from __future__ import annotations

from dataclasses import dataclass

from wattstep.schema.arrays import FloatArray
from wattstep.schema.step_graph import StepGraph


@dataclass(frozen=True, kw_only=True, eq=False)
class OperationTimes:
    """Steps of a training and the operations in them.

    Attributes:
        graph: The operations with their sizes.
        seconds: Least time of each, without what calls it, shape (n,).
        steps: Time of each step that nothing was attached to, in s.
        clock: What was read: "thread" (the time of the one thread that works) or "wall".
    """

    graph: StepGraph
    seconds: FloatArray
    steps: tuple[float, ...]
    clock: str
