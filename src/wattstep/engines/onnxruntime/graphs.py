"""The graphs of a training step: ONNX Runtime's gradients, split where the loss is known, and the update.

Runs where torch, onnx and the training build of ONNX Runtime are.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnxruntime.capi._pybind_state import GradientGraphBuilder, get_optimized_model

from wattstep.engines.exported.folder import ExportedOptimizer
from wattstep.engines.exported.updates import Update
from wattstep.engines.onnxruntime.layout import Layout
from wattstep.engines.onnxruntime.step import NEXT, VARIANCES

OPSET: Final = 15  # from 14 on a normalisation says whether it trains
IR: Final = 8  # ONNX Runtime 1.19 reads up to 10, onnx 1.23 writes 14
# Operations that move nothing: repeated in the backward graph, where their result is wanted there.
_VIEWS: Final = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def quiet() -> onnxruntime.SessionOptions:
    """Options of a session that says nothing but errors."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return options


def build_gradients(network: ModelProto, held: Iterable[str], trainable: set[str]) -> ModelProto:
    """Loss and gradients in one graph: its inputs are the batch and what is held, its outputs "loss" and "NAME_grad".

    Args:
        network: Its only output is "loss"; held arrays are initializers.
        held: Names of parameters and buffers.
        trainable: Of those, the ones that gradients are wanted of.

    Raises:
        RuntimeError: ONNX Runtime has no gradient for an operation.
    """
    _take_out(network, set(held))
    _drop_casts(network)
    for node in network.graph.node:  # whose gradient is made of its second output
        if node.op_type == "SoftmaxCrossEntropyLoss" and len(node.output) == 1:
            node.output.append(f"{node.output[0]}_log_prob")
    onnxruntime.set_default_logger_severity(3)  # it tells of each transformation
    simplified = get_optimized_model(network.SerializeToString(), trainable, quiet())
    builder = GradientGraphBuilder(simplified, {"loss"}, trainable, "loss", quiet())
    builder.build()
    graph = onnx.load_from_string(builder.get_model())
    _output_statistics(graph)
    return _fold(graph)


def _take_out(model: ModelProto, names: set[str]) -> None:
    """Makes initializers inputs."""
    graph = model.graph
    out = [each for each in graph.initializer if each.name in names]
    stay = [each for each in graph.initializer if each.name not in names]
    del graph.initializer[:]
    graph.initializer.extend(stay)
    for each in out:
        graph.input.append(helper.make_tensor_value_info(each.name, each.data_type, each.dims))


def _drop_casts(model: ModelProto) -> None:
    """Takes out casts to the kind that a value has already: ONNX Runtime fails to where one is used twice."""
    known = onnx.shape_inference.infer_shapes(model).graph
    kinds = {
        each.name: each.type.tensor_type.elem_type for each in (*known.input, *known.value_info)
    }
    same: dict[str, str] = {}
    for node in list(model.graph.node):
        for at, name in enumerate(node.input):
            node.input[at] = same.get(name, name)
        if node.op_type == "Cast" and kinds.get(node.input[0]) == node.attribute[0].i:
            same[node.output[0]] = node.input[0]
            model.graph.node.remove(node)


def _output_statistics(model: ModelProto) -> None:
    """Makes running statistics that normalisations update outputs, named after what they update."""
    for node in model.graph.node:
        if node.op_type == "BatchNormInternal":
            for at in (1, 2):
                node.output[at] = f"{node.input[at + 2]}_next"
                model.graph.output.append(helper.make_empty_tensor_value_info(node.output[at]))


def _fold(model: ModelProto) -> ModelProto:
    """The graph with its constants computed: shapes, above all, which would keep activations alive."""
    options = quiet()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "folded.onnx")
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        return onnx.load(path)


def split(model: ModelProto, values: Mapping[str, Any]) -> tuple[ModelProto, ModelProto]:
    """Forward graph and backward graph of one that has loss and gradients.

    What the forward graph makes and the backward graph takes is an output of the one and an input
    of the other.

    Args:
        model: As `build_gradients` gives it.
        values: A batch and what is held, by name: the graph is tried on them.
    """
    graph, nodes = model.graph, list(model.graph.node)
    made_by = {name: node for node in nodes for name in node.output if name}
    statistics = [each.name for each in graph.output if each.name.endswith("_next")]
    ahead = _needed(["loss", *statistics], made_by)
    forward = [node for node in nodes if id(node) in ahead]
    behind = [node for node in nodes if id(node) not in ahead]
    of_forward = {name for node in forward for name in node.output if name}
    again: dict[int, NodeProto] = {}

    def taken(node: NodeProto) -> list[str]:
        """What it takes from the forward graph, looking through views, which are made again."""
        names = []
        for name in node.input:
            if name not in of_forward:
                continue
            maker = made_by[name]
            if maker.op_type in _VIEWS:
                again[id(maker)] = maker
                names += taken(maker)
            else:
                names.append(name)
        return names

    crossing = list(dict.fromkeys(name for node in behind for name in taken(node)))
    views = [node for node in forward if id(node) in again]
    outputs = ["loss", *statistics, *crossing]
    normalized = {
        node.input[4]: node.input[0] for node in forward if node.op_type == "BatchNormInternal"
    }
    wanted = [*outputs, *(name for name in normalized.values() if name in of_forward)]
    known = _try(_graph(model, forward, list(graph.input), _of_any_kind(wanted), "trial"), values)
    first = _graph(model, forward, list(graph.input), [known[name] for name in outputs], "forward")
    shapes = {each.name: _shape(each) for each in (*graph.input, *known.values())}
    shares = {name: _share(shapes[normal]) for name, normal in normalized.items()}
    helper.set_model_props(first, {VARIANCES: json.dumps(shares)})
    inputs = [*graph.input, *(known[name] for name in crossing)]
    gradients = [each for each in graph.output if each.name not in ("loss", *statistics)]
    return first, _graph(model, [*views, *behind], inputs, gradients, "backward")


