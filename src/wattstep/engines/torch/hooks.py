"""Learns from somebody else's torch script when data is loaded, when it goes forward and backward, and when a step ends."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.data.dataloader as dataloader
from torch.autograd import profiler as autograd_profiler
from torch.optim import optimizer as torch_optimizer

from wattstep.engines.markers import check_marker
from wattstep.engines.torch.phase_hooks import PhaseHooks
from wattstep.schema.training_hooks import Listener

DISCOVERY_STEPS = 3  # during these the outermost modules are looked for


class TorchHooks:
    """Hooks into torch, lasting for the process.

    Args:
        listener: Is told.
        marker: Call that ends a step: "optimizer", "backward", or "call:MODULE:FUNCTION".
    """

    def __init__(self, listener: Listener, marker: str = "optimizer") -> None:
        self._listener = listener
        self._marker = check_marker(marker)
        self._first_optimizer: Any = None
        self._stepping = False  # an optimizer's step is running
        self._steps = 0
        self._phases = PhaseHooks(listener, listener.model_found)

    def install(self) -> None:
        """Puts the hooks in."""
        self._phases.install()
        self._wrap_data_loading()
        self._wrap_profiler()
        self._wrap_eval()
        self._wrap_optimizers()
        if self._marker == "backward":
            self._wrap_backward()
        if self._marker.startswith("call:"):
            self._wrap_call()

    # --- modules --------------------------------------------------------------------------

    def _wrap_eval(self) -> None:
        """A model that is first used for evaluation is known by its `eval()`."""
        plain = torch.nn.Module.eval
        hooks = self

        @functools.wraps(plain)
        def evaluate(module: Any) -> Any:
            if hooks._steps and _has_parameters(module):
                hooks._phases.watch(module)
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
        torch.autograd.backward = self._ends_step(torch.autograd.backward)

    def _wrap_optimizers(self) -> None:
        """An update, and a step, ends when the optimizer's has returned, its own hooks included.

        A hook of the framework's would end it within them, where a window can neither open nor
        close. Optimizers wrap their class's `step` with this method when the first one is made.
        """
        base, around = torch_optimizer.Optimizer, self._around_step
        if hasattr(base, "profile_hook_step"):
            plain = base.profile_hook_step
            base.profile_hook_step = staticmethod(lambda step: around(plain(step)))  # type: ignore[method-assign,assignment]
            return
        construct = base.__init__  # before torch 2.0 that wrapping is a part of it

        @functools.wraps(construct)
        def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            construct(optimizer, *args, **kwargs)
            owner: Any = next(kind for kind in type(optimizer).__mro__ if "step" in vars(kind))
            if not hasattr(owner.step, "wattstep"):
                owner.step = around(owner.step)
                owner.step.wattstep = True

        base.__init__ = made  # type: ignore[method-assign,assignment]

    def _around_step(self, hooked: Callable[..., Any]) -> Callable[..., Any]:
        hooks, listener = self, self._listener

        @functools.wraps(hooked)
        def stepping(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if hooks._stepping:  # a subclass calls its parent's
                return hooked(optimizer, *args, **kwargs)
            hooks._stepping = True
            marked = listener.phases.on
            if marked:
                listener.optimizer_begins()
            try:
                result = hooked(optimizer, *args, **kwargs)
            finally:
                hooks._stepping = False
                if marked:
                    listener.optimizer_ends(lambda: hooks._phases.name_of(optimizer))
            hooks._optimizer_stepped(optimizer)
            return result

        return stepping

    def _optimizer_stepped(self, optimizer: Any) -> None:
        if self._marker != "optimizer":
            return
        first = None if self._first_optimizer is None else self._first_optimizer()
        if first is None:
            self._first_optimizer = weakref.ref(optimizer)
        elif first is not optimizer:
            return
        self._step_ended()

    def _wrap_call(self) -> None:
        module_name, _, name = self._marker.removeprefix("call:").partition(":")
        module = importlib.import_module(module_name)
        *path, last = name.split(".")
        owner = functools.reduce(getattr, path, module)
        setattr(owner, last, self._ends_step(getattr(owner, last)))

    def _ends_step(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a function with whose return a step ends."""

        @functools.wraps(plain)
        def called(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            self._step_ended()
            return result

        return called

    def _step_ended(self) -> None:
        self._steps += 1
        listener, hooks = self._listener, self._phases
        listener.step_ends()
        hooks.step_begins()
        on = listener.phases.on
        if on is not hooks.ends_hooked:
            hooks.hook_ends(on)
        # Networks that join later are found in traced steps, which carry such hooks anyhow.
        looks = self._steps < DISCOVERY_STEPS or (on and listener.tracing)
        if looks is not hooks.discovering:
            hooks.discover(looks)

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
            count = samples_of(part)
            if count is not None:
                return count
    return None


def _has_parameters(module: Any) -> bool:
    return next(module.parameters(), None) is not None
