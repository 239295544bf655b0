"""Time of a step on a CPU: each operation by its kind's roofline, and what the framework takes between operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from wattstep.predict.cpu.memory import FEW, filling, layouts_of, takes_onednn
from wattstep.predict.data import computed_seconds
from wattstep.predict.work import FLOAT, LOOKS
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.step_graph import Convolution, StepGraph

STARTING: Final = ("forward", "backward", "optimizer")
LOOK: Final = "look"  # at a tensor: nothing is computed
CONVOLUTION, COLUMNS, POINTWISE, IMAGE, DEPTHWISE, TRANSPOSED = (
    "convolution", "column convolution", "pointwise convolution", "image convolution", "depthwise convolution",
    "transposed convolution",
)  # fmt: skip
CONVOLUTIONS: Final = (CONVOLUTION, COLUMNS, POINTWISE, IMAGE, DEPTHWISE, TRANSPOSED)
# Whose kernel has sides beyond `SMALL_KERNEL`: its gradients take three times as long for each FLOP.
WIDE_DEPTHWISE: Final = "wide depthwise convolution"
SMALL_KERNEL: Final = 3
PRODUCT, RECURRENT = "matrix product", "recurrent"
BATCH_NORM: Final = "aten::native_batch_norm"
OTHERS: Final = (
    PRODUCT, "attention", RECURRENT, "normalization", "pooling", "embedding", "loss", "activation",
    "reduction", "data movement", "elementwise", "optimizer", "other",
)  # fmt: skip
FRESH: Final = "second_per_fresh_byte"
FILLED: Final = (
    "filled"  # of "step", where there: as `work_of` takes it; files of before are without
)
BACK: Final = " backward"
BOTH_WAYS: Final = (
    *CONVOLUTIONS,
    "attention",
    RECURRENT,
    "normalization",
    "pooling",
    "loss",
    "activation",
)
KINDS: Final = (
    LOOK, *CONVOLUTIONS, *OTHERS, *(kind + BACK for kind in BOTH_WAYS),
    WIDE_DEPTHWISE, WIDE_DEPTHWISE + BACK,  # behind the others: rows of kept calibrations count kinds
)  # fmt: skip
CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
# Whose values stand for those of a kind that was not measured: the same library's, of like work.
NEAR: Final = {
    WIDE_DEPTHWISE: DEPTHWISE, WIDE_DEPTHWISE + BACK: DEPTHWISE + BACK,
    RECURRENT: CONVOLUTION, RECURRENT + BACK: CONVOLUTION + BACK,
}  # fmt: skip
# Samples that a recurrent layer's products would have to have for reading a weight from a cache, in each time step,
# to take as long as computing with it: a weight of 4 B at half of a load a cycle, two multiply-adds a cycle.
REREAD: Final = 3.0
# Values of a kind, in the order in which `features` has what they are multiplied with.
VALUES: Final = ("launch_s", "second_per_flop", "second_per_cached_byte", "second_per_byte")


@dataclass(frozen=True, kw_only=True, eq=False)
class CpuWork:
    """What a step's operations do; arrays are of shape (n,).

    Attributes:
        kinds: Index into `KINDS`.
        features: 1, FLOPs, bytes where all of an operation's tensors fit into the cache, bytes where they
            do not; shape (n, 4).
        starts: Operations by phase that compute something.
    """

    kinds: IntArray
    features: FloatArray
    starts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class CpuTime:
    """Time of a step in s.

    Attributes:
        total: Of the step.
        operations: Of each, without what the framework takes between them, shape (n,).
        between: What it takes between them.
    """

    total: float
    operations: FloatArray
    between: float

    def with_data(self, seconds: float) -> CpuTime:
        """With so much more of its data phase, in which nothing else runs."""
        return replace(self, total=self.total + seconds)

    def scaled(self, factor: float) -> CpuTime:
        """All of it so many times as long."""
        return CpuTime(
            total=factor * self.total,
            operations=factor * self.operations,
            between=factor * self.between,
        )


def work_of(graph: StepGraph, *, cache: float, threads: int = 1, filled: bool = True) -> CpuWork:
    """What the operations of a step do.

    Args:
        graph: Of the step.
        cache: Bytes of the largest cache.
        threads: Of the operations.
        filled: Whether oneDNN computes with the channels that fill its layouts and copies weights into them, too, and
            torch's own convolutions read their weights anew for each image; values of a device say which they were
            fitted to (`FILLED`).
    """
    kinds = np.array([CODES[kind] for kind in kinds_of(graph, threads)])
    moved, flops = graph.read_bytes + graph.written_bytes, graph.flops.copy()
    for place, one in graph.convolutions.items():
        passes = max(1, round(graph.flops[place] / flops_of_pass(one)))
        if takes_onednn(one, threads):  # copies into its layouts and out of them
            sizes = layouts_of(one)
            copied = sizes.taken + sizes.given + (sizes.weights if filled else 0)
            moved[place] += 2 * passes * copied
            flops[place] *= filling(one) if filled else 1.0
        elif filled:  # one image after the other
            moved[place] += passes * (one.images - 1) * weights_of(one)
    recurrent = np.isin(kinds, [CODES[RECURRENT], CODES[RECURRENT + BACK]])
    flops = np.where(recurrent, (1 + REREAD / graph.batch_size) * flops, flops)
    inside = moved <= cache
    features = np.stack(
        [np.ones(graph.count), flops, np.where(inside, moved, 0), np.where(inside, 0, moved)],
        axis=1,
    )
    computes, phases = kinds != CODES[LOOK], np.array(graph.phases)
    starts = {phase: int(np.count_nonzero(computes & (phases == phase))) for phase in STARTING}
    return CpuWork(kinds=kinds, features=features, starts=starts)


def kinds_of(graph: StepGraph, threads: int = 1) -> list[str]:
    """Kind of each operation, of `KINDS`."""
    looks = ((graph.written_bytes == 0) & (graph.flops == 0)).tolist()
    makes = np.bincount(graph.made[graph.sizes > 0], minlength=graph.count + 1).tolist()
    kinds = []
    operations = zip(graph.names, graph.kinds, graph.phases, strict=True)
    for place, (name, kind, phase) in enumerate(operations):
        one = graph.convolutions.get(place)
        if one is not None:
            kind = convolution_kind(one, threads)
        elif looks[place] or name in LOOKS:
            kind = LOOK
        elif phase == "optimizer":
            kind = "optimizer"
        elif name == BATCH_NORM and makes[place + 1] == 1:
            kind = "elementwise"  # by statistics that it is given, as in a frozen network: it makes none
        elif kind not in OTHERS:
            kind = "other"
        both_ways = kind in BOTH_WAYS or kind == WIDE_DEPTHWISE
        kinds.append(kind + BACK if phase == "backward" and both_ways else kind)
    return kinds


def convolution_kind(one: Convolution, threads: int = 1) -> str:
    """Which of the kernels for convolutions runs."""
    if one.transposed:
        return TRANSPOSED
    if one.groups > 1 and one.groups == one.inputs:
        return DEPTHWISE if max(one.kernel) <= SMALL_KERNEL else WIDE_DEPTHWISE
    if not takes_onednn(one, threads):
        return POINTWISE if prod(one.kernel) == 1 else COLUMNS
    return IMAGE if one.inputs <= FEW else CONVOLUTION


def operation_seconds(work: CpuWork, values: Mapping[str, Mapping[str, float]]) -> FloatArray:
    """Time of each operation in s, shape (n,).

    Args:
        work: Of a step.
        values: By kind, of `VALUES`.
    """
    table = np.array([[values[kind][name] for name in VALUES] for kind in KINDS])
    seconds: FloatArray = (work.features * table[work.kinds]).sum(axis=1)
    return seconds


def weights_of(one: Convolution) -> float:
    """Bytes of a convolution's weights."""
    return FLOAT * one.inputs * one.outputs / one.groups * prod(one.kernel)


