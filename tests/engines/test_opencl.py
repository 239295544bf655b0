"""Kernels of the OpenCL engine: their gradients are those of float64, in each mode; what is not trained is refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engines.opencl_networks import Network
from tests.opencl.conftest import opened as opened
from tests.refusals import refused

from wattstep.engines.exported.folder import ExportedOptimizer
from wattstep.engines.exported.updates import Update
from wattstep.engines.opencl import execution as execution_module
from wattstep.engines.opencl.engine import ENGINE
from wattstep.engines.opencl.execution import Execution
from wattstep.engines.opencl.lowering import ALIGNED
from wattstep.engines.opencl.plan import FEATURES, place
from wattstep.opencl.device import Opened, choose
from wattstep.schema.opencl import COPYING, FUSED, MODES, RESIDENT

if (REASON := ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

pytestmark = pytest.mark.usefixtures("opened")


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
    value = net(
        "conv2d", {"of": "inputs"}, net.weight(5, 2, 3, 2), net.weight(5), [2, 1], [1, 2], [1, 2]
    )
    value = net("sigmoid", value)
    value = net("conv2d", value, net.weight(3, 5, 1, 1), None, [1, 1])  # windows are the image
    value = net("conv2d", value, net.weight(4, 3, 3, 3), net.weight(4), [2, 3], [1, 1])
    return ended(net, net("flatten", net("relu", value), 1), 4, 4 * 3 * 4)


def groups() -> Network:
    """Two groups of channels, then each channel on its own, then groups whose windows are the image."""
    net = Network((3, 4, 7, 6), 3)
    value = net(
        "conv2d", {"of": "inputs"}, net.weight(6, 2, 3, 2), net.weight(6), [2, 1], [1, 1], 1, 2
    )
    value = net("relu", value)
    value = net("conv2d", value, net.weight(12, 1, 3, 3), net.weight(12), 1, 1, 1, 6)
    value = net("tanh", value)
    value = net("conv2d", value, net.weight(3, 4, 1, 1), None, 1, 0, 1, 3)
    return ended(net, net("flatten", value, 1), 3, 3 * 4 * 7)


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
    two = net("conv2d", two, net.weight(3, 3, 1, 1))  # neither bias nor anything else is said
    value = net("flatten", net("cat", [one, two], 1), 1)
    net.buffers["mask"] = (net.draw.random((3, 80)) < 0.5) * 2.0
    return ended(net, net("mul", value, {"of": "mask"}), 3, 80)


def squared() -> Network:
    net = Network((6, 5), 3)
    net.batch["targets"] = net.draw.normal(size=(6, 4))
    net(
        "mse_loss",
        net("linear", {"of": "inputs"}, net.weight(4, 5), net.weight(4)),
        {"of": "targets"},
    )
    return net


NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": mlp,
    "convolutions": convolutions,
    "groups": groups,
    "average": pooled("avg_pool2d", [3, 2], [2, 2], [1, 0]),
    "average of the image alone": pooled("avg_pool2d", 3, 2, 1, True, False),
    "maximum": pooled("max_pool2d", 3, 2, 1),
    "maximum up to the edges": pooled("max_pool2d", [2, 3], [2, 2], 0, 1, True),
    "residual": residual,
    "joined": joined,
    "squared": squared,
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("mlp", COPYING),  # of the same kernels as "resident"
        *((name, FUSED) for name in NETWORKS),
        *(pytest.param(name, RESIDENT, marks=pytest.mark.system) for name in NETWORKS),
    ],
)
def test_gradients_are_central_differences_in_float64(name: str, mode: str) -> None:
    net = NETWORKS[name]()
    loss, gradients = net.gradients(mode)
    assert loss == pytest.approx(net.loss(net.weights), rel=1e-5)
    for each in net.weights:
        right = net.differences(each)
        # A bias before a normalisation has no gradient: what is left of it is rounding.
        np.testing.assert_allclose(gradients[each], right, atol=2e-6 + 1e-4 * np.abs(right).max())


@pytest.mark.parametrize("mode", [RESIDENT, FUSED])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True}),
        ("adamw", {}),
        ("rmsprop", {"momentum": 0.5, "centered": True}),
    ],
)
def test_optimizers_take_the_steps_of_their_formulas(
    name: str, options: dict[str, Any], mode: str
) -> None:
    """Three steps of each, beside what `Update` makes of central differences in float64."""
    rate, decay = 0.05, 0.1
    net = mlp()
    settings = ExportedOptimizer(name=name, rate=rate, options=options)
    execution = net.execution(mode, optimizer=settings, decay=decay)
    right, states = dict(net.weights), {}
    update = Update("opencl", name, options, rate)
    for step in (1, 2, 3):
        net.weights = dict(right)
        scalars = update.scalars(step)
        for each, weight in net.weights.items():
            held = states.setdefault(each, dict.fromkeys(update.states, 0.0 * weight))
            right[each] = update(weight, net.differences(each), held, decay, scalars, np.sqrt)
        numbers = [
            np.array([scalars[key] for key in execution.plan.scalars], np.float32)
            for scalars in map(update.scalars, (step, step + 1))
        ]
        net.step(execution, *(numbers if execution.plan.scalars else ()))
    for each, tensor in execution.plan.parameters.items():
        made = execution.read(tensor).reshape(right[each].shape)
        np.testing.assert_allclose(made, right[each], atol=2e-4)


def test_what_is_not_trained_is_refused_by_name_with_the_reason() -> None:
    padded = Network((2, 4, 5, 5), 3)
    value = padded("conv2d", {"of": "inputs"}, padded.weight(4, 4, 3, 3), None, 1, "same")
    ended(padded, padded("mean", value, [2, 3]), 3, 4)
    fixed = Network((2, 4), 3)
    value = fixed(
        "_native_batch_norm_legit_functional", {"of": "inputs"}, fixed.weight(4), fixed.weight(4),
        fixed.buffer(0, 0, 0, 0), fixed.buffer(1, 1, 1, 1), False, 0.1, 1e-5,
    )  # fmt: skip
    ended(fixed, fixed("getitem", value, 0), 3, 4)
    clipped = Network((2, 4), 3)
    ended(clipped, clipped("hardtanh", {"of": "inputs"}, -1.0, 1.0), 3, 4)
    for net, words in (
        (padded, ("conv2d", "same")),
        (fixed, ("batch_norm", "fixed statistics")),
        (clipped, ("hardtanh", "-1.0")),
    ):
        with refused("cannot-export", *words):
            net.lowered(fused=True).plan()


def test_tensors_that_share_memory_are_never_needed_at_once() -> None:
    plan = residual().lowered(fused=True).plan()
    places = place(plan, 128)
    launches = [each for operation in plan.operations for each in operation.launches]
    life = {
        tensor: [
            at
            for at, launch in enumerate(launches)
            if tensor in (*launch.reads, *launch.writes)
            or any(
                each.within and each.within[0] is tensor for each in (*launch.reads, *launch.writes)
            )
        ]
        for tensor in places.begin
    }
    assert len(places.begin) > 10
    assert places.size < 0.8 * sum(tensor.bytes for tensor in places.begin)
    for one, begin in places.begin.items():
        for other, beside in places.begin.items():
            together = life[one][0] <= life[other][-1] and life[other][0] <= life[one][-1]
            apart = begin + one.bytes <= beside or beside + other.bytes <= begin
            assert one is other or apart or not together
    assert FEATURES in {tensor.category for tensor in places.begin}


def test_buffers_are_released_backwards() -> None:
    """Also where they are in a cycle: NVIDIA's driver crashes at parts that are released as they were made."""
    net = groups()
    execution = net.execution(FUSED)
    net.step(execution)
    memory, released = execution.memory, []
    buffers = [*memory._made]
    held = [*memory._buffers[0].values()]
    assert {*held} < {*buffers}

    class Recorded:
        def __init__(self, buffer: Any) -> None:
            self.buffer = buffer

        def release(self) -> None:
            released.append(self.buffer)
            self.buffer.release()

    memory._made[:] = map(Recorded, buffers)
    cycle: list[Any] = [execution, memory]
    cycle.append(cycle)
    del execution, memory, cycle
    gc.collect()
    assert released == buffers[::-1]


