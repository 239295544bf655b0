"""Kinds of MNN's operations: by what runs, and by what of the network it runs for."""

from __future__ import annotations

import re
from typing import Final

from wattstep.engines.mnn.graph import LOSS, GraphOperation
from wattstep.schema.operation_kinds import kind_of

# MNN's types that only bring values into another place or form. "Raster" is a copy into another
# layout, wherever it comes from: a reshape, a transposition, the windows of a convolution.
_MOVES: Final = frozenset(
    {
        "Raster", "ConvertTensor", "Cast", "Concat", "Slice", "StridedSlice", "Reshape", "Permute", "Squeeze",
        "Unsqueeze", "Transpose", "BroadcastTo", "Fill", "ZerosLike",
    }
)  # fmt: skip
_CONVOLUTIONS: Final = ("Convolution", "Deconvolution", "Conv2DBackPropFilter")
# What an elementwise or reducing operation is called by the node that it belongs to.
_BY_NODE: Final = ("normalization", "pooling", "activation")
_NODE: Final = re.compile(r"(\w+?)(_\d+)?")


def kind(type_: str, of: GraphOperation) -> str:
    """Kind of an operation that ran, as `schema.operation_kinds` has them.

    Args:
        type_: MNN's name for what ran.
        of: The operation of the graph that it is a part of.
    """
    if type_ in _MOVES:
        return "data movement"
    if of.phase == "optimizer":
        return "optimizer"
    if of.node == LOSS:
        return "loss"
    if type_.startswith(_CONVOLUTIONS) or type_ == "MatMul":
        return _product(of)
    if type_.startswith("Pool"):
        return "pooling"
    if type_ in ("Softmax", "SoftmaxGrad"):
        return "activation"
    if type_.startswith(("Gather", "Scatter")):
        return "embedding"
    by_node = kind_of(f"aten::{node_type(of.node).lower()}") if of.node else ""
    if "norm" in of.node.lower():
        return "normalization"
    if by_node in _BY_NODE:
        return by_node
    return "reduction" if type_ == "Reduction" else "elementwise"


def _product(of: GraphOperation) -> str:
    if node_type(of.node) != "Conv":
        return "matrix product"
    if of.phase == "forward":
        return "convolution"
    return "convolution input gradient" if of.operand == 0 else "convolution weight gradient"


def node_type(node: str) -> str:
    """Type of an ONNX node by its name: "Conv" of "/model/stem/stem.0/Conv_1"."""
    match = _NODE.fullmatch(node.rpartition("/")[2])
    return match[1] if match else ""


def layer(node: str) -> str | None:
    """Path of the layer of a node, as torch names it: "stem.0" of "/model/stem/stem.0/Conv"; None: of none."""
    scopes = node.split("/")[1:-1]
    if scopes[:1] != ["model"]:
        return None
    # A part of a sequence is named by the path from the module that holds the sequence.
    path = [
        scope
        for scope, inner in zip(scopes[1:], [*scopes[2:], ""], strict=False)
        if not inner.startswith(f"{scope}.")
    ]
    return ".".join(path) or None
