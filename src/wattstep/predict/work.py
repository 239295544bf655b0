"""Work of a step as a GPU gets it: kernels with their FLOPs, traffic and shape, from a captured graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.step_graph import Convolution, Recurrent, StepGraph

FLOAT: Final = 4  # bytes
# Names that start nothing on a device: looks at tensors, and memory that nobody fills.
LOOKS: Final = frozenset(
    "aten::" + name
    for name in (
        "detach", "view", "_unsafe_view", "t", "transpose", "permute", "expand", "slice", "select",
        "as_strided", "unsqueeze", "squeeze", "split", "chunk", "alias", "empty", "empty_like", "new_empty",
        "lift_fresh",
    )
)  # fmt: skip
FORWARD: Final = 0
DATA: Final = 1  # gradients of inputs
WEIGHTS: Final = 2  # gradients of weights
PASSES: Final = ("forward", "data", "weights")
STARTING: Final = ("forward", "backward", "optimizer")  # phases in which the host starts kernels

# Kinds of kernels, each with efficiencies of its own.
DENSE, POINTWISE, STRIDED, DEPTHWISE = (
    "dense convolution",
    "pointwise convolution",
    "strided convolution",
    "depthwise convolution",
)
CONVOLUTIONS: Final = (DENSE, POINTWISE, STRIDED, DEPTHWISE)
BIAS, NORM, NORM_BACKWARD, POOLING = (
    "bias gradient",
    "normalization",
    "normalization backward",
    "pooling",
)
PRODUCT, OPTIMIZER, OTHER = "matrix product", "optimizer", "elementwise"
KERNELS: Final = (
    DENSE, POINTWISE, STRIDED, DEPTHWISE, BIAS, NORM, NORM_BACKWARD, POOLING, PRODUCT, OPTIMIZER, OTHER,
)  # fmt: skip
CODES: Final = {name: code for code, name in enumerate(KERNELS)}
FEW: Final = 4  # input channels up to which a convolution is one of images
STEP_KERNELS: Final = 2  # of a time step of a recurrent layer: its product, its gates
ALIGNED: Final = 8  # channels in multiples of which a convolution has its fast kernels


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """Kernels of one step in the order in which they start; arrays are of shape (n,).

    Attributes:
        operations: Place of the operation in the graph that each belongs to.
        counts: Kernels that the row stands for.
        phases: Index into `STARTING`.
        kinds: Index into `KERNELS`.
        passes: Of convolutions: index into `PASSES`; 0 for the rest.
        flops: Floating-point operations.
        traffic: Bytes of tensors that each reads and writes, weights left out for convolutions.
        weights: Bytes of the weights of convolutions.
        rows: Channels of the result of the product of matrices that a convolution is.
        columns: Its other side: pixels.
        depth: What is summed over: input channels times the kernel's size.
        unaligned: Whether channels of a convolution are no multiple of `ALIGNED`.
        sides: Of a convolution's kernel, its longest.
        starts: Kernels that the host starts, by phase of `STARTING`.
    """

    operations: IntArray
    counts: FloatArray
    phases: IntArray
    kinds: IntArray
    passes: IntArray
    flops: FloatArray
    traffic: FloatArray
    weights: FloatArray
    rows: FloatArray
    columns: FloatArray
    depth: FloatArray
    unaligned: FloatArray
    sides: FloatArray
    starts: dict[str, int]


def convolution_kind(one: Convolution) -> str:
    """Which of the kinds of kernels a convolution takes."""
    if one.groups > 1 and one.groups == one.inputs:
        return DEPTHWISE
    if prod(one.kernel) == 1:
        return POINTWISE
    return STRIDED if max(one.stride) > 1 or one.inputs <= FEW else DENSE


def is_aligned(one: Convolution) -> bool:
    """True if both its channels are multiples of `ALIGNED`."""
    return one.inputs % ALIGNED == 0 and one.outputs % ALIGNED == 0


def needless(graph: StepGraph) -> set[int]:
    """Operations that today's torch makes and torch 1.6 did not: copies of what an activation in place overwrites."""
    real = [i for i, name in enumerate(graph.names) if name not in LOOKS]
    return {
        i
        for i, j in pairwise(real)
        if graph.names[i] == "aten::clone" and graph.names[j] == "aten::hardtanh_"
    }


