"""Keeps pandas, which pyarrow imports where it is installed, out of a process that has no use for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def without_pandas() -> None:
    """Has pyarrow look for pandas, once, and not find it.

    It imports all of it, half a second of processor time and 75 MiB, to see whether what it converts is
    one of its tables. Whoever asks for a DataFrame later gets one: pyarrow looks again then.
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
