"""Steps made by hand, of a few operations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattstep.schema.step_graph import Convolution, StepFamily, StepGraph

PIXELS, KERNEL = 56, 3
WEIGHTS = 64 * 64 * KERNEL * KERNEL * 4  # bytes


def convolution(images: float, *, inputs: int = 64, outputs: int = 64, side: int = KERNEL, groups: int = 1) -> Convolution:  # fmt: skip
    """Of 56×56 pixels, that keeps the size."""
    return Convolution(
        images=images, inputs=inputs, outputs=outputs, kernel=(side, side), stride=(1, 1), groups=groups,
        input_size=(PIXELS, PIXELS), output_size=(PIXELS, PIXELS),
    )  # fmt: skip


def step(batch: int) -> StepGraph:
    """A convolution of 64 channels, its backward pass and its update: weights, a gradient, momentum."""
    image = batch * 64 * PIXELS * PIXELS * 4.0
    flops = 2.0 * batch * PIXELS * PIXELS * 64 * 64 * KERNEL * KERNEL
    return StepGraph(
        batch_size=batch,
        names=("aten::randn", "aten::convolution", "aten::convolution_backward", "aten::add_"),
        kinds=("other", "convolution", "convolution", "optimizer"),
        phases=("data", "forward", "backward", "optimizer"),
        layers=("", "conv", "conv", ""),
        flops=np.array([0.0, flops, 2 * flops, 0.0]),
        read_bytes=np.array([0.0, image + WEIGHTS, 2 * image + WEIGHTS, 2.0 * WEIGHTS]),
        written_bytes=np.array([image, image, image + WEIGHTS, WEIGHTS]),
        sizes=np.array([WEIGHTS, WEIGHTS, image, image, WEIGHTS, image], float),
        categories=(
            "parameters", "optimizer_state", "input", "feature_maps", "gradients", "workspace",
        ),
        made=np.array([0, 0, 1, 2, 3, 3]),
        freed=np.array([5, 5, 4, 4, 5, 4]),
        counts={"parameters": 64 * 64 * 9, "trainable_parameters": 64 * 64 * 9, "layers": 1, "weight_layers": 1},
        convolutions={1: convolution(batch), 2: convolution(batch)},
    )  # fmt: skip


def family() -> StepFamily:
    """The same at any batch size."""
    return StepFamily(small=step(2), large=step(3))


def evaluation(batch: int) -> StepGraph:
    """The forward pass alone: what it takes and gives, beside weights and momentum."""
    one = step(batch)
    return replace(
        one,
        names=one.names[:2], kinds=one.kinds[:2], phases=one.phases[:2], layers=one.layers[:2],
        flops=one.flops[:2], read_bytes=one.read_bytes[:2], written_bytes=one.written_bytes[:2],
        sizes=one.sizes[:4],
        categories=("parameters", "optimizer_state", "input", "workspace"),
        made=one.made[:4],
        freed=np.full(4, 3),
        convolutions={1: one.convolutions[1]},
    )  # fmt: skip


def evaluated_family(evaluation_batch: int | None = None) -> StepFamily:
    """As `family`, with its evaluation."""
    small, large = (
        replace(step(size), evaluation=evaluation(size), evaluation_batch=evaluation_batch)
        for size in (2, 3)
    )
    return StepFamily(small=small, large=large)
