"""What it costs to train a neural network on a small device: time, energy, memory and heat."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wattstep.records.version import VERSION

if TYPE_CHECKING:
    from wattstep.integrations import log_run as log_run
    from wattstep.querying import query as query
    from wattstep.recorder import Recorder as Recorder
    from wattstep.run import load as load

__version__ = VERSION

# Loaded on first use, from strings: `import wattstep` costs the standard library only.
_PUBLIC = {
    "Recorder": "wattstep.recorder",
    "RecordingWarning": "wattstep.recorder",
    "WattstepError": "wattstep.errors",
    "load": "wattstep.run",
    "log_run": "wattstep.integrations",
    "query": "wattstep.querying",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'wattstep' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]
