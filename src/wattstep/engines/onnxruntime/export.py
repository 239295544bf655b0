"""Writes the graphs of a training for ONNX Runtime; runs where torch is."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wattstep.engines.onnxruntime.layout import lay_out
from wattstep.engines.onnxruntime.step import GRAPHS
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

# What torch's exporter does not write, or ONNX Runtime has no gradient of; it makes normalisations by
# fixed statistics ones by the batch's.
REWRITES: Final = (
    "attention", "average to size", "fixed batch norm", "hard sigmoid", "hard swish",
    "local response norm",
)  # fmt: skip
LAST: Final = "ONNX Runtime 1.19 of 2024 is the last that trains."
if TYPE_CHECKING:
    from wattstep.engines.torch.export.source import Source


def write(source: Source, folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Writes "forward.onnx", "backward.onnx" and "optimizer.onnx".

    Returns:
        Sentences of what was rewritten, and notes.

    Raises:
        InvalidValueError: The network cannot be written, or ONNX Runtime cannot differentiate it.
        MissingPartError: The library onnx is not installed.
    """
    from wattstep.engines.torch.export.onnx_file import write_onnx

    onnx = require("onnx")
    graphs = require("wattstep.engines.onnxruntime.graphs")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "network.onnx")
        rewrites = write_onnx(source, path, rewrites=REWRITES, with_loss=True, opset=graphs.OPSET)
        network = onnx.load(path)
    _name_as_torch(network, source)
    trainable = {each.name for each in source.parameters if each.trainable}
    try:
        held = source.initial()
        whole = graphs.build_gradients(network, held, trainable)
        batch = {name: array[0] for name, array in source.batches.items()}
        models = (
            *graphs.split(whole, held | batch),
            graphs.build_update(source.optimizer, lay_out(source.parameters)),
        )
    except RuntimeError as error:
        line = " ".join(str(error).split())[-300:]
        raise InvalidValueError(
            f"{source.specification.facts.name}: onnxruntime cannot differentiate it: {line}",
            id="cannot-export",
        ) from error
    for name, model in zip(GRAPHS, models, strict=True):
        onnx.save(model, folder / f"{name}.onnx")
    return rewrites, (LAST,)


def _name_as_torch(network: Any, source: Source) -> None:
    """Gives parameters torch's names, and operations the paths of their layers: "features.0@Conv0"."""
    graph = network.graph
    prefix = "network.model."
    for each in graph.initializer:
        each.name = each.name.removeprefix(prefix)
    for number, node in enumerate(graph.node):
        for at, name in enumerate(node.input):
            node.input[at] = name.removeprefix(prefix)
        node.name = f"{_layer(node.name, source.network.model)}@{node.op_type}{number}"


def _layer(name: str, model: Any) -> str:
    """Path of the layer that an operation is of.

    Args:
        name: As torch's exporter names it: "/network/model/blocks/blocks.0/relu_1/Relu", of the
            second call of `blocks.0.relu`.
        model: The network.
    """
    path = []
    for part in name.split("/")[3:-1]:
        children = dict(model.named_children())
        child = part.rpartition(".")[2]
        if child not in children:
            child = re.sub(r"_\d+$", "", child)
        if child not in children:
            break
        model = children[child]
        path.append(child)
    return ".".join(path)
