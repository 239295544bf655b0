"""Global hooks around the forward pass of every module, so that no module of a training carries anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

from torch.nn.modules import module as torch_module

# torch.compile warns at every call, where such hooks are there, that they run once more for the
# module that it makes: ours expect that (`phase_hooks.PhaseHooks`, `layers.NetworkNames`).
_COMPILED: Final = r"Using `torch\.compile\(module\)` when there are global hooks"


def around_modules(begins: Callable[..., None], ends: Callable[..., None]) -> list[Any]:
    """Registers both, and returns their handles.

    Args:
        begins: Called with module and inputs.
        ends: Called with module, inputs and output; from torch 2.1 on after exceptions as well.
    """
    others = getattr(torch_module, "_has_any_global_hook", lambda: True)()
    if not others:  # what somebody else's hooks do is worth the warning
        warnings.filterwarnings("ignore", message=_COMPILED, category=UserWarning)
    begun = torch_module.register_module_forward_pre_hook(begins)
    try:
        return [begun, torch_module.register_module_forward_hook(ends, always_call=True)]
    except TypeError:
        return [begun, torch_module.register_module_forward_hook(ends)]
