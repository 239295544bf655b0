"""Small networks as graphs of ATen operations, and what they compute in float64, by numpy's plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from wattstep.engines.exported.aten import AtenGraph, Node
from wattstep.engines.exported.folder import ExportedOptimizer, ExportedParameter
from wattstep.engines.opencl.execution import Execution
from wattstep.engines.opencl.lowering import Lowering
from wattstep.opencl.device import Opened, choose
from wattstep.schema.engine import ignore_phase
from wattstep.schema.opencl import FUSED

Array = Any
SGD = ExportedOptimizer(name="sgd", rate=1.0, options={})


class Network:
    """A graph that is put together call by call.

    Args:
        batch: Shape of the inputs.
        classes: Of the targets.
        seed: Of all values.
    """

    def __init__(self, batch: tuple[int, ...], classes: int, seed: int = 0) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.weights: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self.batch = {
            "inputs": self.draw.normal(size=batch),
            "targets": self.draw.integers(0, classes, batch[0]),
        }

    def weight(self, *shape: int) -> dict[str, str]:
        name = f"w{len(self.weights)}"
        fan = math.prod(shape[1:]) or 1
        self.weights[name] = self.draw.normal(size=shape) / math.sqrt(fan)
        return {"of": name}

    def buffer(self, *values: float) -> dict[str, str]:
        name = f"b{len(self.buffers)}"
        self.buffers[name] = np.array(values)
        return {"of": name}

    def __call__(self, op: str, *args: Any, **kwargs: Any) -> dict[str, str]:
        name = f"{op}_{len(self.nodes)}"
        node: Node = {"name": name, "op": op, "args": list(args), "kwargs": kwargs, "layer": None}
        self.nodes.append(node)
        return {"of": name}

    @property
    def graph(self) -> AtenGraph:
        return AtenGraph(
            parameters={name: name for name in self.weights},
            inputs=["inputs", "targets"], nodes=self.nodes, loss=self.nodes[-1]["name"], after={},
        )  # fmt: skip

    def lowered(
        self, *, fused: bool, optimizer: ExportedOptimizer = SGD, decay: float = 0.0
    ) -> Lowering:
        parameters = [
            ExportedParameter(name=name, shape=each.shape, trainable=True, decay=decay)
            for name, each in self.weights.items()
        ]
        arrays = {**self.batch, **self.buffers}
        shapes = {name: each.shape for name, each in arrays.items()}
        return Lowering(self.graph, shapes, parameters, optimizer, fused=fused)

    def execution(self, mode: str, **of: Any) -> Execution:
        plan = self.lowered(fused=mode == FUSED, **of).plan()
        return Execution(Opened(choose()), plan, mode, {**self.weights, **self.buffers})

    def given(self) -> dict[str, Array]:
        """The batch in the types of kernels."""
        return {
            name: each.astype(np.int32 if each.dtype.kind == "i" else np.float32)
            for name, each in self.batch.items()
        }

    def step(
        self, execution: Execution, now: Array | None = None, then: Array | None = None
    ) -> float:
        """One step; the optimizer's numbers for it, and for the next."""
        given, following = (
            self.given() | ({} if each is None else {"scalars": each}) for each in (now, then)
        )
        return execution.step(given, ignore_phase, lambda: following)

    def gradients(self, mode: str) -> tuple[float, dict[str, Array]]:
        """Loss, and what one step at a rate of 1 takes off each weight: its gradient."""
        execution = self.execution(mode)
        loss = self.step(execution)
        after = {name: execution.read(each) for name, each in execution.plan.parameters.items()}
        return loss, {
            name: each - after[name].reshape(each.shape) for name, each in self.weights.items()
        }

    def loss(self, weights: Mapping[str, Array]) -> float:
        """In float64, by plain loops."""
        values: dict[str, Any] = {**self.batch, **self.buffers, **weights}

        def given(value: Any) -> Any:
            if isinstance(value, list):
                return [given(each) for each in value]
            return values[value["of"]] if isinstance(value, dict) else value

        for node in self.nodes:
            values[node["name"]] = PLAIN[node["op"]](*map(given, node["args"]))
        return float(values[self.nodes[-1]["name"]])

    def differences(self, of: str, by: float = 1e-5) -> Array:
        """The gradient of a weight by central differences."""
        weight = self.weights[of]
        slopes = np.empty_like(weight)
        for at in np.ndindex(weight.shape):
            sides = []
            for side in (by, -by):
                moved = weight.copy()
                moved[at] += side
                sides.append(self.loss({**self.weights, of: moved}))
            slopes[at] = (sides[0] - sides[1]) / (2 * by)
        return slopes


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple((*value, *value)[:2])


