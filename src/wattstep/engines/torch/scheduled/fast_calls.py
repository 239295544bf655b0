"""The cheapest way to call an overload from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from wattstep.engines.torch.scheduled.calls import Call, Layout, Slot


def fastest(call: Call, layouts: Sequence[Layout]) -> Callable[..., Any]:
    """What to call with the arguments of a call.

    torch's own bindings read arguments faster than the call of an overload does (lists of numbers above
    all), but choose the overload themselves: they are asked, and taken where they choose the same one and
    hand it the same arguments.

    Args:
        call: The recorded call.
        layouts: Of the slots.
    """
    tensors: dict[int, torch.Tensor] = {}

    def stand_in(value: Any) -> Any:
        if isinstance(value, Slot):
            layout = layouts[value.number]
            if value.number not in tensors:
                tensors[value.number] = torch.empty_strided(
                    layout.shape, layout.strides, dtype=layout.dtype, device="meta"
                )
            return tensors[value.number]
        if isinstance(value, list):
            return [stand_in(each) for each in value]
        return value

    args = tuple(map(stand_in, call.args))
    kwargs = {name: stand_in(value) for name, value in call.kwargs.items()}
    for binding in _bindings(call.func):
        if _calls(binding, args, kwargs, call.func):
            return binding
    overload: Callable[..., Any] = call.func._op
    return overload


def _bindings(func: Any) -> Iterator[Callable[..., Any]]:
    """Functions of torch that may call an overload."""
    if func.namespace != "aten":
        return
    name = func.overloadpacket.__name__
    for owner in (torch._C._VariableFunctions, torch._C._nn, torch._C.TensorBase):
        binding = getattr(owner, name, None)
        if callable(binding):
            yield binding


class _Chosen(Exception):
    """Carries what a binding chose out of the call."""


class _Asking(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Chosen(func, args, kwargs or {})


def _calls(binding: Callable[..., Any], args: Any, kwargs: Any, func: Any) -> bool:
    """True if a binding calls just this overload with just these arguments."""
    try:
        with torch.no_grad(), _Asking():  # type: ignore[no-untyped-call]
            binding(*args, **kwargs)
    except _Chosen as chosen:
        its, its_args, its_kwargs = chosen.args
        return its is func and _same(its_args, args) and _same(its_kwargs, kwargs)
    except (TypeError, RuntimeError, ValueError):  # it does not take such arguments
        return False
    return False


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one is other
    if isinstance(one, (list, tuple)):
        sequence = isinstance(other, (list, tuple))
        return sequence and len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)
