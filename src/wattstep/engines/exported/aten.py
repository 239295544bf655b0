"""A network with its loss as a graph of torch's operations (ATen), in JSON: how engines that compute it read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedFolder

GRAPH: Final = "graph.json"
CONSTANTS: Final = "constants.npz"


class Node(TypedDict):
    """A call of an operation.

    Attributes:
        name: Of what it gives.
        op: ATen's name, without its overload.
        args: JSON-ready: a tensor is {"of": its name}, a type {"type": its name}, a number that JSON
            lacks {"number": its text}.
        kwargs: Likewise.
        layer: Path of the layer that calls it, as torch names it; None: not known.
    """

    name: str
    op: str
    args: list[Any]
    kwargs: dict[str, Any]
    layer: str | None


@dataclass(frozen=True, kw_only=True)
class AtenGraph:
    """The loss of a batch.

    Attributes:
        parameters: torch's names, by their places in the graph.
        inputs: Places of what a batch brings: inputs, targets, masks.
        nodes: In order.
        loss: Name of the node that is the loss.
        after: Places of what changes at every step, and the node that gives it anew.
    """

    parameters: Mapping[str, str]
    inputs: Sequence[str]
    nodes: Sequence[Node]
    loss: str
    after: Mapping[str, str]


def parse_graph(text: str) -> AtenGraph:
    """A graph as `torch.export.aten.write_graph` wrote it."""
    return AtenGraph(**json.loads(text))


def read_graph(folder: ExportedFolder) -> tuple[AtenGraph, dict[str, npt.NDArray[Any]]]:
    """The graph of an export, and its tensors that are no parameters, by their places."""
    graph = parse_graph(folder.file(GRAPH).read_text(encoding="utf-8"))
    with np.load(folder.file(CONSTANTS), allow_pickle=False) as kept:
        return graph, {name: kept[name] for name in kept.files}
