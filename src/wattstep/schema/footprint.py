"""Memory that a training needs: by category at its peak, and by stage of its life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from wattstep.schema.figure import Figure
from wattstep.schema.run_documents import DataDocument, DeviceFacts, ModelFacts, TrainingOptions


class TrainingFacts(TypedDict, total=False):
    """Facts of a training that was measured alone; what it did not come to is missing."""

    workload: str
    title: str
    engine: str
    threads: int | None
    model: ModelFacts
    data: DataDocument
    device: DeviceFacts
    strategies: TrainingOptions


@dataclass(frozen=True, kw_only=True)
class PeakPlace:
    """Place in a step where most memory is in use.

    Attributes:
        phase: Of the step.
        operation: That ran.
        layer: In which; None: in no single one.
    """

    phase: str
    operation: str
    layer: str | None


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """Memory of the process in one stage of a training's life.

    Attributes:
        stage: Its name.
        before: Resident when it began, in B.
        peak: The most within it, in B.
        after: Resident when it had ended, in B.
        device_peak: The most that the framework held of a GPU's memory, in B; None without a GPU.
        failed: Why it failed, or None.
    """

    stage: str
    before: Figure
    peak: Figure
    after: Figure
    device_peak: Figure | None = None
    failed: str | None = None


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Memory of one training.

    Attributes:
        workload: Its name.
        title: Its name for readers.
        batch_size: Samples of one forward pass.
        accumulate: Batches of a step.
        precision: "fp32", "bf16" or "amp".
        processor: Where it trained.
        gpu: Name of the GPU, or None.
        about: What else ran: device, engine, threads, model, data.
        memory_limit: In words, or None.
        outcome: "measured" or "out of memory".
        reason: Why it did not come to its end, or None.
        peak_memory: Of steady steps, in B: of the GPU, where it trained on one.
        host_peak_memory: Of the process, in B; None in documents that were made without it.
        memory_breakdown: What the peak is for, in B by category.
        memory_highest: The most that each category of tensors takes, in B.
        allocator_cache: What a GPU's allocator keeps free when most memory is in use, in B, as the
            metric of a run; empty where it does not tell.
        intermediate_data: Feature maps and work space at the peak, in B.
        peak_at: Where the peak lies; None where no step was followed.
        stages: In their order.
        notes: What a reader must know.
        checkpoint: Size of the file, in B.
    """

    workload: str
    title: str
    batch_size: int
    accumulate: int
    precision: str
    processor: str = "cpu"
    gpu: str | None = None
    about: TrainingFacts = field(default_factory=TrainingFacts)
    memory_limit: str | None
    outcome: str
    reason: str | None
    peak_memory: Figure
    host_peak_memory: Figure | None = None
    memory_breakdown: Mapping[str, Figure]
    memory_highest: Mapping[str, Figure]
    allocator_cache: Mapping[str, Figure] = field(default_factory=dict)
    intermediate_data: Figure
    peak_at: PeakPlace | None
    stages: tuple[StageMemory, ...]
    notes: tuple[str, ...] = ()
    checkpoint: Figure

    @property
    def data(self) -> DataDocument:
        """Facts of the data."""
        return self.about.get("data") or {}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; what else ran stands beside the rest."""
        document: dict[str, Any] = {}
        for each in fields(self):
            if each.name == "about":
                document |= self.about
            else:
                document[each.name] = _plain(getattr(self, each.name))
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Footprint:
        """The inverse of `to_dict`."""
        known = {each.name for each in fields(cls)} - {"about"}
        values = {key: value for key, value in document.items() if key in known}
        for name in ("peak_memory", "host_peak_memory", "intermediate_data", "checkpoint"):
            if values.get(name) is not None:
                values[name] = Figure.from_dict(values[name])
        for name in ("memory_breakdown", "memory_highest", "allocator_cache"):
            sizes = document.get(name, {})  # documents of earlier versions lack the last
            values[name] = {key: Figure.from_dict(size) for key, size in sizes.items()}
        place = document["peak_at"]
        return cls(
            **{
                **values,
                "about": {key: value for key, value in document.items() if key not in known},
                "peak_at": None if place is None else PeakPlace(**place),
                "stages": tuple(map(_stage, document["stages"])),
                "notes": tuple(document.get("notes", ())),
            }
        )


def _stage(document: Mapping[str, Any]) -> StageMemory:
    sizes = {
        name: Figure.from_dict(document[name])
        for name in ("before", "peak", "after", "device_peak")
        if document.get(name) is not None
    }
    return StageMemory(stage=document["stage"], failed=document["failed"], **sizes)


def _plain(thing: Any) -> Any:
    if isinstance(thing, Figure):
        return thing.to_dict()
    if isinstance(thing, (PeakPlace, StageMemory)):
        return {each.name: _plain(getattr(thing, each.name)) for each in fields(thing)}
    if isinstance(thing, Mapping):
        return {key: _plain(value) for key, value in thing.items()}
    return [_plain(value) for value in thing] if isinstance(thing, tuple) else thing