def test_only_batches_and_losses_cross_unless_every_operation_copies() -> None:
    crossed = {}
    for mode in MODES:
        net = mlp()
        execution = net.execution(mode)
        net.step(execution)
        execution.ran = []
        net.step(execution)
        execution.finish()
        copies = [each for each in execution.ran if not each.kernel]
        crossed[mode] = sum(each.bytes for each in copies)
        kernels = [each for each in execution.ran if each.kernel]
        assert all(each.flops > 0 for each in kernels if each.kernel.startswith("product"))
    batch = sum(each.nbytes for each in net.given().values())
    assert crossed[RESIDENT] == batch + 4  # and the loss
    aligned = sum(-(-each.size // ALIGNED) * ALIGNED for each in net.given().values())
    assert crossed[FUSED] == 4 * aligned + 4 * 5  # and that of each sample
    weights = 4 * sum(each.size for each in net.weights.values())
    assert crossed[COPYING] > 4 * weights  # forward, for the gradients, and to and from the update


def test_a_kernel_that_is_not_built_shows_the_drivers_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        execution_module, "_source", lambda file: "__kernel void product_of_rows( {"
    )
    with refused("opencl-build", "error"):
        mlp().execution(RESIDENT)


def test_a_device_without_the_memory_is_told_before_anything_runs() -> None:
    net = mlp()
    small = Opened(replace(choose(), memory=1000, largest_buffer=1000))
    with refused("opencl-memory"):
        Execution(small, net.lowered(fused=False).plan(), RESIDENT, net.weights)


def test_a_driver_that_hangs_ends_by_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    net = mlp()
    execution = net.execution(RESIDENT)
    monkeypatch.setattr(execution_module, "LIMIT_S", 0.05)
    monkeypatch.setattr(execution_module.threading, "Event", lambda: _Never())
    with refused("opencl-hangs"):
        net.step(execution)
    execution.finish()


class _Never:
    """An event that is never told."""

    def set(self) -> None:
        pass

    def wait(self, limit: float) -> bool:
        return False
