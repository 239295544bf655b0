"""Traces one step of torch at a time: operations with layer, phase, shapes, FLOPs, bytes and times."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Sequence
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

from wattstep.records.journal import OPERATION
from wattstep.tracing.flops import COUNTED, flops_of
from wattstep.tracing.kinds import kind_of
from wattstep.tracing.torch_layers import OUTSIDE, SCOPE, LayerScopes

CLOCK = "wattstep.clock"
ENGINE = "autograd::engine::evaluate_function: "
MOST_KNOWN = 50_000
SHAPES_SHOWN = 6  # inputs whose shapes are written down; beyond, lists of hundreds of tensors
Code = Callable[[str, str], int]


@dataclass(frozen=True)
class Window:
    """One traced step: packed rows (`records.journal.OPERATION`) and how the clock was mapped."""

    rows: bytes
    operations: int
    clock_uncertainty_ns: int


class TorchTracer:
    """Kineto, one step a window, its clock mapped to ours by two marks in the trace.

    Args:
        code: Gives the number that stands for a name (`MarkJournal.code`).
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._layers = LayerScopes()
        self._quiet = _QuietLog()
        self._profile: Any = None
        self._brackets: list[tuple[int, int]] = []
        self._optimizers: list[Any] = []
        self._handle: Any = None
        self._described: dict[Any, tuple[int, int, int]] = {}
        self._flops: dict[Any, int | None] = {}
        # Kineto's own messages would land in the middle of somebody's output.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")

    @property
    def active(self) -> bool:
        """Whether a window is open."""
        return self._profile is not None

    @staticmethod
    def foreign_profiler() -> bool:
        """Whether a profiler that is not ours is running."""
        return bool(autograd_profiler._is_profiler_enabled)

    def learn(self, model: Any) -> None:
        """Names the model's layers by its own module paths; the first model's stand alone."""
        self._layers.learn(model)

    def start(self) -> None:
        """Opens a window."""
        self._optimizers.clear()
        self._brackets.clear()
        self._handle = torch_optimizer.register_optimizer_step_post_hook(self._saw_optimizer)
        self._layers.begin()
        self._quiet.begin()
        self._profile = autograd_profiler.profile(
            use_cpu=True, use_kineto=True, record_shapes=True, profile_memory=True
        )
        self._profile.__enter__()
        self._mark_clock()

    def _saw_optimizer(self, optimizer: Any, *_: Any) -> None:
        if not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)

    def _mark_clock(self) -> None:
        before = time.perf_counter_ns()
        with _RecordFunctionFast(CLOCK):
            pass
        self._brackets.append((before, time.perf_counter_ns()))

    def cancel(self) -> None:
        """Closes the window and forgets it."""
        self._close()
        self._profile = None

    def _close(self) -> None:
        self._layers.end()
        self._handle.remove()
        if autograd_profiler._is_profiler_enabled:
            self._profile.__exit__(None, None, None)
        self._quiet.end()

    def finish(self) -> None:
        """Ends the tracing, right after the step; `rows` turns it into rows."""
        self._mark_clock()
        self._close()

    def rows(self, step: int, window: int, phases: Sequence[tuple[int, str]]) -> Window:
        """The rows of the window that was finished.

        Args:
            step: Index of the traced step.
            window: Number of the window.
            phases: Start (ns) and name of the phases of that step, for operations whose phase
                does not follow from the trace.
        """
        profile, self._profile = self._profile, None
        tree = profile.kineto_results.experimental_event_tree()
        to_ours, uncertainty = self._clock_map(tree)
        flat = _Flattening(to_ours)
        for root in tree:
            flat.walk(root)
        flat.give_backward_layers()
        flat.give_optimizer_layers(self._layers.layers_of_tensors(self._optimizers))
        flat.give_phases(phases)
        self._give_flops(flat.nodes, profile.kineto_results)
        code = self._code
        pack = OPERATION.pack
        rows = []
        for node in flat.nodes:
            name, kind, shapes = self._describe(node)
            rows.append(
                pack(
                    step,
                    window,
                    name,
                    kind,
                    -1 if node.layer is None else code("layer", node.layer),
                    code("phase", node.phase),
                    shapes,
                    node.thread,
                    node.start,
                    node.end,
                    node.parent,
                    node.flops,
                    node.bytes,
                    node.allocated,
                    node.outermost,
                )
            )
        return Window(b"".join(rows), len(rows), uncertainty)

    def _describe(self, node: _Node) -> tuple[int, int, int]:
        key = (node.name, node.shapes)
        known = self._described.get(key)
        if known is None:
            name = node.name.removeprefix(ENGINE).removeprefix("torch::autograd::")
            kind = "scope" if node.scope else kind_of(name)
            name = name.removeprefix("wattstep.")
            known = (
                self._code("operation", name),
                self._code("kind", kind),
                self._code("shapes", node.shapes),
            )
            if len(self._described) < MOST_KNOWN:
                self._described[key] = known
        return known

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
                values = arguments.get((node.name, node.started), ())
                self._flops[key] = flops_of(node.name, node.input_shapes, values)
            flops = self._flops[key]
            if flops is not None:
                node.flops = flops
                counted[position] = True
        if len(self._flops) > MOST_KNOWN:  # shapes that vary for ever must not fill memory
            self._flops.clear()

    def _clock_map(self, tree: Any) -> tuple[Callable[[int], int], int]:
        """Kineto's clock to ours: offset and rate from the two marks, half a bracket uncertain."""
        marks = [event for event in tree if event.name == CLOCK]
        theirs = [(m.start_time_ns + m.end_time_ns) // 2 for m in (marks[0], marks[-1])]
        ours = [(a + b) // 2 for a, b in (self._brackets[0], self._brackets[-1])]
        uncertainty = max(b - a for a, b in self._brackets) // 2
        span = theirs[1] - theirs[0]
        rate = (ours[1] - ours[0]) / span if span > 0 else 1.0
        first_theirs, first_ours = theirs[0], ours[0]

        def to_ours(t_ns: int) -> int:
            return int(first_ours + round((t_ns - first_theirs) * rate))

        return to_ours, uncertainty


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


class _Node:
    """One event of the trace on its way to a row."""

    __slots__ = (
        "allocated", "backward", "bytes", "end", "flops", "input_shapes", "layer", "name",
        "outermost", "parent", "phase", "scope", "sequence", "shapes", "start", "started", "tensors",
        "thread",
    )  # fmt: skip

    def __init__(self, name: str, thread: int, start: int, end: int, parent: int) -> None:
        self.name = name
        self.thread = thread
        self.start = start
        self.end = end
        self.parent = parent
        self.layer: str | None = None
        self.phase = ""
        self.shapes = ""
        self.input_shapes: Sequence[Any] = ()
        self.started = 0  # in the tracer's own clock
        self.sequence = -1
        self.tensors: tuple[int, ...] = ()
        self.flops = -1
        self.bytes = -1
        self.allocated = 0
        self.outermost = 0
        self.scope = False
        self.backward = False


class _Flattening:
    """The event tree as rows in order of their start, each with what its ancestors tell."""

    def __init__(self, to_ours: Callable[[int], int]) -> None:
        self.nodes: list[_Node] = []
        self._to_ours = to_ours

    def walk(self, root: Any) -> None:
        """Takes a root of the tree and all below it."""
        # event, parent row, layer, phase, inside an operation, in backward
        stack: list[Any] = [(root, -1, None, "", False, False)]
        nodes = self.nodes
        while stack:
            event, parent, layer, phase, inside, backward = stack.pop()
            tag = event.tag
            if tag == _EventType.Allocation:
                if parent >= 0:
                    nodes[parent].allocated += event.extra_fields.alloc_size
                continue
            if tag != _EventType.TorchOp or event.name == CLOCK:
                continue
            name = event.name
            node = _Node(
                name, event.start_tid, self._to_ours(event.start_time_ns),
                self._to_ours(event.end_time_ns), parent,
            )  # fmt: skip
            fields = event.extra_fields
            if name.startswith(SCOPE):
                node.scope = True
                layer = name[len(SCOPE) :]
                node.name = "wattstep.module code"
            elif name.startswith("Optimizer."):
                node.scope = True
                phase = "optimizer"
            else:
                node.outermost = 0 if inside else 1
                inside = True
                if name.startswith(ENGINE):
                    phase, backward, layer = "backward", True, None
                self._take_inputs(node, fields)
                node.started = event.start_time_ns
            node.sequence = fields.sequence_number
            node.layer, node.phase, node.backward = layer, phase, backward
            if fields.scope == RecordScope.USER_SCOPE and not node.scope:
                node.scope, node.outermost, inside = True, 0, False  # the user's own annotation
            position = len(nodes)
            nodes.append(node)
            for child in reversed(event.children):
                stack.append((child, position, layer, phase, inside, backward))

    def _take_inputs(self, node: _Node, fields: Any) -> None:
        shapes: list[Any] = []
        tensors: list[int] = []
        size = 0
        for given in fields.inputs:
            if isinstance(given, _TensorMetadata):
                shape = given.sizes
                shapes.append(shape)
                count = given.dtype.itemsize
                for length in shape:
                    count *= length
                size += count
                tensors.append(given.storage_data_ptr or 0)
            elif isinstance(given, list) and given and isinstance(given[0], _TensorMetadata):
                shapes.append([part.sizes for part in given])
                size += sum(_bytes(part) for part in given)
            else:
                shapes.append(None)
        node.tensors = tuple(tensors)
        node.shapes = ";".join(_shape_text(s) for s in shapes if s is not None)
        node.input_shapes = shapes
        if shapes:
            node.bytes = size

    def give_backward_layers(self) -> None:
        """Backward nodes get the layer of the forward operation that made them.

        The last forward operation that saw a sequence number made the node of that number: those
        before it asked for the number without taking it. An accumulation of a gradient has no
        number; it belongs to the node before it.
        """
        made_by: dict[int, str | None] = {}
        for node in sorted(self.nodes, key=lambda n: n.start):
            if not node.backward and node.sequence >= 0 and not node.scope:
                made_by[node.sequence] = node.layer
        before: str | None = None
        layer: str | None = None
        for node in self.nodes:
            if node.name.startswith(ENGINE):
                if node.sequence >= 0 and node.sequence in made_by:
                    before = made_by[node.sequence]
                layer = before
            if node.backward and node.layer is None:
                node.layer = layer

    def give_optimizer_layers(self, owners: dict[int, str]) -> None:
        """Optimizer operations get the layer whose parameter or state they touch.

        One that touches none (it works on a temporary) belongs with the next that does: updates
        end with the write to the parameter. Those over lists of tensors belong to no single layer.
        """
        waiting: list[_Node] = []
        for node in self.nodes:
            if node.phase != "optimizer" or node.scope:
                waiting.clear()
                continue
            found = {owners[ptr] for ptr in node.tensors if ptr in owners}
            if len(found) == 1:
                layer = found.pop()
                for one in (*waiting, node):
                    one.layer = layer
                waiting.clear()
            elif node.tensors:
                waiting.append(node)
            # Whatever runs inside an operation runs for its layer.
            if node.layer is None and node.parent >= 0 and not self.nodes[node.parent].scope:
                node.layer = self.nodes[node.parent].layer

    def give_phases(self, phases: Sequence[tuple[int, str]]) -> None:
        """What the trace leaves open is decided by the marks of the step."""
        starts = [start for start, _ in phases]
        for node in self.nodes:
            if node.layer is None and node.phase != "optimizer" and not node.scope:
                node.layer = OUTSIDE
            if not node.phase:
                at = sum(1 for start in starts if start <= node.start) - 1
                node.phase = phases[at][1] if at >= 0 else "forward"


def _bytes(tensor: Any) -> int:
    count = int(tensor.dtype.itemsize)
    for length in tensor.sizes:
        count *= length
    return count


def _shape_text(shape: Any) -> str:
    if shape and isinstance(shape[0], list):
        shown = ",".join("x".join(map(str, part)) for part in shape[:SHAPES_SHOWN])
        more = f",+{len(shape) - SHAPES_SHOWN}" if len(shape) > SHAPES_SHOWN else ""
        return f"[{shown}{more}]"
    return "x".join(map(str, shape)) or "scalar"
