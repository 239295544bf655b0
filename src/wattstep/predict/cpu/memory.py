"""Memory of a training's process on a CPU: its tensors, kernels' workspaces and small blocks, in an allocator that is replayed.

What lies between tensors decides how much of the heap can be used again: after a tensor is freed, its
room is free in one piece only if no block that lives longer came to lie beside it. Nodes of the
gradient's graph and what oneDNN keeps of each kernel are such blocks; those of a few dozen bytes fit
just into what aligning a tensor leaves before it. Which blocks there are was read off recorded
allocations of trainings (torch 2.13, x86-64).
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from wattstep.predict.cpu.arena import KEPT_EACH, MOST_THRESHOLD, SMALL, Arena, Chunk, chunk_size
from wattstep.predict.cpu.kernels import GIVING, KERNEL, LAYOUT, MADE, OPENING, TAKING, Blocks
from wattstep.predict.work import FLOAT
from wattstep.schema.arrays import FloatArray
from wattstep.schema.step_graph import Convolution, StepGraph

# Of the arena, as it has become once torch is loaded and data are prepared.
THRESHOLD: Final = 1_000_000
STEPS: Final = (
    3  # the first makes the optimizer's state and what kernels keep; later ones find it there
)
CHANNELS: Final = 16  # of which oneDNN's layouts hold a multiple
FEW: Final = 4  # input channels up to which an image stays as it is
LARGE_KERNEL: Final = 3  # sides beyond take oneDNN for any size
LARGE_IMAGE: Final = 20_480  # values of a single sample from which on oneDNN is taken
LARGE_BATCH: Final = 16  # from which on 1×1 convolutions take oneDNN even with one thread

LSTM: Final = "aten::mkldnn_rnn_layer"
LSTM_TOUCHED: Final = 0.51  # measured: 74.3 of 145 MB (docs/memory.md)


def _chunks(*requests: int) -> tuple[int, ...]:
    return tuple(map(chunk_size, requests))


# Small ones of each size, which were freed before the training.
BEFORE: Final = _chunks(*(size for size in range(24, SMALL, 16) for _ in range(KEPT_EACH)))
# Chunks of the blocks of a tensor: its storage's before the values, its own behind them.
STORAGE: Final = _chunks(96)
TENSOR: Final = _chunks(176, 24)
# Those of a node of the gradient's graph, by kind of operation.
NODES: Final = {
    "convolution": _chunks(768, 64, 8, 16, 16, 16, 16),
    "normalization": _chunks(960, 64, 8),
    "matrix product": _chunks(736, 32, 16, 16, 16, 16),
}
NODE: Final = _chunks(544, 32)
VIEWS: Final = (_chunks(488, 16, 24), _chunks(488, 16, 32))  # in turn
# Of the node that adds up a parameter's gradient, which lives until the next step.
PARAMETER: Final = _chunks(472)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Memory of a training's steps beyond what was there before the first, in B.

    Attributes:
        allocated: Most of tensors and workspaces at once.
        first: Most that was resident during the first step.
        steady: Likewise, of later steps.
        stays: Resident after the last.
        fresh: Bytes of pages that the system gives in a later step.
    """

    allocated: float
    first: float
    steady: float
    stays: float
    fresh: float


def takes_onednn(one: Convolution, threads: int = 1) -> bool:
    """True if torch gives a convolution in fp32 to oneDNN, whose layouts are not torch's."""
    if one.transposed:
        return True
    sample = one.inputs * prod(one.input_size)
    large = one.groups > 1 or one.images > 1 or one.images * sample > LARGE_IMAGE
    if len(one.kernel) == 2:
        large = large or min(one.kernel) > LARGE_KERNEL
        plain = prod(one.kernel) == 1 and max(one.stride) == 1 and not one.dilation
        return large and (one.images >= LARGE_BATCH or not plain or threads > 1)
    return large


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """Bytes of a convolution's tensors in oneDNN's layouts; 0: it takes torch's.

    Attributes:
        taken: Input.
        weights: Weights.
        given: Output.
        gradient: Gradient of the input.
    """

    taken: int
    weights: int
    given: int
    gradient: int


