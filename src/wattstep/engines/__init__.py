"""The engines: frameworks that train, each behind the same door (`schema.engine.Engine`)."""

from __future__ import annotations

import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from wattstep.engines.after_import import after_import
from wattstep.errors import InvalidValueError
from wattstep.schema.engine import Engine
from wattstep.schema.registry import Registry
from wattstep.schema.training_hooks import Listener

if TYPE_CHECKING:
    from wattstep.schedule.tasks import TaskGraph
    from wattstep.schema.workload import ModuleSource, Preparation, Specification

DEFAULT: Final = "torch"
# By the name of the framework's module. Adding an engine: its file, its line here (or an entry
# point of its package), its test.
ENGINES: Final = Registry(
    "wattstep.engines",
    {
        "torch": "wattstep.engines.torch.engine:ENGINE",
        "torch-compile": "wattstep.engines.torch.engine:COMPILED",
        "mnn": "wattstep.engines.mnn.engine:ENGINE",
        "onnxruntime": "wattstep.engines.onnxruntime.engine:ENGINE",
        "executorch": "wattstep.engines.executorch.engine:ENGINE",
        "mlx": "wattstep.engines.mlx.engine:ENGINE",
        "opencl": "wattstep.engines.opencl.engine:ENGINE",
    },
)

# Of those whose framework's module has another name: asked in somebody's script, where no door is opened.
MODULES: Final = {"torch-compile": "torch", "mnn": "MNN", "opencl": "pyopencl"}


@cache
def find(name: str) -> Engine:
    """An engine; its framework is loaded when it prepares a training.

    Raises:
        InvalidValueError: There is no such engine.
    """
    if name not in ENGINES:
        raise InvalidValueError(
            f"no engine {name!r}: there is {', '.join(ENGINES)}", id="unknown-engine"
        )
    engine: Engine = ENGINES.load(name)
    return engine


def check_predicted(name: str | None) -> None:
    """Refuses an engine that no calibration measures, so that nothing predicts it.

    Args:
        name: With its version or without; None: not said.

    Raises:
        InvalidValueError: It does not train on the CPU.
    """
    if name in ENGINES.own and "cpu" not in (processors := find(name).processors):
        raise InvalidValueError(
            f"--engine {name}: engines are measured on one thread of the CPU, and {name} trains on "
            f"{', '.join(processors)}: nothing predicts it; wattstep run NAME --engine {name} measures it",
            id="not-predicted",
        )


def capture_tasks(
    workload: Specification | ModuleSource, preparation: Preparation, precision: str
) -> TaskGraph:
    """The tasks of a training step as torch has them, captured without running it.

    Args:
        workload: Of the suite, or a module of the user's.
        preparation: Its batch size, and what it is built with.
        precision: Of the training.

    Raises:
        InvalidValueError: It cannot be captured.
        MissingPartError: torch is not installed.
    """
    from wattstep.engines.torch.engine import ENGINE

    return ENGINE.capture_tasks(workload, preparation, precision)


def loaded() -> Engine | None:
    """The engine whose framework is in this process, or None."""
    for names in (
        ENGINES.own,
        ENGINES,
    ):  # other packages are looked through only where ours are not
        for name in names:
            if _module(name) in sys.modules:
                return find(name)
    return None


def listen_to_script(listener: Listener, marker: str) -> None:
    """Has the framework of somebody's own script tell what it does, as soon as it is loaded.

    Args:
        listener: As `Engine.listen` takes it.
        marker: "module:name" of the function that finds markers.
    """
    modules = {_module(name): name for name in reversed(tuple(ENGINES))}  # of each the first engine
    for module, name in modules.items():
        after_import(module, partial(_listen, name, listener, marker))


def _module(name: str) -> str:
    """Module whose presence says that an engine's framework is loaded."""
    return MODULES.get(name, name)


def _listen(name: str, listener: Listener, marker: str) -> None:
    find(name).listen(listener, marker)
