"""Traces one step of torch at a time: operations with layer, phase, shapes, FLOPs, bytes and times."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import (
    RecordScope,
    _EventType,
    _RecordFunctionFast,
    _TensorMetadata,
)
from torch.autograd import profiler as autograd_profiler
from torch.optim import optimizer as torch_optimizer

from wattstep.attribution.event_kinds import ENGINE, kind_in, shown
from wattstep.attribution.event_kinds import SCOPE as SCOPE_KIND
from wattstep.engines.device_work import CPU, DeviceEvent, WindowEvents, events_beside
from wattstep.engines.marked_tracer import (
    DeviceOperation,
    MarkedTracer,
    Operation,
    phase_bounds,
    shapes_text,
)
from wattstep.engines.step_phases import BACKWARD, FORWARD, OPTIMIZER
from wattstep.engines.torch.flops import COUNTED, flops_of
from wattstep.engines.torch.forked import spare_children
from wattstep.engines.torch.gpu_trace import (
    ALONE,
    CAPTURE,
    FIRST_USED,
    LAUNCH,
    LOST,
    MOST_LOST,
    NOT_SEEN,
    GpuTrace,
    nested_by_time,
    profiler,
)
from wattstep.engines.torch.layers import OUTSIDE, SCOPE, LayerScopes, TopLevelMarks
from wattstep.errors import RecordingError
from wattstep.formats.trace import NONE
from wattstep.schema.tracer import Code

CLOCK = "wattstep.clock"
MOST_KNOWN = 50_000
PROBES = 5  # windows after which the profiler's cost for the GPU is measured


class TorchTracer(MarkedTracer):
    """Kineto, one step a window, its clock mapped to ours by marks in the trace.

    Boundaries of phases are such marks: what ran before and after them is told by their order in
    the trace alone, and no reading of another clock, however late, moves an operation over one.

    Args:
        code: Gives the number that stands for a name (`MarkJournal.code`).
        gpu: What is asked of torch's GPUs.
        make: The profiler's class.
    """

    def __init__(
        self,
        code: Code,
        gpu: GpuTrace | None = None,
        make: Callable[..., Any] = autograd_profiler.profile,
    ) -> None:
        super().__init__(code)
        self._gpu = GpuTrace() if gpu is None else gpu
        self._make = make
        self._refusal: str | None = None  # of tracing GPUs, which is asked once
        self._danger: str | None = None  # of opening any window, which is asked once; "": none
        self._on_gpu: bool | None = None  # in this window; None: no GPU was ever used
        self._end = 0  # which mark ended the step
        self._probes = PROBES
        self._device_cost_ns = math.nan
        self._window: WindowEvents | None = None
        self._notes: list[str] = []
        self._layers = LayerScopes()
        self._quiet = _QuietLog()
        self._profile: Any = None
        self._optimizers: list[Any] = []
        self._handle: Any = None
        self._described: dict[Any, tuple[int, int, int]] = {}
        self._flops: dict[Any, int | None] = {}
        # Kineto's own messages would land in the middle of somebody's output.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")

    @property
    def active(self) -> bool:
        """True if a window is open."""
        return self._profile is not None

    def foreign_profiler(self) -> bool:
        """True if a profiler that is not ours is running."""
        return bool(autograd_profiler._is_profiler_enabled)

    def learn(self, model: Any, *, alone: bool = True) -> None:
        """Names the model's layers; see `LayerScopes.learn`."""
        self._layers.learn(model, alone=alone)

    def layer_marks(
        self,
        model: Any,
        number: Callable[[str], int],
        entered: Callable[[int], None],
        left: Callable[[int], None],
    ) -> TopLevelMarks:
        """As `Tracer.layer_marks`."""
        return TopLevelMarks(model, lambda module: number(self._layers.path(module)), entered, left)

    def open(self) -> None:
        """As `MarkedTracer.open`.

        Raises:
            RecordingError: The profiler might crash here.
        """
        if self._danger is None:
            self._danger = self._gpu.danger() or ""
        if self._danger:
            raise RecordingError(f"torch's profiler may crash here: {self._danger}")
        spare_children()
        self._optimizers.clear()
        self._handle = torch_optimizer.register_optimizer_step_post_hook(self._saw_optimizer)
        self._layers.begin()
        self._quiet.begin()
        self._profile = profiler(
            self._make,
            self._traces_gpu(),
            use_cpu=True,
            use_kineto=True,
            record_shapes=True,
            profile_memory=True,
        )
        self._profile.__enter__()

    def _traces_gpu(self) -> bool:
        """Whether this window traces GPUs; what they still have to do of other steps is waited for."""
        if not self._gpu.used():
            return False
        if self._on_gpu is None:
            self._give_up(self._gpu.refusal())
            self._on_gpu = self._refusal is None
        if self._on_gpu:
            self._gpu.synchronize()
        return self._on_gpu

    def _give_up(self, reason: str | None) -> None:
        """From now on GPUs are not traced, unless there is no reason."""
        self._refusal = reason
        if reason is not None:
            self._on_gpu = False
            self._notes.append(ALONE.format(reason))

    def finish(self) -> None:
        """As `Tracer.finish`; the step's work on a GPU is waited for, which is no part of it on the host."""
        if self._on_gpu:
            self._end = len(self.stamps)
            self.mark()
            self._gpu.synchronize()
            measured, self._probes = self._probes > 0, self._probes - 1
            traced_ns = self._gpu.piece_ns() if measured else math.nan
        super().finish()
        if self._on_gpu and measured:
            self._device_cost_ns = traced_ns - self._gpu.piece_ns()

    def device_cost_ns(self) -> float:
        """As `MarkedTracer.device_cost_ns`: what it is with the profiler, less without."""
        cost, self._device_cost_ns = self._device_cost_ns, math.nan
        return cost

    def _saw_optimizer(self, optimizer: Any, *_: Any) -> None:
        if not any(optimizer is each for each in self._optimizers):
            self._optimizers.append(optimizer)

    def stamp(self) -> int:
        """A mark in the trace, which alone tells when it was."""
        with _RecordFunctionFast(CLOCK):
            pass
        return 0

    def cancel(self) -> None:
        """Closes the window and forgets it."""
        self.close()
        self._profile = None

    def close(self) -> None:
        """As `MarkedTracer.close`."""
        self._layers.end()
        self._handle.remove()
        if autograd_profiler._is_profiler_enabled:
            self._profile.__exit__(None, None, None)
        self._quiet.end()

    def operations(self) -> Sequence[_Node]:
        """The operations of the window that was closed, with their layers; where a GPU was traced, calls, too."""
        if self._on_gpu is None and self._gpu.used():
            self._notes.append(FIRST_USED)
        profile, self._profile = self._profile, None
        results, flat = profile.kineto_results, _Flattening(self._layers.paths())
        roots = results.experimental_event_tree()
        for root in nested_by_time(roots) if self._on_gpu else roots:
            flat.walk(root)
        flat.give_backward_layers()
        flat.give_optimizer_layers(self._layers.layers_of_tensors(self._optimizers))
        self._give_flops(flat.nodes, results)
        self.stamps = sorted(flat.marks)
        self.enclosed = flat.enclosed
        if self._on_gpu:  # after the end of the step it is our own
            flat.end(self.stamps[self._end])
        self._window = self._beside(flat, results) if self._on_gpu else None
        return flat.nodes if self._window is None else self._window.operations

    def _beside(self, flat: _Flattening, results: Any) -> WindowEvents | None:
        """The operations with calls of the runtime among them, and work on GPUs; None: nothing was seen."""
        nodes = flat.nodes
        scopes = {node.name for node in nodes if node.scope}
        # After the end of the step it is our own.
        ended, events = self.stamps[self._end], events_beside(results.events(), scopes)
        if flat.on_gpu and not events:
            self._give_up(NOT_SEEN)
            return None
        own = [event for event in events if event.processor == CPU and event.start > ended]
        of_own = {event.correlation for event in own}
        events = [
            event
            for event in events
            if (event.start <= ended if event.processor == CPU else event.correlation not in of_own)
        ]
        if (lost := _lost(events)) is not None:
            self._give_up(lost)
            return None
        window = WindowEvents(
            nodes,
            [node.number for node in nodes],
            ["annotation" if node.scope else "operation" for node in nodes],
            events,
            _call,
        )
        for node in window.operations:
            if node.call and node.parent >= 0:
                node.within(window.operations)
        return window

    def device_operations(self) -> Sequence[DeviceOperation] | None:
        """As `MarkedTracer.device_operations`."""
        window, self._window = self._window, None
        return None if window is None else window.device_operations()

    def notes(self) -> Sequence[str]:
        """As `MarkedTracer.notes`."""
        notes, self._notes = self._notes, []
        return notes

    def name_phases(self, operations: Sequence[_Node], phases: Sequence[tuple[int, str]]) -> None:
        """Names phases by the marks where no scope tells them, or the operation began within the scope that does."""
        starts, names = phase_bounds(phases)
        for node in operations:
            at = bisect_right(starts, node.start)
            within = at > 0 and starts[at - 1] > node.phase_since
            if not node.backward and (not node.phase or within):
                node.phase = names[at]
            if node.layer is None and node.phase != OPTIMIZER and not node.scope:
                node.layer = OUTSIDE

    def describe(self, operation: Any) -> tuple[int, int, int]:
        """As `MarkedTracer.describe`."""
        key = (operation.name, operation.shapes, operation.kind)
        description = self._described.get(key)
        if description is None:
            kind = operation.kind or kind_in("operation", operation.name)
            description = (
                self.code("operation", shown(operation.name).removeprefix("wattstep.")),
                self.code("kind", kind),
                self.code("shapes", operation.shapes),
            )
            if len(self._described) < MOST_KNOWN:
                self._described[key] = description
        return description

    def _give_flops(self, nodes: Sequence[_Node], results: Any) -> None:
        """FLOPs of the outer of nested operations that each could be counted.

        The event tree lacks arguments that are lists (strides), the flat events have them: those
        are looked up once for each operation, its shapes and its layer.
        """
        counted = [False] * len(nodes)
        arguments: dict[tuple[str, int], Any] | None = None
        for position, node in enumerate(nodes):
            if node.parent >= 0 and counted[node.parent]:
                counted[position] = True
                continue
            if node.name not in COUNTED:
                continue
            key = (node.name, node.shapes, node.layer)
            if key not in self._flops:
                if arguments is None:
                    arguments = {
                        (event.name(), event.start_ns()): event.concrete_inputs()
                        for event in results.events()
                        if event.name() in COUNTED
                    }
                values = arguments.get((node.name, node.start), ())
                self._flops[key] = flops_of(node.name, node.input_shapes, values)
            flops = self._flops[key]
            if flops is not None:
                node.flops = flops
                counted[position] = True
        if len(self._flops) > MOST_KNOWN:  # shapes that vary for ever must not fill memory
            self._flops.clear()


