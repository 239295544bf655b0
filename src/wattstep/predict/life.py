"""Stages of a training's life beside its steps: an evaluation, saving and reloading, and the memory that each takes.

A checkpoint has parameters, buffers and the optimizer's state. torch writes it tensor by tensor, from
where they are (on a GPU by way of a copy of one tensor at a time in the host's memory), and reads all
of it into memory beside the model before it is copied into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import hypot
from typing import Final

from wattstep.devices.table import Device, Floor, Value
from wattstep.schema.spelling import quantity
from wattstep.schema.step_graph import StepGraph

# Stages of a training's life, as `wattstep memory` names those that it measures.
FRAMEWORK: Final = "framework"
PREPARED: Final = "preparation"
FIRST: Final = "first step"
STEADY: Final = "steady step"
EVALUATION: Final = "evaluation"
SAVING: Final = "saving"
RELOADING: Final = "reloading"
BESIDE: Final = (EVALUATION, SAVING, RELOADING)
Life = Mapping[str, "float | None"]

# What a checkpoint takes in s beside its bytes, by estimate: value, low, high. torch.save and torch.load of modules of
# 2 to 200 parameters with SGD's momentum took 1 and 2 ms of processor time and 0.09 and 0.28 ms for each tensor on a
# busy core of an AMD EPYC; cores of boards take up to ten times that. To have a file on the disk (fsync) took 0.3 to
# 100 ms there; cards take longer.
FILE_S: Final = {SAVING: (1e-2, 1e-3, 2e-1), RELOADING: (8e-3, 1.5e-3, 6e-2)}
TENSOR_S: Final = {SAVING: (2.5e-4, 5e-5, 1.2e-3), RELOADING: (8e-4, 1.5e-4, 4e-3)}
FILE_ESTIMATED: Final = "what a file takes beside its bytes is an estimate"


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a training holds between steps, in B.

    Attributes:
        model: Parameters and buffers.
        state: The optimizer's.
        largest: The largest parameter that trains.
        tensors: Number of parameters that train, and of what the optimizer keeps of them.
    """

    model: float
    state: float
    largest: float
    tensors: int

    @property
    def checkpoint(self) -> float:
        """Of model and optimizer, as a file has them."""
        return self.model + self.state


def held_of(graph: StepGraph) -> Held:
    """What a step finds there."""
    there = dict.fromkeys(("parameters", "buffers", "optimizer_state"), 0.0)
    trained: list[float] = []
    storages = zip(graph.categories, graph.sizes.tolist(), graph.made.tolist(), strict=True)
    for category, size, made in storages:
        if made == 0 and category in there:
            there[category] += size
        elif category == "gradients" and made > 0:
            trained.append(size)
    state, whole = there["optimizer_state"], sum(trained)
    copies = round(state / whole) if whole else 0
    return Held(
        model=there["parameters"] + there["buffers"],
        state=state,
        largest=max(trained, default=0.0),
        tensors=len(trained) * (1 + copies),
    )


def start_of(device: Device, engine: str) -> Value | None:
    """Time in s to start the framework, where the device's file has it."""
    floor: Floor | None = device.floors.get(engine) or device.floors.get(engine.partition("-")[0])
    return None if floor is None else floor.start


def times_of(device: Device, engine: str, held: Held) -> dict[str, Value]:
    """Time in s of stages that a device's file tells: to start, to write a checkpoint, to read it again.

    Bytes at the disk's rate, and what a file and each tensor in it take, which are taken to miss independently.
    """
    times = {}
    start, storage = start_of(device, engine), device.storage
    if start is not None:
        times[FRAMEWORK] = start
    rates = {} if storage is None else {SAVING: storage.write, RELOADING: storage.read}
    for stage, rate in rates.items():
        if rate is not None:
            parts = (
                tuple(held.checkpoint / end for end in (rate.value, rate.high, rate.low)),
                FILE_S[stage],
                tuple(held.tensors * end for end in TENSOR_S[stage]),
            )
            value = sum(middle for middle, _, _ in parts)
            times[stage] = replace(
                rate,
                value=value,
                low=value - hypot(*(middle - low for middle, low, _ in parts)),
                high=value + hypot(*(high - middle for middle, _, high in parts)),
                source=f"{rate.source}; {FILE_ESTIMATED}",
            )
    return times


def life_notes(life: Life, usable: float) -> list[str]:
    """That a stage beside the steps takes more than these, and more than there is."""
    steps = max(size for stage, size in life.items() if stage not in BESIDE and size)
    return [
        f"{stage} takes {quantity(size, 'B')}, more than the steps and than the {quantity(usable, 'B')} that there are"
        for stage, size in life.items()
        if stage in BESIDE and size is not None and size > max(steps, usable)
    ]
