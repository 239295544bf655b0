"""A plan on a device: its kernels with their arguments, its memory, and a step in one of three modes."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.trainer import JOINT
from wattstep.engines.opencl.plan import (
    FEATURES,
    FLOAT_BYTES,
    INPUT,
    Launch,
    Operation,
    Plan,
    Tensor,
    Written,
    place,
    root,
)
from wattstep.errors import DeviceFaultError
from wattstep.opencl.device import Device, Opened, faults
from wattstep.opencl.program import build
from wattstep.schema.engine import Mark
from wattstep.schema.extras import require
from wattstep.schema.opencl import COPYING, FUSED

Array = npt.NDArray[Any]
TO_DEVICE: Final = "CopyHostToDevice"
TO_HOST: Final = "CopyDeviceToHost"
GUARDED: Final = 2  # first steps, in which a driver may still build kernels, or hang
LIMIT_S: Final = 300.0  # for each of them
GROUP: Final = 64  # work items that sum together on a GPU; a CPU's sum alone
CHUNK: Final = 1024  # values that a work item of a CPU goes through, in vectors
GROUPS_A_UNIT: Final = (
    4  # work groups of a kernel for each compute unit, at least, where it has as many
)
WIDEST: Final = 64  # work items of a group


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Something that the device did in a step that is traced.

    Attributes:
        name: Of the operation, or the copy.
        kernel: Of the kernel; "" of a copy.
        kind: As `schema.operation_kinds`.
        phase: Of the step.
        layer: Path of its layer.
        flops: Floating-point operations; -1: not known.
        bytes: That it read, or copied.
        event: The driver's.
        asked: When the host began to ask for it and had done so, in ns of the run's clock.
        queue: Number of the queue.
    """

    name: str
    kernel: str
    kind: str
    phase: str
    layer: str | None
    flops: int
    bytes: int
    event: Any
    asked: tuple[int, int]
    queue: int


@cache
def _source(file: str) -> str:
    folder = resources.files(__package__) / "kernels"
    return (folder / f"{file}.cl").read_text(encoding="utf-8")


