"""Writes a training as a graph of torch's operations, in JSON, that MLX computes; runs where torch is."""

from __future__ import annotations

import json
import math
import operator
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wattstep.engines.exported.folder import save_arrays
from wattstep.engines.mlx.graph import CONSTANTS, GRAPH
from wattstep.engines.mlx.operations import OPERATIONS
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

if TYPE_CHECKING:
    from wattstep.engines.torch.export.source import Source

PREFIX: Final = "network.model."
_REWRITES: Final = (
    "max pool by comparisons", "average to size", "fixed batch norm", "local response norm",
)  # fmt: skip
_ASSERTIONS: Final = ("_assert_tensor_metadata",)  # which give nothing


def write(source: Source, folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Writes "graph.json" and "constants.npz", the tensors of the graph that are no parameters.

    Returns:
        Sentences of what was rewritten, and notes.

    Raises:
        InvalidValueError: The network cannot be traced, or has operations that are not made here.
    """
    torch: Any = require("torch")
    rewriting = require("wattstep.engines.torch.export.rewrites").Rewriting(_REWRITES)
    with_loss = require("wattstep.engines.torch.export.source").WithLoss(source.network)
    name = source.specification.facts.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rewriting:
                traced = torch.export.export(with_loss, tuple(source.batch(0)), strict=False)
            program = traced.run_decompositions({})
    except Exception as error:  # torch's tracing raises whatever it likes
        line = next((each for each in str(error).splitlines() if each.strip()), "")
        raise InvalidValueError(
            f"{name} cannot be written as a graph: {line[:200]}", id="cannot-export"
        ) from error
    called = (_node(torch, each) for each in program.graph.nodes if each.op == "call_function")
    nodes = [each for each in called if each["op"] not in _ASSERTIONS]
    unknown = sorted({each["op"] for each in nodes} - set(OPERATIONS))
    if unknown:
        raise InvalidValueError(
            f"{name}: mlx has no {', '.join(unknown[:3])} here", id="cannot-export"
        )
    names = _first_names(source.network.model)
    signature = program.graph_signature
    parameters = {
        place: names[full.removeprefix(PREFIX)]
        for place, full in signature.inputs_to_parameters.items()
    }
    held = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    values = {**dict(program.named_buffers()), **program.constants}
    save_arrays(folder / CONSTANTS, {place: values[full].numpy() for place, full in held.items()})
    places = {full: place for place, full in held.items()}
    (loss,) = signature.user_outputs
    graph = {
        "parameters": parameters,
        "inputs": list(signature.user_inputs),
        "nodes": nodes,
        "loss": loss,
        "after": {places[full]: out for out, full in signature.buffers_to_mutate.items()},
    }
    (folder / GRAPH).write_text(json.dumps(graph), encoding="utf-8")
    return source.applied(_REWRITES), (
        "MLX computes on one thread, and tells no times of operations",
    )


def _first_names(model: Any) -> Mapping[str, str]:
    """Of each name of a parameter the first name that it has."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(id(each), name)
        for name, each in model.named_parameters(remove_duplicate=False)
    }


def _node(torch: Any, node: Any) -> dict[str, Any]:
    op = "getitem" if node.target is operator.getitem else str(node.target)
    return {
        "name": node.name,
        "op": op.removeprefix("aten.").partition(".")[0],
        "args": [_value(torch, each) for each in node.args],
        "kwargs": {
            key: _value(torch, each)
            for key, each in node.kwargs.items()
            if key not in ("device", "layout", "memory_format", "pin_memory")
        },
    }


def _value(torch: Any, value: Any) -> Any:
    """An argument, JSON-ready: a tensor is {"of": its name}, a type {"type": its name}."""
    if isinstance(value, torch.fx.Node):
        return {"of": value.name}
    if isinstance(value, (list, tuple)):
        return [_value(torch, each) for each in value]
    if isinstance(value, torch.dtype):
        return {"type": str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return None
    return value
