"""Footprints as rows: memory by category and by stage, one column for each batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.reports.values import Shown, plain, show
from wattstep.reports.wording import label

Document = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Named:
    """What a category is called, what it means, and the name of its colour."""

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

# Figure 9 of the TX2 paper: intermediate data (feature maps and work space), in bytes.
PUBLISHED_INTERMEDIATE: Mapping[tuple[str, int], float] = {
    ("densenet40", 4): 2.2e9,
    ("densenet40", 64): 5.9e9,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line: what it is, and a figure (or none) for each footprint."""

    key: str
    label: str
    meaning: str
    cells: tuple[Shown | None, ...]

    @property
    def statuses(self) -> tuple[str, ...]:
        """Of its figures, each once."""
        return tuple(dict.fromkeys(cell.status for cell in self.cells if cell is not None))


def category(name: str) -> Named:
    """What a category is called; one that is not known is its own label."""
    return CATEGORIES.get(name) or Named(label=label(name), meaning="", color="--other")


def by_workload(documents: Sequence[Document]) -> list[list[Document]]:
    """Footprints that differ by batch size only, together, in the order given."""
    groups: dict[tuple[Any, ...], list[Document]] = {}
    for document in documents:
        key = tuple(
            document.get(name) for name in ("workload", "processor", "precision", "accumulate")
        )
        groups.setdefault(key, []).append(document)
    return list(groups.values())


def heading(documents: Sequence[Document]) -> str:
    """What the footprints have in common, in one line."""
    first = documents[0]
    threads = first.get("threads")
    parts = [
        first.get("title"),
        first.get("precision"),
        None if first.get("accumulate") in (None, 1) else f"accumulate {first['accumulate']}",
        None if threads is None else f"{threads} thread" + ("" if threads == 1 else "s"),
        first.get("engine"),
        first.get("gpu"),
        first.get("memory_limit") and f"limit {first['memory_limit']}",
    ]
    return " · ".join(plain(part) for part in parts if part)


def category_rows(documents: Sequence[Document]) -> list[Row]:
    """The categories when most memory was in use; those that no footprint has are left out."""
    return [
        Row(key=key, label=known.label, meaning=known.meaning, cells=cells)
        for key, known in CATEGORIES.items()
        if any(cells := _cells(documents, "memory_breakdown", key))
    ]


def highest_rows(documents: Sequence[Document]) -> list[Row]:
    """The most that each category of tensors takes, at its own moment."""
    return [
        Row(key=key, label=known.label, meaning=known.meaning, cells=cells)
        for key, known in CATEGORIES.items()
        if any(cells := _cells(documents, "memory_highest", key))
    ]


def total_rows(documents: Sequence[Document]) -> list[Row]:
    """The peak, and the paper's intermediate data with what it published."""
    rows = [
        _single(documents, "peak_memory", "Peak", "of steady steps: the sum of the above"),
        _single(documents, "intermediate_data", "Intermediate data", "feature maps and workspace"),
    ]
    if any(document.get("gpu") for document in documents):
        rows.insert(1, _single(documents, "host_peak_memory", "Peak of the process", "not the GPU"))
    published = tuple(map(_published, documents))
    if any(published):
        meaning = "Figure 9, on a TX2 with another framework, which allocates in advance"
        rows.append(Row(key="published", label="The paper's", meaning=meaning, cells=published))
    return rows


def stage_rows(documents: Sequence[Document]) -> list[Row]:
    """The most memory that the process held in each stage of the life of a training."""
    rows = _rows_of_stages(documents, "peak")
    rows.append(_single(documents, "checkpoint", "Checkpoint file", "model and optimizer state"))
    return rows


def device_rows(documents: Sequence[Document]) -> list[Row]:
    """The most of a GPU's memory that the framework held in each stage; empty without a GPU."""
    return _rows_of_stages(documents, "device_peak")


def _rows_of_stages(documents: Sequence[Document], size: str) -> list[Row]:
    names = list(STAGES)
    for document in documents:
        names += [s["stage"] for s in document["stages"] if s["stage"] not in names]
    rows = []
    for name in names:
        cells = tuple(_stage_cell(document, name, size) for document in documents)
        if any(cells):
            rows.append(Row(key=name, label=STAGES.get(name, label(name)), meaning="", cells=cells))
    return rows


def notes(documents: Sequence[Document]) -> list[str]:
    """Where the peak lies, what failed, and which stage is the highest."""
    found = []
    for document in documents:
        batch = f"batch {plain(document['batch_size'])}"
        if document.get("reason"):
            found.append(f"{batch}: {plain(document['reason'])}")
        where = document.get("peak_at")
        if where:
            layer = f", layer {plain(where['layer'])}" if where.get("layer") else ""
            found.append(
                f"{batch}: most in {plain(where['phase'])}, {plain(where['operation'])}{layer}"
            )
        found += [f"{batch}: {text}" for text in _highest_stage(document)]
        found += [f"{batch}: {plain(text)}" for text in document.get("notes") or ()]
    facts = documents[0].get("data") or {}
    if facts.get("stand_in"):
        found.append(f"data: {plain(facts['name'])}, a stand-in for {plain(facts['stands_for'])}")
    return found


def _highest_stage(document: Document) -> list[str]:
    peaks = {s["stage"]: s["peak"]["value"] for s in document["stages"] if s["peak"]["value"]}
    if not peaks or "steady step" not in peaks:
        return []
    name = max(peaks, key=lambda each: float(peaks[each]))
    if name == "steady step":
        return []
    more = show({**document["stages"][0]["peak"], "value": peaks[name] - peaks["steady step"]})
    return [
        f"the highest stage is {plain(STAGES.get(name, name)).lower()}: {more.value} above the steps"
    ]


def _cells(documents: Sequence[Document], table: str, key: str) -> tuple[Shown | None, ...]:
    found = [(document.get(table) or {}).get(key) for document in documents]
    return tuple(None if figure is None else show(figure) for figure in found)


def _single(documents: Sequence[Document], key: str, name: str, meaning: str) -> Row:
    cells = tuple(show(document[key]) for document in documents)
    return Row(key=key, label=name, meaning=meaning, cells=cells)


def _published(document: Document) -> Shown | None:
    value = PUBLISHED_INTERMEDIATE.get((document["workload"], document["batch_size"]))
    if value is None:
        return None
    figure = {"value": value, "unit": "B", "status": "measured", "source": "TX2 paper, Figure 9"}
    return show(figure)


def _stage_cell(document: Document, name: str, size: str) -> Shown | None:
    for stage in document["stages"]:
        if stage["stage"] == name:
            figure = stage.get(size)
            return None if figure is None else show(figure)
    return None
