"""Kernels of the OpenCL engine: their gradients are those of float64, in each mode; what is not trained is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.engines.opencl_networks import Network
from tests.refusals import refused

from wattstep.engines.exported.folder import ExportedOptimizer
from wattstep.engines.opencl.engine import ENGINE
from wattstep.engines.opencl.plan import FEATURES, place
from wattstep.errors import DeviceFaultError
from wattstep.opencl.device import Opened, choose
from wattstep.schema.opencl import COPYING, FUSED, MODES, RESIDENT

if (REASON := ENGINE.lacking("opencl")) is not None:
    pytest.skip(REASON, allow_module_level=True)


def ended(net: Network, value: Any, classes: int, features: int) -> Network:
    """With a linear layer of scores, and the loss."""
    scores = net("linear", value, net.weight(classes, features), net.weight(classes))
    net("cross_entropy_loss", scores, {"of": "targets"})
    return net


def mlp() -> Network:
    net = Network((5, 7), 3)
    hidden = net("linear", {"of": "inputs"}, net.weight(19, 7), net.weight(19))
    hidden = net("relu", hidden)
    hidden = net("linear", hidden, net.weight(9, 19))
    return ended(net, net("tanh", hidden), 3, 9)


def convolutions() -> Network:
    """Stride, padding and dilation that differ by side; a window that never fits whole rows."""
    net = Network((3, 2, 11, 9), 4)
    value = net("conv2d", {"of": "inputs"}, net.weight(5, 2, 3, 2), net.weight(5), [2, 1], [1, 2], [1, 2])
    value = net("sigmoid", value)
    value = net("conv2d", value, net.weight(3, 5, 1, 1), None, [1, 1])  # windows are the image
    value = net("conv2d", value, net.weight(4, 3, 3, 3), net.weight(4), [2, 3], [1, 1])
    return ended(net, net("flatten", net("relu", value), 1), 4, 4 * 3 * 4)


def pooled(op: str, *of: Any) -> Callable[[], Network]:
    def make() -> Network:
        net = Network((2, 3, 7, 8), 4)
        value = net("conv2d", {"of": "inputs"}, net.weight(3, 3, 3, 3), net.weight(3), 1, 1)
        value = net(op, net("tanh", value), *of)
        value = net("mean", value, [-1, -2], True)
        return ended(net, net("view", value, [2, -1]), 4, 3)

    return make


def residual() -> Network:
    """Normalised, with a shortcut, so that a gradient has two parts, and an activation after the sum."""
    net = Network((4, 3, 6, 6), 5)

    def norm(value: Any, channels: int) -> Any:
        made = net(
            "_native_batch_norm_legit_functional", value, net.weight(channels), net.weight(channels),
            net.buffer(*[0.0] * channels), net.buffer(*[1.0] * channels), True, 0.1, 1e-5,
        )  # fmt: skip
        return net("getitem", made, 0)

    first = net("conv2d", {"of": "inputs"}, net.weight(4, 3, 3, 3), net.weight(4), 1, 1)
    first = net("relu", norm(first, 4))
    second = net("conv2d", first, net.weight(4, 4, 3, 3), None, 1, 1)
    value = net("relu", net("add", norm(second, 4), first))
    value = net("adaptive_avg_pool2d", value, [2, 2])
    return ended(net, net("flatten", value, 1), 5, 16)


def joined() -> Network:
    """Two branches after one activation, joined again, and a mask."""
    net = Network((3, 2, 4, 4), 3)
    first = net("relu", net("conv2d", {"of": "inputs"}, net.weight(4, 2, 1, 1), net.weight(4)))
    one = net("hardtanh", net("conv2d", first, net.weight(2, 4, 1, 1), net.weight(2)), 0.0, 6.0)
    two = net("conv2d", first, net.weight(3, 4, 3, 3), net.weight(3), 1, 1)
    value = net("flatten", net("cat", [one, two], 1), 1)
    net.buffers["mask"] = (net.draw.random((3, 80)) < 0.5) * 2.0
    return ended(net, net("mul", value, {"of": "mask"}), 3, 80)


def squared() -> Network:
    net = Network((6, 5), 3)
    net.batch["targets"] = net.draw.normal(size=(6, 4))
    net("mse_loss", net("linear", {"of": "inputs"}, net.weight(4, 5), net.weight(4)), {"of": "targets"})
    return net


NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": mlp,
    "convolutions": convolutions,
    "average": pooled("avg_pool2d", [3, 2], [2, 2], [1, 0]),
    "average of the image alone": pooled("avg_pool2d", 3, 2, 1, True, False),
    "maximum": pooled("max_pool2d", 3, 2, 1),
    "maximum up to the edges": pooled("max_pool2d", [2, 3], [2, 2], 0, 1, True),
    "residual": residual,
    "joined": joined,
    "squared": squared,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_central_differences_in_float64(name: str, mode: str) -> None:
    net = NETWORKS[name]()
    loss, gradients = net.gradients(mode)
    assert loss == pytest.approx(net.loss(net.weights), rel=1e-5)
    for each in net.weights:
        right = net.differences(each)
        # A bias before a normalisation has no gradient: what is left of it is rounding.
        np.testing.assert_allclose(gradients[each], right, atol=2e-6 + 1e-4 * np.abs(right).max())
