"""GPU memory of a training: the allocator's share by category, and what lies outside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wattstep.recorded import memory
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.step_memory import (
    CACHE_AT_PEAK,
    CACHE_AT_REST,
    DEVICE,
    AllocatorCache,
    DeviceMemory,
)

KEPT: Final = "kept_by_kernels"
OUTSIDE: Final = "outside_allocator"
REST: Final = "activations_and_rest"
HOST: Final = "training_on_host"
ELSE: Final = "other_programs_and_system"
LEFT: Final = "left"
_OTHER_MOMENT: Final = (
    "its most was at another moment than the least that was left: all memory in use then was less"
)
NO_BLOCKS: Final = (
    "the allocator did not tell its blocks: torch's own does, CUDA's (cudaMallocAsync) and old releases "
    "do not"
)
NO_ALLOCATOR: Final = "the engine has no allocator: its buffers are there from the first step on"
UNASKED: Final = "the engine counts its own buffers: what the driver takes beside them is not known"
IN_STEP: Final = "at the end of the operation of a step during which most was in use"
_METHODS: Final = {
    "kernel_scratch": (
        Status.MEASURED,
        "most handed out during that operation, less what was before and the tensors that it made",
    ),
    KEPT: (
        Status.MEASURED,
        "handed out between steps and no tensor: space that kernels keep, rounding",
    ),
    memory.ALLOCATOR_FREE: (
        Status.MEASURED,
        "most that the allocator had from the driver, less the most that it had handed out",
    ),
    OUTSIDE: (
        Status.MEASURED,
        "what the driver counts as the process's, less what the allocator has from it: the "
        "context, code of kernels, libraries",
    ),
    REST: (
        Status.ATTRIBUTED,
        "most that was handed out, less what the model keeps: activations, space of kernels, "
        "inputs",
    ),
    memory.UNEXPLAINED: (
        Status.ATTRIBUTED,
        "what is left: rounding of tensors made in the step; below 0 where undisturbed steps took "
        "less than the one that was followed",
    ),
}


# Of a script's own training the peaks are its, not ours to reset.
SINCE_BEGIN: Final = (
    "since the process began, or the script reset its peaks: what came before the run is in it"
)


@dataclass(frozen=True, kw_only=True)
class DevicePeak:
    """GPU memory that a process took, in bytes.

    Attributes:
        name: Of the device.
        allocated: The most that the framework's allocator had handed out.
        reserved: The most that it had from the driver.
        outside: Memory that the process takes beside the allocator; None where that is not known.
        reason: Why it is not.
        allocator: What counted, as sources of figures name it.
        shared: True if it is the host's memory, too.
        since: Since when the allocator counts its peaks.
        counted: True if the engine added up its own buffers, and nothing was asked what they take.
    """

    name: str
    allocated: int
    reserved: int
    outside: int | None
    reason: str | None
    allocator: str
    shared: bool = False
    since: str = "over steady steps"
    counted: bool = False

    @property
    def whole(self) -> int:
        """All that is known of."""
        return self.reserved + (self.outside or 0)


def peak_of(device: DeviceMemory, allocator: str) -> DevicePeak:
    """Reads what was most in use since the peaks were reset.

    Args:
        device: As `Engine.device_memory` gives it.
        allocator: As `Instruments.device_allocator` names it.
    """
    used, reason = device.used_by_process()
    return DevicePeak(
        name=device.name(),
        allocated=device.peak_allocated,
        reserved=device.peak_reserved,
        outside=None if used is None else used - device.reserved,
        reason=reason,
        allocator=allocator,
    )


def peak_figure(peak: DevicePeak) -> Figure:
    """The most device memory that the process took, since when `peak.since` says."""
    if peak.counted:
        return _counted(peak.whole)
    outside = (
        "; the context and other memory outside of it is not known"
        if peak.outside is None
        else ", and what the driver counts beside that"
    )
    return Figure(
        value=float(peak.whole),
        unit="B",
        status=Status.MEASURED,
        source=peak.allocator if peak.outside is None else f"{peak.allocator}, and the driver",
        method=f"most that the allocator had from the driver {peak.since}{outside}",
    )


def breakdown(
    peak: DevicePeak, tensors: Mapping[str, float], kernel_scratch: float, at_rest: float
) -> dict[str, Figure]:
    """Sizes of that memory by category; those that are not missing add up to `DevicePeak.whole`.

    Args:
        peak: Of undisturbed steps.
        tensors: Of a step that was followed on the same device, by category.
        kernel_scratch: Of the operation during which most was in use.
        at_rest: Handed out between steps, and no tensor.
    """
    outside = peak.outside or 0
    sizes = memory.divide(
        peak.whole,
        demand=peak.allocated + outside,
        tensors=tensors,
        others={"kernel_scratch": kernel_scratch, KEPT: at_rest, OUTSIDE: outside},
    )
    named = {name: size for name, size in sizes.items() if name not in _METHODS}
    others = {name: _figure(name, size, peak) for name, size in sizes.items() if name in _METHODS}
    if peak.outside is None:
        others[OUTSIDE] = missing("B", peak.reason or "the driver was not asked")
    return {**memory.figures(named), **others}


def _figure(name: str, size: float, peak: DevicePeak) -> Figure:
    status, method = _METHODS[name]
    source = "the driver" if name == OUTSIDE else peak.allocator
    return Figure(value=float(size), unit="B", status=status, source=source, method=method)


def _counted(size: int) -> Figure:
    return Figure(
        value=float(size), unit="B", status=Status.COUNTED, source="the engine's buffers", method=UNASKED
    )  # fmt: skip


# --- of a recorded run -------------------------------------------------------------------------


def marked_peak(events: Sequence[memory.Event], allocator: str) -> DevicePeak | None:
    """The memory of a device by a run's marks; None where it had none.

    Args:
        events: Marks of memory in the order of time: (category, bytes).
        allocator: As `Instruments.device_allocator` names it.
    """
    marks = {name.removeprefix(DEVICE): size for name, size in events if name.startswith(DEVICE)}
    if "allocated" not in marks:
        return None
    return DevicePeak(
        name="",
        allocated=marks["allocated"],
        reserved=marks["reserved"],
        outside=marks.get("outside"),
        reason="the driver did not say what it counts as this process's",
        allocator=allocator,
        shared=bool(marks.get("shared")),
        since=SINCE_BEGIN,
        counted=bool(marks.get("counted")),
    )


def marked_breakdown(events: Sequence[memory.Event], peak: DevicePeak) -> dict[str, Figure]:
    """Sizes of the device's memory by category, as far as the run tells them.

    Without a step that was followed, what the model keeps stands beside the rest.
    """
    prefix = DEVICE + memory.AT_PEAK
    at_peak = {name.removeprefix(prefix): size for name, size in events if name.startswith(prefix)}
    if peak.counted:
        return {name: _counted(size) for name, size in at_peak.items()} | {
            OUTSIDE: missing("B", UNASKED)
        }
    others = {name: float(at_peak.pop(name, 0)) for name in ("kernel_scratch", KEPT)}
    if at_peak:
        return breakdown(peak, at_peak, others["kernel_scratch"], others[KEPT])
    of_model = {
        name: float(size)
        for name in ("parameters", "buffers", "gradients", "optimizer_state")
        for category, size in events
        if category == DEVICE + name
    }
    outside = peak.outside or 0
    sizes = {
        **of_model,
        REST: peak.allocated - sum(of_model.values()),
        memory.ALLOCATOR_FREE: float(peak.reserved - peak.allocated),
        **({OUTSIDE: float(outside)} if peak.outside is not None else {}),
    }
    named = {
        name: Figure(value=size, unit="B", status=Status.COUNTED, source="tensors of the model")
        for name, size in of_model.items()
    }
    return named | {
        name: _figure(name, size, peak) for name, size in sizes.items() if name not in of_model
    }


def allocator_cache(cache: AllocatorCache, allocator: str, when: str) -> dict[str, Figure]:
    """What an allocator kept free at a moment, and what of it does not serve; bytes.

    Args:
        cache: At that moment.
        allocator: As `Instruments.device_allocator` names it.
        when: The moment in words.
    """
    methods = {
        "free": (cache.free, "had from the driver and handed to nobody"),
        "fragments": (cache.fragments, "of that, in segments of which a part was in use"),
        "largest_free_block": (cache.largest, "the largest free block"),
        "unusable": (
            cache.unusable,
            "free blocks smaller than the largest in use: an allocation as large finds no room "
            "in them",
        ),
    }
    return {
        name: Figure(
            value=float(size), unit="B", status=Status.MEASURED, source=allocator,
            method=f"{method}, {when}",
        )
        for name, (size, method) in methods.items()
    }  # fmt: skip


def marked_cache(events: Sequence[memory.Event], peak: DevicePeak) -> dict[str, Figure]:
    """What the allocator kept free by a run's marks: at the peak of a step that was followed, else between steps."""
    allocator = peak.allocator
    figures = {"free": missing("B", NO_ALLOCATOR if peak.counted else NO_BLOCKS)}
    for moment, when in (
        (CACHE_AT_PEAK, IN_STEP),
        (CACHE_AT_REST, "between steps, after the last one"),
    ):
        prefix = DEVICE + moment
        sizes = {
            name.removeprefix(prefix): size for name, size in events if name.startswith(prefix)
        }
        if sizes:
            figures = allocator_cache(AllocatorCache(**sizes), allocator, when)
            break
    most = dict(events).get(f"{DEVICE}fragments")
    if most is not None:
        figures["most_fragments"] = Figure(
            value=float(most), unit="B", status=Status.MEASURED, source=allocator,
            method="most that lay free in segments of which a part was in use, at any time",
        )  # fmt: skip
    return figures


