"""Settings of torch that change how a step runs and not what it learns, and what rounding does to it."""

from __future__ import annotations

from typing import Any, Final

import torch

from wattstep.errors import InvalidValueError

_SEED: Final = 1  # of the signs


def use_interop_threads(threads: int) -> None:
    """Sets the threads that run operations beside each other, once a process.

    Raises:
        InvalidValueError: Some run already.
    """
    if torch.get_num_interop_threads() == threads:
        return
    try:
        torch.set_num_interop_threads(threads)
    except RuntimeError as error:
        raise InvalidValueError(
            "--interop-threads: torch takes them before its first operation only",
            id="interop-too-late",
        ) from error


def choose_kernel(optimizer: Any, kernel: str) -> None:
    """Has an optimizer that has made no step go through its parameters in another way.

    Args:
        optimizer: Of torch.
        kernel: One of `schema.workload.OPTIMIZER_KERNELS`.

    Raises:
        InvalidValueError: It has no such kernel, or none for these parameters.
    """
    name = type(optimizer).__name__
    if kernel not in optimizer.defaults:
        raise InvalidValueError(
            f"--optimizer-kernel {kernel}: {name} has none", id="no-optimizer-kernel"
        )
    flags = {"foreach": False, "fused": False, kernel: True}
    flags = {each: value for each, value in flags.items() if each in optimizer.defaults}
    groups = [{**group, **flags} for group in optimizer.param_groups]
    try:  # its constructor knows what the kernel takes
        made = type(optimizer)(groups, **{**_accepted(optimizer), **flags})
    except (RuntimeError, ValueError, TypeError) as error:
        line = str(error).splitlines()[0]
        raise InvalidValueError(
            f"--optimizer-kernel {kernel}: {name} cannot: {line}", id="no-optimizer-kernel"
        ) from error
    for group in optimizer.param_groups:
        group.update(flags)
    for attribute in ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused"):
        if hasattr(made, attribute):
            setattr(optimizer, attribute, getattr(made, attribute))


def _accepted(optimizer: Any) -> dict[str, Any]:
    """Its hyperparameters, as its constructor takes them."""
    from inspect import signature

    known = signature(type(optimizer).__init__).parameters
    return {name: value for name, value in optimizer.defaults.items() if name in known}


def nudge(model: torch.nn.Module) -> None:
    """Moves every parameter up or down by one rounding of its own type, at random with a fixed seed."""
    generator = torch.Generator().manual_seed(_SEED)
    with torch.no_grad():
        for parameter in model.parameters():
            signs = torch.randint(0, 2, parameter.shape, generator=generator) * 2 - 1
            if parameter.is_floating_point():
                factors = 1 + signs.double() * torch.finfo(parameter.dtype).eps
                parameter.mul_(factors.to(parameter.device, parameter.dtype))
