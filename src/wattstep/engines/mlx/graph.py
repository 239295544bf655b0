"""Graph of torch's operations, as it was exported, computed by MLX."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import mlx.core as mx
import numpy as np

from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.mlx.operations import OPERATIONS, type_of

GRAPH: Final = "graph.json"
CONSTANTS: Final = "constants.npz"


class Graph:
    """The loss of a network as a graph of operations.

    Args:
        folder: The exported training.

    Attributes:
        state: Tensors that are no parameters, by their places; those in `after` change by the step.
    """

    def __init__(self, folder: ExportedFolder) -> None:
        document = json.loads(folder.file(GRAPH).read_text(encoding="utf-8"))
        self._parameters: dict[str, str] = document["parameters"]
        self._inputs: list[str] = document["inputs"]
        self._nodes: list[dict[str, Any]] = document["nodes"]
        self._loss: str = document["loss"]
        self.after: dict[str, str] = document["after"]
        with np.load(folder.file(CONSTANTS), allow_pickle=False) as kept:
            self.state = {name: mx.array(kept[name]) for name in kept.files}

    def loss(
        self, weights: Mapping[str, Any], state: Mapping[str, Any], inputs: list[Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Loss of a batch, and what changed of the state.

        Args:
            weights: Parameters by torch's names.
            state: As `state`.
            inputs: Inputs, targets, masks.
        """
        values = {place: weights[name] for place, name in self._parameters.items()}
        values.update(state)
        values.update(zip(self._inputs, inputs, strict=True))
        for node in self._nodes:
            arguments = [_given(each, values) for each in node["args"]]
            named = {key: _given(each, values) for key, each in node["kwargs"].items()}
            values[node["name"]] = OPERATIONS[node["op"]](*arguments, **named)
        return values[self._loss], {place: values[out] for place, out in self.after.items()}


def _given(value: Any, values: Mapping[str, Any]) -> Any:
    """An argument as `export` wrote it."""
    if isinstance(value, list):
        return [_given(each, values) for each in value]
    if not isinstance(value, dict):
        return value
    if "of" in value:
        return values[value["of"]]
    return type_of(value["type"]) if "type" in value else float(value["number"])
