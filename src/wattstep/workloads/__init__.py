"""The workloads: what is trained, by name; a framework is loaded only when one is asked for."""

from __future__ import annotations

import difflib

from wattstep.errors import InvalidValueError
from wattstep.records.workload import Workload
from wattstep.workloads.parts import load_part

# Adding a workload: its file here, its line below, its line in tests/workloads.
WORKLOADS: dict[str, str] = {
    "char-cnn": "wattstep.workloads.char_cnn:WORKLOAD",
    "densenet40": "wattstep.workloads.densenet40:WORKLOAD",
    "dqn": "wattstep.workloads.dqn:WORKLOAD",
    "lenet": "wattstep.workloads.lenet:WORKLOAD",
    "resnet50": "wattstep.workloads.resnet50:WORKLOAD",
    "squeezenet": "wattstep.workloads.squeezenet:WORKLOAD",
}


def names() -> tuple[str, ...]:
    """The names that `find` knows, sorted."""
    return tuple(sorted(WORKLOADS))


def find(name: str) -> Workload:
    """The workload of that name; loads the framework that it trains on.

    Raises:
        InvalidValueError: There is no such workload.
        MissingPartError: The framework is not installed.
    """
    check_name(name)
    module, _, attribute = WORKLOADS[name].partition(":")
    workload: Workload = getattr(load_part(module), attribute)
    return workload


def check_name(name: str) -> None:
    """Refuses a name that `find` does not know, without loading anything.

    Raises:
        InvalidValueError: There is no such workload.
    """
    if name not in WORKLOADS:
        raise InvalidValueError(_unknown(name))


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), names(), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"no workload is called {name!r}{hint} (there are: {', '.join(names())})"
