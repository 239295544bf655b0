"""Operations of a step on ExecuTorch: the events that its runtime keeps (ETDump), and our updates after them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wattstep.engines.executorch.trainer import Program
from wattstep.engines.marked_tracer import MarkedTracer, Operation, shapes_text
from wattstep.errors import RecordingError
from wattstep.formats.etdump import parse
from wattstep.schema.tracer import Code

_STEP: Final = "Method::execute"
_KERNEL: Final = "native_call_"
UPDATE: Final = "numpy::update"  # of one parameter, outside of the program
OPTIMIZER: Final = "optimizer"  # its kind and its phase


class ExecuTorchTracer(MarkedTracer):
    """Traces steps by the runtime's own events.

    Their clock counts ns from the runtime's start, an unknown time of ours: an execution lies within
    our call of it, by which all that were seen bound the difference of the clocks.
    """

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self._program: Program | None = None
        self._least, self._most = -(2**63), 2**63  # of our clock less theirs, in ns

    def learn(self, model: Any, *, alone: bool) -> None:
        """As `Tracer.learn`: the runtime keeps events from now on."""
        self._program = model
        self._program.tell_events()

    def open(self) -> None:
        """Drops the events of steps before."""
        if self._program is not None:
            self._program.events(Path(os.devnull))

    def close(self) -> None:
        """Nothing: events go on being kept."""

    def stamp(self) -> int:
        """As `MarkedTracer.stamp`; events are brought to this clock."""
        return time.perf_counter_ns()

    def operations(self) -> Sequence[Operation]:
        """As `MarkedTracer.operations`."""
        if self._program is None:
            return []
        with tempfile.NamedTemporaryFile(suffix=".etdump") as file:
            self._program.events(Path(file.name))
            trace = parse(Path(file.name).read_bytes())
        events, names = trace.events, trace.names
        steps = (
            []
            if events is None
            else [i for i in range(len(events)) if names[events.name[i]] == _STEP]
        )
        if events is None or not steps:
            raise RecordingError("ExecuTorch kept no events of the step", id="no-events")
        first, last = (int(each[steps[-1]]) for each in (events.start_ns, events.end_ns))
        begin, end = self._program.called
        self._least, self._most = max(self._least, begin - first), min(self._most, end - last)
        offset = (self._least + self._most) // 2
        calls = [
            i
            for i in range(len(events))
            if names[events.name[i]].startswith(_KERNEL) and events.start_ns[i] >= first
        ]
        if len(calls) != len(self._program.kernels):
            raise RecordingError(
                f"ExecuTorch told {len(calls)} kernel calls, the program has "
                f"{len(self._program.kernels)}",
                id="no-events",
            )
        kernels = [
            Operation(
                kernel["name"], int(events.start_ns[i]) + offset, int(events.end_ns[i]) + offset,
                phase=kernel["phase"], shapes=shapes_text(kernel["shapes"]), flops=kernel["flops"],
            )
            for i, kernel in zip(calls, self._program.kernels, strict=True)
        ]  # fmt: skip
        updates = [
            Operation(UPDATE, begin, end, kind=OPTIMIZER, phase=OPTIMIZER, shapes=shapes_text([list(shape)]))
            for shape, begin, end in self._program.updates
        ]  # fmt: skip
        return [*kernels, *updates]