class _QuietLog:
    """Keeps torch's C++ log below errors while a window is open.

    The allocator would write a warning there when a tensor older than the window is freed in it.
    """

    ERROR = 2  # of c10's levels

    def __init__(self) -> None:
        self._level: ctypes.c_int | None = None
        self._before = 0
        library = Path(torch.__file__).parent / "lib" / "libc10.so"
        # A build without that flag (glog, static) says its warning once.
        with contextlib.suppress(OSError, ValueError):
            self._level = ctypes.c_int.in_dll(ctypes.CDLL(str(library)), "FLAGS_caffe2_log_level")

    def begin(self) -> None:
        """Errors only."""
        if self._level is not None:
            self._before = self._level.value
            self._level.value = max(self._before, self.ERROR)

    def end(self) -> None:
        """As before."""
        if self._level is not None:
            self._level.value = self._before


@dataclass(slots=True, eq=False)
class _Node(Operation):
    """Event of the trace on its way to a row."""

    allocated: int = 0  # torch tells each allocation
    phase_since: int = 0  # when the scope began that tells the phase
    input_shapes: Sequence[Any] = ()
    sequence: int = -1
    tensors: Sequence[tuple[int, int]] = ()  # address of the storage, which one there
    scope: bool = False
    backward: bool = False
    users: bool = False  # a scope that the user's code named
    number: int = NONE  # by which work on a GPU names it
    call: bool = False  # of the runtime, or the profiler's own work

    def within(self, others: Sequence[_Node]) -> None:
        """Takes over what the operation tells in which it lies: a call is made for that."""
        parent = others[self.parent]
        self.layer, self.phase, self.phase_since = parent.layer, parent.phase, parent.phase_since
        self.backward = parent.backward
        while parent.scope and not parent.users and parent.parent >= 0:
            parent = others[parent.parent]
        self.outermost = int(parent.scope)