def layouts_of(one: Convolution) -> Layouts:
    """Layouts in which channels fill multiples of 16."""
    pixels_in, pixels_out = one.images * prod(one.input_size), one.images * prod(one.output_size)
    gradient = int(pixels_in * _filled(one.inputs) * FLOAT)
    plain = one.inputs <= FEW and not one.transposed
    inputs = one.inputs if plain else _filled(one.inputs)
    depthwise = one.groups > 1 and one.groups == one.inputs
    weights = inputs * _filled(one.outputs) * prod(one.kernel) * FLOAT // one.groups
    return Layouts(
        taken=0 if plain else gradient,
        weights=0 if depthwise else weights,
        given=int(pixels_out * _filled(one.outputs) * FLOAT),
        gradient=gradient,
    )


def filling(one: Convolution) -> float:
    """Multiply-adds of a convolution in oneDNN's layouts, over those of its channels alone."""
    if one.groups > 1:
        return 1.0
    plain = one.inputs <= FEW and not one.transposed
    inputs = one.inputs if plain else _filled(one.inputs)
    return inputs * _filled(one.outputs) / (one.inputs * one.outputs)


def _filled(channels: int) -> int:
    return -(-channels // CHANNELS) * CHANNELS


def replay(graph: StepGraph, *, threshold: int, threads: int = 1) -> Growth:
    """Memory that steps of a training add to its process.

    Args:
        graph: Of the step.
        threshold: As `Arena` takes it: what it has become while the training was prepared.
        threads: Of the operations.
    """
    collects = gc.isenabled()
    gc.disable()  # chunks are made by the thousand, and nearly all are there to the end
    try:
        replayed = _Replay(graph, threshold, threads)
        peaks = [replayed.step(first=number == 0) for number in range(STEPS)]
    finally:
        if collects:
            gc.enable()
    return Growth(
        allocated=float(replayed.most),
        first=float(peaks[0]),
        steady=float(peaks[-1]),
        stays=float(replayed.arena.resident),
        fresh=float(replayed.arena.fresh),
    )


def least_growth(graph: StepGraph) -> Growth:
    """What no replay of `graph` is below: its tensors, with the optimizer's state, at once."""
    tensors = replace(graph, sizes=_touched(graph)).levels(graph.made > 0).max()
    least = float(tensors) + sum(_state_sizes(graph))
    return Growth(allocated=least, first=0.0, steady=least, stays=0.0, fresh=0.0)


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    """A kernel of oneDNN in layouts of its own: inputs are copied into them, the result out of them.

    Attributes:
        inputs: Each with what tells its copy from others, and bytes.
        key: What tells it from other kernels.
        size: Bytes of its result; 0: in torch's layout.
        outputs: The tensor that it is for.
        out: As `key`, of the copy of the result.
    """

    inputs: tuple[tuple[Hashable, int], ...]
    key: Hashable
    size: int
    outputs: list[int]
    out: Hashable


class _Replay:
    """A graph's steps on an arena."""

    def __init__(self, graph: StepGraph, threshold: int, threads: int) -> None:
        self.graph, self.threads = graph, threads
        self.arena = Arena(threshold)
        self.arena.release_all(self.arena.allocate_chunks(BEFORE))
        self.most = 0
        self._bytes = 0  # of tensors and workspaces
        self._live: dict[int, list[Chunk]] = {}
        self._seen: set[Hashable] = set()
        self._parameters: dict[int, Chunk] = {}
        self._nodes: list[Chunk] = []
        self._sizes = [int(size) for size in _touched(graph)]
        # Before the first feature map that is kept nothing is differentiated, as in a frozen part.
        feature_maps = [
            made
            for made, category in zip(graph.made.tolist(), graph.categories, strict=True)
            if made > 0 and category == "feature_maps"
        ]
        self._recorded = min(feature_maps, default=graph.count + 1)
        self._made: dict[int, list[int]] = defaultdict(list)
        self._freed: dict[int, list[int]] = defaultdict(list)
        sizes = graph.sizes.tolist()
        for place, (made, freed) in enumerate(
            zip(graph.made.tolist(), graph.freed.tolist(), strict=True)
        ):
            if made > 0 and sizes[place] > 0:
                self._made[made].append(place)
                self._freed[freed].append(place)
        self._optimizer = next(
            (i for i, phase in enumerate(graph.phases) if phase == "optimizer"), None
        )
        self._written = (graph.written_bytes > 0).tolist()
        self._kernels = {place: self._planned(place) for place in graph.convolutions}

    def step(self, *, first: bool) -> int:
        """One step; returns the most that was resident."""
        graph, arena, phases = self.graph, self.arena, self.graph.phases
        arena.peak, arena.fresh = arena.resident, 0
        # Nodes of the batch before, which live until the next loss is there.
        earlier: list[Chunk] = []
        phase = ""
        for place in range(graph.count):
            number = place + 1
            if number in self._freed:
                self._free(self._freed[number])
            if graph.accumulate > 1 and phases[place] != phase:
                phase = phases[place]
                if phase == "forward":
                    earlier, self._nodes = self._nodes, []
                elif phase == "backward":
                    arena.release_all(earlier)
                    earlier = []
            if first and place == self._optimizer:
                self._make_state()
            if number >= self._recorded and phases[place] == "forward":
                self._make_node(place)
            if place in self._kernels:
                for kernel in self._kernels[place]:
                    self._run(kernel)
            elif number in self._made:
                self._make(self._made[number])
        self._free(list(self._live))
        arena.release_all(self._nodes)
        self._nodes = []
        return arena.peak

    # --- what an operation makes --------------------------------------------------------------

    def _planned(self, place: int) -> list[_Kernel | list[int] | int]:
        """What a convolution makes, in this order: kernels of oneDNN, tensors, a workspace that is given back."""
        graph, one = self.graph, self.graph.convolutions[place]
        outputs = self._made.get(place + 1, [])
        forward = graph.phases[place] == "forward"
        if not takes_onednn(one, self.threads):
            if forward and prod(one.kernel) == 1:
                return [outputs]
            # Pixels of one image, a column each.
            return [outputs, int(one.inputs * prod(one.kernel) * prod(one.output_size) * FLOAT)]
        return self._forward(one, outputs) if forward else self._backward(one, outputs)

    def _forward(self, one: Convolution, outputs: list[int]) -> list[_Kernel | list[int] | int]:
        sizes, shape = layouts_of(one), _shape(one)
        kernel = _Kernel(
            inputs=((_layout(one, given=False), sizes.taken), (("weights", shape), sizes.weights)),
            key=("forward", shape), size=sizes.given, outputs=outputs[:1], out=("out", *_layout(one, given=True)),
        )  # fmt: skip
        return [kernel, outputs[1:]]

    def _backward(self, one: Convolution, outputs: list[int]) -> list[_Kernel | list[int] | int]:
        """Gradients of the input, where wanted, then of the weights."""
        planned: list[_Kernel | list[int] | int] = []
        sizes, shape = layouts_of(one), _shape(one)
        given = (_layout(one, given=True), sizes.given)
        image = one.images * one.inputs * prod(one.input_size) * FLOAT
        data = next((k for k in outputs if abs(self.graph.sizes[k] - image) < 1), None)
        if data is not None:
            planned.append(_Kernel(
                inputs=(given, (("weights back", shape), sizes.weights)),
                key=("data", shape), size=sizes.gradient, outputs=[data], out=("out", *_layout(one, given=False)),
            ))  # fmt: skip
        weights = sorted(
            (k for k in outputs if k != data), key=lambda k: -float(self.graph.sizes[k])
        )
        if weights:  # else they are frozen
            planned.append(_Kernel(
                inputs=(given, (_layout(one, given=False), sizes.taken)),
                key=("weights", shape), size=sizes.weights, outputs=weights[:1], out=("weights out", shape),
            ))  # fmt: skip
            planned.append(weights[1:])
        return planned

    def _run(self, planned: _Kernel | list[int] | int) -> None:
        if isinstance(planned, int):
            self._give_back(planned, self._workspace(planned))
        elif isinstance(planned, list):
            self._make(planned)
        else:
            self._run_kernel(planned)

    def _run_kernel(self, kernel: _Kernel) -> None:
        call: list[Chunk] = []
        if self._is_new(kernel.key):
            call = self._allocate(OPENING)
            self._allocate(KERNEL)
            call += self._allocate(MADE)
        copies = []
        for key, size in kernel.inputs:
            if size:
                copies.append((size, self._workspace(size)))
                self._lay(key, TAKING)
        result = self._workspace(kernel.size) if kernel.size else None
        for size, copy in reversed(copies):
            self._give_back(size, copy)
        self.arena.release_all(call)
        self._make(kernel.outputs)
        if result is not None:
            self._lay(kernel.out, GIVING)
            self._give_back(kernel.size, result)

    def _lay(self, key: Hashable, call: Blocks) -> None:
        """A change of layout: nothing but its tensors is seen of one that was there before."""
        if self._is_new(key):
            passing = self._allocate(call)
            self._allocate(LAYOUT)
            self.arena.release_all(passing)

    def _is_new(self, key: Hashable) -> bool:
        known = key in self._seen
        self._seen.add(key)
        return not known

    def _allocate(self, blocks: Blocks) -> list[Chunk]:
        arena, made = self.arena, []
        for aligned, others in blocks:
            if aligned:
                made.append(arena.allocate_aligned(aligned))
            if others:
                made += arena.allocate_chunks(others)
        return made

    def _make_node(self, place: int) -> None:
        arena, kind = self.arena, self.graph.kinds[place]
        chunks = NODES.get(kind, NODE) if self._written[place] else VIEWS[place % 2]
        if kind in NODES and self._written[place]:
            old = self._parameters.pop(place, None)
            [self._parameters[place]] = arena.allocate_chunks(PARAMETER)
            if old is not None:
                arena.release(old)
        self._nodes += arena.allocate_chunks(chunks)

    def _make(self, storages: list[int]) -> None:
        arena = self.arena
        for place in storages:
            size = self._sizes[place]
            storage, values = arena.allocate_chunks(STORAGE), arena.allocate_aligned(size)
            self._live[place] = [*arena.allocate_chunks(TENSOR), values, *storage]
            self._count(size)

    def _free(self, storages: list[int]) -> None:
        for place in storages:
            blocks = self._live.pop(place, None)
            if blocks is not None:
                self._bytes -= self._sizes[place]
                self.arena.release_all(blocks)

    def _workspace(self, size: int) -> Chunk:
        self._count(size)
        return self.arena.allocate_aligned(size)

    def _give_back(self, size: int, workspace: Chunk) -> None:
        self._bytes -= size
        self.arena.release(workspace)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.most:
            self.most = self._bytes

    def _make_state(self) -> None:
        for size in _state_sizes(self.graph):
            self.arena.allocate_aligned(size)
            self._count(size)


def _state_sizes(graph: StepGraph) -> list[int]:
    """Bytes of the optimizer's state: of each gradient as many copies as there are in all."""
    storages = list(zip(graph.sizes.tolist(), graph.categories, graph.made.tolist(), strict=True))
    sizes = [size for size, category, made in storages if category == "gradients" and made > 0]
    state = sum(
        size for size, category, made in storages if category == "optimizer_state" and made == 0
    )
    whole = sum(sizes)
    return [int(size) for size in sizes] * (round(state / whole) if whole else 0)


def _touched(graph: StepGraph) -> FloatArray:
    """Bytes of each storage that become resident.

    Of what oneDNN keeps of an LSTM's layer half is never written to, and stays out where it gets pages of its own.
    """
    sizes: FloatArray = graph.sizes.copy()
    layers = [i + 1 for i, name in enumerate(graph.names) if name == LSTM]
    for number in layers:
        made = np.flatnonzero(graph.made == number)
        if len(made) and sizes[made].max() > MOST_THRESHOLD:
            sizes[made[sizes[made].argmax()]] *= LSTM_TOUCHED
    return sizes


def _shape(one: Convolution) -> tuple[Hashable, ...]:
    return (one.images, one.inputs, one.outputs, one.kernel, one.stride, one.groups, one.input_size)


def _layout(one: Convolution, *, given: bool) -> tuple[Hashable, ...]:
    if given:
        return (one.images, one.outputs, one.output_size)
    return (one.images, one.inputs, one.input_size)


def lasting(graph: StepGraph) -> Iterator[tuple[str, float]]:
    """Bytes by category of what is there before the first step."""
    for place in np.flatnonzero(graph.made == 0).tolist():
        category = graph.categories[place]
        if category in ("parameters", "buffers", "held_tensors"):
            yield category, float(graph.sizes[place])
