"""Fake tensors and optimizers without torch's compiler, which they load (half a second) for what needs none of it.

`FakeTensorMode` looks up settings of torch._dynamo and names tensors by it; optimizers tell it where no graph goes on.
Meanwhile light modules answer just that. Whatever else is asked for loads the real ones, for good.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any, Final

COMPILER: Final = "torch._dynamo"
CONFIG: Final = f"{COMPILER}.config"
SOURCE: Final = f"{COMPILER}.source"
HIDDEN: Final = "__dynamo_disable"  # where torch keeps what hides a function from its compiler


@contextmanager
def without_compiler() -> Iterator[None]:
    """Keeps torch from loading its compiler for what it does not compile; nothing where it is loaded."""
    if COMPILER in sys.modules:
        yield
        return
    light = _Light()
    light.begin()
    try:
        yield
    finally:
        light.end()


class _Light:
    """The light modules, from `begin` to `end` in the places of the real ones."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {
            COMPILER: _Module(COMPILER, {"graph_break": _graph_break, "disable": self._disable}, self),
            CONFIG: _Module(CONFIG, SETTINGS, self),
            SOURCE: _Module(SOURCE, {"ConstantSource": _Name, "RandomValueSource": _Random}, self),
        }  # fmt: skip
        self._modules[COMPILER].__path__ = []  # it has parts, which `_Finder` finds
        self._finder = _Finder(self)
        self._hidden: list[Any] = []

    def begin(self) -> None:
        """In their places."""
        for name, module in self._modules.items():
            sys.modules[name] = module
            _attach(name, module)
        sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """Out of them, and what was not hidden from the compiler will be."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
            _detach(name, module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        for function in self._hidden:
            vars(function).pop(HIDDEN, None)
        self._hidden.clear()

    def real(self, name: str) -> ModuleType:
        """The real module, loaded now at the latest."""
        self.end()
        return importlib.import_module(name)

    def _disable(self, function: Any = None, *given: Any, **named: Any) -> Any:
        """Hides a function of torch's from the compiler, where nothing is compiled."""
        here = sys.modules.get(COMPILER) is self._modules[COMPILER]
        if here and callable(function) and named.get("wrapping", True) is False:
            self._hidden.append(function)
            return function
        return self.real(COMPILER).disable(function, *given, **named)


class _Module(ModuleType):
    """A module that has some answers, and for all else gives way to the real one."""

    def __init__(self, name: str, answers: Mapping[str, Any], light: _Light) -> None:
        super().__init__(name)
        vars(self).update(answers, _light=light)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what anybody asks of all modules
            raise AttributeError(name)
        return getattr(self._light.real(self.__name__), name)


class _Finder(MetaPathFinder):
    """Finds parts of the compiler: the real one is loaded, and they are its own."""

    def __init__(self, light: _Light) -> None:
        self._light = light

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """As the import system asks."""
        if not name.startswith(f"{COMPILER}."):
            return None
        self._light.real(COMPILER)
        module = importlib.import_module(name)
        del sys.modules[
            name
        ]  # until it is "loaded": else the import system runs its code once more
        return spec_from_loader(name, _Loaded(module))


class _Loaded(Loader):
    """Gives a module that is loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def exec_module(self, module: ModuleType) -> None:
        """As the import system asks: what is in `sys.modules` then counts."""
        sys.modules[module.__name__] = self._module
        _attach(module.__name__, self._module)


def _attach(name: str, module: ModuleType) -> None:
    parent, _, last = name.rpartition(".")
    setattr(importlib.import_module(parent), last, module)


def _detach(name: str, module: ModuleType) -> None:
    parent, _, last = name.rpartition(".")
    there = sys.modules.get(parent)
    if there is not None and vars(there).get(last) is module:
        delattr(there, last)


def _graph_break(*given: Any, **named: Any) -> None:
    """No graph is made."""


class _Name:
    """Where a tensor comes from, by a name that nobody asks for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(SOURCE).ConstantSource(self._name), name)


class _Random:
    """What nothing comes from that is not compiled."""


# What `FakeTensorMode` looks up; its cache of answers is not used (`fake.ShapeMode`).
SETTINGS: Final[Mapping[str, Any]] = {
    "fake_tensor_cache_enabled": False,
    "fake_tensor_cache_crosscheck_enabled": False,
    "_custom_ops_profile": None,
}
