"""Processor of a training: finds the device, and brings the model and what enters it there."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from wattstep.engines.torch.gpu import PROCESSORS, lacking
from wattstep.schema.engine import check_lacking
from wattstep.schema.workload import check_processing


def find_device(processor: str, precision: str = "fp32") -> torch.device:
    """The device that a processor is called by; a GPU becomes torch's current one.

    Args:
        processor: As `check_processing` takes it.
        precision: One of `PRECISIONS`.

    Raises:
        InvalidValueError: There is no such processor, or torch cannot use it here.
    """
    check_processing(processor, precision, PROCESSORS)
    check_lacking(processor, lacking(processor))
    device = torch.device(processor)
    if device.index is not None:
        torch.cuda.set_device(device)  # what asks for the GPU without a number means this one
    return device


def place(model: torch.nn.Module, device: torch.device) -> None:
    """Moves a model in place, and from now on whatever enters it.

    Between CPU and GPU torch moves the values of parameters, which stay the objects that an
    optimizer holds.
    """
    model.to(device)

    def bring(module: Any, arguments: Any, named: Any) -> Any:
        return move((arguments, named), device)

    model.register_forward_pre_hook(bring, with_kwargs=True)


def move(tree: Any, device: torch.device) -> Any:
    """A batch with its tensors on a device; those that are there already stay as they are."""
    return pytree.tree_map_only(torch.Tensor, lambda each: each.to(device), tree)
