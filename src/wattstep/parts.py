"""Optional libraries: loaded where they are used, named with their pip extra where they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from wattstep.errors import MissingPartError

# Top-level module to the extra in pyproject.toml that installs it.
EXTRAS: dict[str, str] = {
    "torch": "torch",
    "sklearn": "suite",
    "PIL": "suite",
    "gymnasium": "suite",
    "ale_py": "suite",
    "transformers": "suite",
    "distributed": "cluster",
    "msgspec": "traces",
    "flatbuffers": "traces",
    "perfetto": "traces",
    "google": "traces",
}


def load_part(module: str) -> ModuleType:
    """Imports a module that needs an optional library, or is one.

    Raises:
        MissingPartError: The library is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        raise MissingPartError(
            f'{library} is not installed: pip install "wattstep[{EXTRAS[library]}]"'
        ) from error
