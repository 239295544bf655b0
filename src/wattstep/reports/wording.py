"""The words of a report: what metrics and statuses are called and mean, and a run summed up in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wattstep.reports.values import Notation, Shown, is_figure, plain, quantity, show

Document = Mapping[str, Any]

STATUS_MEANINGS = {
    "counted": "exact, such as parameters and FLOPs",
    "measured": "read from a sensor or a clock",
    "attributed": "a measured whole, divided among parts by a stated method",
    "replayed": "from sensors that were recorded earlier",
    "modelled": "computed from measured activity by a model; no sensor saw it (≈)",
    "predicted": "no such run took place (~)",
    "missing": "not known, with the reason; never zero",
}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a metric is called and what it means."""

    label: str
    meaning: str
    notation: Notation = "unit"


METRICS = {
    "step_time": Metric(label="Step time", meaning="Wall time of one training step, not traced"),
    "throughput": Metric(label="Throughput", meaning="Samples trained in a second"),
    "energy_per_step": Metric(label="Energy per step", meaning="Energy that one step takes"),
    "energy_per_sample": Metric(
        label="Energy per sample", meaning="Energy that one training sample takes"
    ),
    "mean_power": Metric(label="Mean power", meaning="Mean power while training"),
    "peak_memory": Metric(
        label="Peak memory", meaning="Most memory that the training process held at once"
    ),
    "system_peak_memory": Metric(
        label="System peak memory", meaning="Most memory in use on the whole machine"
    ),
    "cpu_utilization": Metric(
        label="CPU utilization", meaning="Part of the time that the cores were busy"
    ),
    "gpu_utilization": Metric(
        label="GPU utilization", meaning="Part of the time that the GPU was busy"
    ),
    "cpu_core_utilization": Metric(
        label="Utilization by core", meaning="Part of the time that the core was busy"
    ),
    "idle_state_ratio": Metric(
        label="Idle ratio by core", meaning="Part of the samples in which the core was idle"
    ),
    "memory_breakdown": Metric(label="Memory", meaning="What the memory is used for"),
    "recording_overhead": Metric(
        label="Recording overhead", meaning="Share of the recorded time that tracing and marks took"
    ),
    "trace_inflation": Metric(
        label="Trace inflation",
        meaning="Time of a traced step over that of a clean one",
        notation="times",
    ),
    "correction_residual": Metric(
        label="Correction residual",
        meaning="What the correction for tracing leaves unexplained of a step",
    ),
    "steal": Metric(label="Steal", meaning="Time that the host gave to other virtual machines"),
    "other_cpu": Metric(label="Other processes", meaning="Processor time of other processes"),
}

_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "sha256": "SHA-256", "p99": "99th percentile"}

HEADLINES = (
    "step_time",
    "throughput",
    "energy_per_step",
    "energy_per_sample",
    "mean_power",
    "peak_memory",
    "system_peak_memory",
    "cpu_utilization",
    "gpu_utilization",
)


@dataclass(frozen=True, kw_only=True)
class Caution:
    """Something that the reader must know before believing the figures."""

    grave: bool
    text: str


def metric(name: str) -> Metric:
    """Label and meaning of a metric; a name that is not known is its own label."""
    return METRICS.get(name) or Metric(label=label(name), meaning="")


def label(name: object) -> str:
    """A name of a document as words: "late_or_lost" becomes "Late or lost"."""
    words = " ".join(_ACRONYMS.get(word, word) for word in plain(name).replace("_", " ").split())
    return words[:1].upper() + words[1:]


def show_metric(document: Document, name: str) -> Shown | None:
    """A metric that is a single figure, as text; None where the run has no such metric."""
    found = document.get("metrics", {}).get(name)
    return show(found, metric(name).notation) if is_figure(found) else None


def title(document: Document) -> str:
    """What the run is called: its workload's title and the batch size."""
    name = plain(document.get("title") or document.get("workload") or "A run")
    batch = document.get("batch_size")
    return name if batch is None else f"{name} · batch {batch}"


def setting(document: Document) -> list[str]:
    """What ran and how, in a few words each: engine, batch, threads, precision, processor."""
    threads = document.get("threads")
    parts = [
        document.get("engine"),
        None if document.get("batch_size") is None else f"batch {document['batch_size']}",
        None if threads is None else f"{threads} thread" + ("" if threads == 1 else "s"),
        document.get("precision"),
        document.get("processor"),
    ]
    return [plain(part) for part in parts if part]


def machine(document: Document) -> list[str]:
    """The machine in a few words each, and that it is virtual where it is."""
    device = document.get("device") or {}
    cores, memory = device.get("cores"), device.get("memory")
    names = list(dict.fromkeys(plain(device[k]) for k in ("model", "cpu") if device.get(k)))
    parts = [
        *names,
        None if cores is None else f"{cores} core" + ("" if cores == 1 else "s"),
        None if memory is None else f"{quantity(memory, 'B')} memory",
        virtuality(document),
        device.get("system"),
        f"kernel {device['kernel']}" if device.get("kernel") else None,
    ]
    return [plain(part) for part in parts if part]


