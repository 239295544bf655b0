"""What a command that ends soon does without: collecting garbage, and pandas behind pyarrow."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from wattstep.store.without_pandas import without_pandas


@contextmanager
def lean() -> Iterator[None]:
    """What is made inside is kept to the end: collecting would walk it again and again."""
    without_pandas()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def without_last_search() -> None:
    """Has the process end without looking through all that it has for garbage: with torch 0.3 s of processor time."""
    atexit.register(gc.freeze)
