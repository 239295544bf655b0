"""Fake tensors and optimizers without torch's compiler and symbols, which they load (0.8 s) for what needs none of it.

`FakeTensorMode` looks up settings of torch._dynamo and names tensors by it; optimizers tell it where no graph goes on.
Kernels of shapes ask whether sizes are symbols, of torch.fx.experimental.symbolic_shapes and of sympy, where all of
them are numbers. Meanwhile light modules answer just that. Whatever else is asked for loads the real ones, for good.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any, Final

import torch

COMPILER: Final = "torch._dynamo"
CONFIG: Final = f"{COMPILER}.config"
SOURCE: Final = f"{COMPILER}.source"
HIDDEN: Final = "__dynamo_disable"  # where torch keeps what hides a function from its compiler
SYMBOLS: Final = "torch.fx.experimental.symbolic_shapes"
SYMPY: Final = "sympy"
FUNCTIONS: Final = "torch.utils._sympy.functions"


@contextmanager
def without_compiler() -> Iterator[None]:
    """Keeps torch from loading its compiler and symbols for what takes none; nothing where they are loaded."""
    with ExitStack() as lights:
        for light in (_Compiler(), _Symbols()):
            if not any(name in sys.modules for name in light.names):
                light.begin()
                lights.callback(light.end)
        yield


class _Light:
    """Light modules, from `begin` to `end` in the places of the real ones.

    Args:
        answers: What each answers, by name.
        package: The one that has parts.
    """

    def __init__(self, answers: Mapping[str, Mapping[str, Any]], package: str) -> None:
        self.package = package
        self._modules = {name: _Module(name, its, self) for name, its in answers.items()}
        self._modules[package].__path__ = []  # it has parts, which `_Finder` finds
        self._finder = _Finder(self)

    @property
    def names(self) -> Iterable[str]:
        """Of the modules."""
        return self._modules

    def begin(self) -> None:
        """In their places."""
        for name, module in self._modules.items():
            sys.modules[name] = module
            _attach(name, module)
        sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """Out of them; what somebody still has of a light one gives way to the real one in all."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
            _detach(name, module)
            module.forget()
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)

    def real(self, name: str) -> ModuleType:
        """The real module, loaded now at the latest."""
        self.end()
        module = importlib.import_module(name)
        # Errors that it caught are garbage with their frames and those of all callers: a step's tensors would live on.
        gc.collect()
        return module


class _Compiler(_Light):
    """Those of the compiler."""

    def __init__(self) -> None:
        compiler = {"graph_break": _graph_break, "disable": self._disable}
        sources = {"ConstantSource": _Name, "RandomValueSource": _Random}
        super().__init__({COMPILER: compiler, CONFIG: SETTINGS, SOURCE: sources}, COMPILER)
        self._hidden: list[Any] = []

    def end(self) -> None:
        """As `_Light.end`, and what was not hidden from the compiler will be."""
        super().end()
        for function in self._hidden:
            vars(function).pop(HIDDEN, None)
        self._hidden.clear()

    def _disable(self, function: Any = None, *given: Any, **named: Any) -> Any:
        """Hides a function of torch's from the compiler, where nothing is compiled."""
        here = sys.modules.get(COMPILER) is self._modules[COMPILER]
        if here and callable(function) and named.get("wrapping", True) is False:
            self._hidden.append(function)
            return function
        return self.real(COMPILER).disable(function, *given, **named)


