"""Which layer of a torch model runs: module paths, as scopes in a trace and for its parameters."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._C._profiler import _RecordFunctionFast
from torch.nn.modules import module as torch_module

SCOPE = "wattstep.layer:"
OUTSIDE = "(outside modules)"


class LayerScopes:
    """While active, every module's forward is a scope in the trace, named by its path.

    The hooks are the framework's global ones: taking them in and out costs the same for a model
    of any size, and outside of traced steps no module carries anything.
    """

    def __init__(self) -> None:
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._roots: weakref.WeakSet[Any] = weakref.WeakSet()
        self._open: list[Any] = []
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Hooks in."""
        self._open.clear()
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._enter),
            torch_module.register_module_forward_hook(self._leave, always_call=True),
        ]

    def end(self) -> None:
        """Hooks out, and closes what an exception left open."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        while self._open:
            self._open.pop().__exit__(None, None, None)

    def _enter(self, module: Any, inputs: Any) -> None:
        path = self._paths.get(module)
        if path is None:
            self.learn(module)
            path = self._paths[module]
        scope = _RecordFunctionFast(SCOPE + path)
        scope.__enter__()
        self._open.append(scope)

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        if self._open:
            self._open.pop().__exit__(None, None, None)

    def learn(self, root: Any) -> None:
        """Names the modules below `root`; a second root's are told apart by its class."""
        prefix = "" if not self._roots else f"{type(root).__name__}."
        for path, module in root.named_modules():
            self._paths.setdefault(module, prefix + path if path else type(root).__name__)
        self._roots.add(root)

    def layers_of_tensors(self, optimizers: Any) -> dict[int, str]:
        """Storage address of every parameter and of its optimizer state, to its layer."""
        layers: dict[int, str] = {}
        owner: dict[int, str] = {}
        for module, path in self._paths.items():
            for parameter in module.parameters(recurse=False):
                owner[id(parameter)] = path
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


class TopLevelMarks:
    """Marks when the top-level layers of a model run, in steps that can afford it.

    Args:
        model: The module; where it has fewer than three children, theirs are taken.
        code: Gives the number of a layer's name.
        entered: Called with the number when the layer's forward begins.
        left: Called with it when the forward ends.
    """

    def __init__(
        self,
        model: Any,
        code: Callable[[str], int],
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
        self._modules = [(module, code(name)) for name, module in children.items()]
        self._entered = entered
        self._left = left
        self._handles: list[Any] = []

    @property
    def layers(self) -> int:
        """How many layers are marked."""
        return len(self._modules)

    def attach(self) -> None:
        """Hooks in, unless they are."""
        if self._handles:
            return
        entered, left = self._entered, self._left
        for module, number in self._modules:

            def before(_module: Any, _inputs: Any, number: int = number) -> None:
                entered(number)

            def after(_module: Any, _inputs: Any, _output: Any, number: int = number) -> None:
                left(number)

            self._handles.append(module.register_forward_pre_hook(before))
            self._handles.append(module.register_forward_hook(after))

    def detach(self) -> None:
        """Hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
