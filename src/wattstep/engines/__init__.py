"""One training step on one framework; the list of engines."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from wattstep.errors import InvalidValueError, MissingPartError

ENGINES: Final[Mapping[str, str]] = MappingProxyType(
    {"torch": "wattstep.engines.torch_engine:TorchEngine"}
)


def check_name(name: str) -> None:
    """Checks a name without importing the framework.

    Raises:
        InvalidValueError: There is no such engine.
    """
    if name not in ENGINES:
        raise InvalidValueError(f"no engine {name!r}: there is {', '.join(ENGINES)}")


def find(name: str) -> Any:
    """The class of an engine, its framework imported only now.

    Raises:
        InvalidValueError: There is no such engine.
        MissingPartError: Its framework is not installed.
    """
    check_name(name)
    module, _, attribute = ENGINES[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise MissingPartError(
            f"the engine {name} needs {error.name}: pip install 'wattstep[{name}]'"
        ) from error
