"""Tells a preparation when an optimizer is made, which torch itself has no hook for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from wattstep.schema.workload import Preparation


@contextmanager
def optimizers_told(preparation: Preparation) -> Iterator[None]:
    """While active, the making of every optimizer is a part of its own, and data go on after it.

    The constructor that all of torch's optimizers share is wrapped, and put back afterwards; where
    nobody listens, it is left alone.
    """
    if preparation.on_part is None:
        yield
        return
    construct = torch.optim.Optimizer.__init__

    def tell(self: Any, *arguments: Any, **named: Any) -> None:
        preparation.begin("optimizer")
        construct(self, *arguments, **named)
        preparation.begin("data")

    torch.optim.Optimizer.__init__ = tell  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.optim.Optimizer.__init__ = construct  # type: ignore[method-assign]
