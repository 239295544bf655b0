"""Footprints as rows: memory by category and by stage, one column for each batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattstep.report.values import Shown, plain, show
from wattstep.report.wording import label, strategies
from wattstep.schema.figure import Figure, Status
from wattstep.schema.footprint import Footprint, StageMemory


@dataclass(frozen=True, kw_only=True)
class Named:
    """Label, meaning and colour name of a category."""

    label: str
    meaning: str
    color: str


CATEGORIES: Mapping[str, Named] = {
    "parameters": Named(label="Parameters", meaning="weights of the model", color="--series-1"),
    "buffers": Named(label="Buffers", meaning="what the model keeps beside them", color="--other"),
    "gradients": Named(
        label="Gradients", meaning="of parameters, there at that moment", color="--series-2"
    ),
    "optimizer_state": Named(
        label="Optimizer state", meaning="momentum and the like", color="--series-3"
    ),
    "input": Named(label="Input", meaning="the batch, as the model takes it", color="--series-6"),
    "feature_maps": Named(
        label="Feature maps",
        meaning="what the forward pass keeps for the backward pass",
        color="--series-4",
    ),
    "workspace": Named(
        label="Workspace: tensors",
        meaning="what an operation makes and the next ones use up",
        color="--series-5",
    ),
    "held_tensors": Named(
        label="Tensors held", meaning="the data set in memory, and other tensors", color="--data"
    ),
    "kernel_scratch": Named(
        label="Workspace: kernels",
        meaning="scratch space inside an operation, which no tensor shows",
        color="--evaluation",
    ),
    "activations_and_rest": Named(
        label="Activations and the rest",
        meaning="all tensors but those of the model and its optimizer",
        color="--series-4",
    ),
    "library_pages": Named(
        label="Library pages", meaning="code and constants of libraries", color="--framework"
    ),
    "kept_by_kernels": Named(
        label="Kept by kernels",
        meaning="space that libraries of kernels keep on the GPU, rounding",
        color="--backward",
    ),
    "outside_allocator": Named(
        label="Outside the allocator",
        meaning="on the GPU: the context, code of kernels, libraries",
        color="--framework",
    ),
    "process_at_rest": Named(
        label="Process at rest",
        meaning="interpreter, framework, caches of kernels",
        color="--idle",
    ),
    "interpreter_and_framework": Named(
        label="Interpreter, framework", meaning="before anything is prepared", color="--idle"
    ),
    "added_by_preparation": Named(
        label="Added by preparation",
        meaning="libraries that read the data, objects of the model",
        color="--forward",
    ),
    "added_by_steps": Named(
        label="Added by steps",
        meaning="caches of kernels, buffers of threads",
        color="--backward",
    ),
    "allocator_free": Named(
        label="Allocator's free memory",
        meaning="freed, and not given back to the system",
        color="--rule",
    ),
    "unexplained": Named(
        label="Unexplained",
        meaning="graph, objects of the interpreter, holes in the heap",
        color="--ink-soft",
    ),
    "child_processes": Named(
        label="Child processes", meaning="data loaders and the like", color="--alert"
    ),
}

STAGES: Mapping[str, str] = {
    "framework": "Loading the framework",
    "model": "Model",
    "data": "Loading the data",
    "optimizer": "Optimizer",
    "preparation": "Data, model and optimizer",
    "first step": "First step",
    "steady step": "Steady steps",
    "evaluation": "Evaluation",
    "saving": "Saving",
    "reloading": "Reloading",
}

CACHE: Mapping[str, tuple[str, str]] = {
    "free": ("Kept free", "had from the driver, and handed to nobody"),
    "fragments": ("Fragments", "of that, beside memory in use: cannot go back to the driver"),
    "largest_free_block": ("Largest free block", "the most that one allocation gets of it"),
    "unusable": ("Too small", "free blocks smaller than the largest that is in use"),
    "most_fragments": ("Most fragments", "the most there was of them at any time"),
}

# Figure 9 of the TX2 paper: intermediate data (feature maps and work space), in bytes.
PUBLISHED_INTERMEDIATE: Mapping[tuple[str, int], float] = {
    ("densenet40", 4): 2.2e9,
    ("densenet40", 64): 5.9e9,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row of a table: a label, and a figure (or none) for each footprint."""

    key: str
    label: str
    meaning: str
    cells: tuple[Shown | None, ...]

    @property
    def statuses(self) -> tuple[str, ...]:
        """Of its figures, each once."""
        return tuple(dict.fromkeys(cell.status for cell in self.cells if cell is not None))


