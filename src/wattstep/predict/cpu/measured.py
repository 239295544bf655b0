"""What of a training on a CPU lies beyond the trainings that a calibration measured, as `predict.familiar` tells it.

The device's file has the range: the batch sizes, and of each kind of operations the most FLOP and bytes of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from wattstep.predict.cpu.time import BACK, CODES, KINDS, LOOK, CpuTime, CpuWork
from wattstep.predict.familiar import GATHERS, WORTH_SAYING, strange_convolution
from wattstep.schema.arrays import FloatArray
from wattstep.schema.step_graph import StepGraph

LEAST_BATCH, MOST_BATCH = "least_batch", "most_batch"  # of "step"
MOST_FLOP, MOST_BYTE = "most_flop", "most_byte"  # of a kind: of one operation
LEAST_ROWS: Final = 3  # operations of a kind with which it is fitted by itself
# Times as many samples, and as much work of one operation, that are near enough: so far were trainings of the
# suite from those of a calibration that predicted them (docs/predict-here.md).
BATCH_ROOM: Final = 4.0
WORK_ROOM: Final = 100.0
_AMOUNTS: Final = ((MOST_FLOP, "GFLOP", 1e9), (MOST_BYTE, "MB", 1e6))
UNKNOWN: Final = (
    "what its values were fitted to is not in the device's file, which an older version wrote: nothing tells what "
    "lies beyond that (`wattstep calibrate-device` writes it)"
)

Ranges = Mapping[str, Mapping[str, float]]


def ranges_of(trainings: Iterable[tuple[CpuWork, int]]) -> dict[str, dict[str, float]]:
    """The range of what was measured, by kind and for "step", as the values of a device have it.

    Args:
        trainings: What their operations do, and their batch sizes.
    """
    works, batches = zip(*trainings, strict=True)
    codes = np.concatenate([work.kinds for work in works])
    amounts = np.concatenate([_amounts(work) for work in works])
    ranges = {"step": {LEAST_BATCH: float(min(batches)), MOST_BATCH: float(max(batches))}}
    for kind, code in CODES.items():
        mine = amounts[codes == code]
        if len(mine) >= LEAST_ROWS:
            flop, moved = mine.max(axis=0).tolist()
            ranges[kind] = {MOST_FLOP: flop, MOST_BYTE: moved}
    return ranges


def is_known(values: Ranges) -> bool:
    """True if a device's values say what they were fitted to."""
    return MOST_BATCH in values["step"]


def unmeasured_shares(
    graph: StepGraph, work: CpuWork, time: CpuTime, values: Ranges
) -> Mapping[str, float]:
    """Part of the step's time by kinds of work that nothing was fitted to, 0 to 1, the largest first.

    Args:
        graph: Of the step.
        work: Its operations.
        time: What they take.
        values: Of the device.
    """
    shares: dict[str, float] = {}
    for place, (code, seconds) in enumerate(
        zip(work.kinds.tolist(), time.operations.tolist(), strict=True)
    ):
        name = _unmeasured(graph, place, KINDS[code], values) if seconds else ""
        if name:
            shares[name] = shares.get(name, 0.0) + seconds / time.total
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _unmeasured(graph: StepGraph, place: int, kind: str, values: Ranges) -> str:
    shapes = graph.convolutions.get(place)
    if shapes is not None and not shapes.transposed:  # these are of a kind of their own
        if strange := strange_convolution(shapes):
            return strange
    elif GATHERS.search(graph.names[place]):
        return graph.names[place].removeprefix("aten::")
    known = kind == LOOK or not is_known(values) or MOST_BYTE in values[kind]
    return "" if known else kind.removesuffix(BACK)


def beyond_measured(work: CpuWork, time: CpuTime, batch_size: int, values: Ranges) -> list[str]:
    """What of a training is beyond the range of those that were measured, with that range.

    Args:
        work: Its operations.
        time: What they take.
        batch_size: Samples of one forward pass.
        values: Of the device.
    """
    if not is_known(values):
        return []
    outside = []
    least, most = (values["step"][key] for key in (LEAST_BATCH, MOST_BATCH))
    if batch_size > BATCH_ROOM * most:
        outside.append(f"batch {batch_size:,} (fitted: {least:.0f} to {most:.0f})")
    larger = (_larger(work, time, column, values) for column in range(len(_AMOUNTS)))
    first = next(
        filter(None, larger), None
    )  # an operation of more FLOP is mostly one of more bytes
    return outside if first is None else [*outside, first]


def _larger(work: CpuWork, time: CpuTime, column: int, values: Ranges) -> str:
    """Operations that do much more than any that was measured; "" where they are no matter."""
    key, unit, size = _AMOUNTS[column]
    most = np.array([values[kind].get(key, np.inf) for kind in KINDS])[work.kinds]
    amounts = _amounts(work)[:, column]
    beyond = amounts > WORK_ROOM * most
    taken = np.bincount(work.kinds[beyond], time.operations[beyond], minlength=len(KINDS))
    if taken.sum() <= WORTH_SAYING * time.total:
        return ""
    code = int(taken.argmax())
    largest = amounts[beyond & (work.kinds == code)].max()
    fitted = values[KINDS[code]][key]
    return (
        f"operations of more {unit} ({KINDS[code]} of {_brief(largest / size)} {unit}, "
        f"fitted: up to {_brief(fitted / size)})"
    )


def _brief(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _amounts(work: CpuWork) -> FloatArray:
    """FLOP and bytes of each operation, shape (n, 2)."""
    features = work.features
    amounts: FloatArray = np.stack([features[:, 1], features[:, 2] + features[:, 3]], axis=1)
    return amounts
