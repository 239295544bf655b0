"""Losses of labelled samples: their mean is the loss of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wattstep.engines.exported.aten import Node
from wattstep.engines.opencl.lowering import Handler, Lowering, Refusal
from wattstep.engines.opencl.plan import Launch, Tensor, Written

MEAN: Final = 1  # torch's number of the reduction
IGNORED: Final = -100


def cross_entropy(lowering: Lowering, node: Node) -> None:
    """Of scores (samples, classes) and the classes that are right."""
    given = node["args"]
    weight, reduction, _, smoothing = [*given[2:], *_USUAL[len(given) - 2 :]]
    if weight is not None or reduction != MEAN or smoothing:
        raise Refusal(node, "with weights or smoothing, or without a mean")
    scores = lowering.given(node, 0)
    if len(scores.shape) != 2:
        raise Refusal(node, f"of scores {scores.shape}, only of (samples, classes)")
    # What is to be ignored is never there: the trainer takes no target that is none of the classes.
    lowering.classes = scores.shape[1]
    _loss(lowering, node, "cross_entropy", *scores.shape)


_USUAL: Final[Sequence[Any]] = (None, MEAN, IGNORED, 0.0)


def squared_error(lowering: Lowering, node: Node) -> None:
    """Mean of squared differences."""
    if [*node["args"], MEAN][2] != MEAN:
        raise Refusal(node, "without a mean")
    values = lowering.given(node, 0)
    _loss(lowering, node, "squared_error", values.shape[0], math.prod(values.shape[1:]))


def _loss(lowering: Lowering, node: Node, kernel: str, rows: int, width: int) -> None:
    values, targets = lowering.given(node, 0), lowering.given(node, 1)
    if node["name"] != lowering.graph.loss:
        raise Refusal(node, "something is done with the loss")
    if lowering.needs(targets):
        raise Refusal(node, "targets that train")
    lowering.made(node, (), values)
    losses = Tensor(name="losses", count=rows, category="feature_maps")
    flops = 4 * rows * width
    once = lowering.fused and lowering.sole(values)

    def launch(*, losses_too: bool, gradient: bool) -> Launch:
        target = lowering.target(values) if gradient else None
        return Launch(
            file="loss", kernel=kernel, kind="loss", size=(rows,), flops=flops,
            arguments=(
                rows, width, values.tensor, targets.tensor,
                *((Written(tensor=losses),) if losses_too else ()),
                *((target.written, *target.further) if target is not None else ()),
            ),
            defines={
                "LOSSES": int(losses_too), "GRADIENT": int(gradient),
                **(target.defines if target is not None else {}),
            },
        )  # fmt: skip

    if once:  # the host takes the mean of what it reads
        lowering.forward(node, launch(losses_too=True, gradient=True))
        lowering.losses = losses
        return
    mean = Tensor(name="loss", count=1, category="feature_maps")
    lowering.forward(
        node,
        launch(losses_too=True, gradient=False),
        Launch(
            file="loss", kernel="mean", kind="loss", size=(1,), flops=rows,
            arguments=(rows, losses, Written(tensor=mean)),
        ),
    )  # fmt: skip
    lowering.losses = mean
    lowering.backward.append(lambda: lowering.back(node, launch(losses_too=False, gradient=True)))


HANDLERS: Final[Mapping[str, Handler]] = {
    "cross_entropy_loss": cross_entropy,
    "mse_loss": squared_error,
}
