"""Writes the graphs of a training for ONNX Runtime; runs where torch is."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from wattstep.engines.onnxruntime.layout import lay_out
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

if TYPE_CHECKING:
    from wattstep.engines.torch.export.source import Source

PREFIX = "network.model."  # of parameters and buffers, before torch's own names


def write(source: Source, folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Writes "forward.onnx", "backward.onnx" and "optimizer.onnx".

    Returns:
        Sentences of what was rewritten, and notes.

    Raises:
        InvalidValueError: The network cannot be written, or ONNX Runtime cannot differentiate it.
    """
    from wattstep.engines.torch.export.onnx_file import write_onnx

    graphs = require("wattstep.engines.onnxruntime.graphs")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "network.onnx")
        rewrites = write_onnx(source, path, with_loss=True)
        network = onnx.load(path)
    held = [PREFIX + name for name in source.initial()]
    trainable = {PREFIX + each.name for each in source.parameters if each.trainable}
    try:
        forward, backward = graphs.split(graphs.build_gradients(network, held, trainable))
    except RuntimeError as error:
        line = " ".join(str(error).split())[:200]
        raise InvalidValueError(
            f"{source.specification.facts.name}: onnxruntime cannot differentiate it: {line}",
            id="cannot-export",
        ) from error
    update = graphs.build_update(source.optimizer, lay_out(source.parameters))
    for name, model in (("forward", forward), ("backward", backward), ("optimizer", update)):
        onnx.save(model, folder / f"{name}.onnx")
    return rewrites, ()
