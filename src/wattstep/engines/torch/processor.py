"""Processor of a training: finds the device, and brings the model and what enters it there."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import PROCESSORS


def find_device(processor: str) -> torch.device:
    """The device that a processor is called by.

    Args:
        processor: One of `PROCESSORS`.

    Raises:
        InvalidValueError: There is no such processor, or torch sees none here.
    """
    if processor not in PROCESSORS:
        raise InvalidValueError(f"--processor {processor}: there are {', '.join(PROCESSORS)}")
    if processor == "cuda" and not torch.cuda.is_available():
        raise InvalidValueError("--processor cuda: torch sees no GPU here")
    return torch.device(processor)


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
