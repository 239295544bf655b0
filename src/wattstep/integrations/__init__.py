"""Integrations with other training libraries: callbacks that record a training, and loggers that get its figures.

The callbacks lie beside each other, each needs its own library:
`from wattstep.integrations.lightning import WattstepCallback`,
`from wattstep.integrations.transformers import WattstepCallback`. `wattstep.WattstepCallback` is the
one of the library that is there, or that is imported already where both are.
"""

from __future__ import annotations

import importlib.util
import sys
from types import MappingProxyType
from typing import Any, Final

from wattstep.errors import MissingPartError
from wattstep.integrations.loggers import log_run

# The library of each callback, and where it lies.
TRAINERS: Final = MappingProxyType(
    {
        "lightning": "wattstep.integrations.lightning",
        "transformers": "wattstep.integrations.transformers",
    }
)
# The module that is loaded once a library's trainer is: Lightning itself loads transformers, by way of
# torchmetrics, but not its trainer.
_LOADED: Final = MappingProxyType(
    {"lightning": "lightning", "transformers": "transformers.trainer"}
)

__all__ = ["WattstepCallback", "log_run"]


def __getattr__(name: str) -> Any:
    if name == "WattstepCallback":
        return importlib.import_module(_trainer()).WattstepCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _trainer() -> str:
    """Where the callback lies that is meant.

    Raises:
        MissingPartError: No such library is installed, or it cannot be known which is meant.
    """
    there = [name for name in TRAINERS if importlib.util.find_spec(name) is not None]
    meant = [name for name in there if _LOADED[name] in sys.modules]
    if len(meant or there) == 1:
        return TRAINERS[(meant or there)[0]]
    if not there:
        raise MissingPartError(
            "WattstepCallback is for Lightning's Trainer and that of transformers: neither is "
            "installed; wattstep.Recorder records any other training",
            id="no-trainer",
        )
    choices = " or ".join(f"from {TRAINERS[name]} import WattstepCallback" for name in there)
    raise MissingPartError(
        f"{' and '.join(meant or there)} are both here: write {choices}", id="several-trainers"
    )
