"""Learns from somebody else's torch script when data is loaded, when it goes forward and backward, and when a step ends."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.utils.data.dataloader as dataloader
from torch.autograd import profiler as autograd_profiler
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from wattstep.tracing.markers import check_marker

DISCOVERY_STEPS = 3  # during these the outermost modules are looked for


class Listener(Protocol):
    """What is told of the script."""

    def data_begins(self) -> None:
        """A batch is asked for."""

    def data_ends(self, samples: int | None) -> None:
        """It is there; so many samples, where that can be seen."""

    def forward_begins(self, gradients: bool) -> None:
        """An outermost module is called."""

    def backward_begins(self) -> None:
        """Gradients are being computed."""

    def backward_ends(self) -> None:
        """They have been."""

    def step_ends(self) -> None:
        """The optimizer has made its step."""

    def model_found(self, model: Any) -> None:
        """This module is called by the script itself, not by another module."""

    def profiler_found(self, name: str) -> None:
        """The script makes a profiler of its own."""


class TorchHooks:
    """Hooks into torch, lasting for the process.

    Args:
        listener: Is told.
        marker: What ends a step: "optimizer", "backward", or "call:MODULE:FUNCTION".
    """

    def __init__(self, listener: Listener, marker: str = "optimizer") -> None:
        self._listener = listener
        self._marker = check_marker(marker)
        self._first_optimizer: Any = None
        self._stepping = 0  # optimizers whose step is running
        self._depth = 0
        self._steps = 0
        self._roots: weakref.WeakSet[Any] = weakref.WeakSet()
        self._discovery: list[Any] = []

    def install(self) -> None:
        """Puts the hooks in."""
        self._discovery = [
            torch_module.register_module_forward_pre_hook(self._module_begins),
            torch_module.register_module_forward_hook(self._module_ends, always_call=True),
        ]
        self._wrap_data_loading()
        self._wrap_backward()
        self._wrap_profiler()
        self._wrap_eval()
        if self._marker == "optimizer":
            self._wrap_optimizers()
        if self._marker.startswith("call:"):
            self._wrap_call()

    # --- modules --------------------------------------------------------------------------

    def _module_begins(self, module: Any, inputs: Any) -> None:
        if self._depth == 0 and module not in self._roots and _has_parameters(module):
            self._watch(module)
            self._listener.forward_begins(torch.is_grad_enabled())
        self._depth += 1

    def _module_ends(self, module: Any, inputs: Any, output: Any) -> None:
        self._depth = max(self._depth - 1, 0)

    def _watch(self, module: Any) -> None:
        self._roots.add(module)
        module.register_forward_pre_hook(self._root_begins)
        self._listener.model_found(module)

    def _root_begins(self, module: Any, inputs: Any) -> None:
        self._listener.forward_begins(torch.is_grad_enabled())

    def _wrap_eval(self) -> None:
        """A model that is first used for evaluation is known by its `eval()`."""
        plain = torch.nn.Module.eval
        hooks = self

        @functools.wraps(plain)
        def evaluate(module: Any) -> Any:
            if module not in hooks._roots and hooks._steps and _has_parameters(module):
                hooks._roots.add(module)
                module.register_forward_pre_hook(hooks._root_begins)
            return plain(module)

        torch.nn.Module.eval = evaluate  # type: ignore[method-assign,assignment]

    # --- data, backward, steps --------------------------------------------------------------

    def _wrap_data_loading(self) -> None:
        plain = dataloader._BaseDataLoaderIter.__next__
        listener = self._listener

        @functools.wraps(plain)
        def following(iterator: Any) -> Any:
            listener.data_begins()
            batch = plain(iterator)
            listener.data_ends(samples_of(batch))
            return batch

        dataloader._BaseDataLoaderIter.__next__ = following  # type: ignore[method-assign,assignment]

    def _wrap_backward(self) -> None:
        plain = torch.autograd.backward
        listener = self._listener
        hooks = self

        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            listener.backward_begins()
            result = plain(*args, **kwargs)
            listener.backward_ends()
            if hooks._marker == "backward":
                hooks._step_ended()
            return result

        torch.autograd.backward = backward

    def _wrap_optimizers(self) -> None:
        """A step ends when the optimizer's has returned, its own hooks and scope included.

        A hook of the framework's would end it within them, where a window can neither open nor
        close. Optimizers wrap their class's `step` with this method when the first one is made.
        """
        plain = torch_optimizer.Optimizer.profile_hook_step
        hooks = self

        def wrap(step: Callable[..., Any]) -> Callable[..., Any]:
            hooked = plain(step)

            @functools.wraps(hooked)
            def stepping(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                hooks._stepping += 1
                try:
                    result = hooked(optimizer, *args, **kwargs)
                finally:
                    hooks._stepping -= 1
                if not hooks._stepping:  # else a subclass called its parent's
                    hooks._optimizer_stepped(optimizer)
                return result

            return stepping

        torch_optimizer.Optimizer.profile_hook_step = staticmethod(wrap)  # type: ignore[method-assign,assignment]

    def _optimizer_stepped(self, optimizer: Any) -> None:
        known = None if self._first_optimizer is None else self._first_optimizer()
        if known is None:
            self._first_optimizer = weakref.ref(optimizer)
        elif known is not optimizer:
            return
        self._step_ended()

    def _wrap_call(self) -> None:
        module_name, _, name = self._marker.removeprefix("call:").partition(":")
        module = importlib.import_module(module_name)
        *path, last = name.split(".")
        owner = functools.reduce(getattr, path, module)
        plain: Callable[..., Any] = getattr(owner, last)

        @functools.wraps(plain)
        def called(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            self._step_ended()
            return result

        setattr(owner, last, called)

    def _step_ended(self) -> None:
        self._steps += 1
        if self._steps == DISCOVERY_STEPS:
            for handle in self._discovery:
                handle.remove()
        self._listener.step_ends()

    def _wrap_profiler(self) -> None:
        plain = autograd_profiler.profile.__init__
        listener = self._listener

        @functools.wraps(plain)
        def made(profile: Any, *args: Any, **kwargs: Any) -> None:
            listener.profiler_found("torch.profiler")
            plain(profile, *args, **kwargs)

        autograd_profiler.profile.__init__ = made  # type: ignore[method-assign,assignment]


def samples_of(batch: Any) -> int | None:
    """First dimension of the first tensor in a batch, however it is packed."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else None
    if isinstance(batch, dict) or hasattr(batch, "values"):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for part in batch:
            found = samples_of(part)
            if found is not None:
                return found
    return None


def _has_parameters(module: Any) -> bool:
    return next(module.parameters(), None) is not None
