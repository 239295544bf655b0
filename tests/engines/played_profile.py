"""torch's profiler as an actor: it gives events that were written down, as objects with the methods of its own.

Events are those of a Kineto trace (dicts of its JSON), played by a `TorchTracer` whose marks are at
known times, so that its clock is the trace's.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch._C._profiler import RecordScope, _EventType

from wattstep.engines.torch.gpu_trace import GpuTrace
from wattstep.engines.torch.tracer import CLOCK, TorchTracer
from wattstep.schema.journal import (
    DEVICE_OPERATION,
    DEVICE_OPERATION_FIELDS,
    NO_WORK,
    OPERATION,
    OPERATION_FIELDS,
)
from wattstep.schema.tracer import Code, TracedStep

Row = dict[str, Any]
OF_THE_TREE = ("cpu_op", "user_annotation", "Operator")
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation")
NAMED = ("name", "kind", "layer", "phase", "shapes", "processor")


def events_of(path: Path) -> list[Row]:
    """The intervals of a trace, but for the profiler's own; `ts` and `dur` in whole ns."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    base = int(document.get("baseTimeNanoseconds", 0))
    return [
        {**e, "ts": base + ns(e["ts"]), "dur": ns(e["dur"])}
        for e in document["traceEvents"]
        if e.get("ph") == "X" and e.get("cat") != "Trace"
    ]


def ns(us: int | str) -> int:
    """Of µs, which JSON has as a decimal number."""
    whole, _, part = str(us).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


class PlayedEvent:
    """An event with the methods of `torch._C._autograd._KinetoEvent`."""

    def __init__(self, event: Row) -> None:
        self._event, self._args = event, event.get("args", {})
        self._on_gpu = event["cat"] in ON_GPU

    def name(self) -> str:
        return str(self._event["name"])

    def activity_type(self) -> str:
        return str(self._event["cat"])

    def device_type(self) -> Any:
        return SimpleNamespace(name="CUDA" if self._on_gpu else "CPU")

    def device_index(self) -> int:
        return int(self._args.get("device", self._event["pid"])) if self._on_gpu else -1

    def device_resource_id(self) -> int:
        return int(
            self._args.get("stream", self._event["tid"]) if self._on_gpu else self._event["tid"]
        )

    def start_thread_id(self) -> int:
        return int(self._event["tid"])

    def start_ns(self) -> int:
        return int(self._event["ts"])

    def duration_ns(self) -> int:
        return int(self._event["dur"])

    def end_ns(self) -> int:
        return self.start_ns() + self.duration_ns()

    def correlation_id(self) -> int:
        key = "External id" if self._event["cat"] in OF_THE_TREE else "correlation"
        return int(self._args.get(key, 0))

    def linked_correlation_id(self) -> int:
        return 0 if self._event["cat"] in OF_THE_TREE else int(self._args.get("External id", 0))

    def is_user_annotation(self) -> bool:
        return self._event["cat"] in ("user_annotation", "gpu_user_annotation")

    def metadata_json(self) -> str:
        return f'"bytes": {self._args["bytes"]}' if "bytes" in self._args else ""

    def concrete_inputs(self) -> list[Any]:
        return []