def conv2d(
    x: Array, w: Array, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Array:  # fmt: skip
    if groups > 1:
        parts = [np.split(each, groups, axis) for each, axis in ((x, 1), (w, 0))]
        made = [conv2d(*pair, None, stride, padding, dilation) for pair in zip(*parts, strict=True)]
        return np.concatenate(made, 1) + (0 if b is None else b[:, None, None])
    (sy, sx), (py, px), (dy, dx) = _pair(stride), _pair(padding), _pair(dilation)
    x = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    kh, kw = w.shape[2:]
    oh = (x.shape[2] - dy * (kh - 1) - 1) // sy + 1
    ow = (x.shape[3] - dx * (kw - 1) - 1) // sx + 1
    made = np.zeros((len(x), len(w), oh, ow))
    for ky, kx in product(range(kh), range(kw)):
        rows = slice(ky * dy, ky * dy + (oh - 1) * sy + 1, sy)
        columns = slice(kx * dx, kx * dx + (ow - 1) * sx + 1, sx)
        made += np.einsum("zcyx,oc->zoyx", x[:, :, rows, columns], w[:, :, ky, kx])
    return made if b is None else made + b[:, None, None]


def pool(how: Callable[[Array], float], x: Array, kernel: Any, stride: Any = None, padding: Any = 0,
         ceil: bool = False, with_padding: bool = True) -> Array:  # fmt: skip
    (kh, kw), (py, px) = _pair(kernel), _pair(padding)
    sy, sx = _pair(stride or kernel)
    height, width = x.shape[2:]

    def places(size: int, window: int, step: int, edge: int) -> int:
        count = math.ceil if ceil else math.floor
        number = count((size + 2 * edge - window) / step) + 1
        return number - 1 if ceil and (number - 1) * step >= size + edge else number

    oh, ow = places(height, kh, sy, py), places(width, kw, sx, px)
    made = np.empty((*x.shape[:2], oh, ow))
    for oy, ox in product(range(oh), range(ow)):
        top, left = oy * sy - py, ox * sx - px
        window = x[:, :, max(top, 0) : max(top + kh, 0), max(left, 0) : max(left + kw, 0)]
        value = how(window)
        if how is _mean and with_padding:
            whole = (min(top + kh, height + py) - top) * (min(left + kw, width + px) - left)
            value = window.sum((2, 3)) / whole
        made[:, :, oy, ox] = value
    return made


def _mean(window: Array) -> Any:
    return window.mean((2, 3))


def _most(window: Array) -> Any:
    return window.max((2, 3))


def batch_norm(x: Array, w: Array, b: Array, mean: Array, var: Array, training: bool, momentum: float,
               eps: float) -> Array:  # fmt: skip
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1 for _ in range(2, x.ndim)))
    normal = (x - x.mean(axes).reshape(shape)) / np.sqrt(x.var(axes).reshape(shape) + eps)
    return normal * w.reshape(shape) + b.reshape(shape)


def cross_entropy(scores: Array, targets: Array) -> Array:
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return -logs[np.arange(len(scores)), targets].mean()


PLAIN: Mapping[str, Callable[..., Any]] = {
    "linear": lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    "conv2d": conv2d,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hardtanh": lambda x, low, high: np.clip(x, low, high),
    "avg_pool2d": lambda x, *of: pool(_mean, x, *of),
    "max_pool2d": lambda x, kernel, stride=None, padding=0, dilation=1, ceil=False: pool(
        _most, x, kernel, stride, padding, ceil
    ),
    "adaptive_avg_pool2d": lambda x, size: pool(_mean, x, [x.shape[2] // size[0], x.shape[3] // size[1]]),
    "mean": lambda x, dims, keep=False: x.mean(tuple(dims), keepdims=keep),
    "_native_batch_norm_legit_functional": batch_norm,
    "getitem": lambda x, place: x,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "cat": lambda parts, axis=0: np.concatenate(parts, axis),
    "view": lambda x, shape: x.reshape(shape),
    "flatten": lambda x, first, last=-1: x.reshape(len(x), -1),
    "cross_entropy_loss": cross_entropy,
    "mse_loss": lambda a, b: np.square(a - b).mean(),
}  # fmt: skip
