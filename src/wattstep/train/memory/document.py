"""Memory of a training as a footprint: every size a figure, in the names of a run's document."""

from __future__ import annotations

from wattstep.recorded import device_memory as device
from wattstep.recorded import memory
from wattstep.recorded.instruments import instruments_on
from wattstep.schema.figure import Figure, Status, counted, missing, weakest
from wattstep.schema.footprint import Footprint, PeakPlace, StageMemory
from wattstep.schema.workload import kind_of
from wattstep.train.memory.life import FootprintSettings, Life, Stage
from wattstep.train.memory.step import StepFootprint

_SOURCE = "VmHWM of a fresh process"
_NOT_TRIMMED = (
    "this C library does not give free memory back when asked (no malloc_trim): what its allocator "
    "holds free hides scratch space of kernels, and is unexplained"
)
# What the paper calls intermediate data: feature maps and work space.
_INTERMEDIATE = ("feature_maps", "workspace", "kernel_scratch")


def describe_life(settings: FootprintSettings, life: Life, limit: str | None = None) -> Footprint:
    """Footprint of a training.

    Args:
        settings: The training.
        life: Result of its measurement.
        limit: The memory limit in words, or None.
    """
    failed = next((stage for stage in life.stages if stage.failed), None)
    reason = None if failed is None else f"{failed.failed} (stage: {failed.name})"
    parts = breakdown(life)
    allocator = instruments_on(str(life.about.get("engine", ""))).device_allocator
    about = life.about.copy()
    if settings.strategies:
        about["strategies"] = settings.strategies
    return Footprint(
        workload=about.pop("workload", settings.workload),
        title=about.pop("title", settings.workload),
        batch_size=settings.batch_size,
        accumulate=settings.accumulate,
        precision=settings.precision,
        processor=kind_of(settings.processor),
        gpu=None if life.device is None else life.device.name,
        about=about,
        memory_limit=limit,
        outcome="measured" if failed is None else "out of memory",
        reason=reason,
        peak_memory=_peak(settings, life, reason),
        # Where the training is on the CPU, its peak is this one.
        host_peak_memory=_host_peak(life, reason),
        memory_breakdown=parts,
        memory_highest={} if life.step is None else memory.highest(life.step.highest),
        allocator_cache=_cache(life, allocator),
        intermediate_data=_intermediate(parts, reason),
        peak_at=_where(life.step),
        stages=tuple(_stage(stage, allocator) for stage in life.stages),
        notes=() if life.step is None or life.step.trimmed else (_NOT_TRIMMED,),
        checkpoint=_checkpoint(life.checkpoint, reason),
    )


def breakdown(life: Life) -> dict[str, Figure]:
    """Sizes at the peak of a steady step by category; empty where it was not reached.

    The figures add up to the peak, which on a GPU is that of the device's memory.
    """
    if life.device is not None:
        return (
            {}
            if life.step is None
            else device.breakdown(
                life.device, life.step.tensors, life.step.kernel_scratch, life.step.at_rest
            )
        )
    step, framework, prepared = life.step, life.framework_at_rest, life.prepared_at_rest
    if step is None or life.peak is None or framework is None or prepared is None:
        return {}
    sizes = memory.divide(
        life.peak,
        demand=step.demand,
        tensors=step.resident_tensors,
        others={
            "kernel_scratch": step.kernel_scratch,
            "library_pages": step.library_pages,
            "interpreter_and_framework": framework,
            "added_by_preparation": prepared - framework,
            "added_by_steps": step.at_rest - prepared,
        },
    )
    return memory.figures(sizes, step.untouched)


def _cache(life: Life, allocator: str) -> dict[str, Figure]:
    """What a GPU's allocator keeps free when most memory is in use; empty where that is not known."""
    if life.step is None or life.step.cache is None:
        return {}
    return device.allocator_cache(life.step.cache, allocator, device.IN_STEP)


def _peak(settings: FootprintSettings, life: Life, reason: str | None) -> Figure:
    if life.device is not None:
        return device.peak_figure(life.device)
    if kind_of(settings.processor) != "cpu":
        return missing("B", reason or "no step came to its end")
    return _host_peak(life, reason)


def _host_peak(life: Life, reason: str | None) -> Figure:
    if life.peak is None:
        return missing("B", reason or "no step came to its end")
    return Figure(
        value=float(life.peak),
        unit="B",
        status=Status.MEASURED,
        source=_SOURCE,
        method="high-water mark of resident memory over steady steps, reset before them",
    )


def _intermediate(parts: dict[str, Figure], reason: str | None) -> Figure:
    figures = [parts[name] for name in _INTERMEDIATE if name in parts]
    if not figures:
        return missing("B", reason or "no step was followed")
    return Figure(
        value=sum(part.value or 0.0 for part in figures),
        unit="B",
        status=weakest(part.status for part in figures),
        source=figures[0].source,
        method="feature maps, workspace and kernels' scratch space when most memory was in use",
    )


def _where(step: StepFootprint | None) -> PeakPlace | None:
    if step is None:
        return None
    return PeakPlace(phase=step.phase, operation=step.operation, layer=step.layer)


def _stage(stage: Stage, allocator: str) -> StageMemory:
    return StageMemory(
        stage=stage.name,
        before=_resident(stage.before, "when the stage began", stage.failed),
        peak=_resident(stage.peak, "high-water mark within the stage", stage.failed),
        after=_resident(stage.after, "when the stage had ended", stage.failed),
        device_peak=_reserved(stage, allocator),
        failed=stage.failed,
    )


def _reserved(stage: Stage, allocator: str) -> Figure | None:
    if stage.device_peak is None:
        return None
    return Figure(
        value=float(stage.device_peak),
        unit="B",
        status=Status.MEASURED,
        source=allocator,
        method="most that it had from the driver within the stage",
    )


def _resident(size: int | None, method: str, reason: str | None) -> Figure:
    if size is None:
        return missing("B", reason or "not reached")
    return Figure(
        value=float(size), unit="B", status=Status.MEASURED, source=_SOURCE, method=method
    )


def _checkpoint(size: int | None, reason: str | None) -> Figure:
    if size is None:
        return missing("B", reason or "nothing was saved")
    return counted(float(size), "B", "size of the file with model and optimizer state")
