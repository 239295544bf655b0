"""Activations that leave memory until the backward pass, in a captured step."""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.devices.table import Device
from wattstep.schema.spelling import quantity
from wattstep.schema.step_graph import StepGraph

OUT: Final = "aten::offload_copy"  # one for each storage that leaves; some come back more than once


def offload_notes(graph: StepGraph, device: Device) -> list[str]:
    """How much leaves memory and at what rate that is taken, and what its disk would take; nothing of a step in which none does."""
    leaves = np.array([name == OUT for name in graph.names])
    moved = float(graph.read_bytes[leaves].sum())
    if not moved:
        return []
    storage, slower = device.storage, "which may be slower"
    if storage is not None and storage.read is not None and storage.write is not None:
        seconds = moved / storage.write.value + moved / storage.read.value
        slower = f"which would take {quantity(seconds, 's')} ({storage.title})"
    return [
        f"{quantity(moved, 'B')} of activations leave memory in a step: at the rate of copies within memory, as long "
        f"as the system's cache has room for them; else they wait for the disk, {slower}"
    ]
