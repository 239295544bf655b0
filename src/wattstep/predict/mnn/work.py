"""Work of a training step in MNN: the tensors that it makes, its arithmetic, and the commands that it is cut into.

MNN of 2021 trains a graph that is built anew for each step. Nothing is done in place, and a
convolution's gradients are products of matrices around tensors that are laid out in full: what each
pixel's window sees, for the weights; the same twice (columns, and columns spread over the input), for
the input. Whatever a step makes is there until its end: measured memory grows with the batch by the
sum of all tensors, not by the most that are needed at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from wattstep.predict.work import FLOAT, LOOKS
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.schema.step_graph import Convolution, StepGraph

# Tensors as large as its result that an operation makes, forward and backward, and commands that it is cut
# into. Of those that are not in the trainings that values were fitted to, the first are estimates:
# normalization is some fifteen elementwise operations of equal size, which find each other's memory.
TENSORS: Final = {"normalization": (2.0, 1.0), "activation": (1.0, 1.0)}
COMMANDS: Final = {
    "normalization": (12, 15), "activation": (1, 3), "pooling": (1, 2), "matrix product": (3, 3), "loss": (6, 6),
}  # fmt: skip
FORWARD_COMMANDS: Final = 2
DEPTHWISE_TENSORS: Final = 3.0  # of its backward pass, as large as its result: an estimate
WEIGHTS_COMMANDS, INPUT_COMMANDS, BIAS_COMMANDS, TAP_COMMANDS = 5, 5, 2, 4
UPDATE_COMMANDS: Final = 9  # decay, momentum, rate: each an operation of its own
SEEN: Final = frozenset(
    (
        "convolution", "activation", "pooling", "matrix product", "data movement", "elementwise", "loss", "optimizer",
        "reduction",
    )
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class MnnWork:
    """What the operations of a step do; arrays are of shape (n,).

    Attributes:
        tensors: Bytes of tensors that each makes; 0 for those of the update.
        flops: Floating-point operations.
        commands: That each is cut into.
        strange: Whether no training that values were fitted to had its like.
        trained: Bytes of parameters that are updated.
        frozen: Bytes of other parameters and of buffers.
        state: Bytes of the optimizer's state.
    """

    tensors: FloatArray
    flops: FloatArray
    commands: FloatArray
    strange: BoolArray
    trained: float
    frozen: float
    state: float


def work_of(graph: StepGraph) -> MnnWork:
    """What the operations of a step do, were it MNN's."""
    count = graph.count
    tensors, commands = np.zeros(count), np.zeros(count)
    strange = np.zeros(count, bool)
    gradients = (graph.made > 0) & (np.array(graph.categories) == "gradients")
    of_gradients = np.zeros(count + 2)
    np.add.at(of_gradients, graph.made[gradients], graph.sizes[gradients])
    for i in range(count):
        phase, kind = graph.phases[i], graph.kinds[i]
        if phase not in ("forward", "backward") or graph.names[i] in LOOKS:
            continue
        backward = phase == "backward"
        one = graph.convolutions.get(i)
        if one is not None:
            tensors[i], commands[i] = _convolution(one, backward=backward, flops=graph.flops[i])
            strange[i] = one.groups > 1 or one.transposed or len(one.kernel) != 2
            continue
        made = max(0.0, float(graph.written_bytes[i] - of_gradients[i + 1]))
        if "with_indices" in graph.names[i] and not backward:
            made /= 3  # MNN keeps no places of maxima, which torch counts in 8 bytes
        tensors[i] = made * TENSORS.get(kind, (1.0, 1.0))[backward]
        commands[i] = COMMANDS.get(kind, (1, 1))[backward] if graph.written_bytes[i] > 0 else 0
        strange[i] = kind not in SEEN
    trained = float(graph.sizes[gradients].sum())
    there = {
        name: sum(
            float(size)
            for category, size, made in zip(graph.categories, graph.sizes, graph.made, strict=True)
            if category == name and made == 0
        )
        for name in ("parameters", "buffers", "optimizer_state")
    }
    updates = [i for i, phase in enumerate(graph.phases) if phase == "optimizer"]
    if updates:
        commands[updates] = UPDATE_COMMANDS * gradients.sum() / len(updates)
    return MnnWork(
        tensors=tensors,
        flops=graph.flops,
        commands=commands,
        strange=strange,
        trained=trained,
        frozen=max(0.0, there["parameters"] - trained) + there["buffers"],
        state=there["optimizer_state"],
    )


def _convolution(one: Convolution, *, backward: bool, flops: float) -> tuple[float, int]:
    """Bytes of the tensors that a convolution or its gradients make, and the commands that it takes."""
    taken = one.images * one.inputs * prod(one.input_size) * FLOAT
    given = one.images * one.outputs * prod(one.output_size) * FLOAT
    if not backward:
        return given, FORWARD_COMMANDS
    taps = prod(one.kernel)
    if one.groups > 1 and one.groups == one.inputs:
        return DEPTHWISE_TENSORS * given, TAP_COMMANDS * taps
    channels, small, large = one.inputs, one.output_size, one.input_size
    if one.transposed:
        channels, small, large = one.outputs, one.input_size, one.output_size
    windows = one.images * channels * taps * prod(small) * FLOAT
    spread = one.images * channels * taps * prod(large) * FLOAT
    made, commands = windows + given + taken, WEIGHTS_COMMANDS
    once = 2 * one.images * prod(small) * one.inputs * one.outputs / one.groups * taps
    if flops > 1.5 * once:  # gradients of the input, too
        made += given + windows + spread + 2 * taken
        commands += INPUT_COMMANDS
    if one.bias:
        made += given
        commands += BIAS_COMMANDS
    if one.scattered:
        made += given
    return made, commands
