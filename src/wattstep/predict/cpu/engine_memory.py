"""Memory of a training's process on another engine than torch: of its tensors and what a step takes, so many times each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wattstep.predict.cpu.engines import GROWTH, TENSORS
from wattstep.predict.cpu.memory import Growth, lasting
from wattstep.schema.exported import batches_of
from wattstep.schema.step_graph import StepGraph

PREPARATION: Final = "preparation"
MASK: Final = "aten::bernoulli_"  # of dropout: an export holds it with the batch


@dataclass(frozen=True, kw_only=True)
class MemoryAmounts:
    """What memory is told by, in B.

    Attributes:
        tensors: Parameters, buffers, and data that its process holds.
        growth: Most that a step's tensors and workspaces take at once with torch.
        batches: Of an exported training, that lie in memory.
    """

    tensors: float
    growth: float
    batches: float

    def of(self, memory: Mapping[str, float]) -> float:
        """Beyond the floor of the framework, by a device's values of kind "memory"."""
        return (
            memory[PREPARATION] + memory[TENSORS] * self.tensors + memory[GROWTH] * self.growth
            + self.batches
        )  # fmt: skip


def memory_amounts(graph: StepGraph, growth: Growth, *, exported: bool) -> MemoryAmounts:
    """The amounts of a step.

    Args:
        graph: Of the step.
        growth: As the allocator's replay says.
        exported: Whether its data are batches in memory, and not a data set.
    """
    held = dict.fromkeys(("parameters", "buffers", "held_tensors"), 0.0)
    for category, size in lasting(graph):
        held[category] += size
    tensors = held["parameters"] + held["buffers"]
    if not exported:
        return MemoryAmounts(tensors=tensors, growth=growth.allocated, batches=held["held_tensors"])
    batch = sum(
        float(size)
        for category, size in zip(graph.categories, graph.sizes, strict=True)
        if category == "input"
    )
    batch += sum(
        float(size)
        for name, size in zip(graph.names, graph.written_bytes, strict=True)
        if name == MASK
    )
    return MemoryAmounts(
        tensors=tensors, growth=growth.allocated, batches=batch * batches_of(batch)
    )