def virtuality(document: Document) -> str:
    """ "virtual machine (KVM)" where the machine is virtual, else ""."""
    device = document.get("device") or {}
    if not device.get("virtual"):
        return ""
    hypervisor = device.get("hypervisor")
    return f"virtual machine ({plain(hypervisor)})" if hypervisor else "virtual machine"


def data(document: Document) -> str:
    """The data in a few words, and what they stand for where they are a stand-in."""
    facts = document.get("data") or {}
    if not facts:
        return ""
    samples = facts.get("samples")
    text = plain(facts.get("name") or "unnamed data")
    text += "" if samples is None else f", {samples:,} samples"
    return text + (f"; {_stand_in(facts)}" if facts.get("stand_in") else "")


def steps(document: Document) -> str:
    """How many steps were recorded, and of which kinds."""
    counts = document.get("steps") or {}
    kinds = [f"{counts[key]:,} {plain(key)}" for key in counts if key != "recorded"]
    if "recorded" not in counts:
        return ", ".join(kinds)
    recorded = f"{counts['recorded']:,} steps recorded"
    return f"{recorded}: {', '.join(kinds)}" if kinds else recorded


def cautions(document: Document) -> list[Caution]:
    """What the reader must know first: an unfinished record, a stand-in, a virtual machine."""
    found = []
    if document.get("state") == "recording":
        found.append((True, "This run is still being recorded; its figures will change."))
    if document.get("state") == "recovered":
        found.append((True, "This run was never closed; it was recovered from its journals."))
    found += [(True, plain(note)) for note in document.get("status_notes") or ()]
    facts = document.get("data") or {}
    if facts.get("stand_in"):
        found.append((False, f"The data are not the real ones: {_stand_in(facts)}."))
    if virtuality(document):
        found.append((False, f"This is a {virtuality(document)}; {_stolen(document)}."))
    disturbed = (document.get("steps") or {}).get("disturbed")
    if disturbed:
        recorded = (document.get("steps") or {}).get("recorded")
        of = "" if recorded is None else f" of {recorded:,}"
        found.append((False, f"Something disturbed {disturbed:,}{of} steps."))
    return [Caution(grave=grave, text=text) for grave, text in found]


def summary(document: Document) -> list[str]:
    """The run in sentences, for somebody who reads nothing else."""
    what = plain(document.get("title") or document.get("workload") or "The script")
    found = [
        _ran(document, what),
        _sentence(document, "step_time", "One step took {}"),
        _sentence(document, "throughput", "That makes {}"),
        _sentence(document, "energy_per_step", "One step needed {} of energy"),
        _sentence(document, "cpu_utilization", "The processor was busy for {} of the time"),
        _sentence(document, "peak_memory", "At its peak, training held {} of memory"),
        _costliest(document),
        _sentence(document, "recording_overhead", "Recording took {} of the recorded time"),
    ]
    return [sentence for sentence in found if sentence]


def in_words(shown: Shown) -> str:
    """A figure inside a sentence: with its status, unless a sensor or a clock gave it."""
    return shown.text if shown.missing else f"{shown.value}{_aside(shown)}"


def _aside(shown: Shown) -> str:
    """Interval and status in brackets."""
    status = "" if shown.status in ("measured", "counted") else shown.status
    inside = [part for part in (shown.interval, status) if part]
    return f" ({'; '.join(inside)})" if inside else ""


def _ran(document: Document, what: str) -> str:
    engine, *rest = setting(document) or [""]
    how = f" with {engine}" if engine else ""
    how += f" ({', '.join(rest)})" if rest else ""
    device = document.get("device") or {}
    where = plain(device.get("cpu") or device.get("model") or "")
    where += f", a {virtuality(document)}" if where and virtuality(document) else ""
    return f"{what} was trained{how}{f' on {where}' if where else ''}."


def _sentence(document: Document, name: str, words: str) -> str:
    shown = show_metric(document, name)
    if shown is None:
        return ""
    if shown.missing:
        return f"{metric(name).label} is missing: {shown.reason.rstrip('.')}."
    return f"{words.format(shown.value)}{_aside(shown)}."


def _costliest(document: Document) -> str:
    timed = [
        (show(row["time"]), row)
        for row in document.get("operations") or ()
        if is_figure(row.get("time"))
    ]
    known = [(shown.number, shown, row) for shown, row in timed if shown.number is not None]
    if not known:
        return ""
    _, shown, row = max(known, key=lambda entry: entry[0])
    place = ", ".join(plain(row[key]) for key in ("layer", "phase") if row.get(key))
    named = plain(row.get("name", "")) + (f" ({place})" if place else "")
    share = show(row["share"]) if is_figure(row.get("share")) else None
    part = f", {share.value} of it" if share and not share.missing else ""
    return f"Most time went to {named}: {shown.value} of a step{_aside(shown)}{part}."


def _stand_in(facts: Mapping[str, Any]) -> str:
    stands_for = facts.get("stands_for")
    return f"a stand-in for {plain(stands_for)}" if stands_for else "a stand-in"


def _stolen(document: Document) -> str:
    steal = show_metric(document, "steal")
    if steal is None:
        return "how much time its host took away is not known"
    if steal.missing:
        return f"how much time its host took away is missing: {steal.reason}"
    return f"its host took away {in_words(steal)} of the time"
