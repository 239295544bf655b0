"""Time of a step: what its kernels take on the device, and what starting them takes on the host, overlapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wattstep.predict.work import (
    CODES,
    CONVOLUTIONS,
    DEPTHWISE,
    KERNELS,
    PASSES,
    STARTING,
    Work,
)
from wattstep.schema.arrays import FloatArray

OVERLAP: Final = 4.0  # exponent of the norm that stands for the longer of two queues
PRODUCT_EFFICIENCY: Final = 0.5
READS_OF_WEIGHTS: Final = 3.0
# Values of a result below which efficiencies say nothing: no training of the fit had so few. Such a
# kernel takes at most what waiting for memory once for each term of its sums does; the wait is an estimate.
FEW_OUTPUTS: Final = 512
WAIT_S: Final = 1e-6

Values = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTime:
    """Time of a step.

    Attributes:
        total: Of the step, in s.
        device: Sum of its kernels, in s.
        host: Time in s in which the host starts them.
        kernels: Of each kernel, in s, shape (n,).
        alone: Each phase of `STARTING` in s, were the GPU waited for at its end: together more than the step.
    """

    total: float
    device: float
    host: float
    kernels: FloatArray
    alone: Mapping[str, float]

    def with_data(self, seconds: float) -> StepTime:
        """With so much more of its data phase, in which nothing else runs."""
        return replace(self, total=self.total + seconds)

    def scaled(self, factor: float) -> StepTime:
        """All of it so many times as long."""
        return StepTime(
            total=factor * self.total,
            device=factor * self.device,
            host=factor * self.host,
            kernels=factor * self.kernels,
            alone={name: factor * seconds for name, seconds in self.alone.items()},
        )


def step_time(
    work: Work, values: Values, *, peak: float, bandwidth: float, tensor: float = 0.0
) -> StepTime:
    """Time of a step.

    Args:
        work: Kernels of the step.
        values: By kind of kernel, as a device's `kinds` of one framework has them.
        peak: FLOP/s of the device in fp32.
        bandwidth: Its memory's, in B/s.
        tensor: FLOP/s that products and convolutions reach on its tensor cores; 0: they take none.
    """
    kernels = kernel_seconds(work, values, peak=peak, bandwidth=bandwidth, tensor=tensor)
    device, host = float(kernels.sum()), host_seconds(work.starts, values["step"])
    alone = {
        phase: float(
            overlapped(
                kernels[work.phases == code].sum(),
                host_seconds({phase: work.starts[phase]}, values["step"]),
            )
        )
        for code, phase in enumerate(STARTING)
    }
    return StepTime(
        total=float(overlapped(device, host)),
        device=device,
        host=host,
        kernels=kernels,
        alone=alone,
    )


def kernel_seconds(
    work: Work, values: Values, *, peak: float, bandwidth: float, tensor: float = 0.0
) -> FloatArray:
    """Time of each kernel in s; as `step_time`.

    A convolution takes the time of its arithmetic, at an efficiency that falls with few channels, a
    short sum and little parallel work, and that of its traffic. All else is traffic.
    """
    share = np.array([values[name].get("bandwidth_efficiency", 1.0) for name in KERNELS])
    seconds = work.traffic / (bandwidth * share[work.kinds])
    products = work.kinds == CODES["matrix product"]
    seconds = seconds + products * work.flops / max(peak * PRODUCT_EFFICIENCY, tensor)
    for kind in CONVOLUTIONS:
        mine = work.kinds == CODES[kind]
        if mine.any():
            seconds[mine] = _convolutions(work, mine, kind, values, peak, bandwidth, tensor)
    made: FloatArray = seconds + work.counts * values["step"]["kernel_gap_s"]
    return made


def host_seconds(starts: Mapping[str, float], step: Mapping[str, float]) -> float:
    """Time in s in which the host starts a step's kernels."""
    return sum(count * step[f"{phase}_start_s"] for phase, count in starts.items())


def overlapped(device: Any, host: Any) -> Any:
    """Time of two queues that run beside each other: a little more than the longer."""
    return (device**OVERLAP + host**OVERLAP) ** (1 / OVERLAP)


def _convolutions(
    work: Work,
    mine: FloatArray,
    kind: str,
    values: Values,
    peak: float,
    bandwidth: float,
    tensor: float,
) -> FloatArray:
    own, shared = values[kind], values["convolution"]
    by_pass = np.array([own[f"{name}_efficiency"] for name in PASSES])
    efficiency = by_pass[work.passes[mine]]
    moved = work.traffic[mine] * own["traffic_times"]
    if kind != DEPTHWISE:
        efficiency = np.maximum(efficiency, tensor / peak)
        rows, depth = work.rows[mine], work.depth[mine]
        tile = shared["tile"]
        efficiency = efficiency * rows / (np.ceil(rows / tile) * tile)
        efficiency = efficiency * rows / (rows + shared["half_rows"])
        efficiency = efficiency * depth / (depth + shared["half_depth"])
        parallel = work.columns[mine] * rows
        efficiency = efficiency * parallel / (parallel + shared["half_parallel"])
        efficiency = efficiency * np.where(work.unaligned[mine] > 0, own["unaligned"], 1.0)
        moved = moved + READS_OF_WEIGHTS * work.weights[mine]
    computing = work.flops[mine] / (peak * efficiency)
    if kind != DEPTHWISE:  # of so few that a thread each may wait for memory at each multiply-add
        few = work.rows[mine] * work.columns[mine] < FEW_OUTPUTS
        computing = np.where(few, np.minimum(computing, work.depth[mine] * WAIT_S), computing)
    seconds: FloatArray = computing + moved / bandwidth
    return seconds