def _lost(events: Sequence[DeviceEvent]) -> str | None:
    """Reason why what GPUs did is not all there: launches without a kernel; None: it is.

    While a graph is captured, launches start nothing.
    """
    calls = [event for event in events if event.processor == CPU]
    if any(CAPTURE.match(event.name) for event in calls):
        return None
    launches = [event.correlation for event in calls if LAUNCH.match(event.name)]
    there = {event.correlation for event in events if event.processor != CPU}
    lost = sum(correlation not in there for correlation in launches)
    return LOST.format(lost, len(launches)) if lost > MOST_LOST * len(launches) else None


def _call(event: DeviceEvent) -> _Node:
    """Operation that stands for a call of the runtime."""
    return _Node(event.name, event.start, event.end, thread=event.thread, call=True)


class _Flattening:
    """The event tree as rows in order of their start, each with what its ancestors tell.

    Args:
        paths: Of layers, by the text of their scope.

    Attributes:
        nodes: The rows, in the tracer's own clock.
        marks: When the marks of the clock were made, likewise.
        enclosed: Of those made within an operation, when the outermost one began.
        on_gpu: Whether a GPU worked: memory was taken there or given back.
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.nodes: list[_Node] = []
        self.marks: list[int] = []
        self.enclosed: dict[int, int] = {}
        self.on_gpu = False
        self._paths = paths
        self._newest: dict[int, int] = {}  # of the storages that an address had in turn

    def walk(self, root: Any) -> None:
        """Takes a root of the tree and all below it."""
        # event, parent row, layer, phase and since when, inside an operation, in backward
        stack: list[Any] = [(root, -1, None, "", 0, False, False)]
        nodes = self.nodes
        while stack:
            event, parent, layer, phase, since, inside, backward = stack.pop()
            tag = event.tag
            if tag == _EventType.Allocation:
                memory = event.extra_fields
                self._at(memory.ptr, memory.allocation_id)
                self.on_gpu = self.on_gpu or memory.device.type != "cpu"
                if parent >= 0:
                    nodes[parent].allocated += memory.alloc_size
                continue
            if tag != _EventType.TorchOp:
                continue
            name = event.name
            if name == CLOCK:
                self.marks.append((event.start_time_ns + event.end_time_ns) // 2)
                if inside:
                    self.enclosed[self.marks[-1]] = self._outermost(parent).start
                continue
            node = _Node(
                name, event.start_time_ns, event.end_time_ns,
                thread=event.start_tid, parent=parent, outermost=0,
            )  # fmt: skip
            fields = event.extra_fields
            if name.startswith(SCOPE):
                node.scope = True
                node.start = _scope_start(event)
                layer = self._paths[name]
                node.name = "wattstep.module code"
                if phase == OPTIMIZER:  # a closure goes forward
                    phase, since = FORWARD, node.start
            elif name.startswith("Optimizer."):
                node.scope = True
                node.start = _scope_start(event)
                phase, since = OPTIMIZER, node.start
            else:
                node.outermost = 0 if inside else 1
                inside = True
                if name.startswith(ENGINE):
                    phase, backward, layer = BACKWARD, True, None
                self._take_inputs(node, fields)
            node.sequence, node.number = fields.sequence_number, event.correlation_id
            node.layer, node.phase, node.phase_since, node.backward = layer, phase, since, backward
            if fields.scope == RecordScope.USER_SCOPE and not node.scope:
                node.scope, node.outermost, inside = True, 0, False  # the user's own annotation
                node.users = True
            node.kind = SCOPE_KIND if node.scope else ""
            position = len(nodes)
            nodes.append(node)
            for child in reversed(event.children):
                stack.append((child, position, layer, phase, since, inside, backward))

    def end(self, t_ns: int) -> None:
        """Rows that begin after a time are none; they lie in no others."""
        while self.nodes and self.nodes[-1].start > t_ns:
            self.nodes.pop()

    def _outermost(self, position: int) -> _Node:
        """The operation that no other encloses, and in which this row lies."""
        while not self.nodes[position].outermost:
            position = self.nodes[position].parent
        return self.nodes[position]

    def _take_inputs(self, node: _Node, fields: Any) -> None:
        shapes: list[Any] = []
        tensors: list[tuple[int, int]] = []
        size = 0
        for given in fields.inputs:
            if isinstance(given, _TensorMetadata):
                shape = given.sizes
                shapes.append(shape)
                count = given.dtype.itemsize
                for length in shape:
                    count *= length
                size += count
                tensors.append(self._at(given.storage_data_ptr or 0, given.allocation_id))
            elif isinstance(given, list) and given and isinstance(given[0], _TensorMetadata):
                shapes.append([part.sizes for part in given])
                size += sum(_bytes(part) for part in given)
            else:
                shapes.append(None)
        node.tensors = tensors
        node.shapes = shapes_text(shapes)
        node.input_shapes = shapes
        if shapes:
            node.bytes = size

    def give_backward_layers(self) -> None:
        """Backward nodes get the layer of the forward operation that made them.

        The last operation that saw a sequence number made the node of that number: those before
        it asked for the number without taking it. Where the backward pass is itself differentiated
        (a penalty on gradients), its operations make nodes in turn. An accumulation of a gradient
        has no number; it belongs to the node before it on its thread. Numbers are a thread's own.
        """
        forward = {node.thread for node in self.nodes if node.sequence >= 0 and not node.backward}
        made_by: dict[int, str | None] = {}
        running: dict[int, str | None] = {}  # layer of the node that runs, by thread
        for node in sorted(self.nodes, key=lambda node: node.start):
            numbered = node.sequence >= 0 and not node.scope
            if numbered and node.name.startswith(ENGINE) and node.sequence in made_by:
                running[node.thread] = made_by[node.sequence]
            if node.backward and node.layer is None:
                node.layer = running.get(node.thread)
            if numbered and (not node.backward or node.thread in forward):
                made_by[node.sequence] = node.layer

    def _at(self, address: int, number: int | None) -> tuple[int, int]:
        """A storage: its address, and which of those that were there one after the other."""
        self._newest[address] = max(self._newest.get(address, 0), number or 0)
        return address, number or 0

    def give_optimizer_layers(self, owners: dict[int, str]) -> None:
        """Optimizer operations get the layer whose parameter or state they touch.

        One that touches none (it works on a temporary) belongs with the next that does: updates
        end with the write to the parameter. Those over lists of tensors belong to no single layer.

        Args:
            owners: Layer by the address of a storage that is there when the window has ended: what
                was at that address before was a temporary.
        """
        waiting: list[_Node] = []
        for node in self.nodes:
            if node.phase != OPTIMIZER or node.scope:
                waiting.clear()
                continue
            layers = {
                owners[address]
                for address, number in node.tensors
                if address in owners and number == self._newest[address]
            }
            if len(layers) == 1:
                layer = layers.pop()
                for one in (*waiting, node):
                    one.layer = layer
                waiting.clear()
            elif node.tensors:
                waiting.append(node)
            # Whatever runs inside an operation runs for its layer.
            if node.layer is None and node.parent >= 0 and not self.nodes[node.parent].scope:
                node.layer = self.nodes[node.parent].layer


def _scope_start(event: Any) -> int:
    """When a scope began; where it opens with a mark, it is its phase's from there on."""
    for first in event.children[:1]:
        if first.tag == _EventType.TorchOp and first.name == CLOCK:
            return int(first.end_time_ns)
    return int(event.start_time_ns)


def _bytes(tensor: Any) -> int:
    count = int(tensor.dtype.itemsize)
    for length in tensor.sizes:
        count *= length
    return count
