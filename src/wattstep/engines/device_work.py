"""Work on GPUs in a traced step: from the profiler's own events, by the importer's rules, to what launched each piece."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.attribution.event_kinds import kinds_of
from wattstep.attribution.launching import find_links
from wattstep.attribution.nesting import Family, in_order, lanes_of
from wattstep.engines.marked_tracer import DeviceOperation, Operation
from wattstep.formats.kineto.words import CATEGORIES
from wattstep.formats.trace import GPU_WORK, NONE, Codes, Events, no_events

CPU: Final = "cpu"
ON_CPU: Final = frozenset({"runtime", "overhead"})  # what the profiler has beside operations
# Releases that do not tell what an event is have these names.
_CALL: Final = re.compile(r"^(cuda|cu|hip|hsa)[A-Z_]")
_BY_NAME: Final = (
    ("copy", re.compile(r"^Memcpy|^Copy(Host|Device)|^CopyKernel")),
    ("set", re.compile(r"^Memset|^FillBuffer")),
    ("wait", re.compile(r"^(Stream|Context|Event|Device) (Sync|Wait Event)|^Stream Wait Event")),
)


@dataclass(slots=True, eq=False)
class DeviceEvent:
    """Event that is no operation: a call of the driver, the profiler's own work, or work on a GPU.

    Attributes:
        name: e.g. "cudaLaunchKernel", or the kernel's.
        category: One of `formats.trace.CATEGORIES`.
        processor: "cpu", "gpu0", ...
        thread: Number of the thread, or of the stream.
        start: Begin in ns of the profiler's clock.
        end: End likewise.
        correlation: Number that a call shares with what it launched.
        external: Number of the operation that asked for it; `NONE`: none.
        bytes: Moved; `NONE`: not known.
    """

    name: str
    category: str
    processor: str
    thread: int
    start: int
    end: int
    correlation: int
    external: int
    bytes: int = NONE


def events_beside(events: Iterable[Any], annotations: Iterable[str] = ()) -> list[DeviceEvent]:
    """Calls of the runtime and work on GPUs among a profiler's flat events.

    Waits and where the work of an annotation ran on a GPU are left out: they are no work.

    Args:
        events: As torch's `_ProfilerResult.events()` gives them (`_KinetoEvent`).
        annotations: Names that the user's code gave, by which older releases call their shadows.
    """
    shadows = frozenset(annotations)
    threads: dict[int, int] = {}  # numbers of the framework's own, by those of the system
    chosen = []
    for event in events:
        category = _category(event, shadows)
        if category in ON_CPU or category in GPU_WORK:
            chosen.append(_event(event, category))
        elif category == "operation":
            threads[event.device_resource_id()] = event.start_thread_id()
    for one in chosen:
        if one.processor == CPU:
            one.thread = threads.get(one.thread, one.thread)
    return chosen


def _category(event: Any, shadows: frozenset[str]) -> str:
    """As in `formats.trace`; "" for what is none of these."""
    if hasattr(event, "activity_type"):
        return CATEGORIES.get(event.activity_type(), "")
    name = event.name()
    if event.device_type().name == "CPU":
        return "runtime" if _CALL.match(name) else "operation"
    shadow = name in shadows or not event.correlation_id()  # all work was asked for by a call
    if shadow or getattr(event, "is_user_annotation", bool)():
        return "gpu_annotation"
    return next((category for category, words in _BY_NAME if words.match(name)), "kernel")


def _event(event: Any, category: str) -> DeviceEvent:
    start = event.start_ns()
    end = event.end_ns() if hasattr(event, "end_ns") else start + event.duration_ns()
    on_gpu = category in GPU_WORK
    return DeviceEvent(
        name=event.name(),
        category=category,
        processor=f"gpu{event.device_index()}" if on_gpu else CPU,
        thread=event.device_resource_id(),
        start=start,
        end=max(end, start),
        correlation=event.correlation_id() or NONE,
        external=event.linked_correlation_id() or NONE,
        bytes=_bytes(event) if category in ("copy", "set") else NONE,
    )


def _bytes(event: Any) -> int:
    """Bytes that a copy moved, where this release tells them."""
    text = event.metadata_json() if hasattr(event, "metadata_json") else ""
    try:
        size = json.loads(f"{{{text}}}").get("bytes", NONE)
    except ValueError:
        return NONE
    return size if isinstance(size, int) and size >= 0 else NONE


class WindowEvents:
    """Operations of a window and the events beside them in order, nested by time, and what launched what.

    Args:
        operations: Of the CPU.
        numbers: By which each is named where it asked for work, likewise.
        categories: "operation", or "annotation" for what only groups others, likewise.
        events: What ran beside them.
        made: Gives the operation that an event on the CPU becomes.

    Attributes:
        operations: All that ran on the CPU, in order of begin; `parent` and `kind` are set.
    """

    def __init__(
        self,
        operations: Sequence[Any],
        numbers: Sequence[int],
        categories: Sequence[str],
        events: Sequence[DeviceEvent],
        made: Callable[[DeviceEvent], Operation],
    ) -> None:
        self.operations: list[Any] = []
        # With its kind, the number of its stream in a run, and the position of what launched it.
        self._work: list[tuple[DeviceEvent, str, int, int]] = []
        self._calls: list[tuple[int, int]] = []  # calls alone, and who asked for them
        if not operations and not events:
            return
        codes = _Codes({text: code for code, text in enumerate(("operation", "runtime", CPU))})
        table = _table(operations, numbers, categories, events, codes)
        names = tuple(codes)
        on_gpu = table.processor != codes[CPU]
        lanes = lanes_of(table, on_gpu)
        rows = in_order(table, names, lanes, on_gpu)
        family = Family(rows)
        is_operation = rows.category == codes["operation"]
        links = find_links(
            rows,
            family,
            correlation=table.correlation[rows.source],
            external=table.external[rows.source],
            runtime=rows.category == codes["runtime"],
            operation=is_operation,
        )
        kinds = kinds_of(rows, names, family, links, is_operation)
        launch = np.full(len(rows), NONE, np.int64)
        launch[links.gpu] = links.launch
        position = np.cumsum(~rows.on_gpu) - 1  # within the rows of the CPU
        columns = (rows.source, rows.on_gpu, kinds.codes, family.parent, launch)
        for source, gpu, kind, parent, launched in zip(
            *map(np.ndarray.tolist, columns), strict=True
        ):
            event = events[source - len(operations)] if source >= len(operations) else None
            if gpu:
                assert event is not None
                at = int(position[launched]) if launched >= 0 else NONE
                stream = int(lanes.number[lanes.of_event[source]])
                self._work.append((event, kinds.texts[kind], stream, at))
                continue
            each = operations[source] if event is None else made(event)
            each.kind = kinds.texts[kind]
            each.parent = int(position[parent]) if parent >= 0 else NONE
            self.operations.append(each)
        self._calls = list(
            zip(position[links.call].tolist(), position[links.operation].tolist(), strict=True)
        )

    def device_operations(self) -> list[DeviceOperation]:
        """Work on GPUs, with the layer and phase of what launched it; asked once those are known."""
        for call, asker in self._calls:
            one, other = self.operations[call], self.operations[asker]
            one.layer, one.phase = other.layer, other.phase
        on_device = []
        for event, kind, stream, at in self._work:
            launcher = self.operations[at] if at >= 0 else None
            on_device.append(
                DeviceOperation(
                    name=event.name,
                    start=event.start,
                    end=event.end,
                    kind=kind,
                    layer=None if launcher is None else launcher.layer,
                    phase="" if launcher is None else launcher.phase,
                    thread=stream,
                    bytes=event.bytes,
                    processor=event.processor,
                    launch=at,
                )
            )
        return on_device


class _Codes(dict[str, int]):
    """Codes of texts, given when they are asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


def _table(
    operations: Sequence[Any],
    numbers: Sequence[int],
    categories: Sequence[str],
    events: Sequence[DeviceEvent],
    codes: Mapping[str, int],
) -> Events:
    """Both as the importer has the events of a trace."""
    both = (*operations, *events)
    columns: dict[str, Any] = no_events(len(both))
    kinds = [*categories, *(event.category for event in events)]
    where = [*([CPU] * len(operations)), *(event.processor for event in events)]
    for name, texts in (
        ("name", [each.name for each in both]),
        ("category", kinds),
        ("processor", where),
    ):
        columns[name] = _codes_of(texts, codes)
    for name, values in (
        ("thread", [each.thread for each in both]),
        ("start_ns", [each.start for each in both]),
        ("end_ns", [max(each.end, each.start) for each in both]),
        ("external", [*numbers, *(event.external for event in events)]),
        ("correlation", [*([NONE] * len(operations)), *(event.correlation for event in events)]),
    ):
        columns[name] = np.array(values, np.int64)
    return Events(**columns)


def _codes_of(texts: Sequence[str], codes: Mapping[str, int]) -> Codes:
    return np.array([codes[text] for text in texts], np.int32)
