"""Fake tensors as torch makes them, with short ways for the calls of which a training has most.

What torch's own mode computes of such a call takes it up to milliseconds, in Python: of batch normalization it
computes each intermediate result. The short ways give the same shapes, strides, types and storages, and leave
whatever they do not know to torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

aten: Final = torch.ops.aten


class ShapeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """While active, tensors have shapes and no values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = RULES.get(func)
        if rule is not None:
            made = rule(self, func, args, kwargs or {})
            if made is not NotImplemented:
                return made
        return super().__torch_dispatch__(func, types, args, kwargs or {})


Rule = Callable[[ShapeMode, Any, Any, Any], Any]


def _in_place(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """A change of values: of numbers alone, and of tensors of the same shape and type."""
    changed = args[0]
    if not _is_plain(mode, changed):
        return NotImplemented
    for each in args[1:]:
        if isinstance(each, torch.Tensor):
            if not (
                _is_plain(mode, each)
                and each.dtype == changed.dtype
                and each.shape == changed.shape
            ):
                return NotImplemented
        elif not isinstance(each, (int, float)):
            return NotImplemented
    if not changed.dtype.is_floating_point or not kwargs.keys() <= {"alpha", "value", "generator"}:
        return NotImplemented
    return changed


def _detach(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """A view of all of it."""
    of = args[0]
    if not _is_plain(mode, of):
        return NotImplemented
    with in_kernel_invocation_manager(mode):
        made = func(of)
    return FakeTensor(mode, made, of.fake_device)


def _batch_norm(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Output, and mean and inverse deviation of each channel."""
    inputs, weight, bias, mean, variance, training, *_ = args
    given = [each for each in (inputs, weight, bias, mean, variance) if each is not None]
    if not training or kwargs or not all(_is_float32(mode, each) for each in given):
        return NotImplemented
    channels = inputs.shape[1:2]
    return tuple(_empty(mode, inputs, shape) for shape in (inputs.shape, channels, channels))


def _batch_norm_backward(mode: ShapeMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Gradients of input, weight and bias."""
    gradient, inputs, weight, mean, variance, kept_mean, kept, training, _, wanted = args
    given = (gradient, inputs, weight, mean, variance, kept_mean, kept)
    if not training or kwargs or not all(wanted):
        return NotImplemented
    if not all(_is_float32(mode, each) for each in given):
        return NotImplemented
    channels = inputs.shape[1:2]
    return tuple(_empty(mode, inputs, shape) for shape in (inputs.shape, channels, channels))


def _is_plain(mode: ShapeMode, value: Any) -> bool:
    """True of a fake tensor of this mode whose values are not known either."""
    return type(value) is FakeTensor and value.fake_mode is mode and value.constant is None


def _is_float32(mode: ShapeMode, value: Any) -> bool:
    return _is_plain(mode, value) and value.dtype == torch.float32 and value.is_contiguous()


def _empty(mode: ShapeMode, like: Any, shape: Any) -> FakeTensor:
    return FakeTensor(mode, torch.empty(shape, dtype=like.dtype, device="meta"), like.fake_device)


RULES: Final[dict[Any, Rule]] = {
    **dict.fromkeys(
        (
            aten.add_.Tensor, aten.add_.Scalar, aten.sub_.Tensor, aten.mul_.Tensor, aten.mul_.Scalar, aten.div_.Tensor,
            aten.addcmul_.default, aten.addcdiv_.default, aten.lerp_.Scalar, aten.sqrt_.default, aten.relu_.default,
            aten.hardtanh_.default, aten.zero_.default, aten.fill_.Scalar, aten.normal_.default, aten.uniform_.default,
        ),
        _in_place,
    ),
    aten.detach.default: _detach,
    aten.native_batch_norm.default: _batch_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}  # fmt: skip
