"""Changes of a model that leave what it computes as it is: how it lies in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from wattstep.engines.torch.own_hooks import does_nothing
from wattstep.errors import InvalidValueError

_IMAGE = 4  # dimensions of a batch of images, and of a kernel that meets it


def has_convolutions(model: torch.nn.Module) -> bool:
    """Whether it has kernels that meet images."""
    return any(weight.dim() == _IMAGE for weight in model.parameters())


def lay_channels_last(model: torch.nn.Module, workload: str) -> None:
    """Lays kernels, and from now on the images that enter the model, with their channels last.

    Raises:
        InvalidValueError: It has no such kernels, so that nothing would change.
    """
    if not has_convolutions(model):
        raise InvalidValueError(
            f"--channels-last: {workload} has no convolutions of images", id="no-convolutions"
        )
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.register_forward_pre_hook(_LayInputs(), with_kwargs=True)


class _LayInputs:
    """A hook that copies keep; what is loaded from a pickle computes the same without it."""

    def __call__(self, module: Any, arguments: Any, named: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, _lay, (arguments, named))

    def __deepcopy__(self, memo: Any) -> _LayInputs:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return does_nothing(3)


def _lay(value: torch.Tensor) -> torch.Tensor:
    if value.dim() != _IMAGE:
        return value
    return value.contiguous(memory_format=torch.channels_last)
