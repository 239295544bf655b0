"""The memory of one step that is followed operation by operation: what measures it, what follows it, what is found."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

DEVICE: Final = "device."  # before the name of a category of memory that is a device's own
# Before fields of `AllocatorCache`, beside that: when most was in use in a step, and between steps.
CACHE_AT_PEAK: Final = "cache_at_peak."
CACHE_AT_REST: Final = "cache_at_rest."


@dataclass(frozen=True, kw_only=True)
class AllocatorCache:
    """Memory in bytes that a device's allocator has from the driver and has handed to nobody, at a moment.

    Attributes:
        free: All of it.
        fragments: Of that, what lies in segments of which a part is in use: it cannot go back to the
            driver, nor be joined with free memory of other segments.
        largest: The largest free block: no allocation above it is served from the cache.
        unusable: Of `free`, blocks smaller than the largest one in use: an allocation as large as
            that finds no room in them.
    """

    free: int
    fragments: int
    largest: int
    unusable: int


class Meter(Protocol):
    """Measures all memory of the process, or of a device, around one operation."""

    def begin(self) -> int:
        """Gives free memory back, resets the high-water mark, and says what is in use in bytes."""
        ...

    def end(self) -> int:
        """The high-water mark since then in bytes."""
        ...

    def absent(self, address: int, size: int) -> int:
        """Number of bytes from an address on that are allocated only, and take no memory."""
        ...

    def cache(self) -> AllocatorCache | None:
        """Free memory of the device's allocator now; None where that is not known."""
        ...


@dataclass(frozen=True, kw_only=True)
class StepMemory:
    """The memory of a step at the moment when most was in use.

    Attributes:
        categories: Bytes of tensors by category at that moment.
        highest: Bytes of each category at its own highest.
        before: Bytes of tensors that were there before the step.
        phase: In which phase the moment lies.
        operation: Which operation ran, e.g. "aten.convolution.default".
        layer: The module that it belongs to, or None.
        operations: How many ran in the step.
        demand: All memory in use at that moment as the meter saw it; None without a meter.
        scratch: Of that, what the operation itself took beyond the tensors that it made.
        untouched: Of `categories`, what was never written to and takes no memory; only those that
            have any.
        cache: Free memory of the device's allocator at the end of that operation; None where the
            meter knows none.
    """

    categories: dict[str, int]
    highest: dict[str, int]
    before: int
    phase: str
    operation: str
    layer: str | None
    operations: int
    demand: int | None
    scratch: int | None
    untouched: dict[str, int]
    cache: AllocatorCache | None = None


class DeviceMemory(Meter, Protocol):
    """Memory of a device as the framework's allocator and the driver count it; also a `Meter` of the former.

    Attributes:
        kind: The kind of device, as the framework's tensors name it.
    """

    kind: str

    @property
    def reserved(self) -> int:
        """Bytes that the allocator has from the driver now, handed out or free."""
        ...

    @property
    def peak_allocated(self) -> int:
        """The most bytes handed out since `reset`."""
        ...

    @property
    def peak_reserved(self) -> int:
        """The most bytes that the allocator had from the driver since `reset`."""
        ...

    def reset(self) -> None:
        """Both peaks become what there is now."""
        ...

    def trim(self) -> None:
        """Gives back to the driver what the allocator holds free."""
        ...

    def at_rest(self) -> int:
        """Bytes handed out that belong to no tensor: what kernels keep, and rounding."""
        ...

    def name(self) -> str:
        """As the driver calls the device."""
        ...

    def used_by_process(self) -> tuple[int | None, str | None]:
        """Memory in bytes that the driver counts as this process's, or None and why it does not."""
        ...


class MemoryTracker(Protocol):
    """While active, follows every storage that an operation takes or makes."""

    def __enter__(self) -> MemoryTracker: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def phase(self, name: str) -> None:
        """A phase of the step begins."""
        ...

    def result(self) -> StepMemory:
        """Memory of the step that has ended."""
        ...
