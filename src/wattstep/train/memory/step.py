"""Memory of an engine's step, followed operation by operation until all of it has a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wattstep.errors import RecordingError
from wattstep.recorded.device_memory import KEPT
from wattstep.recorded.memory import AT_PEAK, HIGHEST, UNTOUCHED, divide
from wattstep.schema.engine import Engine, Trainer
from wattstep.schema.step_memory import CACHE_AT_PEAK, DEVICE, AllocatorCache, DeviceMemory
from wattstep.train.memory.resident import ResidentMemory


@dataclass(frozen=True, kw_only=True)
class StepFootprint:
    """The memory of a step at the operation during which most was in use; bytes.

    On a GPU all of it is the device's memory, as far as the framework's allocator has handed it
    out; there are no untouched tensors and no pages of libraries.

    Attributes:
        tensors: By category, see `tracing.allocations`.
        highest: Of each category, at a moment of its own.
        demand: All that was resident, free memory of the allocator given back.
        kernel_scratch: Memory that the operation took beyond the tensors that it made.
        untouched: Of `tensors`, what was never written to and is not resident; by category, only
            those that have any.
        library_pages: Pages of files.
        at_rest: Other memory between steps, less the tensors there: interpreter, framework,
            modules, and what its kernels keep; on a GPU the last alone.
        phase: Of the operation.
        operation: Its name.
        layer: Its module, or None.
        operations: How many there were.
        trimmed: Whether the allocator could be made to give free memory back; where it could not,
            what it holds free hides the scratch space.
        cache: Free memory of a GPU's allocator at the end of that operation; None on the CPU, and
            where the framework does not tell it.
    """

    tensors: dict[str, int]
    highest: dict[str, int]
    demand: int
    kernel_scratch: int
    untouched: dict[str, int]
    library_pages: int
    at_rest: int
    phase: str
    operation: str
    layer: str | None
    operations: int
    trimmed: bool
    cache: AllocatorCache | None = None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StepFootprint:
        """The inverse of `dataclasses.asdict`."""
        cache = document.get("cache")
        return cls(**{**document, "cache": None if cache is None else AllocatorCache(**cache)})

    @property
    def resident_tensors(self) -> dict[str, int]:
        """Of each category what takes memory, which is all but what was never touched."""
        return {name: size - self.untouched.get(name, 0) for name, size in self.tensors.items()}


def follow_step(
    trainer: Trainer, resident: ResidentMemory, device: DeviceMemory | None = None
) -> StepFootprint:
    """Takes one step that is slow and not to be timed; the model learns from it like any other.

    Args:
        trainer: One that has made at least one step, so that the optimizer has its state.
        resident: Measures the process.
        device: As `Engine.device_memory` gives it, whose memory is asked for instead; None
            where the step runs on the CPU.

    Raises:
        RecordingError: The framework does not let its memory be followed.
    """
    if device is None:
        tracker = trainer.memory_tracker(resident)
    else:
        tracker = trainer.memory_tracker(device, device.kind)
    if tracker is None:
        raise RecordingError(f"{trainer.engine.name} does not let a step's memory be followed")
    rest = rest_of_process(trainer.engine, resident) if device is None else device.at_rest()
    with tracker:
        trainer.step(tracker.phase)
    memory = tracker.result()
    return StepFootprint(
        tensors=memory.categories,
        highest=memory.highest,
        demand=memory.demand or 0,
        kernel_scratch=memory.scratch or 0,
        untouched=memory.untouched,
        library_pages=resident.read().library_pages if device is None else 0,
        at_rest=rest,
        phase=memory.phase,
        operation=memory.operation,
        layer=memory.layer,
        operations=memory.operations,
        trimmed=device is not None or resident.can_trim,
        cache=memory.cache,
    )


def rest_of_process(engine: Engine, resident: ResidentMemory) -> int:
    """Anonymous memory that is no tensor, free memory given back; between steps."""
    resident.trim()
    return resident.read().anonymous - engine.bytes_of_tensors(resident.absent)


def track_step(trainer: Trainer, device: DeviceMemory | None = None) -> dict[str, int]:
    """Memory at the peak of a step by category, as marks of memory for a recorded run.

    The sizes that begin with `AT_PEAK` add up to what was resident at that moment without free
    memory of the allocator; `recorded.memory` adds what the peak of undisturbed steps
    holds beyond that.

    Args:
        trainer: One that has trained; it makes one more step, outside of whatever is measured.
        device: As `follow_step` takes it; the names of its categories begin with `DEVICE`.

    Raises:
        RecordingError: The kernel does not let a process reset its high-water mark, or the
            framework does not let its memory be followed.
    """
    resident = ResidentMemory()
    try:
        step = follow_step(trainer, resident, device)
    finally:
        resident.close()
    if device is not None:
        others = {"kernel_scratch": step.kernel_scratch, KEPT: step.at_rest}
        marks = {AT_PEAK + name: size for name, size in (step.tensors | others).items()}
        cache = {} if step.cache is None else asdict(step.cache)
        marks |= {CACHE_AT_PEAK + name: size for name, size in cache.items()}
        return {DEVICE + name: size for name, size in marks.items()}
    sizes = divide(
        step.demand,
        demand=step.demand,
        tensors=step.resident_tensors,
        others={
            "kernel_scratch": step.kernel_scratch,
            "library_pages": step.library_pages,
            "process_at_rest": step.at_rest,
        },
    )
    return {
        **{AT_PEAK + name: int(size) for name, size in sizes.items()},
        **{UNTOUCHED + name: size for name, size in step.untouched.items()},
        **{HIGHEST + name: size for name, size in step.highest.items()},
    }