def category(name: str) -> Named:
    """Label, meaning and colour of a category; one that is not known is its own label."""
    return CATEGORIES.get(name) or Named(label=label(name), meaning="", color="--other")


def by_workload(footprints: Sequence[Footprint]) -> list[list[Footprint]]:
    """Footprints that differ by batch size only, together, in the order given."""
    groups: dict[tuple[Any, ...], list[Footprint]] = {}
    for one in footprints:
        ways = tuple((one.about.get("strategies") or {}).items())
        key = one.workload, one.processor, one.precision, one.accumulate, ways
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def heading(footprints: Sequence[Footprint]) -> str:
    """Settings that the footprints have in common, in one line."""
    first = footprints[0]
    threads = first.about.get("threads")
    parts = [
        first.title,
        first.precision,
        None if first.accumulate == 1 else f"accumulate {first.accumulate}",
        *strategies(first.about.get("strategies") or {}).values(),
        None if threads is None else f"{threads} thread" + ("" if threads == 1 else "s"),
        first.about.get("engine"),
        first.gpu,
        first.memory_limit and f"limit {first.memory_limit}",
    ]
    return " · ".join(plain(part) for part in parts if part)


def verdict(footprints: Sequence[Footprint]) -> str:
    """Which batch sizes came to their end under the limit and which did not; "" where nothing was in question."""
    limited = footprints[0].memory_limit
    fitting = [f"{one.batch_size:,}" for one in footprints if one.reason is None]
    failing = [f"{one.batch_size:,}" for one in footprints if one.reason is not None]
    if not limited and not failing:
        return ""
    where = "the limit" if limited else "the memory of this machine"
    sentences = [f"Fits into {where}: batch {', '.join(fitting)}."] if fitting else []
    if failing:
        into = "" if fitting else f" into {where}"
        sentences.append(f"Does not fit{into}: batch {', '.join(failing)}.")
    return " ".join(sentences)


def category_rows(footprints: Sequence[Footprint]) -> list[Row]:
    """The categories when most memory was in use; those that no footprint has are left out."""
    return [
        Row(key=key, label=known.label, meaning=known.meaning, cells=cells)
        for key, known in CATEGORIES.items()
        if any(cells := _cells([one.memory_breakdown for one in footprints], key))
    ]


def highest_rows(footprints: Sequence[Footprint]) -> list[Row]:
    """The most that each category of tensors takes, at its own moment."""
    return [
        Row(key=key, label=known.label, meaning=known.meaning, cells=cells)
        for key, known in CATEGORIES.items()
        if any(cells := _cells([one.memory_highest for one in footprints], key))
    ]


def total_rows(footprints: Sequence[Footprint]) -> list[Row]:
    """The peak, and the paper's intermediate data with what it published."""
    rows = [
        _single(
            "peak_memory", "Peak", "of steady steps: the sum of the above",
            [one.peak_memory for one in footprints],
        ),
        _single(
            "intermediate_data", "Intermediate data", "feature maps and workspace",
            [one.intermediate_data for one in footprints],
        ),
    ]  # fmt: skip
    if any(one.gpu for one in footprints):
        sizes = [one.host_peak_memory for one in footprints]
        rows.insert(1, _single("host_peak_memory", "Peak of the process", "not the GPU", sizes))
    published = tuple(map(_published, footprints))
    if any(published):
        meaning = "Figure 9, on a TX2 with another framework, which allocates in advance"
        rows.append(Row(key="published", label="The paper's", meaning=meaning, cells=published))
    return rows


