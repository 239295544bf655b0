"""Tells when torch goes forward, computes gradients and updates parameters, from hooks that cost little."""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import utils as torch_nn_utils
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from wattstep.engines.torch.global_hooks import around_modules, call_without_hooks, unhooked
from wattstep.engines.torch.graph_sign import GraphSign
from wattstep.engines.torch.own_hooks import hook_after, hook_before, is_compiling
from wattstep.schema.training_hooks import PhaseListener

CLIPPERS = ("clip_grad_norm_", "clip_grad_value_")
MOST_NAMED = 2  # networks of one optimizer that its name tells
COMPILED = "_orig_mod"  # under which what torch.compile makes of a module holds it


class PhaseHooks:
    """Hooks at the networks of a training, at autograd, and at optimizers.

    Modules without a hook cost nothing: while `discover` is on, global hooks find those that no
    other module calls; each of these then carries hooks of its own. In steps without marks only
    `forward_begins` is told.

    Args:
        listener: Is told.
        found: Called once with each network.
    """

    def __init__(self, listener: PhaseListener, on_network: Callable[[Any], None]) -> None:
        self._listener = listener
        self._phases = listener.phases
        self._found = on_network
        self._networks: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._counts: Counter[str] = Counter()  # networks of a class
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.discovering = False  # networks are looked for
        self._discovery: list[Any] = []  # its hooks
        self._undo: list[Callable[[], None]] = []
        self._ends: list[Any] = []  # the hooks at the ends of networks
        self.ends_hooked = True
        self._compiles = False  # torch's compiler was asked for something
        self._depth = 0  # of modules, as the global hooks see it
        self._inside = 0  # of networks
        self._backward = 0
        self._called = False  # a network has been, in the step that runs
        self._graph = GraphSign(listener.graph_begins)
        self._by_hand = False  # ends of `torch.no_grad` are heard of
        self._without_networks = False  # steps go backward through what no network made

    def install(self) -> None:
        """Puts the hooks in; those at optimizers' steps are `watch_optimizers`."""
        self._wrap(torch.autograd, "backward", self._around_backward)
        self._wrap(torch.autograd, "grad", self._around_backward)
        self._wrap(torch_optimizer.Optimizer, "zero_grad", self._around_clearing)
        for name in CLIPPERS:
            self._wrap(torch_nn_utils, name, self._around_clipping)
        if hasattr(torch.nn.Module, "compile"):  # from torch 2.2 on
            self._wrap(torch.nn.Module, "compile", self._around_compiling)
            self._wrap(torch, "compile", self._around_compiler)
        self.discover(True)

    def watch_optimizers(self) -> None:
        """Hooks of the framework's at every optimizer's step."""
        begins = torch_optimizer.register_optimizer_step_pre_hook(self._optimizer_begins)
        ends = torch_optimizer.register_optimizer_step_post_hook(self._optimizer_ends)
        self._undo += [begins.remove, ends.remove]

    def _optimizer_begins(self, *_: Any) -> None:
        if self._phases.on:
            self._listener.optimizer_begins()

    def _optimizer_ends(self, optimizer: Any, *_: Any) -> None:
        if self._phases.on:
            self._listener.optimizer_ends(lambda: self.name_of(optimizer))

    def remove(self) -> None:
        """Takes all of them out."""
        self.discover(False)
        self._compiles = False
        self.hook_ends(False)
        self._graph.remove()
        while self._undo:
            self._undo.pop()()

    # --- networks -----------------------------------------------------------------------------

    def discover(self, on: bool) -> None:
        """Looks for networks, or stops to."""
        self.discovering = on and hasattr(torch_module, "register_module_forward_hook")
        if self.discovering:
            self._look_again()
        else:
            self._look_away()

    def _look_again(self, *_: Any) -> None:
        if self.discovering and not self._discovery:
            self._depth = 0
            self._discovery = around_modules(self._module_begins, self._module_ends)

    def _look_away(self) -> None:
        for handle in self._discovery:
            handle.remove()
        self._discovery = []

    def step_begins(self) -> None:
        """Nothing runs: what an exception left open is closed."""
        self._look_again()
        self._depth = self._inside = self._backward = 0
        self._called = False
        if self._without_networks and self._phases.on:
            self._graph.look()
        if self._phases.by_hand and not self._by_hand:
            self._by_hand = True
            self._wrap(torch.no_grad, "__exit__", self._around_no_gradients)

    def hook_ends(self, on: bool) -> None:
        """Hooks at the ends of networks, which steps without marks do not need; or none."""
        self.ends_hooked = on
        if self._compiles and self._ends:
            return  # without them torch's compiler would compile again, and again with them
        for handle in self._ends:
            handle.remove()
        self._ends = []
        if on:
            hooked = (n for n in self._networks if not _compiled_in_place(n))
            self._ends = [hook_after(n, self._network_ends) for n in hooked]

    def watch(self, module: Any) -> None:
        """Hooks at one network."""
        if module in self._networks:
            return
        self._networks[module] = self._name(module)
        if _compiled_in_place(module):  # whose call tells of it: hooks would be compiled with it
            self._found(module)
            return
        self._undo.append(hook_before(module, self._network_begins).remove)
        self._ends.append(hook_after(module, self._network_ends))
        if hasattr(module, COMPILED):
            self._undo.append(hook_after(module, self._look_again).remove)
        self._found(module)

    def _name(self, module: Any) -> str:
        """The network's class, with a number from the second of a class on."""
        # What compiles or distributes a module holds it under one of these names.
        inner = getattr(module, COMPILED, module)
        name = type(getattr(inner, "module", inner)).__name__
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name} {self._counts[name]}"

    def _module_begins(self, module: Any, inputs: Any) -> None:
        if is_compiling():
            return
        # What is computed anew within the backward pass is no network of its own.
        outermost = self._depth == 0 and not self._backward
        if outermost and next(module.parameters(), None) is not None:
            self.watch(module)  # its own hook, which comes after this one, tells of it
        if hasattr(module, COMPILED):
            # What is compiled is compiled with the hooks that are there, and again once they are not.
            self._look_away()
        else:
            self._depth += 1

    def _module_ends(self, module: Any, inputs: Any, output: Any) -> None:
        if is_compiling():
            return
        self._depth = max(self._depth - 1, 0)

    def _network_begins(self, module: Any, inputs: Any) -> None:
        if not self._phases.on:
            self._listener.forward_begins(module, torch.is_grad_enabled())
            return
        self._inside += 1
        self._called = True
        if self._inside == 1 and not self._backward:
            self._listener.forward_begins(module, torch.is_grad_enabled())

    def _network_ends(self, module: Any, inputs: Any, output: Any) -> None:
        if not self._phases.on:
            return
        self._inside = max(self._inside - 1, 0)
        if not self._inside and not self._backward:
            self._listener.forward_ends()

    def _around_compiling(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def compile_in_place(module: Any, *args: Any, **kwargs: Any) -> None:
            plain(module, *args, **kwargs)
            compiled = module._compiled_call_impl

            def call(*inputs: Any, **named: Any) -> Any:
                if is_compiling():  # within another one
                    return compiled(*inputs, **named)
                return call_without_hooks(
                    compiled, module, inputs, named, self._compiled_begins, self._compiled_ends
                )

            module._compiled_call_impl = call

        return compile_in_place

    def _around_compiler(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def compile_(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            self.hook_ends(True)
            self._compiles = True
            compiled = plain(model, *args, **kwargs)
            if model is None:  # a decorator, which calls this one
                return compiled
            if not isinstance(compiled, torch.nn.Module):
                return unhooked(compiled)
            compiled.forward = unhooked(compiled.forward)
            return compiled

        return compile_

    def _compiled_begins(self, module: Any, inputs: Any) -> None:
        if module in self._networks:
            self._network_begins(module, inputs)

    def _compiled_ends(self, module: Any, inputs: Any, output: Any) -> None:
        if self.ends_hooked and module in self._networks:
            self._network_ends(module, inputs, output)

    # --- gradients and optimizers -------------------------------------------------------------

    def _wrap(self, owner: Any, name: str, around: Callable[[Any], Any]) -> None:
        plain = getattr(owner, name)
        wrapped = around(plain)
        setattr(owner, name, wrapped)

        def undo() -> None:
            if getattr(owner, name) is wrapped:  # else somebody has wrapped it since
                setattr(owner, name, plain)

        self._undo.append(undo)

    def _around_backward(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            # Checkpoints go backward within the backward pass.
            if self._backward or not self._phases.on:
                return plain(*args, **kwargs)
            self._backward = 1
            self._listener.backward_begins()
            self._without_networks = not self._called
            self._graph.look_away()
            try:
                return plain(*args, **kwargs)
            finally:
                self._backward = 0
                self._listener.backward_ends()
                if self._without_networks:
                    self._graph.look()

        return backward

    def _around_clearing(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._phases.on:
                return plain(optimizer, *args, **kwargs)
            self._listener.clearing_begins()
            try:
                return plain(optimizer, *args, **kwargs)
            finally:
                self._listener.clearing_ends()

        return zero_grad

    def _around_clipping(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def clip(*args: Any, **kwargs: Any) -> Any:
            if not self._phases.on:
                return plain(*args, **kwargs)
            self._listener.clipping_begins()
            try:
                return plain(*args, **kwargs)
            finally:
                self._listener.clipping_ends()

        return clip

    def _around_no_gradients(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def leave(block: Any, *args: Any) -> Any:
            result = plain(block, *args)
            if self._phases.on and self._phases.by_hand and not self._backward:
                self._listener.no_gradients_end()
            return result

        return leave

    def name_of(self, optimizer: Any) -> str:
        """An optimizer by the networks whose parameters it has, else by its class."""
        name = self._names.get(optimizer)
        if name is None:
            shown = " and ".join(self._networks_of(optimizer)) or type(optimizer).__name__
            taken = set(self._names.values())
            name = self._names[optimizer] = next(n for n in _numbered(shown) if n not in taken)
        return name

    def _networks_of(self, optimizer: Any) -> list[str]:
        """The networks that it trains, all of each or, where none is, a part."""
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        whole: list[str] = []
        part: list[str] = []
        for network, name in self._networks.items():
            trained = [id(p) in mine for p in network.parameters() if p.requires_grad]
            if any(trained):
                (whole if all(trained) else part).append(name)
        return sorted(whole or part)[:MOST_NAMED]


def _numbered(name: str) -> Iterator[str]:
    """The name, then with numbers from 2 on."""
    yield name
    number = 2
    while True:
        yield f"{name} {number}"
        number += 1


def _compiled_in_place(module: Any) -> bool:
    """True if `module.compile()` was called."""
    return getattr(module, "_compiled_call_impl", None) is not None
