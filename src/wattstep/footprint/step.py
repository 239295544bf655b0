"""One step of an engine, followed operation by operation until all of its memory has a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattstep.analysis.memory import AT_PEAK, HIGHEST, UNTOUCHED, divide
from wattstep.footprint.resident import ResidentMemory


@dataclass(frozen=True, kw_only=True)
class StepFootprint:
    """The memory of a step at the operation during which most was in use; bytes.

    On a GPU all of it is the device's memory, as far as the framework's allocator has handed it
    out; there are no untouched tensors and no pages of libraries.

    Attributes:
        tensors: By category, see `tracing.allocations`.
        highest: Of each category, at a moment of its own.
        demand: All that was resident, free memory of the allocator given back.
        kernel_scratch: What the operation took beyond the tensors that it made.
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

    @property
    def resident_tensors(self) -> dict[str, int]:
        """Of each category what takes memory, which is all but what was never touched."""
        return {name: size - self.untouched.get(name, 0) for name, size in self.tensors.items()}


def follow_step(engine: Any, resident: ResidentMemory, device: Any = None) -> StepFootprint:
    """Takes one step that is slow and not to be timed; the model learns from it like any other.

    Args:
        engine: One that has made at least one step, so that the optimizer has its state.
        resident: Measures the process.
        device: As `tracing.torch_device.DeviceMemory`, whose memory is asked for instead; None
            where the step runs on the CPU.
    """
    from wattstep.tracing.torch_memory import MemoryTracker

    training = engine.training
    optimizers = [turn.optimizer for turn in training.turns]
    if device is None:
        rest = rest_of_process(resident)
        tracker = MemoryTracker(training.model, optimizers, resident)
    else:
        rest = device.at_rest()
        tracker = MemoryTracker(training.model, optimizers, device, device.kind)
    with tracker:
        engine.step(tracker.phase)
    found = tracker.result()
    return StepFootprint(
        tensors=found.categories,
        highest=found.highest,
        demand=found.demand or 0,
        kernel_scratch=found.scratch or 0,
        untouched=found.untouched,
        library_pages=resident.read().library_pages if device is None else 0,
        at_rest=rest,
        phase=found.phase,
        operation=found.operation,
        layer=found.layer,
        operations=found.operations,
        trimmed=device is not None or resident.can_trim,
    )


def rest_of_process(resident: ResidentMemory) -> int:
    """Anonymous memory that is no tensor, free memory given back; between steps."""
    from wattstep.tracing.torch_memory import bytes_of_tensors

    resident.trim()
    return resident.read().anonymous - bytes_of_tensors()


def track_step(engine: Any) -> dict[str, int]:
    """What the memory at the peak of a step is for, as marks of memory for a recorded run.

    The sizes that begin with `AT_PEAK` add up to what was resident at that moment without free
    memory of the allocator; `analysis.memory.breakdown` adds what the peak of undisturbed steps
    holds beyond that.

    Args:
        engine: One that has trained; it makes one more step, outside of whatever is measured.

    Raises:
        RecordingError: The kernel does not let a process reset its high-water mark.
    """
    resident = ResidentMemory()
    try:
        step = follow_step(engine, resident)
    finally:
        resident.close()
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
