"""MNN's library, loaded without what it prints."""

from __future__ import annotations

from typing import Any

from wattstep.engines.exported.silence import silenced
from wattstep.schema.extras import require


def load_mnn() -> Any:
    """The package, which prints facts of the processor when it is loaded.

    Raises:
        MissingPartError: It is not installed.
    """
    with silenced():
        return require("MNN")