def stage_rows(footprints: Sequence[Footprint]) -> list[Row]:
    """The most memory that the process held in each stage of the life of a training."""
    rows = _rows_of_stages(footprints, lambda stage: stage.peak)
    sizes = [one.checkpoint for one in footprints]
    return [*rows, _single("checkpoint", "Checkpoint file", "model and optimizer state", sizes)]


def device_rows(footprints: Sequence[Footprint]) -> list[Row]:
    """The most of a GPU's memory that the framework held in each stage; empty without a GPU."""
    return _rows_of_stages(footprints, lambda stage: stage.device_peak)


def cache_rows(footprints: Sequence[Footprint]) -> list[Row]:
    """What the allocator of a GPU keeps free at the peak, and what of it cannot serve; empty without one."""
    return [
        Row(key=key, label=name, meaning=meaning, cells=cells)
        for key, (name, meaning) in CACHE.items()
        if any(cells := _cells([one.allocator_cache for one in footprints], key))
    ]


def _rows_of_stages(
    footprints: Sequence[Footprint], size: Callable[[StageMemory], Figure | None]
) -> list[Row]:
    names = list(STAGES)
    for one in footprints:
        names += [stage.stage for stage in one.stages if stage.stage not in names]
    sizes = [{stage.stage: size(stage) for stage in reversed(one.stages)} for one in footprints]
    rows = []
    for name in names:
        cells = _cells(sizes, name)
        if any(cells):
            rows.append(Row(key=name, label=STAGES.get(name, label(name)), meaning="", cells=cells))
    return rows


def notes(footprints: Sequence[Footprint]) -> list[str]:
    """Notes on the peak, on failures, and on the highest stage of each footprint."""
    lines = []
    for one in footprints:
        batch = f"batch {plain(one.batch_size)}"
        if one.reason:
            lines.append(f"{batch}: {plain(one.reason)}")
        if one.peak_at is not None:
            layer = f", layer {plain(one.peak_at.layer)}" if one.peak_at.layer else ""
            lines.append(
                f"{batch}: most in {plain(one.peak_at.phase)}, {plain(one.peak_at.operation)}{layer}"
            )
        lines += [f"{batch}: {text}" for text in _highest_stage(one)]
        lines += [f"{batch}: {plain(text)}" for text in one.notes]
    facts = footprints[0].data
    if facts.get("stand_in"):
        lines.append(f"data: {plain(facts['name'])}, a stand-in for {plain(facts['stands_for'])}")
    return lines


def _highest_stage(footprint: Footprint) -> list[str]:
    peaks = {stage.stage: stage.peak.value for stage in footprint.stages if stage.peak.value}
    if not peaks or "steady step" not in peaks:
        return []
    name = max(peaks, key=lambda each: peaks[each])
    if name == "steady step":
        return []
    more = show(replace(footprint.stages[0].peak, value=peaks[name] - peaks["steady step"]))
    return [
        f"the highest stage is {plain(STAGES.get(name, name)).lower()}: {more.value} above the steps"
    ]


def _cells(sizes: Sequence[Mapping[str, Figure | None]], name: str) -> tuple[Shown | None, ...]:
    return tuple(_shown(each.get(name)) for each in sizes)


def _shown(figure: Figure | None) -> Shown | None:
    return None if figure is None else show(figure)


def _single(key: str, name: str, meaning: str, sizes: Sequence[Figure | None]) -> Row:
    return Row(key=key, label=name, meaning=meaning, cells=tuple(map(_shown, sizes)))


def _published(footprint: Footprint) -> Shown | None:
    value = PUBLISHED_INTERMEDIATE.get((footprint.workload, footprint.batch_size))
    if value is None:
        return None
    source = "TX2 paper, Figure 9"
    return show(Figure(value=value, unit="B", status=Status.MEASURED, source=source))
