"""Queue of a GPU that torch trains on: events in its current stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from wattstep.engines.torch.device_memory import GpuMemory
from wattstep.engines.torch.gpu import facts
from wattstep.schema.run_documents import GpuFacts
from wattstep.schema.step_memory import CACHE_AT_REST

KEPT: Final = 4096  # events that are recorded again; more are given back


def find_queue(cuda: Any) -> TorchDeviceQueue | None:
    """Queue of the GPU on which most of this process's tensors lie; None where none do.

    Args:
        cuda: As `torch.cuda`, begun.
    """
    sizes = [int(cuda.memory_allocated(number)) for number in range(cuda.device_count())]
    most = max(sizes, default=0)
    return TorchDeviceQueue(cuda, sizes.index(most)) if most else None


class TorchDeviceQueue:
    """Events of CUDA (or HIP) in the stream that is current where a mark is made.

    Work in other streams that this one does not wait for is no part of a step's time. Nothing is
    recorded or asked for while a graph is captured: either would become a part of it, or end it.

    Args:
        cuda: As `torch.cuda`.
        number: Of the GPU.

    Attributes:
        name: As rows of operations have it, e.g. "gpu0".
        processor: "cuda".
    """

    processor = "cuda"

    def __init__(self, cuda: Any, number: int) -> None:
        self.name = f"gpu{number}"
        self._cuda, self._number = cuda, number
        self._current_stream = cuda.current_stream
        self._capturing = getattr(cuda, "is_current_stream_capturing", _never)  # torch 1.10
        self._free: list[Any] = []
        self._streams: dict[int, int] = {}  # of each event that is out, by its identity
        self._beside: Any = None  # a stream in which no work waits

    def record(self) -> Any:
        """As `DeviceQueue.record`."""
        if self._captures():
            return None
        return self._record(self._current_stream(self._number))

    def record_beside(self) -> Any:
        """As `DeviceQueue.record_beside`: in a stream that waits for no other, the default one neither.

        torch's own streams are such; those of high priority are rarely anyone's.
        """
        if self._captures():
            return None
        if self._beside is None:
            self._beside = self._cuda.Stream(self._number, priority=-1)
        return self._record(self._beside)

    def _record(self, stream: Any) -> Any:
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record(stream)
        self._streams[id(event)] = int(stream.cuda_stream)
        return event

    def stream(self, event: Any) -> int:
        """As `DeviceQueue.stream`."""
        return self._streams[id(event)]

    def reached(self, event: Any) -> bool:
        """As `DeviceQueue.reached`; never while a graph is captured."""
        return not self._captures() and bool(event.query())

    def _captures(self) -> bool:
        """True if a graph is captured in the stream that is current on the GPU."""
        if self._cuda.current_device() == self._number:
            return bool(self._capturing())
        with self._cuda.device(self._number):
            return bool(self._capturing())

    def between_ns(self, first: Any, second: Any) -> int:
        """As `DeviceQueue.between_ns`; events have a resolution of about 0.5 us (CUDA's manual)."""
        return round(float(first.elapsed_time(second)) * 1e6)

    def release(self, event: Any) -> None:
        """As `DeviceQueue.release`."""
        self._streams.pop(id(event), None)
        if len(self._free) < KEPT:
            self._free.append(event)

    def facts(self) -> GpuFacts:
        """As `DeviceQueue.facts`."""
        return facts(self._cuda, f"{self.processor}:{self._number}")

    def memory(self) -> Mapping[str, int]:
        """As `DeviceQueue.memory`, since the process began or the script reset the peaks."""
        device = GpuMemory(self._cuda, self._number)
        used, _ = device.used_by_process()
        properties = self._cuda.get_device_properties(self._number)
        cache = device.cache()
        known = {"fragments": device.most_fragments(), "flushes": device.flushes()}
        return {
            "allocated": device.peak_allocated,
            "reserved": device.peak_reserved,
            **({} if used is None else {"outside": used - device.reserved}),
            "total": int(properties.total_memory),
            "shared": int(getattr(properties, "is_integrated", 0)),
            **{name: size for name, size in known.items() if size is not None},
            **(
                {}
                if cache is None
                else {CACHE_AT_REST + name: size for name, size in asdict(cache).items()}
            ),
        }


def _never() -> bool:
    return False
