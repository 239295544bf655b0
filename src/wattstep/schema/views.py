"""What a run shows of itself by code of rooms above it: this package's `__init__` says where each view lies."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

# Name to "module:function", of one argument; nothing of it is imported before it is shown.
VIEWS: Final[dict[str, str]] = {}


def show(name: str, thing: Any) -> str:
    """Text of a view of a run or of its operations.

    Raises:
        KeyError: No such view is registered.
    """
    module, _, function = VIEWS[name].partition(":")
    return str(getattr(import_module(module), function)(thing))