class OldEvent(PlayedEvent):
    """As of releases that do not tell what an event is, nor what a copy moved."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("activity_type", "is_user_annotation", "metadata_json", "end_ns"):
            raise AttributeError(name)
        return super().__getattribute__(name)


def operation(
    name: str,
    start: int,
    end: int,
    tid: int,
    number: int = 0,
    sequence: int = -1,
    user: bool = False,
) -> Any:
    """A node of the tree."""
    fields = SimpleNamespace(
        inputs=[],
        sequence_number=sequence,
        scope=RecordScope.USER_SCOPE if user else RecordScope.FUNCTION,
    )
    return SimpleNamespace(
        tag=_EventType.TorchOp, name=name, start_time_ns=start, end_time_ns=end, start_tid=tid,
        extra_fields=fields, correlation_id=number, children=[],
    )  # fmt: skip


def allocation(at: int, tid: int, device: str) -> Any:
    """A node that says where memory was taken."""
    fields = SimpleNamespace(
        ptr=1, allocation_id=1, alloc_size=64, device=SimpleNamespace(type=device)
    )
    return SimpleNamespace(
        tag=_EventType.Allocation, name="[memory]", start_time_ns=at, end_time_ns=at, start_tid=tid,
        extra_fields=fields, correlation_id=0, children=[],
    )  # fmt: skip


def tree_of(events: Iterable[Row]) -> list[Any]:
    """The operations of a trace as nodes, all of them roots."""
    return [
        operation(
            event["name"],
            event["ts"],
            event["ts"] + event["dur"],
            int(event["tid"]),
            int(event["args"].get("External id", 0)),
            int(event["args"].get("Sequence number", -1)),
            user=event["cat"] == "user_annotation" and not event["name"].startswith("Optimizer."),
        )
        for event in events
        if event["cat"] in OF_THE_TREE
    ]


class PlayedGpu(GpuTrace):
    """A GPU that is there, and of which is counted how often it was waited for."""

    def __init__(
        self, used: bool = True, refused: str | None = None, danger: str | None = None
    ) -> None:
        super().__init__(lambda _: refused, lambda _: danger)
        self.there, self.reason = used, refused
        self.waits = 0

    def used(self) -> bool:
        return self.there

    def refusal(self) -> str | None:
        return self.reason

    def synchronize(self) -> None:
        self.waits += 1

    def piece_ns(self) -> float:
        return math.nan


class PlayedProfile:
    """A profiler that has seen what it is told to."""

    def __init__(self, tree: Sequence[Any], events: Sequence[Any]) -> None:
        self.tree, self.flat = list(tree), list(events)
        self.options: Row = {}
        self.kineto_results = self

    def __call__(self, *, use_device: str | None = None, **options: Any) -> PlayedProfile:
        self.options, self.use_device = {"use_device": use_device, **options}, use_device
        return self

    def __enter__(self) -> None:
        pass

    def experimental_event_tree(self) -> list[Any]:
        return self.tree

    def events(self) -> list[Any]:
        return self.flat


class PlayedTracer(TorchTracer):
    """A tracer whose marks are at stated times of the trace.

    Args:
        profile: What was seen.
        bounds: Begin and end of the step.
        gpu: That there is.
        code: Of a journal's names; None: its own.
    """

    def __init__(
        self,
        profile: PlayedProfile,
        bounds: tuple[int, int],
        gpu: PlayedGpu | None = None,
        code: Code | None = None,
    ) -> None:
        self.names: list[str] = []
        super().__init__(code or self._code, PlayedGpu() if gpu is None else gpu, profile)
        self._played, self._bounds = profile, bounds
        self._before, self._after = bounds[0] - 10, bounds[1]

    def _code(self, table: str, text: str) -> int:
        self.names.append(text)
        return len(self.names) - 1

    def mark_at(self, t_ns: int) -> int:
        self.stamps.append(t_ns)
        self._brackets.append((t_ns, t_ns))
        self._played.tree.append(operation(CLOCK, t_ns, t_ns, -9))
        return t_ns

    def mark(self) -> int:
        """Before the step at its begin, after it from its end on."""
        if len(self.stamps) < 3:
            self._before += 1
            return self.mark_at(self._before)
        self._after += 1
        return self.mark_at(self._after)

    def play(
        self, phases: Sequence[tuple[int, str]] = (), window: int = 0, step: int = 0
    ) -> TracedStep:
        """Traces the step."""
        self.start()
        for at, _ in phases:
            self.mark_at(at)
        self.finish()
        return self.rows(step, window, phases)

    def read(self, traced: TracedStep) -> tuple[list[Row], list[Row]]:
        """Rows of the CPU and of GPUs, with names for codes."""
        tables = ((OPERATION, OPERATION_FIELDS, traced.rows),)
        tables += ((DEVICE_OPERATION, DEVICE_OPERATION_FIELDS, traced.device_rows),)
        found = []
        for packed, fields, data in tables:
            rows = [dict(zip(fields, values, strict=True)) for values in packed.iter_unpack(data)]
            for row in rows:
                for key in set(NAMED) & row.keys():
                    row[key] = None if row[key] < 0 else self.names[row[key]]
            found.append(rows)
        cpu, gpu = found
        return cpu, [row for row in gpu if row["name"] is not None] if NO_WORK < 0 else gpu