def _try(model: ModelProto, values: Mapping[str, Any]) -> dict[str, ValueInfoProto]:
    """Outputs of a graph with their kinds and shapes, which ONNX Runtime alone does not always know."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), quiet())
    names = [each.name for each in session.get_outputs()]
    taken = {each.name: values[each.name] for each in session.get_inputs()}
    return {
        name: helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, session.run(names, taken), strict=True)
    }


def _shape(value: ValueInfoProto) -> list[int]:
    return [each.dim_value for each in value.type.tensor_type.shape.dim]


def _share(shape: Sequence[int]) -> float:
    """Torch's variance over ONNX Runtime's, of values that are normalised by channel."""
    count = math.prod(shape) // shape[1]
    return count / (count - 1)


def _of_any_kind(names: Iterable[str]) -> list[ValueInfoProto]:
    return [helper.make_empty_tensor_value_info(name) for name in names]


def _needed(names: Iterable[str], made_by: Mapping[str, NodeProto]) -> set[int]:
    """Nodes that some values are made from, by identity."""
    nodes: set[int] = set()
    left = [made_by[name] for name in names if name in made_by]
    while left:
        node = left.pop()
        if id(node) not in nodes:
            nodes.add(id(node))
            left += [made_by[name] for name in node.input if name in made_by]
    return nodes


def _graph(
    model: ModelProto,
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    name: str,
) -> ModelProto:
    """A graph of some nodes of a model, with those inputs and constants that they take."""
    taken = {each for node in nodes for each in node.input}
    made = {each for node in nodes for each in node.output} - {each.name for each in outputs}
    graph = helper.make_graph(
        nodes,
        name,
        [each for each in inputs if each.name in taken],
        outputs,
        [each for each in model.graph.initializer if each.name in taken],
        # The gradient of an average pooling knows its own size by this alone.
        value_info=[each for each in model.graph.value_info if each.name in made],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=IR)


class _Writer:
    """Appends standard operations to a graph, naming what they give."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def __call__(self, kind: str, *values: _Value | float) -> _Value:
        """Applies an operation; numbers among its operands become constants."""
        name = f"value{len(self.nodes)}"
        inputs = [
            each.name if isinstance(each, _Value) else self._constant(each) for each in values
        ]
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name))
        return _Value(self, name)

    def name_last(self, name: str) -> _Value:
        """Gives what was made last a name of its own."""
        self.nodes[-1].output[0] = self.nodes[-1].name = name
        return _Value(self, name)

    def _constant(self, value: float) -> str:
        name = f"constant {value!r}"
        self.constants[name] = numpy_helper.from_array(np.array(value, np.float32), name)
        return name


class _Value:
    """A value of a graph that is written as it is calculated with."""

    def __init__(self, write: _Writer, name: str) -> None:
        self._write, self.name = write, name

    def __add__(self, other: _Value | float) -> _Value:
        return self._write("Add", self, other)

    def __sub__(self, other: _Value | float) -> _Value:
        return self._write("Sub", self, other)

    def __mul__(self, other: _Value | float) -> _Value:
        return self._write("Mul", self, other)

    def __truediv__(self, other: _Value | float) -> _Value:
        return self._write("Div", self, other)


class _States(dict[str, _Value]):
    """The states of a block, whose new values are outputs: of "momentum0" "momentum0_next"."""

    def __init__(self, write: _Writer, names: Iterable[str], number: int) -> None:
        super().__init__({name: _Value(write, f"{name}{number}") for name in names})
        self._write = write

    def __setitem__(self, name: str, value: _Value) -> None:
        super().__setitem__(name, self._write.name_last(self[name].name + NEXT))


def build_update(optimizer: ExportedOptimizer, layout: Layout) -> ModelProto:
    """The update of all parameters, block by block.

    Of block 0 the inputs are "weight0", "gradient0", and the states, e.g. "momentum0"; each but the
    gradient is an output, too, as "weight0_next". What changes by the step is an input by its name.
    """
    update = Update("onnxruntime", optimizer.name, optimizer.options, optimizer.rate)
    write = _Writer()
    scalars = {name: _Value(write, name) for name in update.scalars(1)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in scalars]
    outputs = []
    for number, block in enumerate(layout.blocks):
        for name in ("weight", "gradient", *update.states):
            place, shape = f"{name}{number}", [block.size]
            inputs.append(helper.make_tensor_value_info(place, TensorProto.FLOAT, shape))
            if name != "gradient":
                outputs.append(
                    helper.make_tensor_value_info(place + NEXT, TensorProto.FLOAT, shape)
                )
        weight, gradient = (_Value(write, f"{name}{number}") for name in ("weight", "gradient"))
        states = _States(write, update.states, number)
        update(weight, gradient, states, block.decay, scalars, lambda value: write("Sqrt", value))
        write.name_last(weight.name + NEXT)
    graph = helper.make_graph(
        write.nodes, "optimizer", inputs, outputs, list(write.constants.values())
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
