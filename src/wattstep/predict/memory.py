"""Memory of a training on a GPU: tensors, workspaces, and what allocator, libraries and system add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import ceil, erf, inf, log, prod, sqrt
from typing import Final

import numpy as np

from wattstep.devices.table import Value
from wattstep.predict.allocator import Allocator, Block
from wattstep.predict.fitted import NORMAL_90, chance_below, quantile
from wattstep.predict.work import (
    DENSE,
    FLOAT,
    POINTWISE,
    convolution_kind,
    is_aligned,
    needless,
)
from wattstep.schema.step_graph import Convolution, StepGraph

POINTS: Final = 64  # of the range of usable memory that are looked at
STEPS: Final = 3  # the first makes gradients and the optimizer's state, the others find them there
PRODUCTS: Final = ("matrix product", "attention", "recurrent")
TILE: Final = 4  # outputs of a Winograd tile along a side: F(4×4, 3×3), F(4×4, 5×5)
SMALL_TILE: Final = 2  # where channels are no multiple of `ALIGNED`


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """Memory of the allocator over a training.

    Attributes:
        allocated: Most bytes of tensors and workspaces at once.
        reserved: Bytes of its segments.
        workspace: The largest workspace of a convolution.
    """

    allocated: int
    reserved: int
    workspace: float


def replay(graph: StepGraph, *, gradients_stay: bool = True) -> Reserved:
    """Memory that torch reserves on a GPU for some steps.

    Args:
        graph: Of the step.
        gradients_stay: Whether gradients stay from step to step and parameters are updated one by
            one, as in torch 1.6; else gradients go with their step, and the update is one of all
            parameters at once ("foreach"), for which intermediate results are, too.
    """
    allocator = Allocator()
    steps = training(graph, allocator, gradients_stay=gradients_stay)
    for _ in range(STEPS):
        next(steps)
    return Reserved(
        allocated=allocator.most_allocated,
        reserved=allocator.most_reserved,
        workspace=max((size for each in _spaces(graph).values() for size in each), default=0.0),
    )


def training(graph: StepGraph, allocator: Allocator, *, gradients_stay: bool) -> Iterator[None]:
    """Step after step of a training that never ends, each with what it takes and gives.

    Args:
        graph: Of the step.
        allocator: Holds nothing yet.
        gradients_stay: As of `replay`.
    """
    made, freed, gradients = _events(graph, gradients_stay=gradients_stay)
    spaces = _spaces(graph)
    for size in _lasting(graph, gradients):
        allocator.take(size)
    optimizer = (
        next((i for i, phase in enumerate(graph.phases) if phase == "optimizer"), graph.count) + 1
    )
    sizes, numbers = graph.sizes.tolist(), sorted({*made, *freed, *spaces, optimizer})
    at_once = [] if gradients_stay else _intermediate(graph, gradients, optimizer)
    live: dict[int, Block] = {}
    for step in count():
        for number in numbers:  # all others change nothing
            for storage in freed.get(number, ()):
                block = live.pop(storage, None)
                if block is not None:
                    allocator.give(block)
            if number == optimizer:
                if step == 0:
                    for size in _optimizer_state(graph, gradients):
                        allocator.take(size)
                if at_once:
                    for block in [allocator.take(size) for size in at_once]:
                        allocator.give(block)
            for storage in made.get(number, ()):
                block = allocator.take(sizes[storage])
                if step > 0 or not gradients_stay or storage not in gradients:  # else it stays
                    live[storage] = block
            for size in spaces.get(number, ()):
                if size:
                    allocator.give(allocator.take(size))
        yield


def _spaces(graph: StepGraph) -> dict[int, tuple[float, ...]]:
    """Workspaces by the number after that of their convolution."""
    asked = {i: _workspaces(one, graph.phases[i]) for i, one in graph.convolutions.items()}
    return {i + 1: each for i, each in asked.items() if each}


def evaluation_reserved(graph: StepGraph, step: StepGraph, *, gradients_stay: bool = True) -> float:
    """Bytes that torch reserves on a GPU for an evaluation with the model and the optimizer's state of a training.

    Args:
        graph: Of its forward pass.
        step: Of the training.
        gradients_stay: As of `replay`: then they are there, too.
    """
    allocator = Allocator()
    _, _, gradients = _events(step, gradients_stay=gradients_stay)
    kept = [float(step.sizes[k]) for k in sorted(gradients)] if gradients_stay else []
    for size in [*_lasting(step, gradients), *_optimizer_state(step, gradients), *kept]:
        allocator.take(size)
    made, freed, _ = _events(graph, gradients_stay=False)
    live: dict[int, Block] = {}
    for number in range(1, graph.count + 2):
        for storage in freed.get(number, ()):
            if storage in live:
                allocator.give(live.pop(storage))
        for storage in made.get(number, ()):
            live[storage] = allocator.take(graph.sizes[storage])
    return float(allocator.most_reserved)


def _events(
    graph: StepGraph, *, gradients_stay: bool
) -> tuple[dict[int, list[int]], dict[int, list[int]], set[int]]:
    """Storages by the operation that makes them and the one that frees them; those of gradients."""
    left_out = {i + 1 for i in needless(graph)} if gradients_stay else set()
    made: dict[int, list[int]] = {}
    freed: dict[int, list[int]] = {}
    gradients = set()
    for k, (at, gone) in enumerate(zip(graph.made.tolist(), graph.freed.tolist(), strict=True)):
        if at == 0 or at in left_out or graph.sizes[k] <= 0:
            continue
        if graph.categories[k] == "gradients":
            gradients.add(k)
            if gradients_stay:  # added to what is there, and gone
                gone = at + 1
        made.setdefault(at, []).append(k)
        freed.setdefault(gone, []).append(k)
    return made, freed, gradients


def _lasting(graph: StepGraph, gradients: set[int]) -> list[float]:
    """Sizes of parameters and buffers: parameters are as their gradients are."""
    there = dict.fromkeys(("parameters", "buffers"), 0.0)
    for category, size, at in zip(graph.categories, graph.sizes, graph.made, strict=True):
        if at == 0 and category in there:
            there[category] += float(size)
    sizes = [float(graph.sizes[k]) for k in sorted(gradients)]
    frozen = there["parameters"] - sum(sizes)
    parts = max(1, len(sizes) // 3)  # buffers are small: how they are cut is nearly the same
    return [*sizes, *([frozen] if frozen > 0 else []), *[there["buffers"] / parts] * parts]


def _intermediate(graph: StepGraph, gradients: set[int], optimizer: int) -> list[float]:
    """Sizes of the intermediate results of an update of all parameters at once: one of each, if any is."""
    some = np.median([graph.sizes[k] for k in gradients]) if gradients else 0.0
    mine = (graph.made >= optimizer) & (graph.freed <= graph.count) & (graph.sizes >= max(some, 1))
    return [float(graph.sizes[k]) for k in sorted(gradients)] if mine.any() else []


def _optimizer_state(graph: StepGraph, gradients: set[int]) -> list[float]:
    """Sizes of the optimizer's state: as many of each parameter's as it has in all."""
    state = sum(
        float(size)
        for category, size, at in zip(graph.categories, graph.sizes, graph.made, strict=True)
        if at == 0 and category == "optimizer_state"
    )
    sizes = [float(graph.sizes[k]) for k in sorted(gradients)]
    whole = sum(sizes)
    copies = round(state / whole) if whole else 0
    return sizes * copies


def _workspaces(one: Convolution, phase: str) -> tuple[float, ...]:
    """Bytes that cuDNN asks for beside the tensors, kernel after kernel.

    Gradients of a dense convolution go through Winograd's transform, stored between its kernels;
    those of a 1×1 one through a copy of what it takes and gives.
    """
    if phase == "forward" or one.groups > 1 or one.transposed:
        return ()
    kind = convolution_kind(one)
    if kind == DENSE and len(one.kernel) == 2 and one.kernel[0] in (3, 5):
        tile = TILE if is_aligned(one) else SMALL_TILE
        side = tile + one.kernel[0] - 1
        tiles = prod(ceil(size / tile) for size in one.output_size)
        pixels = one.images * tiles * side * side
        size = (
            pixels * (one.inputs + one.outputs) + side * side * one.inputs * one.outputs
        ) * FLOAT
        return size, size
    if kind == POINTWISE:
        taken = one.images * one.inputs * float(np.prod(one.input_size))
        given = one.images * one.outputs * float(np.prod(one.output_size))
        return (taken + given) * FLOAT, (taken + given) * FLOAT
    return ()


def has_products(graph: StepGraph) -> bool:
    """True if a product of matrices runs, whose library is then loaded, too."""
    return any(kind in PRODUCTS for kind in graph.kinds)


def system_memory(
    reserved: float,
    values: Mapping[str, float],
    *,
    floor: float,
    products: bool,
    usable: float = inf,
) -> float:
    """Bytes in use by the whole system, less what the idle one uses.

    What the framework takes while it loads (`floor`) is gone once the network needs it: beyond,
    the segments of the allocator and the libraries that stay loaded add up. They do so until they
    fill what is usable; from there on segments get the pages that libraries and the system had,
    which the system gives back or swaps: 68 of the TX2's trainings, with 5,150 to 6,258 MiB of
    segments, have 6,235 MiB in use in the median (5,950 to 6,303), the largest 11 to 176 beside them.
    Segments never get `values["stays"]`, so that what is in use exceeds what is usable only where
    a training rather runs out, as `training_fits` says: it then is what it would take.

    Args:
        reserved: Bytes of the allocator's segments.
        values: "libraries": bytes beside them; "products": the part of these and of `floor` that
            the library of products of matrices takes; "stays": the least that is beside segments.
        floor: Bytes of a training that has next to no tensors.
        products: Whether a product of matrices runs.
        usable: Bytes beyond the idle system's that a training can take.
    """
    left = 0.0 if products else values["products"]
    beside = min(values["libraries"] - left, max(values["stays"], usable - reserved))
    return max(floor - left, reserved + beside)


def fit_probability(reserved: float, most: float, reach: float) -> float:
    """Probability that the allocator's segments fit.

    Memory that CPU and GPU share runs out when segments want more than the system can free for them
    (`system_memory`): no allocation fails first that the framework could mend.

    Args:
        reserved: Bytes of the segments, as predicted.
        most: Bytes that they can have.
        reach: Half of the 90 % interval of `reserved`, as a logarithm.
    """
    return 0.5 * (1 + erf(log(most / max(reserved, 1.0)) * _scale(reach)))


def training_fits(
    reserved: float, reach: float, *, usable: Value, most: float, floor: Value, stays: float
) -> float:
    """Probability that a training fits: its segments, and the framework while it loads.

    Args:
        reserved: Bytes of the segments, as predicted.
        reach: Half of the 90 % interval of `reserved`, as a logarithm.
        usable: Bytes beyond the idle system's that a training can take; its whole range counts.
        most: Bytes that it can have at all.
        floor: Bytes of a training without tensors, likewise.
        stays: Bytes of `usable` that segments never get.
    """
    at, scale = log(max(reserved, 1.0)), _scale(reach)
    chances = (
        chance * (1 + erf((room - at) * scale))  # as `fit_probability`
        for room, chance in _rooms(usable, most, floor, stays)
    )
    return 0.5 * sum(chances) / POINTS


@cache
def _rooms(
    usable: Value, most: float, floor: Value, stays: float
) -> tuple[tuple[float, float], ...]:
    """Points of the range of what segments can have, as logarithms, and the probability that the floor fits there."""
    rooms = (min(most, quantile(usable, (i + 0.5) / POINTS)) for i in range(POINTS))
    return tuple((log(room - stays), chance_below(floor, room)) for room in rooms if room > stays)


def _scale(reach: float) -> float:
    return NORMAL_90 / reach / sqrt(2)
