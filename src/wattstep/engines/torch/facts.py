"""Facts of a workload that are counted from the model itself: parameters, layers, operations."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from wattstep.engines.torch.flops import flops_of
from wattstep.engines.torch.trainer import count_model
from wattstep.schema.engine import ModelCounts, PublishedCounts
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch.workload import TorchWorkload


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts floating-point operations of what runs while it is active, from the shapes.

    Attributes:
        total: Multiply-adds counted as two; products of matrices and convolutions only.
        by_operation: Count by operation, e.g. "convolution".
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_operation: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_operation.values())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        count = flops_of(f"aten::{name}", [_shape(a) for a in args], [_value(a) for a in args])
        if count:
            self.by_operation[name] += count
        return out


def _shape(argument: Any) -> Any:
    return tuple(argument.shape) if isinstance(argument, torch.Tensor) else None


def _value(argument: Any) -> Any:
    return None if isinstance(argument, torch.Tensor) else argument


def describe(workload: TorchWorkload, preparation: Preparation) -> ModelCounts:
    """Facts that `wattstep suite` shows beside a workload's own.

    Returns:
        `parameters`, `trainable_parameters`, `layers` (those that hold parameters) as it trains;
        `published` (`classes`, `image_size`, `parameters` of the published configuration);
        `forward_flops_per_sample`: what the forward passes of one training step compute, over its
        samples, counted from the operations as they ran.

    Raises:
        WattstepError: The workload cannot be built.
    """
    published = count_published(workload)
    training = workload.prepare(preparation)
    counter = FlopCounter()
    for update in training.updates:
        batch = update.next_batch(lambda name: nullcontext())
        with counter, torch.no_grad():
            update.loss(batch)
    return {
        **count_model(training.model),
        "published": published,
        "forward_flops_per_sample": counter.total // preparation.batch_size,
    }


def count_published(workload: TorchWorkload) -> PublishedCounts:
    """Parameters of the published configuration, from our own code; no memory is taken for them."""
    published = workload.facts.published
    with torch.device("meta"):
        model = workload.build(classes=published.classes, image_size=published.image_size)
    return {
        "classes": published.classes,
        "image_size": published.image_size,
        "parameters": count_model(model)["parameters"],
    }
