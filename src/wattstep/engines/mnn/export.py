"""Writes a training for MNN: the network by way of ONNX, then the graph that MNN trains."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt
import torch
from torch import nn

from wattstep.engines.exported.silence import silenced
from wattstep.engines.mnn.graph import TrainingGraph
from wattstep.engines.torch.export.onnx_file import write_onnx
from wattstep.engines.torch.export.source import Source
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

# In MNN 3.6.1 no gradient passes flatten, global pooling, indexing, a conversion of types and the layer
# normalisation that its converter makes of a usual one. Max pooling gives the whole gradient to each of
# equal values, and a wrong one where windows reach beyond the edges; GELU is an approximation; every batch
# normalisation of a graph that trains takes the batch's statistics. None of it is told.
REWRITES: Final = (
    "flatten", "global average", "average to size", "local response norm", "layer norm", "chosen max pool",
    "gelu", "index", "same type", "attention",
    "fixed batch norm by steps",
)  # fmt: skip
RUNNER: Final = Path(__file__).with_name("runner.cpp")
STATISTICS: Final = "running statistics of batch normalisation are not updated"
Array = npt.NDArray[Any]


def write(source: Source, folder: Path) -> tuple[list[str], list[str]]:
    """As `ExportedEngine.writes`.

    Raises:
        InvalidValueError: The network cannot be converted, or its optimizer or loss is none of MNN's
            graph here.
        MissingPartError: MNN or onnx is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="wattstep-mnn-") as scratch:
        onnx_file, network = Path(scratch, "network.onnx"), Path(scratch, "network.mnn")
        with _marked(source.network.model) as marked:
            applied = write_onnx(source, onnx_file, rewrites=REWRITES)
        _convert(onnx_file, network)
        nodes = _nodes(onnx_file)
        with silenced():
            inputs = [name for name in source.batches if name != "targets"]
            graph = TrainingGraph(network, inputs, nodes)
            graph.set_parameters(marked, source.initial(), source.parameters)
            graph.add_loss(source.specification.loss, source.batches["targets"].shape[1:])
            graph.add_updates(source.optimizer, source.parameters)
            graph.save(folder)
    # For phones, where it is compiled against MNN; see `wattstep.remote.phone.runner`.
    shutil.copyfile(RUNNER, folder / RUNNER.name)
    norms = any(
        isinstance(each, nn.modules.batchnorm._BatchNorm) and each.training
        for each in source.network.modules()
    )
    return applied, [STATISTICS] if norms else []


@contextmanager
def _marked(model: nn.Module) -> Iterator[Mapping[str, Array]]:
    """Parameters of which no two are alike, by name, so that they can be told apart after a conversion."""
    parameters = dict(model.named_parameters())
    before = {name: each.detach().clone() for name, each in parameters.items()}
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for each in parameters.values():
            each.copy_(torch.rand(each.shape, generator=draw) + 0.5)
    yield {name: each.detach().numpy().copy() for name, each in parameters.items()}
    with torch.no_grad():
        for name, each in parameters.items():
            each.copy_(before[name])


def _convert(onnx_file: Path, network: Path) -> None:
    """Calls the function behind MNN's converter.

    Its command line is not to be used: it installs a package and sends usage reports.
    """
    arguments = [
        "mnnconvert",
        "-f",
        "ONNX",
        "--modelFile",
        str(onnx_file),
        "--MNNModel",
        str(network),
        "--forTraining",
    ]
    with silenced() as output:
        require("_tools").mnnconvert(arguments)
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    if not network.exists():
        why = f": {lines[-1]}" if lines else ""
        raise InvalidValueError(
            f"MNN's converter does not take the network{why}", id="cannot-export"
        )


def _nodes(onnx_file: Path) -> dict[str, str]:
    """Name of each node of an ONNX file by those of its outputs."""
    model = require("onnx").load(str(onnx_file), load_external_data=False)
    return {output: node.name for node in model.graph.node for output in node.output}
