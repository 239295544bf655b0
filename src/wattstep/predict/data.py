"""Time of a step's data phase on a GPU's host: a batch is drawn, prepared by the CPU's operations, and copied over.

Products and convolutions in it are a network's that plays a game for its samples: the host starts them, and what
they move is at the rate of the memory, as on the GPU.

What a user's own samples take (a photograph's decoding, say) nobody can foretell: it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from wattstep.devices.table import Device, Processor
from wattstep.predict.work import LOOKS
from wattstep.schema.arrays import FloatArray
from wattstep.schema.step_graph import StepGraph

DATA: Final = "data"  # phase
READING: Final = "reading and preparing data"
HOST_SHARE: Final = (
    0.3  # of the memory's rate that a CPU has of it, where its file does not say: an estimate
)
SPREAD: Final = log(3)  # by which it may be off: nobody measured it on any board
# Time in s for each byte that they write of operations that compute more than they move, on one core of an AMD
# EPYC with the pages that the system gives for it (docs/predict-here.md); elsewhere it is an estimate.
COMPUTED: Final = {"aten::upsample_bilinear2d": 1.2e-9}
UNTOLD: Final = (
    "the time of reading and preparing your own data is not in the step: --data-time adds it"
)


def computed_seconds(graph: StepGraph) -> FloatArray:
    """Time in s that operations of the data phase compute beside what they move, shape (n,)."""
    rates = [
        COMPUTED.get(name, 0.0) if phase == DATA else 0.0
        for phase, name in zip(graph.phases, graph.names, strict=True)
    ]
    seconds: FloatArray = np.array(rates) * graph.written_bytes
    return seconds


@dataclass(frozen=True, kw_only=True)
class DataWork:
    """What a host does for a batch.

    Attributes:
        computed: Time in s of operations that compute more than they move.
        starts: Operations.
        moved: Bytes that they read and write.
        played: Bytes that products and convolutions read and write.
        batch: Bytes that are copied to the GPU.
    """

    computed: float = 0.0
    starts: float = 0.0
    moved: float = 0.0
    played: float = 0.0
    batch: float = 0.0


def data_work(graph: StepGraph) -> DataWork:
    """Of a step; nothing where inputs stand for others."""
    if not graph.data_known:
        return DataWork()
    mine = np.array(
        [
            phase == DATA and name not in LOOKS
            for phase, name in zip(graph.phases, graph.names, strict=True)
        ]
    )
    moved = graph.read_bytes + graph.written_bytes
    plays = mine & (graph.flops > 0)
    batch = sum(
        float(size)
        for size, category in zip(graph.sizes, graph.categories, strict=True)
        if category == "input"
    )
    return DataWork(
        computed=float(computed_seconds(graph).sum()),
        starts=float(mine.sum()),
        moved=float(moved[mine & ~plays].sum()),
        played=float(moved[plays].sum()),
        batch=batch,
    )


def host_seconds(work: DataWork, device: Device, *, start_s: float) -> float:
    """Time in s in which a batch is prepared by the host and copied to its GPU.

    Args:
        work: What it does.
        device: Where.
        start_s: In which its host starts an operation.
    """
    return (
        work.computed
        + work.starts * start_s
        + work.moved / _host_rate(device)
        + work.played / _memory_rate(device)
        + work.batch / _copy_rate(device)
    )


def _host_rate(device: Device) -> float:
    cpus = [each for each in device.processors.values() if each.kind == "cpu" and each.bandwidth]
    if cpus:
        return max(each.bandwidth.value for each in cpus if each.bandwidth)
    return HOST_SHARE * _memory_rate(device)


def _memory_rate(device: Device) -> float:
    assert device.memory.bandwidth is not None  # of every device with a GPU
    return device.memory.bandwidth.value


def _copy_rate(device: Device) -> float:
    """Bytes a second to the GPU: over its link; where memory is shared, read and written there."""
    gpu: Processor = next(each for each in device.processors.values() if each.kind == "gpu")
    if gpu.link is not None and not device.memory.unified:
        return gpu.link.value
    return _host_rate(device) / 2