def flushes(events: Sequence[memory.Event], allocator: str) -> Figure | None:
    """How often the allocator gave its cache back to the driver to serve an allocation; None: not told."""
    count = dict(events).get(f"{DEVICE}flushes")
    if count is None:
        return None
    return Figure(
        value=float(count), unit="count", status=Status.COUNTED, source=allocator,
        method="allocations that were served only after all free memory had gone back to the "
        "driver, since the process began: the device is waited for each time",
    )  # fmt: skip


def shared_account(
    device: Mapping[str, Figure], *, total: float, left: float, resident: float
) -> dict[str, Figure]:
    """All memory of a board whose CPU and GPU share it, at the moment at which least was left.

    Each byte stands in one category; together they make the board's memory. What the allocator had
    is taken to be in use then: it keeps what it has, unless that is more than all that was in use. What a driver counts both as the GPU's and as
    resident counts as the GPU's.

    Args:
        device: Sizes of the GPU's memory by category, as `marked_breakdown` gives them.
        total: Memory of the board in bytes.
        left: Of it available then, for whatever asks for it.
        resident: Of the training process then.
    """
    used = max(total - left, 0.0)
    gpu = _in_use({f"gpu_{name}": one for name, one in device.items() if not one.missing}, used)
    on_gpu = sum(one.value or 0.0 for one in gpu.values())
    host = min(resident, max(used - on_gpu, 0.0))
    sizes = {
        HOST: (host, "pages of the training process that are resident and not the GPU's"),
        ELSE: (
            used - on_gpu - host,
            "total less what is left, the GPU's and the process's: other programs, children of the "
            "training, the system, and what the GPU's driver takes beside the allocator",
        ),
        LEFT: (left, "least that was available, for whatever asks for it"),
    }
    others = {
        name: Figure(
            value=size, unit="B", status=Status.MEASURED, source="/proc/meminfo", method=method
        )
        for name, (size, method) in sizes.items()
    }
    return {**gpu, **others}


def _in_use(gpu: Mapping[str, Figure], used: float) -> dict[str, Figure]:
    """Categories of a GPU's memory, no more together than all memory that was in use.

    What the allocator had free it may have given back by then; else its peak was at another moment, and
    of its categories nothing is known.
    """
    excess = sum(one.value or 0.0 for one in gpu.values()) - used
    if excess <= 0:
        return dict(gpu)
    free = f"gpu_{memory.ALLOCATOR_FREE}"
    still_free = (gpu[free].value or 0.0) - excess if free in gpu else -1.0
    if still_free >= 0:
        words = f"{gpu[free].method}, and what had gone back to the driver by then"
        return {**gpu, free: replace(gpu[free], value=still_free, method=words)}
    return {name: missing("B", _OTHER_MOMENT) for name in gpu}
