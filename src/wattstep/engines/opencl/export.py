"""Writes a training as a graph of torch's operations that kernels of ours compute; runs where torch is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from wattstep.engines.exported.aten import CONSTANTS, GRAPH, parse_graph
from wattstep.engines.opencl.lowering import NAME, Lowering, known
from wattstep.schema.extras import require

if TYPE_CHECKING:
    from wattstep.engines.torch.export.source import Source

_REWRITES: Final = ()


def write(source: Source, folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Writes the graph of the network, once it is seen that its step can be made.

    Returns:
        Sentences of what was rewritten, and notes.

    Raises:
        InvalidValueError: The network cannot be traced, or has something that is not trained here.
    """
    writing = require("wattstep.engines.torch.export.aten")
    writing.write_graph(source, folder, NAME, _REWRITES, known())
    graph = parse_graph((folder / GRAPH).read_text(encoding="utf-8"))
    with np.load(folder / CONSTANTS, allow_pickle=False) as constants:
        shapes = {name: constants[name].shape for name in constants.files}
    batches = (array.shape[1:] for array in source.batches.values())
    shapes |= dict(zip(graph.inputs, batches, strict=True))
    Lowering(graph, shapes, source.parameters, source.optimizer, fused=True).plan()
    return (), ()
