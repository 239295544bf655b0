"""Parts of a model that torch.compile has compiled, captured as they are without it: a compiler sees no fake step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch

COMPILED: Final = "parts of it are compiled: they are taken as they are without the compiler"


@contextmanager
def uncompiled() -> Iterator[None]:
    """Meanwhile nothing is compiled, and what is compiled already runs as it was before."""
    compile_, loaded = torch.compile, "torch._dynamo" in sys.modules
    asked = loaded and hasattr(
        sys.modules["torch._dynamo"], "OptimizedModule"
    )  # no light module of ours
    with torch.compiler.set_stance("force_eager") if asked else nullcontext():
        torch.compile = _taken_as_it_is
        try:
            yield
        finally:
            torch.compile = compile_


def is_compiled(model: torch.nn.Module) -> bool:
    """True if torch.compile was asked for a module of it."""
    return any(
        type(each).__name__ == "OptimizedModule" or getattr(each, _ASKED, False)
        for each in model.modules()
    )


_ASKED: Final = "_wattstep_compiled"


def _taken_as_it_is(model: Any = None, **options: Any) -> Any:
    """In the place of torch.compile, which is a decorator, too."""
    if model is None:
        made: Callable[[Any], Any] = _taken_as_it_is
        return made
    owner = getattr(model, "__self__", model)  # of `Module.compile`
    if isinstance(owner, torch.nn.Module):
        setattr(owner, _ASKED, True)
    return model
