"""What a command that ends soon does without: collecting garbage, and pandas behind pyarrow."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


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


def without_pandas() -> None:
    """Has pyarrow look for pandas, once, and not find it.

    It imports all of it, half a second of processor time, to see whether what it converts is one of
    its tables. Whoever asks for a DataFrame later gets one: pyarrow looks again then.
    """
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa

        pa.array([0]).to_numpy()
    finally:
        sys.meta_path.remove(hidden)


class _Hidden:
    """Finder for which there is no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)
        return None
