"""Settings of torch that change how a step runs and not what it learns, and what rounding does to it."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from wattstep.errors import InvalidValueError

_SEED: Final = 1  # of the signs
_PROBED: Final = 259  # numbers: whole vectors of any machine, and a rest
_PROBE_STEPS: Final = 3
_ROUNDINGS: Final = 16.0  # that a kernel may be off by in these steps
_LEAST_OFF: Final = 1e-5  # of what is moved: rates and moments may be float32 beside float64


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
        InvalidValueError: It has no such kernel, none for these parameters, or one that moves them
            otherwise than its plain one does.
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
    _check_kernel(optimizer, kernel, flags)
    for group in optimizer.param_groups:
        group.update(flags)
    for attribute in ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused"):
        if hasattr(made, attribute):
            setattr(optimizer, attribute, getattr(made, attribute))


def _check_kernel(optimizer: Any, kernel: str, flags: dict[str, bool]) -> None:
    """Refuses a kernel that does not compute what the plain one does for parameters of these types.

    torch 2.12 and 2.13 have one on CPUs: their fused SGD leaves whole vectors of bfloat16 and float16 as they are
    (pytorch/pytorch issue 191763).
    """
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for dtype, device in {
        (each.dtype, each.device) for each in parameters if not isinstance(each, FakeTensor)
    }:
        plain = _moved(optimizer, dict.fromkeys(flags, False), dtype, device)
        other = _moved(optimizer, flags, dtype, device)
        most = max(_ROUNDINGS * torch.finfo(dtype).eps, _LEAST_OFF) * plain.abs().max().item()
        if not (other - plain).abs().max().item() <= most:  # NaN is not
            raise InvalidValueError(
                f"--optimizer-kernel {kernel}: that of torch {torch.__version__} computes {type(optimizer).__name__} "
                f"wrongly for {str(dtype).removeprefix('torch.')}: it does not move parameters as the plain one does",
                id="wrong-training",
            )


def _moved(
    optimizer: Any, flags: dict[str, bool], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Where a few steps take parameters that begin at 0, in float64."""
    generator = torch.Generator().manual_seed(_SEED)
    parameter = torch.nn.Parameter(torch.zeros(_PROBED, dtype=dtype, device=device))
    tried = type(optimizer)([parameter], **{**_accepted(optimizer), **flags})
    for _ in range(_PROBE_STEPS):
        size = torch.rand(_PROBED, generator=generator) + 0.5  # whose squares no type takes for 0
        sign = torch.randint(0, 2, (_PROBED,), generator=generator) * 2 - 1
        parameter.grad = (size * sign).to(device, dtype)
        tried.step()
    return parameter.detach().double().cpu()


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
