"""Writes a training as a graph of torch's operations that MLX computes; runs where torch is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wattstep.engines.mlx.operations import OPERATIONS
from wattstep.schema.extras import require

if TYPE_CHECKING:
    from wattstep.engines.torch.export.source import Source

_REWRITES: Final = (
    "max pool by comparisons", "average to size", "fixed batch norm", "local response norm",
)  # fmt: skip


def write(source: Source, folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Writes the graph of the network.

    Returns:
        Sentences of what was rewritten, and notes.

    Raises:
        InvalidValueError: The network cannot be traced, or has operations that are not made here.
    """
    writing = require("wattstep.engines.torch.export.aten")
    writing.write_graph(source, folder, "mlx", _REWRITES, OPERATIONS)
    return source.applied(_REWRITES), (
        "MLX computes on one thread, and tells no times of operations",
    )