def gradient_bytes(graph: StepGraph) -> float:
    """Bytes of the gradients that a backward pass makes and an optimizer takes."""
    mine = np.array([category == "gradients" for category in graph.categories]) & (graph.made > 0)
    return float(graph.sizes[mine].sum())


def work_of(graph: StepGraph, *, element: int = FLOAT, gradients_stay: bool = True) -> Work:
    """Kernels of a step, as torch starts them.

    Args:
        graph: Of the step.
        element: Bytes of an element of what convolutions take and give.
        gradients_stay: Whether they stay from step to step, are set to zero and added to, and
            parameters are updated one by one, as in torch 1.6, which also copies less.
    """
    rows: list[tuple[float, ...]] = []
    starts = dict.fromkeys(STARTING, 0)
    left_out = needless(graph) if gradients_stay else set()
    many: dict[int, float] = {}  # kernels of a row that are more than one
    spans = {each[0]: each for each in recurrent_spans(graph)}
    fused = {i for span in spans.values() for i in span}
    for i, name in enumerate(graph.names):
        phase = graph.phases[i]
        if i in spans:
            own = (j for j in spans[i] if graph.flops[j] > 0 and graph.layers[j] == graph.layers[i])
            place = next(own, i)  # a product, which is what takes the time
            for count, kernel in _recurrent(graph, spans[i]):
                starts[phase] += 1
                many[len(rows)] = count
                rows.append((place, *kernel))
        if name in LOOKS or i in left_out or i in fused or phase not in starts:
            continue
        shapes = graph.convolutions.get(i)
        if shapes is None:
            made = [_other(graph, i)]
        else:
            made = list(_convolution(shapes, phase, graph.flops[i], element))
        starts[phase] += 1 if shapes is None else sum(kernel[0] != CODES[OTHER] for kernel in made)
        rows += [(i, *kernel) for kernel in made]
    # Zeros are written, and each gradient is added to what is there: one write, two reads and a write.
    if gradients_stay:
        added = 4 * gradient_bytes(graph)
        rows.append(
            (graph.count - 1, CODES[OPTIMIZER], 0, 0.0, added, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0)
        )
    table = np.array(rows, float)
    whole = table[:, :3].astype(np.int64)
    phases = np.array([STARTING.index(graph.phases[i]) for i in whole[:, 0].tolist()])
    counts = np.ones(len(table))
    counts[list(many)] = list(many.values())
    if not gradients_stay:  # one update of all parameters at once
        updating = phases == STARTING.index("optimizer")
        names = {graph.names[i] for i in whole[updating, 0].tolist()}
        counts[updating] = len(names) / max(1, updating.sum())
        starts["optimizer"] = len(names)
    return Work(
        operations=whole[:, 0],
        counts=counts,
        phases=phases,
        kinds=whole[:, 1],
        passes=whole[:, 2],
        flops=table[:, 3],
        traffic=table[:, 4],
        weights=table[:, 5],
        rows=table[:, 6],
        columns=table[:, 7],
        depth=table[:, 8],
        unaligned=table[:, 9],
        sides=table[:, 10],
        starts=starts,
    )


def recurrent_spans(graph: StepGraph) -> list[list[int]]:
    """Operations of each pass of each recurrent module, which a GPU runs as one of its library's.

    Backward, what lies between a module's operations is its own, too, where nothing else is named.
    """
    spans = []
    for path in graph.recurrent:
        mine = [i for i, layer in enumerate(graph.layers) if layer == path]
        forward = [i for i in mine if graph.phases[i] == "forward"]
        backward = [i for i in mine if graph.phases[i] == "backward"]
        if backward:
            between = range(backward[0], backward[-1] + 1)
            backward = [i for i in between if graph.layers[i] in (path, "")]
        spans += [span for span in (forward, backward) if graph.flops[span].sum() > 0]
    return spans