def flops_of_pass(one: Convolution) -> float:
    """FLOPs of one pass of a convolution, multiply-adds as two: forward, or one of its gradients."""
    pixels = prod(one.input_size if one.transposed else one.output_size)
    pairs = one.inputs * one.outputs / one.groups
    return 2 * one.images * pixels * pairs * prod(one.kernel)


def step_time(
    work: CpuWork,
    graph: StepGraph,
    values: Mapping[str, Mapping[str, float]],
    *,
    fresh: float,
    left: float = 1.0,
) -> CpuTime:
    """Time of a step.

    Args:
        work: Of its operations.
        graph: Of the step.
        values: By kind, of `VALUES`; "step": "forward_start_s", ... for each operation, `FRESH`, "step_s".
        fresh: Bytes of pages that the system gives within it.
        left: Part of each operation's time beside its start that is left of one thread's.
    """
    starts = np.array([values[kind]["launch_s"] for kind in KINDS])[work.kinds]
    operations = operation_seconds(work, values) + computed_seconds(graph)
    operations = starts + left * (operations - starts)
    data = np.array([phase == "data" for phase in graph.phases])
    if not graph.data_known:  # what random inputs take to be made is not the training's
        operations = np.where(data, 0.0, operations)
    step = values["step"]
    starting = sum(work.starts[phase] * step[f"{phase}_start_s"] for phase in STARTING)
    between = starting + fresh * step[FRESH] + step["step_s"]
    return CpuTime(
        total=float(operations.sum()) + between,
        operations=operations,
        between=between,
    )
