"""Shared blocks: convolution with normalisation, and the initialisation of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

Activation = Callable[[], nn.Module]
RELU: Activation = partial(nn.ReLU, inplace=True)
RELU6: Activation = partial(nn.ReLU6, inplace=True)


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    bias: bool = False,
    norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
    activation: Activation | None = None,
) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, a normalisation, an activation.

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out.
        kernel: Height and width of the kernel.
        stride: Of the convolution.
        groups: Of channels that do not see each other; `inputs` for a depthwise convolution.
        bias: Of the convolution; the normalisation has one of its own.
        norm: Makes the normalisation.
        activation: Makes what follows; nothing where None.
    """
    layers = [
        nn.Conv2d(
            inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=bias
        ),
        norm(outputs),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))


def draw_weights(
    network: nn.Module,
    *,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    linear: float | None = None,
) -> None:
    """Convolutions after He et al., arXiv 1502.01852, for ReLU; their biases are zero.

    Args:
        network: What is drawn anew, all of it.
        mode: What keeps its variance: the forward pass, or the backward pass.
        linear: Standard deviation of linear layers, whose biases are then zero; None: as they are.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
        elif isinstance(module, nn.Linear) and linear is not None:
            nn.init.normal_(module.weight, std=linear)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
