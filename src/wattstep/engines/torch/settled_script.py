"""Puts settings into somebody's own torch script: threads, layout, compiler, optimizers, data loaders."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader

from wattstep.engines.torch.shaping import has_convolutions, lay_channels_last
from wattstep.engines.torch.tuned import choose_kernel, nudge, use_interop_threads
from wattstep.errors import InvalidValueError
from wattstep.schema.training_hooks import ScriptTuning


def settle(script: ScriptTuning) -> None:
    """Puts the settings in; what belongs to models happens before each is first called."""
    if script.threads is not None:
        torch.set_num_threads(script.threads)
    if script.interop_threads is not None:
        use_interop_threads(script.interop_threads)
    if script.optimizer_kernel is not None:
        _settle_optimizers(script.optimizer_kernel)
    if script.loader_workers is not None:
        _settle_loaders(script.loader_workers)
    if script.channels_last or script.compiled or script.nudge:
        _Models(script)
    if script.on_loss is not None:
        _follow_losses(script.on_loss)


def _settle_optimizers(kernel: str) -> None:
    """Every optimizer that the script says nothing of, before its first step."""
    settled: weakref.WeakSet[Any] = weakref.WeakSet()

    def settle_one(optimizer: Any, *_: Any) -> None:
        if optimizer in settled:
            return
        settled.add(optimizer)
        if all(optimizer.defaults.get(name) is None for name in ("fused", "foreach")):
            choose_kernel(optimizer, kernel)

    torch_optimizer.register_optimizer_step_pre_hook(settle_one)


def _settle_loaders(workers: int) -> None:
    """Data loaders that say nothing of processes."""
    construct = DataLoader.__init__

    @functools.wraps(construct)
    def made(loader: Any, *args: Any, **named: Any) -> None:
        if "num_workers" not in named and len(args) < _PLACE_OF_WORKERS:
            named["num_workers"] = workers
            named.setdefault("persistent_workers", workers > 0)
        construct(loader, *args, **named)

    DataLoader.__init__ = made  # type: ignore[method-assign,assignment]


_STEPS = 2
_PLACE_OF_WORKERS = 6  # positional arguments of a DataLoader up to that, the data set among them


class _Models:
    """Settles each model that trains when it is first called, before it computes anything.

    In a call that is being compiled there is nothing to settle: hooks of torch's would be compiled, too.

    Args:
        script: What is settled.
    """

    def __init__(self, script: ScriptTuning) -> None:
        self._script = script
        self._settled: weakref.WeakSet[Any] = weakref.WeakSet()
        self._depth = self._steps = 0
        self._laid = False
        plain = torch.nn.Module.__call__

        @functools.wraps(plain)
        def called(module: Any, *args: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling():
                return plain(module, *args, **named)
            self._depth += 1
            try:
                if self._depth == 1 and module not in self._settled and not _in_backward():
                    self._settle(module)
                return plain(module, *args, **named)
            finally:
                self._depth -= 1

        self._plain = plain
        torch.nn.Module.__call__ = called  # type: ignore[method-assign]
        self._hook = torch_optimizer.register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        """By the second step all models were called; a look at every module would slow what follows."""
        self._steps += 1
        if self._steps == _STEPS:
            torch.nn.Module.__call__ = self._plain  # type: ignore[method-assign]
            self._hook.remove()
            if self._script.channels_last and not self._laid:
                raise InvalidValueError(
                    "--channels-last: no model of the script has convolutions of images",
                    id="no-convolutions",
                )

    def _settle(self, module: Any) -> None:
        self._settled.add(module)
        if next(module.parameters(), None) is None:
            return
        if self._script.nudge:
            nudge(module)
        if self._script.channels_last and has_convolutions(module):
            lay_channels_last(module, "the script's model")
            self._laid = True
        if self._script.compiled and not _is_compiled(module):
            module.compile()


def _in_backward() -> bool:
    """True while gradients are computed: what checkpointing calls again are layers, and no model of its own."""
    return torch._C._current_graph_task_id() != -1


def _is_compiled(module: Any) -> bool:
    """True if the script has a model compiled, by `torch.compile` or by `compile` of its own."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def _follow_losses(tell: Callable[[float], None]) -> None:
    plain = torch.autograd.backward

    @functools.wraps(plain)
    def backward(tensors: Any, *args: Any, **named: Any) -> Any:
        first = tensors if isinstance(tensors, torch.Tensor) else tensors[0]
        tell(float(first.detach().sum()))
        return plain(tensors, *args, **named)

    torch.autograd.backward = backward