class _Symbols(_Light):
    """Those of sizes that are symbols."""

    def __init__(self) -> None:
        functions: dict[str, Any] = {
            name: self._asked(name, *known) for name, known in OF_NUMBERS.items()
        }
        later = {name: _Later(name, SYMBOLS, self) for name in OF_SYMBOLS}
        basic, most = _Later("Basic", SYMPY, self), _Later("Max", FUNCTIONS, self)
        super().__init__(
            {SYMBOLS: {**functions, **later}, SYMPY: {"Basic": basic}, FUNCTIONS: {"Max": most}},
            SYMPY,
        )

    def _asked(
        self, name: str, is_known: Callable[..., bool], answer: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function that is asked of numbers."""

        def light(*given: Any, **named: Any) -> Any:
            if not named and is_known(*given):
                return answer(*given)
            return getattr(self.real(SYMBOLS), name)(*given, **named)

        return light


class _Module(ModuleType):
    """A module that has some answers, and for all else gives way to the real one."""

    def __init__(self, name: str, answers: Mapping[str, Any], light: _Light) -> None:
        super().__init__(name)
        self._answers = tuple(answers)
        vars(self).update(answers, _light=light)

    def forget(self) -> None:
        """Its answers."""
        for name in self._answers:
            vars(self).pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what anybody asks of all modules
            raise AttributeError(name)
        return getattr(self._light.real(self.__name__), name)


class _Later:
    """Stands for a class or a function of which nobody has anything before its module is loaded."""

    def __init__(self, name: str, module: str, light: _Light) -> None:
        self._name, self._module, self._light = name, module, light

    def _real(self) -> Any:
        return getattr(self._light.real(self._module), self._name)

    def __instancecheck__(self, value: Any) -> bool:
        loaded = sys.modules.get(self._module)
        return not (loaded is None or isinstance(loaded, _Module)) and isinstance(
            value, self._real()
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._real(),)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._real()(*given, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real(), name)


class _Finder(MetaPathFinder):
    """Finds parts of a package: the real one is loaded, and they are its own."""

    def __init__(self, light: _Light) -> None:
        self._light = light

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """As the import system asks."""
        if not name.startswith(f"{self._light.package}."):
            return None
        self._light.real(self._light.package)
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
    if not parent:
        return
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


def _are(kind: type, *given: Any) -> bool:
    return all(type(each) is kind for each in given)


def _are_bools(*given: Any) -> bool:
    return bool(given) and _are(bool, *given)


def _is_bool(*given: Any) -> bool:  # and how many frames an error would leave out
    return bool(given) and type(given[0]) is bool


def _is_number(*given: Any) -> bool:
    return len(given) == 1 and type(given[0]) in (bool, int, float)


def _are_sizes(*given: Any) -> bool:
    if len(given) != 2:
        return False
    return _are(int, *given) or all(
        isinstance(each, (tuple, list)) and _are(int, *each) for each in given
    )


def _are_equal(one: Any, other: Any) -> bool:
    return bool(one == other if type(one) is int else tuple(one) == tuple(other))


def _has_no_symbols(*given: Any) -> bool:
    if len(given) != 1:
        return False
    [value] = given
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and not value._has_symbolic_sizes_strides
    if isinstance(value, (tuple, list)):
        return all(map(_has_no_symbols, value))
    return value is None or type(value) in (bool, int, float, str)


# Functions of symbolic shapes that are asked of all sizes: what is a number to them, and what they say of it.
OF_NUMBERS: Final[Mapping[str, tuple[Callable[..., bool], Callable[..., Any]]]] = {
    **dict.fromkeys(
        (
            "guard_or_false",
            "guard_or_true",
            "statically_known_true",
            "expect_true",
            "guard_size_oblivious",
        ),
        (_is_bool, lambda known, *skipped: known),
    ),
    "sym_and": (_are_bools, lambda *known: all(known)),
    "sym_or": (_are_bools, lambda *known: any(known)),
    "sym_eq": (_are_sizes, _are_equal),
    "is_symbolic": (_is_number, lambda number: False),
    "is_nested_int": (_is_number, lambda number: False),
    "has_guarding_hint": (_is_number, lambda number: True),
    "guarding_hint_or_throw": (_is_number, lambda number: number),
    "optimization_hint": (_is_number, lambda number: number),
    "free_unbacked_symbols": (_has_no_symbols, lambda value: set()),
    "has_free_unbacked_symbols": (_has_no_symbols, lambda value: False),
    "has_free_symbols": (_has_no_symbols, lambda value: False),
}
# Those that are imported beside them, and called for symbols alone.
OF_SYMBOLS: Final = ("compute_unbacked_bindings", "_constrain_range_for_size")

# What `FakeTensorMode` looks up; its cache of answers is not used (`fake.ShapeMode`).
SETTINGS: Final[Mapping[str, Any]] = {
    "fake_tensor_cache_enabled": False,
    "fake_tensor_cache_crosscheck_enabled": False,
    "_custom_ops_profile": None,
}
