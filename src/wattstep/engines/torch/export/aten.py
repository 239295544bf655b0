"""Writes a training as a graph of torch's operations (ATen), in JSON, for engines that compute these themselves."""

from __future__ import annotations

import json
import math
import operator
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from wattstep.engines.exported.aten import CONSTANTS, GRAPH
from wattstep.engines.exported.folder import save_arrays
from wattstep.engines.torch.export.rewrites import Rewriting
from wattstep.engines.torch.export.source import Source, WithLoss
from wattstep.errors import InvalidValueError

PREFIX: Final = "network.model."
_ASSERTIONS: Final = ("_assert_tensor_metadata",)  # which give nothing


def write_graph(
    source: Source, folder: Path, engine: str, rewrites: Sequence[str], known: Collection[str]
) -> None:
    """Writes `GRAPH`, and `CONSTANTS`: the tensors of the graph that are no parameters.

    Args:
        source: The training.
        folder: For its files.
        engine: That computes it, for what is said.
        rewrites: That are made while it is traced, names of `rewrites.REWRITES`.
        known: ATen's names of the operations that the engine makes.

    Raises:
        InvalidValueError: The network cannot be traced, or has operations that are not known.
    """
    name = source.specification.facts.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Rewriting(rewrites):
                traced = torch.export.export(
                    WithLoss(source.network), tuple(source.batch(0)), strict=False
                )
            program = traced.run_decompositions({})
    except Exception as error:  # torch's tracing raises whatever it likes
        line = next((each for each in str(error).splitlines() if each.strip()), "")
        raise InvalidValueError(
            f"{name} cannot be written as a graph: {line[:200]}", id="cannot-export"
        ) from error
    called = (_node(each) for each in program.graph.nodes if each.op == "call_function")
    nodes = [each for each in called if each["op"] not in _ASSERTIONS]
    unknown = sorted({each["op"] for each in nodes} - set(known))
    if unknown:
        raise InvalidValueError(
            f"{name}: {engine} has no {', '.join(unknown[:3])} here", id="cannot-export"
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


def _first_names(model: Any) -> Mapping[str, str]:
    """Of each name of a parameter the first name that it has."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(id(each), name)
        for name, each in model.named_parameters(remove_duplicate=False)
    }


def _node(node: Any) -> dict[str, Any]:
    """As `exported.aten.Node`."""
    op = "getitem" if node.target is operator.getitem else str(node.target)
    return {
        "name": node.name,
        "op": op.removeprefix("aten.").partition(".")[0],
        "args": [_value(each) for each in node.args],
        "kwargs": {
            key: _value(each)
            for key, each in node.kwargs.items()
            if key not in ("device", "layout", "memory_format", "pin_memory")
        },
        "layer": _layer(node),
    }


def _layer(node: Any) -> str | None:
    """Path of the module that calls, within the model."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if str(path).startswith(PREFIX)]
    return str(paths[-1]).removeprefix(PREFIX) if paths else None


def _value(value: Any) -> Any:
    """An argument, JSON-ready, as `exported.aten.Node` has it."""
    if isinstance(value, torch.fx.Node):
        return {"of": value.name}
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if isinstance(value, torch.dtype):
        return {"type": str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return None
    return value
