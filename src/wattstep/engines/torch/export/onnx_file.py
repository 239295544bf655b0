"""A network as an ONNX file for training: nothing folded, every parameter under torch's name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

from wattstep.engines.torch.export.rewrites import Rewriting
from wattstep.engines.torch.export.source import Source, WithLoss
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

OPSET: Final = 13


def write_onnx(
    source: Source,
    path: Path,
    *,
    rewrites: Sequence[str] = (),
    with_loss: bool = False,
    opset: int = OPSET,
) -> list[str]:
    """Writes the network, whose inputs are "inputs" and the masks, and whose output is "scores".

    torch's older exporter is the one that leaves a training network as it is; the newer folds a
    normalisation into the convolution before it.

    Args:
        source: The training.
        path: The file.
        rewrites: Names of `rewrites.REWRITES` that may take the place of functions.
        with_loss: "targets" are an input as well, after "inputs", and the output is "loss".
        opset: Version of ONNX's operations.

    Returns:
        A sentence of each rewrite that was applied.

    Raises:
        InvalidValueError: It cannot be exported.
        MissingPartError: The library onnx is not installed.
    """
    require("onnx")
    batch = dict(zip(source.batches, source.batch(0), strict=True))
    if not with_loss:
        del batch["targets"]
    network = WithLoss(source.network) if with_loss else source.network
    rewriting = Rewriting(rewrites)
    before = {name: value.clone() for name, value in source.network.named_buffers()}
    try:
        with rewriting, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the older exporter, and of traced sizes
            torch.onnx.export(
                network, tuple(batch.values()), str(path), dynamo=False,
                training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                opset_version=opset, input_names=list(batch),
                output_names=["loss" if with_loss else "scores"],
            )  # fmt: skip
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        line = next((each for each in str(error).splitlines() if each.strip()), "")
        name = source.specification.facts.name
        raise InvalidValueError(
            f"{name} cannot be written as ONNX: {line}", id="cannot-export"
        ) from error
    finally:
        with torch.no_grad():
            for name, value in source.network.named_buffers():
                value.copy_(before[name])
    return rewriting.applied
