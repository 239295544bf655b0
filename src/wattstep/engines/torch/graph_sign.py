"""Tells when an autograd graph begins, at the cost of one call a graph and nothing an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "it is at version {}; expected version {} instead"
)


class GraphSign:
    """Hears of the first value that operations keep for the gradients.

    A hook on saved tensors (`torch.autograd.graph.saved_tensors_hooks`) takes itself off when it is
    first called. A graph that begins within hooks of the script's own is not heard of.

    Args:
        found: Is told.
    """

    def __init__(self, on_graph: Callable[[], None]) -> None:
        self._found = on_graph
        self._autograd: Any = getattr(getattr(torch, "_C", None), "_autograd", None)
        self._known = hasattr(self._autograd, "_top_saved_tensors_default_hooks")
        self._hooks = (self._pack, _unpack)
        self._disable: Any = None  # torch's own, while ours stands in its place

    def look(self) -> None:
        """The next graph to begin is told, unless hooks are in use, forbidden, or unknown to this torch."""
        if not self._known or self._top() is not None:
            return
        if not self._autograd._saved_tensors_hooks_is_enabled():
            return
        if self._disable is None:
            self._disable = self._autograd._saved_tensors_hooks_disable
            self._autograd._saved_tensors_hooks_disable = self._disabled
        self._autograd._push_saved_tensors_default_hooks(*self._hooks)

    def look_away(self) -> None:
        """None is told any more, unless hooks of the script's own lie above ours: then ours is taken off later."""
        if self._disable is not None and self._top() == self._hooks:
            self._autograd._pop_saved_tensors_default_hooks()

    def _top(self) -> Any:
        return self._autograd._top_saved_tensors_default_hooks(False)

    def remove(self) -> None:
        """Leaves torch as it was."""
        self.look_away()
        if self._disable is not None:
            self._autograd._saved_tensors_hooks_disable = self._disable
            self._disable = None

    def _pack(self, tensor: Any) -> tuple[Any, int]:
        self._autograd._pop_saved_tensors_default_hooks()
        self._found()
        return tensor, tensor._version

    def _disabled(self, *args: Any, **kwargs: Any) -> Any:
        """What forbids such hooks (torch.func) refuses to work where there are any: ours goes."""
        self.look_away()
        return self._disable(*args, **kwargs)


def _unpack(packed: tuple[Any, int]) -> Any:
    """The tensor. With hooks torch does not see that it was overwritten: that is done here."""
    tensor, version = packed
    if tensor._version != version:
        raise RuntimeError(MODIFIED.format(tensor._version, version))
    return tensor
