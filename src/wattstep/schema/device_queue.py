"""Protocol of the queue of a device that runs behind the host: events in it, and when it came to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from wattstep.schema.run_documents import GpuFacts


class DeviceQueue(Protocol):
    """The queue of work of a device, as a framework gives it; an event is an object of the framework's own.

    The host puts work into the queue and goes on; the device does it later. Whatever is raised ends
    the marks on the device's timeline with a note, never the training.

    Attributes:
        name: The device as rows of operations name it, e.g. "gpu0".
        processor: Of `Engine.processors`.
    """

    name: str
    processor: str

    def record(self) -> Any:
        """Puts an event at the end of the queue; None where that is not allowed just now."""
        ...

    def record_beside(self) -> Any:
        """Puts an event where no work waits, whatever the device does; None where that cannot be."""
        ...

    def stream(self, event: Any) -> int:
        """The stream that an event is in: the device comes to those of one stream in their order."""
        ...

    def reached(self, event: Any) -> bool:
        """True if the device has come to an event; never waits."""
        ...

    def between_ns(self, first: Any, second: Any) -> int:
        """Time in ns of the device's own clock between two events that it has come to."""
        ...

    def release(self, event: Any) -> None:
        """An event is not needed any more, and may be recorded again."""
        ...

    def facts(self) -> GpuFacts:
        """As `Engine.device_facts`, of this device."""
        ...

    def memory(self) -> Mapping[str, int]:
        """Memory of the device in bytes, as far as it is known.

        "allocated": the most that the framework's allocator has handed out; "reserved": the most
        that it had from the driver; "outside": what the driver counts as the process's beside
        that; "total": all that the device has; "shared": 1 where that is the host's memory;
        "fragments": the most of `AllocatorCache.fragments`; "flushes": how often the allocator gave
        all that it had free back to the driver before an allocation could be served; fields of
        `AllocatorCache` now, their names behind `CACHE_AT_REST`.
        """
        ...
