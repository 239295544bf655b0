"""What it costs to train a neural network on a small device: time, energy, memory and heat."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wattstep.schema.version import VERSION
from wattstep.schema.views import VIEWS

if TYPE_CHECKING:
    from wattstep import devices as devices
    from wattstep.api.planning import plan as plan
    from wattstep.api.planning import predict as predict
    from wattstep.api.planning import study_plans as study_plans
    from wattstep.api.runs import compare as compare
    from wattstep.api.runs import compare_by as compare_by
    from wattstep.api.runs import explain as explain
    from wattstep.api.runs import export as export
    from wattstep.api.training import sweep as sweep
    from wattstep.api.training import train as train
    from wattstep.api.training import tune as tune
    from wattstep.integrations import log_run as log_run
    from wattstep.record.recorder import Recorder as Recorder
    from wattstep.record.recorder import RecordingWarning as RecordingWarning
    from wattstep.report.query import query as query
    from wattstep.run import load as load
    from wattstep.schema.figure import Figure as Figure
    from wattstep.schema.run_report import RunReport as RunReport

__version__ = VERSION

# Loaded on first use, from strings: `import wattstep` costs the standard library only.
_PUBLIC = {
    "Figure": "wattstep.schema.figure",
    "Recorder": "wattstep.record.recorder",
    "RecordingWarning": "wattstep.record.recorder",
    "RunReport": "wattstep.schema.run_report",
    "WattstepCallback": "wattstep.integrations",
    "WattstepError": "wattstep.errors",
    "compare": "wattstep.api",
    "compare_by": "wattstep.api",
    "explain": "wattstep.api",
    "export": "wattstep.api",
    "load": "wattstep.run",
    "log_run": "wattstep.integrations",
    "query": "wattstep.report.query",
    "study_plans": "wattstep.api",
}
# Reports lie above a run, which shows itself by them.
VIEWS.update(
    {
        "summary": "wattstep.report.terminal.summary:text",
        "run_in_notebook": "wattstep.report.html.notebook:picture",
        "operations_in_notebook": "wattstep.report.html.notebook:operations",
    }
)
# Public functions of `wattstep.api` whose names are packages, too.
_CALLED = ("plan", "predict", "sweep", "train", "tune")
_PACKAGES = ("devices",)


class _CalledPackage(ModuleType):
    """A package that is called as the public function of its name: `wattstep.train("lenet")`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function(*args, **options)

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(self._function)

    @property
    def _function(self) -> Any:
        api = importlib.import_module("wattstep.api")
        return getattr(api, self.__name__.rpartition(".")[2])


class _Wattstep(ModuleType):
    """This package. Importing a package below sets its name here, which stays callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _CalledPackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Wattstep


def __getattr__(name: str) -> Any:
    if name in (*_CALLED, *_PACKAGES):
        return importlib.import_module(f"wattstep.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'wattstep' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(["__version__", *_PUBLIC, *_CALLED, *_PACKAGES])
