"""OpenCL devices: those that there are, one of them chosen, and one in use with its context, queue and memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.errors import DeviceFaultError, InvalidValueError, MissingPartError
from wattstep.opencl.pocl import name_target
from wattstep.schema.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOAT: Final = 4  # bytes
NO_PLATFORM: Final = -1001  # CL_PLATFORM_NOT_FOUND_KHR, of the loader
ArrayOfFloat32 = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Device:
    """An OpenCL device, and its limits.

    Attributes:
        number: Its place among `find_devices()`.
        name: As the driver calls it.
        platform: That it belongs to.
        driver: Version of its driver.
        version: OpenCL version, with what the driver adds.
        kind: "cpu", "gpu" or "accelerator".
        units: Compute units.
        memory: Bytes of its memory.
        largest_buffer: Bytes of one buffer, at most.
        local_memory: Bytes that a work group may share.
        largest_group: Work items in a group, at most.
        group_sizes: The same in each dimension.
        vector_width: Floats in a vector of its own.
        unified: Whether it shares memory with the host, so that a copy moves nothing to it.
        target: CPU that PoCL's compiler was told, see `pocl`; "" where it knew.
        handle: The device, as pyopencl has it.
    """

    number: int
    name: str
    platform: str
    driver: str
    version: str
    kind: str
    units: int
    memory: int
    largest_buffer: int
    local_memory: int
    largest_group: int
    group_sizes: tuple[int, ...]
    vector_width: int
    unified: bool
    target: str
    handle: Any

    @property
    def key(self) -> str:
        """What a result of tuning depends on: device, its size, and version of the driver."""
        return "|".join((self.platform, self.name, self.driver, self.target, f"{self.units} units"))

    def facts(self) -> dict[str, str | int | bool]:
        """All but the handle, JSON-ready."""
        names = (
            "number", "name", "platform", "driver", "version", "kind", "units", "memory",
            "largest_buffer", "local_memory", "largest_group", "vector_width", "unified", "target",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def find_devices() -> list[Device]:
    """All OpenCL devices of this machine, in the order of their platforms.

    Raises:
        MissingPartError: pyopencl is not installed, or there is no platform with a device.
    """
    cl = require("pyopencl")
    handles = [
        (platform, handle) for platform in _platforms(cl) for handle in _handles(cl, platform)
    ]
    if not handles:
        raise MissingPartError(
            'no OpenCL device: install the driver of the GPU, or pip install "wattstep[opencl]", '
            "which brings PoCL for CPUs of x86-64",
            id="no-opencl-device",
        )
    return [_device(cl, number, *both) for number, both in enumerate(handles)]


def choose(which: str | None = None) -> Device:
    """The device of a number, or whose name holds a text; the first GPU, or else the first, for None.

    Raises:
        InvalidValueError: There is no such device, or the text fits several.
        MissingPartError: As `find_devices`.
    """
    return chosen(find_devices(), which)


def chosen(devices: Sequence[Device], which: str | None) -> Device:
    """As `choose`, of these devices."""
    if which is None:
        return next((device for device in devices if device.kind == "gpu"), devices[0])
    word = which.strip().casefold()
    fitting = [
        device
        for device in devices
        if (str(device.number) == word if word.isdigit() else word in device.name.casefold())
    ]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(f"{device.number} ({device.name})" for device in fitting or devices)
    problem = f"fits {len(fitting)} devices" if fitting else "is no OpenCL device of this machine"
    raise InvalidValueError(f"{which!r} {problem}: {names}", id="unknown-opencl-device")


class Opened:
    """A device in use: its context, a queue with profiling, and the memory that it was asked for.

    Args:
        device: The device.

    Attributes:
        device: The device.
        context: Its context.
        queue: In order, with profiling.
        allocated: Bytes that `allocate` gave and `release` has not taken back.
        programs: Programs that were built in this context, see `program`.
    """

    def __init__(self, device: Device) -> None:
        cl = require("pyopencl")
        self.device = device
        with faults(device):
            self.context = cl.Context([device.handle])
        self.queue = self.new_queue()
        self.allocated = 0
        self.programs: dict[Any, Any] = {}

    def new_queue(self) -> Any:
        """Another queue with profiling."""
        cl = require("pyopencl")
        with faults(self.device):
            return cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )

    def allocate(self, size: int, *, shared: bool = False) -> Any:
        """A buffer of so many bytes, which the device may read and write.

        Args:
            size: Bytes; a buffer of nothing has the least that a driver takes.
            shared: In memory that the host can map, where the driver has any (CL_MEM_ALLOC_HOST_PTR).

        Raises:
            DeviceFaultError: The device has no such memory.
        """
        cl = require("pyopencl")
        size = max(size, FLOAT)
        device = self.device
        if size > device.largest_buffer or self.allocated + size > device.memory:
            raise DeviceFaultError(
                f"{device.name} has no room for a buffer of {size / 1e6:.4g} MB: {self.allocated / 1e6:.4g} MB of "
                f"its {device.memory / 1e6:.4g} MB are in use, and one buffer has at most "
                f"{device.largest_buffer / 1e6:.4g} MB",
                id="opencl-memory",
            )
        flags = cl.mem_flags.READ_WRITE
        if shared:
            flags |= cl.mem_flags.ALLOC_HOST_PTR
        with faults(device):
            buffer = cl.Buffer(self.context, flags, size)
        self.allocated += size
        return buffer

    def release(self, buffer: Any) -> None:
        """Gives a buffer of `allocate` back."""
        self.allocated -= buffer.size
        buffer.release()

    def upload(self, array: npt.ArrayLike) -> Any:
        """A buffer with an array of float32 in it."""
        data = np.ascontiguousarray(array, np.float32)
        buffer = self.allocate(data.nbytes)
        self.upload_into(buffer, data)
        return buffer

    def upload_into(self, buffer: Any, array: npt.ArrayLike) -> None:
        """Writes an array of float32 to the begin of a buffer."""
        cl = require("pyopencl")
        data = np.ascontiguousarray(array, np.float32)
        if data.nbytes:
            with faults(self.device):
                cl.enqueue_copy(self.queue, buffer, data, is_blocking=True)

    def download(self, buffer: Any, shape: int | tuple[int, ...]) -> ArrayOfFloat32:
        """The float32 at the begin of a buffer."""
        cl = require("pyopencl")
        data = np.empty(shape, np.float32)
        if data.nbytes:
            with faults(self.device):
                cl.enqueue_copy(self.queue, data, buffer, is_blocking=True)
        return data


@contextmanager
def faults(device: Device) -> Iterator[None]:
    """What a driver refuses in here ends as an error of ours, with the driver's word for it.

    Raises:
        DeviceFaultError: The driver refused.
    """
    cl = require("pyopencl")
    try:
        yield
    except cl.Error as error:
        out_of_memory = {
            cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE, cl.status_code.OUT_OF_RESOURCES,
            cl.status_code.OUT_OF_HOST_MEMORY, cl.status_code.INVALID_BUFFER_SIZE,
        }  # fmt: skip
        full = getattr(error, "code", None) in out_of_memory
        line = next(iter(str(error).splitlines()), type(error).__name__)
        if full:
            raise DeviceFaultError(
                f"{device.name}: the device has not the memory: {line}", id="opencl-memory"
            ) from error
        raise DeviceFaultError(f"{device.name}: {line}", id="opencl-refused") from error


def _platforms(cl: Any) -> list[Any]:
    try:
        return list(cl.get_platforms())
    except cl.Error as error:
        if getattr(error, "code", None) == NO_PLATFORM:
            return []
        raise MissingPartError(
            f"OpenCL's platforms cannot be listed: {error}", id="no-opencl-device"
        ) from error


def _handles(cl: Any, platform: Any) -> list[Any]:
    """A platform's devices; one whose devices are all gone has none."""
    try:
        return list(platform.get_devices())
    except cl.Error as error:
        if getattr(error, "code", None) == cl.status_code.DEVICE_NOT_FOUND:
            return []
        raise DeviceFaultError(
            f"the OpenCL platform {platform.name} lists no devices: {error}", id="opencl-refused"
        ) from error


def _device(cl: Any, number: int, platform: Any, handle: Any) -> Device:
    kinds = cl.device_type
    kind = next(
        (name for name, bit in (("gpu", kinds.GPU), ("cpu", kinds.CPU)) if handle.type & bit),
        "accelerator",
    )
    name = platform.name.strip()
    return Device(
        number=number,
        name=handle.name.strip(),
        platform=name,
        driver=handle.driver_version.strip(),
        version=handle.version.strip(),
        kind=kind,
        units=handle.max_compute_units,
        memory=handle.global_mem_size,
        largest_buffer=handle.max_mem_alloc_size,
        local_memory=handle.local_mem_size,
        largest_group=handle.max_work_group_size,
        group_sizes=tuple(handle.max_work_item_sizes),
        vector_width=max(handle.native_vector_width_float, 1),
        unified=bool(handle.host_unified_memory),
        target=name_target(name, handle),
        handle=handle,
    )
