"""Stages of a training's life beside its steps: an evaluation, saving and reloading, and the memory that each takes.

A checkpoint has parameters, buffers and the optimizer's state. torch writes it tensor by tensor, from
where they are (on a GPU by way of a copy of one tensor at a time in the host's memory), and reads all
of it into memory beside the model before it is copied into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a training holds between steps, in B.

    Attributes:
        model: Parameters and buffers.
        state: The optimizer's.
        largest: The largest parameter that trains.
    """

    model: float
    state: float
    largest: float

    @property
    def checkpoint(self) -> float:
        """Of model and optimizer, as a file has them."""
        return self.model + self.state


def held_of(graph: StepGraph) -> Held:
    """What a step finds there."""
    there = dict.fromkeys(("parameters", "buffers", "optimizer_state"), 0.0)
    largest = 0.0
    storages = zip(graph.categories, graph.sizes.tolist(), graph.made.tolist(), strict=True)
    for category, size, made in storages:
        if made == 0 and category in there:
            there[category] += size
        elif category == "gradients" and made > 0:
            largest = max(largest, size)
    model = there["parameters"] + there["buffers"]
    return Held(model=model, state=there["optimizer_state"], largest=largest)


def start_of(device: Device, engine: str) -> Value | None:
    """Time in s to start the framework, where the device's file has it."""
    floor: Floor | None = device.floors.get(engine) or device.floors.get(engine.partition("-")[0])
    return None if floor is None else floor.start


def times_of(device: Device, engine: str, held: Held) -> dict[str, Value]:
    """Time in s of stages that a device's file tells: to start, to write a checkpoint, to read it again."""
    times = {}
    start, storage = start_of(device, engine), device.storage
    if start is not None:
        times[FRAMEWORK] = start
    rates = {} if storage is None else {SAVING: storage.write, RELOADING: storage.read}
    for stage, rate in rates.items():
        if rate is not None:
            times[stage] = replace(
                rate,
                value=held.checkpoint / rate.value,
                low=held.checkpoint / rate.high,
                high=held.checkpoint / rate.low,
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
