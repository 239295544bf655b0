"""A device of round numbers, and the step of one convolution: what a plan costs there is worked out by hand.

The device computes 10^9 operations a second at any kind of kernel and moves data in no time, so that a
batch of b samples takes 3 passes × 2 b × 56² × 64² × 9 / 10^9 s = 0.693633024 b s. Each kernel takes a
gap before it: three for a batch, one for the update.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from tests.predicting.steps import step

from wattstep import devices
from wattstep.devices.loading import parse_device
from wattstep.devices.table import Device
from wattstep.plan import Budget, Estimator, Plan, Question, Session, search
from wattstep.schema.step_graph import StepFamily, StepGraph
from wattstep.schema.workload import Preparation

SAMPLE_S: Final = 3 * 2 * 56 * 56 * 64 * 64 * 9 / 1e9
# Of a GPU's 10 W under a stress test a step draws 0.2 for being there and 0.7 by its arithmetic, which
# Winograd's transform divides by 2.25.
GPU_W: Final = 10 * (0.2 + 0.7 / 2.25)
ONES: Final = {
    "convolution": {"tile": 1, "half_rows": 0, "half_depth": 0, "half_parallel": 0},
    "step": {"forward_start_s": 0, "backward_start_s": 0, "optimizer_start_s": 0},
    "memory": {"libraries": 1e9, "products": 0, "stays": 0},
}


def _value(value: float, spread: float = 1.0) -> str:
    return (
        f"{{ value = {value!r}, low = {value / spread!r}, high = {value * spread!r}, "
        'basis = "datasheet", source = "made" }'
    )


def device(
    *, idle_w: float = 1.0, gap_s: float = 0.0, usable: float = 8e9, extra: str = ""
) -> Device:
    """The device; its mode "half" has half of the GPU's clock."""
    kinds = []
    for kind, known in devices.find("jetson-tx2").kinds["torch-1.6"].items():
        kinds.append(f'[kinds.torch."{kind}"]\nfitted = "nothing"')
        for key in known.values:
            number = ONES.get(kind, {}).get(key, 1.0)
            if key == "kernel_gap_s":
                number = gap_s
            elif key.endswith("traffic_times"):
                number = 0.0
            elif kind == "interval":
                number = 0.1
            elif key in ("least_kernel", "most_kernel"):
                number = 3
            kinds.append(f'"{key}" = {_value(float(number))}')
    text = f"""
title = "A board of round numbers"
[memory]
unified = true
size = {_value(2 * usable)}
usable = {_value(usable)}
bandwidth = {_value(1e14)}
[floors.torch]
counted = "system"
memory = {_value(1e9)}
{extra}
[processors.gpu]
kind = "gpu"
title = "GPU"
cores = 100
max_hz = {_value(1e9)}
peak.fp32 = {_value(1e9)}
launch = {_value(1e-6)}
[power]
idle = {_value(idle_w)}
full = {_value(20.0)}
clock_exponent = {_value(2.0)}
parts.gpu.idle = {_value(0.0)}
parts.gpu.dynamic = {_value(10.0)}
parts.memory.idle = {_value(0.0)}
parts.memory.dynamic = {_value(0.0)}
parts.rest.idle = {_value(idle_w)}
parts.rest.dynamic = {_value(0.0)}
[thermal]
resistance = {_value(10.0)}
time_constant = {_value(100.0)}
ambient = {{ value = 20.0, low = 20.0, high = 20.0, basis = "datasheet", source = "made" }}
[battery]
capacity = {_value(10000.0)}
[modes.half]
clocks.gpu = {_value(5e8)}
"""
    return parse_device((text + "\n".join(kinds)).encode(), "made", "made.toml")


def twice(batch: int) -> StepGraph:
    """The step with two batches whose gradients are added up."""
    one, count = step(batch), 3
    again = [0, 1, 2, 0, 1, 2, 3]
    later = one.made > 0
    made = np.concatenate([one.made, one.made[later] + count])
    # A first batch's tensors but its gradient are gone by the second one's; the update comes last.
    gone = np.where(one.freed > one.count, one.count + count + 1, one.freed)
    freed = np.concatenate([gone, one.freed[later] + count])
    return replace(
        one,
        names=tuple(one.names[i] for i in again),
        kinds=tuple(one.kinds[i] for i in again),
        phases=tuple(one.phases[i] for i in again),
        layers=tuple(one.layers[i] for i in again),
        flops=one.flops[again],
        read_bytes=one.read_bytes[again],
        written_bytes=one.written_bytes[again],
        sizes=np.concatenate([one.sizes, one.sizes[later]]),
        categories=(*one.categories, *np.array(one.categories)[later].tolist()),
        made=made,
        freed=freed,
        convolutions={
            1: one.convolutions[1], 2: one.convolutions[2], 4: one.convolutions[1], 5: one.convolutions[2],
        },
    )  # fmt: skip


def capture(preparation: Preparation, precision: str) -> StepFamily:
    """The step as an engine captures it, for two batches where gradients are added up."""
    made = step if preparation.accumulate == 1 else twice
    return StepFamily(small=made(2), large=made(3))


def plan(
    where: Device,
    *,
    samples: int = 64,
    update: int = 16,
    every_s: float | None = None,
    budget: str = "",
    allow: tuple[str, ...] = (),
    taking: Any = capture,
    **options: Any,
) -> Plan:
    """A plan on a device."""
    question = Question(
        device=where, engine=None, samples=samples, update=update, precision="fp32", precisions=("fp32",),
        allow=frozenset(allow),
    )  # fmt: skip
    estimator = Estimator(
        taking,
        Preparation(batch_size=update),
        where,
        None,
        Session(samples=samples, every_s=every_s),
    )
    return search(question, estimator, workload="made", budget=Budget.parse(budget), **options)
