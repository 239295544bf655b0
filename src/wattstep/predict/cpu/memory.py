"""Memory of a training's process on a CPU: its tensors, kernels' workspaces and small blocks, in an allocator that is replayed.

What lies between tensors decides how much of the heap can be used again: after a tensor is freed, its
room is free in one piece only if no block that lives longer came to lie beside it. Nodes of the
gradient's graph and what oneDNN keeps of each kernel are such blocks; those of a few dozen bytes fit
just into what aligning a tensor leaves before it. Which blocks there are was read off recorded
allocations of trainings (torch 2.13, x86-64).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from math import prod
from typing import Final

import numpy as np

from wattstep.predict.cpu.arena import KEPT_EACH, MOST_THRESHOLD, SMALL, Arena
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

# Bytes of the blocks of a tensor: its storage's before the values, its own behind them.
STORAGE: Final = 96
TENSOR: Final = (176, 24)
# Bytes of the blocks of a node of the gradient's graph, by kind of operation.
NODES: Final = {
    "convolution": (768, 64, 8, 16, 16, 16, 16),
    "normalization": (960, 64, 8),
    "matrix product": (736, 32, 16, 16, 16, 16),
}
NODE: Final = (544, 32)
VIEWS: Final = ((488, 16, 24), (488, 16, 32))  # in turn
PARAMETER: Final = (
    472  # of the node that adds up a parameter's gradient, which lives until the next step
)
# Bytes of what oneDNN keeps of a kernel or a change of layout that it sees for the first time, in the
# order of recorded ones, and how many of them find no smaller hole and come to lie between tensors.
KEPT: Final = (
    104,
    24,
    72,
    104,
    48,
    256,
    104,
    24,
    88,
    136,
    104,
    48,
    3664,
    24,
    224,
    56,
    104,
    30,
    40,
    72,
    2216,
    96,
    410,
)
KERNEL, LAYOUT, WEIGHTS = 11, 7, 15
# Bytes of the blocks of a call of oneDNN, until it returns: aligned ones and others.
CALL: Final = (
    (824, True),
    (8, False),
    (56, True),
    (32, False),
    (104, False),
    (336, False),
    (824, True),
    (56, True),
)
CALL_OF_KERNEL: Final = (2144, True)


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


def _filled(channels: int) -> int:
    return -(-channels // CHANNELS) * CHANNELS


def replay(graph: StepGraph, *, threshold: int, threads: int = 1) -> Growth:
    """Memory that steps of a training add to its process.

    Args:
        graph: Of the step.
        threshold: As `Arena` takes it: what it has become while the training was prepared.
        threads: Of the operations.
    """
    replayed = _Replay(graph, threshold, threads)
    peaks = [replayed.step(first=number == 0) for number in range(STEPS)]
    return Growth(
        allocated=float(replayed.most),
        first=float(peaks[0]),
        steady=float(peaks[-1]),
        stays=float(replayed.arena.resident),
        fresh=float(replayed.arena.fresh),
    )


class _Replay:
    """A graph's steps on an arena."""

    def __init__(self, graph: StepGraph, threshold: int, threads: int) -> None:
        self.graph, self.threads = graph, threads
        self.arena = Arena(threshold)
        blocks = [
            self.arena.allocate(size) for size in range(24, SMALL, 16) for _ in range(KEPT_EACH)
        ]
        for block in blocks:  # small ones of each size were freed before
            self.arena.release(block)
        self.most = 0
        self._bytes = 0  # of tensors and workspaces
        self._live: dict[int, list[int]] = {}
        self._seen: set[Hashable] = set()
        self._kept = cycle(KEPT)
        self._parameters: dict[int, int] = {}
        self._nodes: list[int] = []
        self._sizes = _touched(graph)
        # Before the first feature map that is kept nothing is differentiated, as in a frozen part.
        feature_maps = [
            made
            for made, category in zip(graph.made.tolist(), graph.categories, strict=True)
            if made > 0 and category == "feature_maps"
        ]
        self._recorded = min(feature_maps, default=graph.count + 1)
        self._made: dict[int, list[int]] = defaultdict(list)
        self._freed: dict[int, list[int]] = defaultdict(list)
        for place, (made, freed) in enumerate(
            zip(graph.made.tolist(), graph.freed.tolist(), strict=True)
        ):
            if made > 0 and graph.sizes[place] > 0:
                self._made[made].append(place)
                self._freed[freed].append(place)

    def step(self, *, first: bool) -> int:
        """One step; returns the most that was resident."""
        graph, arena = self.graph, self.arena
        arena.peak, arena.fresh = arena.resident, 0
        optimizer = next((i for i, phase in enumerate(graph.phases) if phase == "optimizer"), None)
        earlier: list[
            int
        ] = []  # nodes of the batch before, which live until the next loss is there
        phase = ""
        for number in range(1, graph.count + 1):
            self._free(self._freed.get(number, ()))
            if graph.accumulate > 1 and graph.phases[number - 1] != phase:
                phase = graph.phases[number - 1]
                if phase == "forward":
                    earlier, self._nodes = self._nodes, []
                elif phase == "backward":
                    self._release(earlier)
                    earlier = []
            if first and number - 1 == optimizer:
                self._make_state()
            if graph.phases[number - 1] == "forward" and number >= self._recorded:
                self._make_node(number - 1)
            self._run(number - 1, list(self._made.get(number, ())))
        self._free(list(self._live))
        self._release(self._nodes)
        self._nodes = []
        return arena.peak

    def _release(self, blocks: list[int]) -> None:
        for block in blocks:
            self.arena.release(block)

    # --- what an operation makes --------------------------------------------------------------

    def _run(self, place: int, outputs: list[int]) -> None:
        one = self.graph.convolutions.get(place)
        if one is None:
            self._make(outputs)
        elif not takes_onednn(one, self.threads):
            self._make(outputs)
            forward = self.graph.phases[place] == "forward"
            if not forward or prod(one.kernel) > 1:  # pixels of one image, a column each
                columns = one.inputs * prod(one.kernel) * prod(one.output_size) * FLOAT
                self._give_back([self._workspace(int(columns))])
        elif self.graph.phases[place] == "forward":
            self._forward(one, outputs)
        else:
            self._backward(one, outputs)

    def _forward(self, one: Convolution, outputs: list[int]) -> None:
        sizes, shape = layouts_of(one), _shape(one)
        self._kernel(
            [(_layout(one, given=False), LAYOUT, sizes.taken), (("weights", shape), WEIGHTS, sizes.weights)],
            ("forward", shape), sizes.given, outputs[:1], ("out", *_layout(one, given=True)),
        )  # fmt: skip
        self._make(outputs[1:])

    def _backward(self, one: Convolution, outputs: list[int]) -> None:
        """Gradients of the input, where wanted, then of the weights."""
        sizes, shape = layouts_of(one), _shape(one)
        given = (_layout(one, given=True), LAYOUT, sizes.given)
        image = one.images * one.inputs * prod(one.input_size) * FLOAT
        data = next((k for k in outputs if abs(self.graph.sizes[k] - image) < 1), None)
        rest = [k for k in outputs if k != data]
        if data is not None:
            self._kernel(
                [given, (("weights back", shape), WEIGHTS, sizes.weights)],
                ("data", shape), sizes.gradient, [data], ("out", *_layout(one, given=False)),
            )  # fmt: skip
        weights = sorted(rest, key=lambda k: -self.graph.sizes[k])
        if not weights:  # they are frozen
            return
        self._kernel(
            [given, (_layout(one, given=False), LAYOUT, sizes.taken)],
            ("weights", shape), sizes.weights, weights[:1], ("weights out", shape),
        )  # fmt: skip
        self._make(weights[1:])

    def _kernel(
        self,
        inputs: list[tuple[Hashable, int, int]],
        kernel: Hashable,
        size: int,
        outputs: list[int],
        out: Hashable,
    ) -> None:
        """A kernel in layouts of its own: inputs are copied into them, the result out of them.

        Args:
            inputs: Each with what tells its copy from others, blocks that are kept of that, and bytes.
            kernel: What tells it from others.
            size: Bytes of its result; 0: in torch's layout.
            outputs: The tensor that it is for.
            out: As of `inputs`, of the copy of the result.
        """
        copies, call = [], []
        for key, count, bytes_ in inputs:
            if bytes_:
                call += self._call(CALL)
                self._keep(key, count)
                copies.append(self._workspace(bytes_))
        call += self._call((*CALL, CALL_OF_KERNEL))
        self._keep(kernel, KERNEL)
        result = [self._workspace(size)] if size else []
        self._give_back(copies[::-1])
        self._keep(out, LAYOUT)
        self._make(outputs)
        self._give_back(result)
        for block in call:
            self.arena.release(block)

    def _call(self, sizes: tuple[tuple[int, bool], ...]) -> list[int]:
        arena = self.arena
        return [
            arena.allocate_aligned(size) if aligned else arena.allocate(size)
            for size, aligned in sizes
        ]

    def _keep(self, key: Hashable, count: int) -> None:
        """What oneDNN keeps when it sees something for the first time."""
        if key not in self._seen:
            self._seen.add(key)
            for size in islice(self._kept, count):
                self.arena.allocate(size)

    def _make_node(self, place: int) -> None:
        graph = self.graph
        kind = graph.kinds[place]
        sizes = NODES.get(kind, NODE) if graph.written_bytes[place] > 0 else VIEWS[place % 2]
        if kind in NODES and graph.written_bytes[place] > 0:
            old = self._parameters.pop(place, None)
            self._parameters[place] = self.arena.allocate(PARAMETER)
            if old is not None:
                self.arena.release(old)
        self._nodes += [self.arena.allocate(size) for size in sizes]

    def _make(self, storages: list[int]) -> None:
        for place in storages:
            size = int(self._sizes[place])
            storage, values = self.arena.allocate(STORAGE), self.arena.allocate_aligned(size)
            self._live[place] = [*(self.arena.allocate(each) for each in TENSOR), values, storage]
            self._count(size)

    def _free(self, storages: list[int] | tuple[()]) -> None:
        for place in storages:
            blocks = self._live.pop(place, None)
            if blocks is not None:
                self._bytes -= int(self._sizes[place])
                for block in blocks:
                    self.arena.release(block)

    def _workspace(self, size: int) -> tuple[int, int]:
        self._count(size)
        return self.arena.allocate_aligned(size), size

    def _give_back(self, workspaces: list[tuple[int, int]]) -> None:
        for block, size in workspaces:
            self._bytes -= size
            self.arena.release(block)

    def _count(self, size: int) -> None:
        self._bytes += size
        self.most = max(self.most, self._bytes)

    def _make_state(self) -> None:
        """The optimizer's state, which stays: of each gradient as many copies as there are in all."""
        graph = self.graph
        sizes = [
            graph.sizes[k]
            for k in range(len(graph.sizes))
            if graph.categories[k] == "gradients" and graph.made[k] > 0
        ]
        state = sum(
            size for size, category, made in zip(graph.sizes, graph.categories, graph.made, strict=True)
            if category == "optimizer_state" and made == 0
        )  # fmt: skip
        whole = sum(sizes)
        for _ in range(round(state / whole) if whole else 0):
            for size in sizes:
                self.arena.allocate_aligned(int(size))
                self._count(int(size))


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
    for category, size, made in zip(graph.categories, graph.sizes, graph.made, strict=True):
        if made == 0 and category in ("parameters", "buffers", "held_tensors"):
            yield category, float(size)
