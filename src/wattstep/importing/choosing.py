"""Choice of one process of a trace that holds several."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from wattstep.attribution.nesting import Bools
from wattstep.errors import InvalidValueError
from wattstep.formats.trace import NONE, Events, Own, Trace

SHOWN = 8  # processes in an error
Columns = TypeVar("Columns", Events, Own)


def of_process(trace: Trace, events: Events, process: int) -> Bools:
    """Mask of the events of one process and of the GPU work that it launched, shape (n,).

    Work on a GPU stands under the number of the GPU. It belongs to the process one of whose calls
    has its correlation; where it carries none, nobody knows, and it stays.

    Args:
        trace: Of which they are.
        events: The events.
        process: Number of the process.

    Raises:
        InvalidValueError: The trace has no such process; with those it has.
    """
    on_cpu = np.array([name == "cpu" for name in trace.names], bool)[events.processor]
    mine: Bools = on_cpu & (events.process == process)
    if not mine.any():
        raise InvalidValueError(
            f"--process {process}: {_there(events, on_cpu)}", id="no-such-process"
        )
    launched = np.isin(events.correlation, events.correlation[mine & (events.correlation != NONE)])
    mine |= ~on_cpu & (launched | (events.correlation == NONE))
    return mine


def take(columns: Columns, which: Any) -> Columns:
    """Some of the events, or of their labels: every column at a mask or at positions."""
    return replace(
        columns, **{each.name: getattr(columns, each.name)[which] for each in fields(columns)}
    )


def _there(events: Events, on_cpu: Bools) -> str:
    processes = np.unique(events.process[on_cpu]).tolist()
    if processes in ([], [NONE]):
        return "the trace does not tell processes apart"
    shown = ", ".join(map(str, processes[:SHOWN])) + (", ..." if len(processes) > SHOWN else "")
    return f"the trace has no such process; there are {shown}"
