"""Hooks at modules of somebody else's, which none of their copies and pickles has."""

from __future__ import annotations

import functools
import string
import weakref
from collections.abc import Callable
from typing import Any

import torch


def is_compiling() -> bool:
    """True where torch's compiler reads a hook in place of calling it: there it has to do nothing.

    Else it would be compiled, too, or break the compiler's graph, or crash it. Older versions do not tell.
    """
    try:
        return torch.compiler.is_compiling()
    except AttributeError:
        return False


def hook_before(module: Any, call: Callable[..., Any]) -> Any:
    """Calls it with module and inputs before each forward pass; the handle of the hook."""
    return module.register_forward_pre_hook(OwnHook(module, call, 2))


def hook_after(module: Any, call: Callable[..., Any]) -> Any:
    """Calls it with module, inputs and output after each forward pass; the handle of the hook."""
    return module.register_forward_hook(OwnHook(module, call, 3))


class OwnHook:
    """A hook at one module.

    A copy of the module, and what is loaded from its pickle, also where wattstep is not installed,
    has in the hook's place something of the standard library that does nothing.

    Args:
        module: Whose calls are told; a shallow copy shares its hooks and is another one.
        call: The hook.
        takes: Number of its arguments.
    """

    def __init__(self, module: Any, call: Callable[..., Any], takes: int) -> None:
        self._module = weakref.ref(module)  # which must not live longer for its hook
        self._call = call
        self._takes = takes

    def __call__(self, module: Any, *others: Any) -> Any:
        """As the hook."""
        if is_compiling():
            return None
        return self._call(module, *others) if module is self._module() else None

    def __reduce__(self) -> tuple[Any, ...]:
        return does_nothing(self._takes)


def does_nothing(takes: int) -> tuple[Any, ...]:
    """What `__reduce__` gives for a hook that takes as many arguments, two or three, and returns None."""
    # The method takes three and is empty, in Python 3.6, too; it is to be overridden.
    return functools.partial, (string.Formatter().check_unused_args,) + (None,) * (3 - takes)
