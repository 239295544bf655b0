"""Operations of a step on ONNX Runtime, from the profiles that sessions of their own write."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from wattstep.engines.marked_tracer import MarkedTracer, Operation, shapes_text
from wattstep.engines.onnxruntime.step import Step

_KINDS: Final[Mapping[str, Sequence[str]]] = {
    "convolution": ("Conv", "FusedConv", "ConvGrad", "ConvTranspose", "ConvTransposeGrad"),
    "matrix product": ("Gemm", "FusedGemm", "MatMul", "FusedMatMul", "TransposeMatMul"),
    "normalization": (
        "BatchNormInternal", "BatchNormalization", "BatchNormalizationGrad", "LayerNormalization",
        "LayerNormalizationGrad", "SkipLayerNormalization", "InstanceNormalization",
        "InvertibleLayerNormalizationGrad", "LRN",
    ),
    "pooling": (
        "MaxPool", "MaxPoolGrad", "AveragePool", "AveragePoolGrad", "GlobalAveragePool",
        "GlobalAveragePoolGrad", "GlobalMaxPool",
    ),
    "activation": (
        "Relu", "ReluGrad", "Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Gelu", "GeluGrad",
        "FastGelu", "FastGeluGrad", "QuickGelu", "QuickGeluGrad", "BiasGelu", "BiasGeluGrad_dX",
        "LeakyRelu", "LeakyReluGrad", "HardSigmoid", "HardSigmoidGrad", "HardSwish", "Clip", "Erf",
        "Softmax", "SoftmaxGrad", "SoftmaxGrad_13", "LogSoftmax", "LogSoftmaxGrad",
        "LogSoftmaxGrad_13",
    ),
    "loss": (
        "SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternal",
        "SoftmaxCrossEntropyLossInternalGrad",
    ),
    "recurrent": ("LSTM", "LSTMGrad", "LSTMTraining", "GRU", "GRUGrad", "GRUTraining", "RNN"),
    "reduction": ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumTraining",
                  "ArgMax"),
    "embedding": ("GatherGrad",),
    "data movement": (
        "Cast", "Concat", "ConcatTraining", "ConstantOfShape", "Expand", "Flatten", "GatherElements",
        "GatherElementsGrad", "GatherND", "GatherNDGrad", "Identity", "Pad", "Reshape",
        "ReorderInput", "ReorderOutput", "Resize", "ResizeGrad", "ScatterElements", "ScatterND",
        "Shape", "Slice", "SliceGrad", "Split", "SplitTraining", "Squeeze", "Tile", "Transpose",
        "Unsqueeze", "Upsample",
    ),
    "elementwise": (
        "Abs", "Add", "And", "Cos", "Div", "DivGrad", "Equal", "Exp", "Greater", "GreaterOrEqual", "Less",
        "LessOrEqual", "Log", "Max", "Min", "Mul", "Neg", "Not", "Or", "Pow", "QuickGelu",
        "Reciprocal", "Scale", "Sign", "Sin", "Sqrt", "Sub", "Sum", "Trilu", "Where",
    ),
}  # fmt: skip
_KIND_OF: Final = {name: kind for kind, names in _KINDS.items() for name in names}


class OnnxRuntimeTracer(MarkedTracer):
    """Traces a step in sessions that are opened for it, over the arrays of the training."""

    _step: Step | None = None
    _folder: Path | None = None
    _since = 0

    def learn(self, model: Any, *, alone: bool) -> None:
        """As `Tracer.learn`; the model of a training is its step."""
        self._step = model

    def open(self) -> None:
        """As `MarkedTracer.open`."""
        assert self._step is not None  # the recorder learns the model before it traces
        self._folder = Path(tempfile.mkdtemp(prefix="wattstep-trace-"))
        self._step.trace(self._folder)
        self._since = self.stamp()

    def close(self) -> None:
        """As `MarkedTracer.close`."""
        assert self._step is not None
        noted = self._step.end_trace()
        self._noted = [
            operation
            for phase, operations in noted.items()
            for operation in (operation_of(each, phase) for each in operations)
            if operation.start >= self._since  # not of the run before the window
        ]
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def stamp(self) -> int:
        """As `MarkedTracer.stamp`: the system's clock, which ONNX Runtime reads."""
        return time.time_ns()

    def operations(self) -> Sequence[Operation]:
        """As `MarkedTracer.operations`."""
        return self._noted


def operation_of(noted: Mapping[str, Any], phase: str) -> Operation:
    """What ONNX Runtime noted of an operation.

    Args:
        noted: As `step.parse_profile` gives it.
        phase: Of the graph.
    """
    kind = noted["op_name"]
    inputs, outputs = (_shapes(noted[key]) for key in ("input_type_shape", "output_type_shape"))
    name = noted["name"].removeprefix("fused ")
    layer = name.partition("@")[0] if "@" in name else ""
    return Operation(
        kind,
        noted["start"],
        noted["end"],
        kind=_kind(noted, inputs, phase),
        layer=layer or None,
        phase=phase,
        shapes=shapes_text(inputs),
        thread=noted["thread"],
        flops=flops_of(kind, inputs, outputs),
        bytes=int(noted["activation_size"]) + int(noted["parameter_size"]),
    )


def _shapes(tensors: Sequence[Mapping[str, Sequence[int]]]) -> list[list[int]]:
    return [list(shape) for tensor in tensors for shape in tensor.values()]


def _kind(noted: Mapping[str, Any], inputs: Sequence[Sequence[int]], phase: str) -> str:
    if phase == "optimizer":
        return "optimizer"
    name = noted["op_name"]
    if name == "Sum" and noted["name"].startswith("AccumulateGrad"):
        return "gradient accumulation"
    if name == "Gather":  # of rows that many indices name, or of a part
        table, *indices = inputs
        return "embedding" if len(table) == 2 and prod(indices[0]) > 1 else "data movement"
    return _KIND_OF.get(name, "other")


def flops_of(name: str, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> int:
    """Floating-point operations of products and convolutions, a multiply-add is two; -1: not known.

    Args:
        name: Type of the operation.
        inputs: Shapes.
        outputs: Shapes of those that are made.
    """
    if name in ("Conv", "FusedConv"):
        return 2 * prod(outputs[0]) * prod(inputs[1][1:])
    if name == "ConvGrad":  # of the gradient of the output, the input, and the kernel
        gradients = sum(len(shape) == len(inputs[2]) for shape in outputs)
        return gradients * 2 * prod(inputs[0]) * prod(inputs[2][1:])
    if name in _KINDS["matrix product"]:
        left, product = inputs[0], outputs[0]
        rows = product[-2] if len(left) > 1 and len(product) > 1 else 1
        between = prod(left[-2:]) // max(rows, 1)  # whichever of its dimensions is multiplied over
        return 2 * prod(product) * between
    return -1
