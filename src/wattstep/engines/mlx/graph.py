"""Graph of torch's operations, as it was exported, computed by MLX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from wattstep.engines.exported.aten import read_graph
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.mlx.operations import OPERATIONS, type_of


class Graph:
    """The loss of a network as a graph of operations.

    Args:
        folder: The exported training.

    Attributes:
        state: Tensors that are no parameters, by their places; those in the graph's `after` change by the step.
    """

    def __init__(self, folder: ExportedFolder) -> None:
        self._graph, constants = read_graph(folder)
        self.state = {name: mx.array(value) for name, value in constants.items()}

    def loss(
        self, weights: Mapping[str, Any], state: Mapping[str, Any], inputs: list[Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Loss of a batch, and what changed of the state.

        Args:
            weights: Parameters by torch's names.
            state: As `state`.
            inputs: Inputs, targets, masks.
        """
        values = {place: weights[name] for place, name in self._graph.parameters.items()}
        values.update(state)
        values.update(zip(self._graph.inputs, inputs, strict=True))
        for node in self._graph.nodes:
            arguments = [_given(each, values) for each in node["args"]]
            named = {key: _given(each, values) for key, each in node["kwargs"].items()}
            values[node["name"]] = OPERATIONS[node["op"]](*arguments, **named)
        return values[self._graph.loss], {
            place: values[out] for place, out in self._graph.after.items()
        }


def _given(value: Any, values: Mapping[str, Any]) -> Any:
    """An argument as `export` wrote it."""
    if isinstance(value, list):
        return [_given(each, values) for each in value]
    if not isinstance(value, dict):
        return value
    if "of" in value:
        return values[value["of"]]
    return type_of(value["type"]) if "type" in value else float(value["number"])
