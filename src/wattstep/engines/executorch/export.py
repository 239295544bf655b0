"""Writes a training as a program of ExecuTorch; runs where torch is."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

if TYPE_CHECKING:
    from wattstep.engines.torch.export.source import Source

RUNTIME: Final = "executorch.extension.pybindings.portable_lib"
PROGRAM: Final = "program.pte"
KERNELS: Final = "kernels.json"
METHOD: Final = "forward"
PREFIX: Final = "network.model."
_REWRITES: Final = (
    "max pool by comparisons", "average pool", "global average", "average to size", "batch norm",
)  # fmt: skip
NOTES: Final = (
    "ExecuTorch's portable kernels on one thread; its Python runtime needs torch's libraries, which "
    "are in the memory of the process",
)


def write(source: Source, folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Writes "program.pte", and "kernels.json": what each of its kernel calls is.

    Returns:
        Sentences of what was rewritten, and notes.

    Raises:
        InvalidValueError: ExecuTorch cannot take the network.
    """
    torch: Any = require("torch")
    experimental: Any = require("torch.export.experimental")
    exir: Any = require("executorch.exir")
    rewriting = require("wattstep.engines.torch.export.rewrites").Rewriting(_REWRITES)
    network = copy.deepcopy(source.network)
    _forget_statistics(torch, network)
    with_loss = require("wattstep.engines.torch.export.source").WithLoss(network)
    name = source.specification.facts.name
    logging.disable(logging.WARNING)  # of its passes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rewriting:
                traced = torch.export.export(with_loss, tuple(source.batch(0)), strict=False)
            joint = experimental._export_forward_backward(traced)
            program = exir.to_edge(joint).to_executorch()
    except Exception as error:  # its passes raise whatever they like
        line = next((each for each in str(error).splitlines() if each.strip()), "")
        raise InvalidValueError(
            f"{name}: executorch cannot take it: {type(error).__name__}: {line[:200]}",
            id="cannot-export",
        ) from error
    finally:
        logging.disable(logging.NOTSET)
    (folder / PROGRAM).write_bytes(program.buffer)
    kernels = _kernels(torch, program.exported_program().graph)
    (folder / KERNELS).write_text(json.dumps(kernels), encoding="utf-8")
    return source.applied(_REWRITES), NOTES


def _forget_statistics(torch: Any, network: Any) -> None:
    """Takes the running statistics out, of which training makes no use: a program cannot keep them."""
    for module in network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False


def _kernels(torch: Any, graph: Any) -> list[dict[str, Any]]:
    """Of each kernel call in the order of the program: its name, shapes, FLOPs and phase."""
    overload, node = torch._ops.OpOverload, torch.fx.Node
    calls = [
        each
        for each in graph.nodes
        if each.op == "call_function" and isinstance(each.target, overload)
    ]
    (loss, *_), phase = graph.output_node().args[0], "forward"
    kernels = []
    for call in calls:
        shapes = [
            list(value.shape)
            for each in call.args
            if isinstance(each, node) and hasattr(value := each.meta.get("val"), "shape")
        ]
        kernels.append(
            {
                "name": call.target.name().rpartition(".")[0] or call.target.name(),
                "shapes": shapes,
                "flops": _flops(torch, call),
                "phase": phase,
            }
        )
        if call is loss:
            phase = "backward"
    return kernels


def _flops(torch: Any, call: Any) -> int:
    """Of a product or convolution by torch's own formulas; -1: none is known."""
    registry = require("torch.utils.flop_counter").flop_registry
    name = call.target.overloadpacket.__name__
    formula = registry.get(getattr(torch.ops.aten, name, None))
    if formula is None:
        return -1
    arguments = [
        each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in call.args
    ]
    return int(formula(*arguments, out_val=call.meta["val"]))