def _recurrent(graph: StepGraph, span: list[int]) -> Iterator[tuple[float, tuple[float, ...]]]:
    """Kernels of one pass of a recurrent module: each layer's count, and one that stands for them.

    A time step waits for the one before: a product with the recurrent weights, which are read
    anew, and the gates. Products with the input, and gradients of weights, are of all time steps at once.
    """
    path = graph.layers[span[0]]
    one = graph.recurrent[path]
    shares = _layer_products(one)
    passes = 1 if graph.phases[span[0]] == "forward" else 2
    flops = float(graph.flops[span].sum())
    there = [
        layer == path and phase == "forward"
        for layer, phase in zip(graph.layers, graph.phases, strict=True)
    ]
    seen = float(graph.flops[there].sum()) / (2 * sum(shares))  # time steps of all samples
    times = max(1.0, seen / max(1.0, graph.batch_size))
    for share in shares:
        inputs = share / (one.gates * one.hidden) - one.hidden
        recurrent = one.gates * one.hidden * one.hidden
        values = seen * (inputs + (2 * one.gates + 2) * one.hidden)
        moved = FLOAT * passes * (times * recurrent + share + values)
        kernel = (
            CODES[PRODUCT],
            0,
            flops * share / sum(shares),
            moved,
            0.0,
            1.0,
            1.0,
            1.0,
            0.0,
            0.0,
        )
        yield STEP_KERNELS * times + passes, kernel


def _layer_products(one: Recurrent) -> list[float]:
    """Multiply-adds of a time step of one sample, of each layer in each direction."""
    return [
        float(
            one.gates
            * one.hidden
            * ((one.inputs if layer == 0 else one.hidden * one.directions) + one.hidden)
        )
        for layer in range(one.layers)
        for _ in range(one.directions)
    ]


def _other(graph: StepGraph, i: int) -> tuple[float, ...]:
    moved = float(graph.read_bytes[i] + graph.written_bytes[i])
    kind = _KINDS.get(graph.kinds[i], OTHER)
    if kind == NORM and graph.phases[i] == "backward":
        kind = NORM_BACKWARD
    if graph.phases[i] == "optimizer":
        kind = OPTIMIZER
    return (CODES[kind], 0, float(graph.flops[i]), moved, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0)


_KINDS: Final = {
    "normalization": NORM,
    "pooling": POOLING,
    "matrix product": PRODUCT,
    "attention": PRODUCT,
    "recurrent": PRODUCT,
}


def _convolution(
    one: Convolution, phase: str, flops: float, element: int
) -> Iterator[tuple[float, ...]]:
    """Kernels of a convolution: a pass forward, or gradients of weights and, where wanted, of inputs."""
    kernel = prod(one.kernel)
    taken = one.images * one.inputs * prod(one.input_size) * element
    given = one.images * one.outputs * prod(one.output_size) * element
    once = 2 * given / element * kernel * one.inputs / one.groups
    if one.transposed:
        once = 2 * taken / element * kernel * one.outputs / one.groups
    weights = one.inputs * one.outputs // one.groups * kernel * element
    unaligned = float(not is_aligned(one))
    code = CODES[convolution_kind(one)]
    pixels_in, pixels_out = one.images * prod(one.input_size), one.images * prod(one.output_size)

    def moved(kind: str, size: float) -> tuple[float, ...]:
        return (CODES[kind], 0, 0.0, size, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0)

    def passed(which: int, rows: int, depth: float, columns: float) -> tuple[float, ...]:
        side = float(max(one.kernel))
        return (code, which, once, taken + given, weights, rows, columns, depth, unaligned, side)

    forward_depth = one.inputs * kernel
    if phase == "forward":
        yield passed(FORWARD, one.outputs, forward_depth, pixels_out)
        if one.bias:
            yield moved(OTHER, 2 * given)
        return
    if one.scattered:
        yield moved(OTHER, 2 * given)
    yield passed(WEIGHTS, one.outputs, forward_depth, pixels_out)
    if flops > 1.5 * once:
        yield passed(DATA, one.inputs, one.outputs * kernel, pixels_in)
    if one.bias:
        yield moved(BIAS, given)