def local_size(device: Device, size: Sequence[int], *, grouped: bool) -> tuple[int, ...]:
    """Work items of a group in each dimension.

    Args:
        device: That runs it.
        size: Work items that there are to be, or groups.
        grouped: Whether they sum together.
    """
    if grouped:
        return (group_of(device), *(1 for _ in size[1:]))
    most = min(WIDEST, device.largest_group)
    others = int(np.prod(size[1:]))
    wide = 1
    while wide * 2 <= most and wide < size[0]:
        groups = -(-size[0] // (wide * 2)) * others
        if device.kind == "cpu" and groups < GROUPS_A_UNIT * device.units:
            break
        wide *= 2
    return (wide, *(1 for _ in size[1:]))


def group_of(device: Device) -> int:
    """Work items that sum together."""
    return 1 if device.kind == "cpu" else min(GROUP, device.largest_group)


class Kernels:
    """Programs of a plan, each built once.

    Args:
        opened: The device in use.
        update: OpenCL C of the optimizer.
    """

    def __init__(self, opened: Opened, update: str) -> None:
        self._opened, self._update = opened, update
        self._programs: dict[Any, Any] = {}

    def make(self, launch: Launch) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
        """A kernel of its own for a launch, without arguments, and its global and local size.

        Raises:
            DeviceFaultError: The driver does not build it.
        """
        device = self._opened.device
        chunk = CHUNK if device.kind == "cpu" and launch.chunked else 1
        defines = {**launch.defines, "CHUNK": chunk}
        if launch.grouped:
            defines["GROUP"] = group_of(device)
        key = (launch.file, launch.updates, frozenset(defines.items()))
        if key not in self._programs:
            parts = (
                self._update if launch.updates else "",
                _source("common"),
                _source(launch.file),
            )
            self._programs[key] = build(self._opened, "\n".join(parts), defines)
        with faults(device):
            kernel = require("pyopencl").Kernel(self._programs[key], launch.kernel)
        size = (-(-launch.size[0] // chunk), *launch.size[1:])
        local = local_size(device, size, grouped=launch.grouped)
        if launch.grouped:
            return kernel, (size[0] * local[0], *size[1:]), local
        whole = tuple(-(-wanted // each) * each for wanted, each in zip(size, local, strict=True))
        return kernel, whole, local


class Memory:
    """Buffers of a plan's tensors.

    Args:
        opened: The device in use.
        plan: The step.
        shared: Whether tensors that are made anew share memory where they are never needed at once.
        copies: Of what a batch brings: two where the next one comes while a step runs.
    """

    def __init__(self, opened: Opened, plan: Plan, *, shared: bool, copies: int = 1) -> None:
        self._opened = opened
        self.bytes: dict[str, int] = {}
        self._buffers: list[dict[Tensor, Any]] = [{} for _ in range(copies)]
        self._made: list[Any] = []
        # Not in any order: NVIDIA's driver (580) crashes where parts of a buffer that lie over each
        # other are released as they were made.
        weakref.finalize(self, _release_backwards, self._made)
        align = opened.device.handle.mem_base_addr_align // 8
        places = place(plan, max(align, FLOAT_BYTES)) if shared else None
        self._places = places
        self._arena: Any = None  # of whose parts no device gives further parts
        if places is not None and places.size:
            self._arena = self._allocate(FEATURES, places.size)
        for tensor in plan.tensors:
            if places is not None and tensor in places.begin:
                continue
            if tensor.category == INPUT:
                for buffers in self._buffers:
                    buffers[tensor] = self._allocate(tensor.category, tensor.bytes)
            else:
                self._keep(tensor, self._allocate(tensor.category, tensor.bytes))

    def _allocate(self, category: str, size: int) -> Any:
        buffer = self._opened.allocate(size)
        self._made.append(buffer)
        self.bytes[category] = self.bytes.get(category, 0) + size
        return buffer

    def _keep(self, tensor: Tensor, buffer: Any) -> None:
        for buffers in self._buffers:
            buffers[tensor] = buffer

    def of(self, tensor: Tensor, turn: int = 0) -> Any:
        """The buffer of a tensor.

        Args:
            tensor: Which.
            turn: Of what a batch brings, which copy.
        """
        buffers = self._buffers[turn % len(self._buffers)]
        if tensor not in buffers:
            whole, begin = tensor.within or (tensor, 0)
            at = begin * FLOAT_BYTES
            if self._places is not None and whole in self._places.begin:
                buffer, at = self._arena, at + self._places.begin[whole]
            else:
                buffer = buffers[whole]
            part = buffer.get_sub_region(at, max(tensor.bytes, FLOAT_BYTES))
            self._made.append(part)
            if whole.category == INPUT:
                buffers[tensor] = part
            else:
                self._keep(tensor, part)
        return buffers[tensor]


def _release_backwards(buffers: list[Any]) -> None:
    for buffer in reversed(buffers):
        buffer.release()


class Execution:
    """A training on a device, one step after the other.

    Args:
        opened: The device in use.
        plan: The step; fused for the mode "fused" alone.
        mode: One of `schema.opencl.MODES`.
        values: Of parameters, by torch's names, and of the plan's buffers, by their places.

    Attributes:
        memory: The plan's buffers.
        ran: What the device did since the list was put here; None: nobody wants to know.

    Raises:
        DeviceFaultError: A kernel is not built, or the memory does not suffice.
    """

    def __init__(self, opened: Opened, plan: Plan, mode: str, values: Mapping[str, Array]) -> None:
        self._cl = require("pyopencl")
        self.opened, self.plan, self.mode = opened, plan, mode
        fused = mode == FUSED
        self.memory = Memory(opened, plan, shared=fused, copies=1 + fused)
        self.ran: list[Ran] | None = None
        self._steps = 0
        self._host: dict[
            Tensor, Array
        ] = {}  # where values are between operations, when they are copied
        self._copying_queue = opened.new_queue() if fused else None
        self._coming: Any = None  # event of the next batch
        whole = max((root(each).count for each in plan.inputs.values()), default=0)
        self._staged = [np.zeros(whole, np.float32) for _ in range(2 * fused)]
        kernels = Kernels(opened, plan.update)
        turns = 1 + fused
        self._launches = [
            [self._bound(kernels, launch, turns) for launch in operation.launches]
            for operation in plan.operations
        ]
        state = {**plan.parameters, **plan.buffers}
        with faults(opened.device):
            for name, tensor in state.items():
                array = np.ascontiguousarray(values[name], np.float32).reshape(-1)
                self._host[tensor] = array.copy()
                self._cl.enqueue_copy(opened.queue, self.memory.of(tensor), array)
            for tensor in plan.tensors:
                if tensor.category == "optimizer_state":
                    zeros = np.zeros(tensor.count, np.float32)
                    self._host[tensor] = zeros
                    self._cl.enqueue_copy(opened.queue, self.memory.of(tensor), zeros)
            opened.queue.finish()

    def _bound(
        self, kernels: Kernels, launch: Launch, turns: int
    ) -> list[tuple[Any, tuple[int, ...], tuple[int, ...]]]:
        """The kernel of a launch with its arguments, for each copy of what a batch brings."""
        if not any(root(each).category == INPUT for each in launch.reads):
            turns = 1
        bound = []
        for turn in range(turns):
            kernel, size, local = kernels.make(launch)
            for at, argument in enumerate(launch.arguments):
                kernel.set_arg(at, self._argument(argument, turn))
            bound.append((kernel, size, local))
        return bound

    def _argument(self, argument: Any, turn: int) -> Any:
        if isinstance(argument, Written):
            argument = argument.tensor
        if isinstance(argument, Tensor):
            return self.memory.of(argument, turn)
        return np.int32(argument) if isinstance(argument, int) else np.float32(argument)

    # --- a step -----------------------------------------------------------------------------------

    def step(
        self, batch: Mapping[str, Array], mark: Mark, upcoming: Callable[[], Mapping[str, Array]]
    ) -> float:
        """One step; its loss.

        Args:
            batch: What it brings, by the plan's names: float32 or int32, contiguous.
            mark: As of `ExportedTrainer.take`.
            upcoming: Gives the next batch, while the device is busy with this one.

        Raises:
            DeviceFaultError: The driver failed, or did not come to an end.
        """
        with faults(self.opened.device):
            if self.mode == COPYING:
                loss = self._copying(batch, mark)
            elif self.mode == FUSED:
                mark(JOINT)
                loss = self._fused(batch, upcoming)
            else:
                mark(JOINT)
                loss = self._resident(batch)
        self._steps += 1
        return loss

    def _copying(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """Whatever an operation takes comes from the host, and what it makes goes back to it."""
        self._host.update({self.plan.inputs[name]: array for name, array in batch.items()})
        phase = ""
        for operation, launches in zip(self.plan.operations, self._launches, strict=True):
            if operation.phase != phase:
                phase = operation.phase
                mark(phase)
            for tensor in operation.inputs:
                self._upload(tensor, self._host[tensor], phase=phase, layer=operation.layer)
            self._run(operation, launches, 0)
            event = None
            for tensor in operation.outputs:
                array = self._host.get(tensor)
                if array is None or tensor.category == INPUT:
                    array = self._host[tensor] = np.empty(tensor.count, np.float32)
                event = self._download(tensor, array, phase=phase, layer=operation.layer)
            assert event is not None  # every operation makes something
            self._wait(event)
        return float(np.mean(self._host[self.plan.losses], dtype=np.float64))

    def _resident(self, batch: Mapping[str, Array]) -> float:
        """The batch goes to the device, and the loss comes from it."""
        for name, array in batch.items():
            self._upload(self.plan.inputs[name], array)
        for operation, launches in zip(self.plan.operations, self._launches, strict=True):
            self._run(operation, launches, 0)
        return self._loss()

    def _fused(
        self, batch: Mapping[str, Array], upcoming: Callable[[], Mapping[str, Array]]
    ) -> float:
        """As resident, while the next batch comes in a queue of its own."""
        turn = self._steps % 2
        if self._coming is None:
            self._coming = self._send(batch, turn)
        waited: Any = [self._coming]
        for operation, launches in zip(self.plan.operations, self._launches, strict=True):
            self._run(operation, launches, turn, waited)
            waited = None  # the queue is in order
        self.opened.queue.flush()
        self._coming = self._send(upcoming(), 1 - turn)
        return self._loss()

    def _send(self, batch: Mapping[str, Array], turn: int) -> Any:
        """Sends a batch in one piece; the event at its end."""
        staged = self._staged[turn]
        for name, array in batch.items():
            tensor = self.plan.inputs[name]
            assert tensor.within is not None
            _, begin = tensor.within
            staged[begin : begin + tensor.count].view(array.dtype)[:] = array.reshape(-1)
        (whole,) = {root(each) for each in self.plan.inputs.values()}
        event = self._upload(whole, staged, turn=turn, beside=True)
        assert self._copying_queue is not None
        self._copying_queue.flush()
        return event

    def _loss(self) -> float:
        losses = np.empty(self.plan.losses.count, np.float32)
        self._wait(self._download(self.plan.losses, losses))
        return float(np.mean(losses, dtype=np.float64))

    def _run(
        self, operation: Operation, launches: Sequence[Any], turn: int, waited: Any = None
    ) -> None:
        """Asks for all kernels of an operation, the first of which waits for events."""
        queue, enqueue = self.opened.queue, self._cl.enqueue_nd_range_kernel
        if self.ran is None:
            for bound in launches:
                kernel, size, local = bound[turn % len(bound)]
                enqueue(queue, kernel, size, local, wait_for=waited)
                waited = None
            return
        for launch, bound in zip(operation.launches, launches, strict=True):
            kernel, size, local = bound[turn % len(bound)]
            begin = time.perf_counter_ns()
            event = enqueue(queue, kernel, size, local, wait_for=waited)
            waited = None
            self.ran.append(
                Ran(
                    name=operation.name, kernel=launch.kernel, kind=launch.kind,
                    phase=operation.phase, layer=operation.layer, flops=launch.flops,
                    bytes=sum(each.bytes for each in (*launch.reads, *launch.writes)),
                    event=event, asked=(begin, time.perf_counter_ns()), queue=0,
                )
            )  # fmt: skip

    def _upload(
        self, tensor: Tensor, array: Array, *, turn: int = 0, beside: bool = False,
        phase: str = "forward", layer: str | None = None,
    ) -> Any:  # fmt: skip
        queue = self._copying_queue if beside else self.opened.queue
        begin = time.perf_counter_ns()
        event = self._cl.enqueue_copy(queue, self.memory.of(tensor, turn), array, is_blocking=False)
        self._copied(TO_DEVICE, event, tensor, begin, phase, layer, int(beside))
        return event

    def _download(
        self, tensor: Tensor, array: Array, *, phase: str = "optimizer", layer: str | None = None
    ) -> Any:
        begin = time.perf_counter_ns()
        event = self._cl.enqueue_copy(
            self.opened.queue, array, self.memory.of(tensor), is_blocking=False
        )
        self._copied(TO_HOST, event, tensor, begin, phase, layer, 0)
        return event

    def _copied(
        self, name: str, event: Any, tensor: Tensor, begin: int, phase: str, layer: str | None,
        queue: int,
    ) -> None:  # fmt: skip
        if self.ran is not None:
            self.ran.append(
                Ran(
                    name=name, kernel="", kind="data movement", phase=phase, layer=layer, flops=0,
                    bytes=tensor.bytes, event=event, asked=(begin, time.perf_counter_ns()),
                    queue=queue,
                )
            )  # fmt: skip

    def _wait(self, event: Any) -> None:
        """Waits for an event; in the first steps not longer than the limit."""
        if self._steps < GUARDED:
            ended = threading.Event()
            status = self._cl.command_execution_status.COMPLETE
            event.set_callback(status, lambda _: ended.set())
            self.opened.queue.flush()
            if not ended.wait(LIMIT_S):
                raise DeviceFaultError(
                    f"{self.opened.device.name}: a step has not ended after {LIMIT_S:g} s: its driver hangs, "
                    "or the device is too slow for this batch size",
                    id="opencl-hangs",
                )
        event.wait()

    def finish(self) -> None:
        """Waits for all queues."""
        for queue in (self.opened.queue, self._copying_queue):
            if queue is not None:
                queue.finish()

    # --- what is there ------------------------------------------------------------------------------

    def read(self, tensor: Tensor) -> Array:
        """The values of a tensor now."""
        if self.mode == COPYING and tensor in self._host:
            return np.array(self._host[tensor])
        array = np.empty(tensor.count, np.float32)
        with faults(self.opened.device):
            self._cl.enqueue_copy(self.opened.queue, array, self.memory.of(tensor))
        return array
