"""Global hooks around the forward pass of every module, so that no module of a training carries anything."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Final

from torch.nn.modules import module as torch_module

from wattstep.engines.torch.own_hooks import is_compiling

# torch.compile warns at every call, where such hooks are there, that they run once more for the
# module that it makes: ours expect that (`phase_hooks.PhaseHooks`, `layers.NetworkNames`).
_COMPILED: Final = r"Using `torch\.compile\(module\)` when there are global hooks"

_OURS: Final = __name__.rpartition(".")[0]


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


def call_without_hooks(
    compiled: Callable[..., Any],
    module: Any,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
    begins: Callable[[Any, Any], None],
    ends: Callable[[Any, Any, Any], None],
) -> Any:
    """Calls a module that was compiled in place: our hooks run around what is compiled, never in it.

    Args:
        compiled: What `module.compile()` made of its call.
        module: The module.
        inputs: Of the call, by position.
        named: By name.
        begins: Called with module and inputs after our global hooks.
        ends: Called with module, inputs and output before those.

    Returns:
        The output.
    """
    for hook in _ours(torch_module._global_forward_pre_hooks).values():
        hook(module, inputs)
    begins(module, inputs)
    output = unhooked(compiled)(*inputs, **named)
    ends(module, inputs, output)
    for hook in _ours(torch_module._global_forward_hooks).values():
        hook(module, inputs, output)
    return output


def unhooked(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The same without our global hooks, which torch's compiler would compile again with each time that they change."""
    both = torch_module._global_forward_pre_hooks, torch_module._global_forward_hooks

    @functools.wraps(compiled)
    def called(*inputs: Any, **named: Any) -> Any:
        if is_compiling() or not any(both):
            return compiled(*inputs, **named)
        out = [(hooks, _ours(hooks)) for hooks in both]
        for hooks, ours in out:
            for key in ours:
                del hooks[key]
        try:
            return compiled(*inputs, **named)
        finally:
            for hooks, ours in out:
                hooks.update(ours)

    return called


def _ours(hooks: dict[int, Callable[..., Any]]) -> dict[int, Callable[..., Any]]:
    """Those of hooks that `around_modules` registered."""
    return {key: hook for key, hook in hooks.items() if _OURS in str(hook.__module__)}
