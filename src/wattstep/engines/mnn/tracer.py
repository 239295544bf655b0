"""Tracer of MNN's operations: a call before and after each, which MNN makes while a step is traced."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wattstep.engines.marked_tracer import MarkedTracer, Operation, shapes_text
from wattstep.engines.mnn.graph import GraphOperation
from wattstep.engines.mnn.kinds import kind, layer
from wattstep.schema.tracer import Code

if TYPE_CHECKING:
    from wattstep.engines.mnn.trainer import MnnTrainer

_PART: Final = re.compile(
    r"(.*?)(_raster_\d+)?"
)  # which MNN adds where an operation becomes several
# Whose work MNN tells in millions of multiplications with their additions; of others it tells elements.
_COUNTED: Final = ("Convolution", "Deconvolution", "MatMul")
UNKNOWN: Final = GraphOperation(phase="", type="")


class MnnTracer(MarkedTracer):
    """As `MarkedTracer`. What runs is the same in each step: it is read once, apart from the steps.

    Args:
        code: As of `MarkedTracer`.
        training: Gives the training of this process; None: there is none.
    """

    def __init__(self, code: Code, training: Callable[[], MnnTrainer | None]) -> None:
        super().__init__(code)
        self._training = training
        self._times: list[int] = []
        self._learned: MnnTrainer | None = None  # whose operations these are
        self._kinds: list[Operation] = []

    def open(self) -> None:
        """As `MarkedTracer.open`."""
        trainer = self._training()
        assert trainer is not None  # without a training nothing is traced
        if trainer is not self._learned:
            told: list[tuple[str, str, float, str]] = []

            def learn(tensors: Any, info: Any) -> bool:
                shapes = shapes_text([tensor.getShape() for tensor in tensors])
                told.append((info.getName(), info.getType(), info.getFlops(), shapes))
                return False

            trainer.call_without_running(learn)  # asking within a step would make it another step
            self._learned, self._kinds = trainer, describe(told, trainer.graph)
        self._times.clear()
        trainer.calls = (self._stamp, self._stamp)

    def close(self) -> None:
        """As `MarkedTracer.close`."""
        if (trainer := self._training()) is not None:
            trainer.calls = None

    def stamp(self) -> int:
        """As `MarkedTracer.stamp`: MNN has no clock of its own here."""
        return time.perf_counter_ns()

    def _stamp(self, tensors: Any, info: Any) -> bool:
        self._times.append(time.perf_counter_ns())
        return True

    def operations(self) -> Sequence[Operation]:
        """As `MarkedTracer.operations`."""
        begins, ends = self._times[::2], self._times[1::2]
        if len(self._kinds) != len(ends):  # a step that was cut off
            return []
        thread = threading.get_ident()
        for each, begin, end in zip(self._kinds, begins, ends, strict=True):
            each.start, each.end, each.thread = begin, end, thread
        return self._kinds


def describe(
    told: Sequence[tuple[str, str, float, str]], graph: Mapping[str, GraphOperation]
) -> list[Operation]:
    """Operations as they are written down, without their times.

    Args:
        told: Name, type, work in millions and shapes of the inputs of each, as MNN tells them.
        graph: What the graph's operations are for, by name.
    """
    operations = []
    phase = "forward"
    for name, type_, work, shapes in told:
        match = _PART.fullmatch(name)
        assert match is not None
        of = graph.get(match[1], UNKNOWN)
        phase = of.phase or phase  # of what has no name of its own, as what ran before it
        counted = type_.startswith(_COUNTED)
        operations.append(
            Operation(
                f"MNN::{type_}", 0, 0, kind=kind(type_, of), layer=layer(of.node), phase=phase, shapes=shapes,
                flops=2 * round(work * 1e6) if counted else -1,
            )
        )  # fmt: skip
    return operations
