"""Layers of a torch model that run: module paths, as scopes in a trace and for its parameters."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._profiler import _RecordFunctionFast

from wattstep.engines.torch.global_hooks import around_modules
from wattstep.engines.torch.own_hooks import hook_after, hook_before, is_compiling

SCOPE = "wattstep.layer:"
OUTSIDE = "(outside modules)"


class LayerScopes:
    """While active, every module's forward is a scope in the trace, named by its path.

    The hooks are the framework's global ones: taking them in and out costs the same for a model
    of any size, and outside of traced steps no module carries anything.
    """

    def __init__(self) -> None:
        self._scopes: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._names = NetworkNames()
        self._open: list[Any] = []
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Hooks in."""
        self._open.clear()
        self._handles = around_modules(self._enter, self._leave)

    def end(self) -> None:
        """Hooks out, and closes what an exception left open."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        while self._open:
            self._open.pop().__exit__(None, None, None)

    def _enter(self, module: Any, inputs: Any) -> None:
        if is_compiling():
            return
        scope = self._scopes.get(module)
        if scope is None:
            self.learn(module, alone=False)
            scope = self._scopes[module]
        entered = _RecordFunctionFast(scope)
        entered.__enter__()
        self._open.append(entered)

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        if self._open and not is_compiling():
            self._open.pop().__exit__(None, None, None)

    def learn(self, root: Any, *, alone: bool = True) -> None:
        """Takes note of the modules below `root`, which is called by no other module.

        Args:
            root: The module.
            alone: True if its layers keep their own paths whatever else is learned later; else
                names are given when they are first asked for, to all networks known by then.
        """
        number = self._names.add(type(root).__name__)
        for path, module in root.named_modules():
            if module not in self._scopes:
                self._scopes[module] = f"{SCOPE}{self._names.place(number, path)}"
        if alone:
            self.paths()

    def paths(self) -> dict[str, str]:
        """Names of all layers by the text of their scopes."""
        return {f"{SCOPE}{place}": name for place, name in enumerate(self._names.all())}

    def path(self, module: Any) -> str:
        """The name of a layer that was learned."""
        return self.paths()[self._scopes[module]]

    def layers_of_tensors(self, optimizers: Any) -> dict[int, str]:
        """Storage address of every parameter and of its optimizer state, to its layer."""
        layers: dict[int, str] = {}
        owner: dict[int, str] = {}
        paths = self.paths()
        for module, scope in self._scopes.items():
            for parameter in module.parameters(recurse=False):
                owner[id(parameter)] = paths[scope]
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    layer = owner.get(id(parameter))
                    if layer is None:
                        continue
                    state = optimizer.state.get(parameter, {})
                    for tensor in (parameter, parameter.grad, *state.values()):
                        if isinstance(tensor, torch.Tensor) and tensor.numel():
                            layers[tensor.untyped_storage().data_ptr()] = layer
        return layers


class NetworkNames:
    """Names of the layers of all networks of a training.

    One network's layers have its own paths. Where two have a path in common, both are told apart
    by their class and a number: `Generator.0`, `Sequential 2.0`. A name that was given stays.
    """

    def __init__(self) -> None:
        self._classes: list[str] = []  # of the networks
        self._places: list[tuple[int, str]] = []  # network and path of each layer
        self._given: list[str] = []  # names of the first layers
        self._named: Counter[str] = Counter()  # networks of a class
        self._prefixed: Counter[str] = Counter()  # those whose layers carry the class

    def add(self, class_name: str) -> int:
        """A further network; returns its number."""
        self._classes.append(class_name)
        return len(self._classes) - 1

    def place(self, network: int, path: str) -> int:
        """A further layer, "" for the network itself; returns its position."""
        self._places.append((network, path))
        return len(self._places) - 1

    def all(self) -> Sequence[str]:
        """The name of every layer, by position."""
        fresh = self._places[len(self._given) :]
        if fresh:
            taken = Counter([*self._given, *(path for _, path in fresh)])
            shared = {network for network, path in fresh if path and taken[path] > 1}
            networks = dict(fresh)
            own = {number: self._label(number, self._named) for number in networks}
            prefix = {n: self._label(n, self._prefixed) + "." for n in networks if n in shared}
            for number, path in fresh:
                self._given.append(prefix.get(number, "") + path if path else own[number])
        return self._given

    def _label(self, network: int, counts: Counter[str]) -> str:
        """The network's class, with a number from the second of a class on."""
        name = self._classes[network]
        counts[name] += 1
        return name if counts[name] == 1 else f"{name} {counts[name]}"


class TopLevelMarks:
    """Marks when the top-level layers of a model run, in steps that can afford it.

    Args:
        model: The module; where it has fewer than three children, theirs are taken.
        code: Gives the number of a layer by its module; asked when the marks are first wanted.
        entered: Called with the number when the layer's forward begins.
        left: Called with it when the forward ends.
    """

    def __init__(
        self,
        model: Any,
        code: Callable[[Any], int],
        entered: Callable[[int], None],
        left: Callable[[int], None],
    ) -> None:
        children = dict(model.named_children())
        while 0 < len(children) < 3:
            below = {
                f"{name}.{path}": module
                for name, parent in children.items()
                for path, module in parent.named_children()
            }
            if not below:
                break
            children = below
        self._modules = list(children.values())
        self._code = code
        self._numbers: list[int] = []
        self._entered = entered
        self._left = left
        self._handles: list[Any] = []

    @property
    def layers(self) -> int:
        """Number of marked layers."""
        return len(self._modules)

    def attach(self) -> None:
        """Hooks in, unless they are."""
        if self._handles:
            return
        entered, left = self._entered, self._left
        self._numbers = self._numbers or [self._code(module) for module in self._modules]
        for module, number in zip(self._modules, self._numbers, strict=True):

            def before(_module: Any, _inputs: Any, number: int = number) -> None:
                entered(number)

            def after(_module: Any, _inputs: Any, _output: Any, number: int = number) -> None:
                left(number)

            self._handles.append(hook_before(module, before))
            self._handles.append(hook_after(module, after))

    def detach(self) -> None:
        """Hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
