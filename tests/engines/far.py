"""A device that is not there, for tests: its tensors have values, and meet no tensor of the CPU.

Its name is "meta", torch's own for a device without a library behind it. A tensor that is moved
there keeps its values in one of the CPU beside it; an operation whose tensors lie on both devices
fails, as with a GPU (a single number of the CPU may join, as it may there), and so does reading
values before they were brought back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

FAR = torch.device("meta")
# These have the lengths of sequences on the CPU, wherever the sequences are.
PACK, ON_BOTH = "_pack_padded_sequence", ("_pack_padded_sequence", "_pad_packed_sequence")


class FarTensor(Tensor):
    """A tensor of the device; `near` holds its values."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> FarTensor:
        made: FarTensor = Tensor._make_wrapper_subclass(
            cls, near.shape, strides=near.stride(), storage_offset=near.storage_offset(),
            dtype=near.dtype, device=FAR,
        )  # fmt: skip
        made.near = near
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.near.__reduce_ex__(protocol)  # what reads it says where it goes


class _Device(TorchDispatchMode):
    """Catches what makes tensors of the device out of nothing, or out of the CPU's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class _Literals(TorchFunctionMode):
    """Numbers of the program as tensors of the device: torch writes them there past any dispatch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") == FAR:
            return torch.tensor(*args, **{**kwargs, "device": "cpu"}).to(FAR)
        return func(*args, **kwargs)


@contextmanager
def far_device() -> Iterator[None]:
    """The device is there; modules that move keep their parameters, as on a GPU."""
    apply = nn.Module._apply

    def keeping(module: nn.Module, *arguments: Any, **named: Any) -> nn.Module:
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(module, *arguments, **named)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    with _Literals(), _Device(), patch.object(nn.Module, "_apply", keeping):
        yield


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Runs an operation on the values, and says where its results lie."""
    flat = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    far = any(isinstance(each, FarTensor) for each in flat)
    asked = kwargs.get("device")
    name = func.overloadpacket.__name__
    moves = name in ("_to_copy", "copy_")
    if far and not moves and name not in ON_BOTH:
        for each in flat:
            if not isinstance(each, FarTensor) and each.dim() > 0:
                raise RuntimeError(f"{name}: tensors on two devices, meta and {each.device}")
    if asked is not None:
        far = torch.device(asked) == FAR
        kwargs = {**kwargs, "device": torch.device("cpu")}
    elif moves and name == "copy_":
        far = isinstance(args[0], FarTensor)
    near = pytree.tree_map_only(FarTensor, lambda each: each.near, (args, kwargs))
    out = func(*near[0], **near[1])
    if not far:
        return out
    if name == PACK:
        return FarTensor(out[0]), out[1]
    # What was changed in place stays the same tensor of the device.
    known = {id(each.near): each for each in flat if isinstance(each, FarTensor)}
    return pytree.tree_map_only(
        Tensor, lambda each: known[id(each)] if id(each) in known else FarTensor(each), out
    )
