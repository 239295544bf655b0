"""Changes of a model that leave what it computes as it is: how it lies in memory, and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from wattstep.errors import InvalidValueError

_IMAGE = 4  # dimensions of a batch of images, and of a kernel that meets it


def lay_channels_last(model: torch.nn.Module, workload: str) -> None:
    """Lays kernels, and from now on the images that enter the model, with their channels last.

    Raises:
        InvalidValueError: It has no such kernels, so that nothing would change.
    """
    if not any(weight.dim() == _IMAGE for weight in model.parameters()):
        raise InvalidValueError(
            f"--channels-last: {workload} has no convolutions of images", id="no-convolutions"
        )
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.register_forward_pre_hook(_lay_inputs, with_kwargs=True)


def _lay_inputs(module: Any, arguments: Any, named: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, _lay, (arguments, named))


def _lay(value: torch.Tensor) -> torch.Tensor:
    if value.dim() != _IMAGE:
        return value
    return value.contiguous(memory_format=torch.channels_last)


def compile_model(model: torch.nn.Module) -> None:
    """Has torch compile the model when it first runs, in place.

    Its parts as well, for trainings that call these by themselves (a generator alone).
    """
    for part in (model, *model.children()):
        part.compile()


@contextmanager
def compiling(on: bool) -> Iterator[None]:
    """Turns what keeps torch from compiling into an error for the user.

    Raises:
        InvalidValueError: There is no compiler for it, or it cannot compile this model.
    """
    if not on:
        yield
        return
    try:
        yield
    except RuntimeError as error:
        # By name: to import the compiler takes a second, also where nothing is compiled.
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        message = next(
            (line for line in str(error).splitlines() if line.strip()), type(error).__name__
        )
        raise InvalidValueError(
            f"--compile: torch cannot compile this model: {message}", id="cannot-compile"
        ) from error
