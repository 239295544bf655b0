"""Activations that leave memory until the backward pass, in a captured step."""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.schema.spelling import quantity
from wattstep.schema.step_graph import StepGraph

OUT: Final = "aten::offload_copy"  # one for each storage that leaves; some come back more than once


def offload_notes(graph: StepGraph) -> list[str]:
    """How much leaves memory and at what rate that is taken; nothing of a step in which none does."""
    leaves = np.array([name == OUT for name in graph.names])
    moved = float(graph.read_bytes[leaves].sum())
    if not moved:
        return []
    return [
        f"{quantity(moved, 'B')} of activations leave memory in a step: at the rate of copies within memory, "
        "since the device's file has none of its disk or of the link to its host, which may be slower"
    ]
