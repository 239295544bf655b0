"""The words of a report: what metrics and statuses are called and mean, and a run summed up in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattstep.reports.machines import host, sensors, virtuality
from wattstep.reports.values import Notation, Shown, brief, is_figure, plain, show

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
    "step_time": Metric(
        label="Step time (mean)", meaning="Wall time of one training step, not traced"
    ),
    "cpu_time_per_step": Metric(
        label="CPU time per step",
        meaning="CPU time that the training takes in one step, on all cores together",
    ),
    "throughput": Metric(label="Throughput", meaning="Samples trained in a second"),
    "energy_per_step": Metric(label="Energy per step", meaning="Energy that one step takes"),
    "energy_per_sample": Metric(
        label="Energy per sample", meaning="Energy that one training sample takes"
    ),
    "machine_energy_per_step": Metric(
        label="Energy of the machine per step",
        meaning="Energy that the whole machine takes in a step, other programs included",
    ),
    "machine_mean_power": Metric(
        label="Mean power of the machine",
        meaning="Mean power of the whole machine while training, other programs included",
    ),
    "recorded_energy": Metric(
        label="Recorded energy", meaning="Energy in all the time that was recorded"
    ),
    "busy_time": Metric(
        label="Busy stretch", meaning="How long the power of the recording was high"
    ),
    "busy_power": Metric(label="Busy power", meaning="Mean power of the busy stretch"),
    "busy_energy": Metric(label="Busy energy", meaning="Energy in the busy stretch"),
    "recorded_time": Metric(
        label="Recorded time", meaning="From the beginning of the trace to its end"
    ),
    "gpu_time": Metric(label="GPU time", meaning="Part of a step in which its work ran on any GPU"),
    "mean_power": Metric(
        label="Mean power", meaning="Mean power while training, that of the idle device included"
    ),
    "peak_memory": Metric(
        label="Peak memory",
        meaning="Most memory that the training and its children held at once, shared pages once",
    ),
    "proportional_peak_memory": Metric(
        label="Proportional peak memory",
        meaning="Likewise, with pages that other programs share counted in part",
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
    "sensor_delay": Metric(
        label="Sensor delay", meaning="How late samples of power are, as they say themselves"
    ),
    "sensor_window": Metric(
        label="Sensor window", meaning="Time that the power sensor averages over, as samples say"
    ),
    "regressed_step_energy": Metric(
        label="Energy per step by regression",
        meaning="What operations and rests of the regression take together",
    ),
    "memory_breakdown": Metric(label="Memory", meaning="What the memory is used for"),
    "time_to_target": Metric(
        label="Time to the goal", meaning="Time of all steps until the goal was reached"
    ),
    "energy_to_target": Metric(
        label="Energy to the goal",
        meaning="Energy of all steps until the goal was reached, idle power included",
    ),
    "steps_to_target": Metric(
        label="Steps to the goal", meaning="Steps until an evaluation reached the goal"
    ),
    "samples_to_target": Metric(
        label="Samples to the goal", meaning="Samples trained on until the goal was reached"
    ),
    "frame_time": Metric(
        label="Time of a frame of the game",
        meaning="Time in the game over the frames that it went on by",
    ),
    "foreground_delay": Metric(
        label="Foreground job",
        meaning="What training does to a job of 60 frames a second beside it, and it alone",
    ),
    "training_slowdown": Metric(
        label="Training slowdown",
        meaning="Time of a step with the foreground job beside it over that without",
        notation="times",
    ),
    "memory_highest": Metric(
        label="Highest", meaning="Most that a category of tensors takes, at its own moment"
    ),
    "recording_overhead": Metric(
        label="Recording overhead", meaning="Share of the recorded time that tracing and marks took"
    ),
    "trace_inflation": Metric(
        label="Trace inflation",
        meaning="Time of a traced step over that of a clean one",
        notation="times",
    ),
    "slow_step_share": Metric(
        label="Slow steps", meaning="Share of steps beyond 1.5 times their median"
    ),
    "slow_step_loss": Metric(
        label="Lost in slow steps", meaning="Time of slow steps beyond the median, of all time"
    ),
    "slow_operations": Metric(
        label="Operations with slow instances",
        meaning="Operations that were beyond 1.5 times what is usual at their place in the step",
    ),
    "tested_pairs": Metric(
        label="Pairs tested", meaning="Operations and conditions whose coincidence was tested"
    ),
    "correction_residual": Metric(
        label="Correction residual",
        meaning="What the correction for tracing leaves unexplained of a step",
    ),
    "sustained": Metric(label="Sustained", meaning="The first minute of training against the last"),
    "thermal_time_constant": Metric(
        label="Thermal time constant",
        meaning="Time in which 63 % of a change of temperature has come about",
    ),
    "thermal_time_constant_fast": Metric(
        label="Thermal time constant, fast stage",
        meaning="The same, of the part that follows the load at once",
    ),
    "steady_temperature": Metric(
        label="Steady temperature",
        meaning="Where the temperature would settle at the mean power of the training",
    ),
    "time_to_throttle": Metric(
        label="Time to throttle",
        meaning="From the beginning, at that power, until throttling begins",
    ),
    "thermal_resistance": Metric(
        label="Thermal resistance", meaning="Warmer by so much for each watt, once settled"
    ),
    "idle_power": Metric(
        label="Idle power", meaning="What the device takes while nothing trains on it"
    ),
    "energy_per_step_above_idle": Metric(
        label="Energy per step above idle",
        meaning="Energy of a step less that of the idle device in the same time",
    ),
    "energy_per_step_with_idle": Metric(
        label="Energy per step with idle", meaning="Energy of a step, idle power included"
    ),
    "energy_per_sample_with_idle": Metric(
        label="Energy per sample with idle", meaning="Energy of a sample, idle power included"
    ),
    "step_time_by_state": Metric(
        label="Step time by state", meaning="Steps while the device was throttled, or not"
    ),
    "energy_per_step_by_state": Metric(
        label="Energy per step by state", meaning="Steps while the device was throttled, or not"
    ),
    "cpu_cluster_utilization": Metric(
        label="Utilization by kind of core", meaning="Part of the time that these cores were busy"
    ),
    "memory_controller_utilization": Metric(
        label="Memory controller", meaning="Part of the time, or of its bandwidth, that it was busy"
    ),
    "gpu_memory": Metric(label="GPU memory", meaning="Memory of the GPU in use"),
    "steal": Metric(label="Steal", meaning="Time that the host gave to other virtual machines"),
    "other_cpu": Metric(label="Other processes", meaning="Processor time of other processes"),
    "achieved_flops": Metric(
        label="Achieved FLOP/s", meaning="FLOPs that could be counted, over the time of a step"
    ),
    "compute_bound_time": Metric(
        label="Bound by computing", meaning="Operations near the measured ceiling of arithmetic"
    ),
    "memory_bound_time": Metric(
        label="Bound by moving data", meaning="Operations near the measured ceiling of memory"
    ),
    "overhead_bound_time": Metric(
        label="Far below both ceilings",
        meaning="Operations whose counted work explains less than a tenth of their time",
    ),
    "unknown_bound_time": Metric(
        label="Cannot be judged", meaning="Operations of which neither FLOPs nor bytes are known"
    ),
    "between_operations_time": Metric(
        label="Between operations", meaning="Time of a step that no operation covers"
    ),
    "time_at_ceilings": Metric(
        label="Step at the ceilings",
        meaning="What the counted work of a step takes at least on this machine",
    ),
    "idle_time": Metric(
        label="Without an operation", meaning="Time of a step that no operation covers"
    ),
    "idle_framework": Metric(
        label="Framework", meaning="Module and interpreter code between operations"
    ),
    "idle_data": Metric(label="Data loading", meaning="Gaps while data are loaded"),
    "idle_game": Metric(label="The game", meaning="Gaps while the game plays"),
    "idle_optimizer": Metric(
        label="Optimizer bookkeeping", meaning="Code of the optimizer between its operations"
    ),
    "idle_evaluation": Metric(label="Evaluation", meaning="Gaps of evaluations within a step"),
    "idle_not_running": Metric(
        label="Not running, in gaps", meaning="Gaps in which the training ran on no core"
    ),
    "not_running_time": Metric(
        label="Not running, of a step", meaning="Time of a step in which it ran on no core"
    ),
    "between_steps_time": Metric(
        label="Between steps", meaning="From the end of a step to the begin of the next"
    ),
    "evaluation_share": Metric(
        label="Evaluations", meaning="Share of all time that evaluations between steps took"
    ),
    "cores_used": Metric(label="Cores used", meaning="Cores that the training kept busy, mean"),
    "cores_free": Metric(
        label="Cores free", meaning="Cores less those that other processes and the host took"
    ),
    "cores_idle": Metric(
        label="Cores left idle", meaning="Free cores less those that the training used"
    ),
    "saved_by_threads": Metric(
        label="Another number of threads", meaning="Time of a step that it should save"
    ),
    "critical_path_time": Metric(
        label="Critical path",
        meaning="Longest chain of work in which each waits for the one before",
    ),
    "critical_path_share": Metric(
        label="Critical path of the step", meaning="That chain over the step"
    ),
    "work_at_once": Metric(
        label="Work over the path",
        meaning="Work of all threads and streams over the longest chain",
        notation="times",
    ),
}

RECORDING = "recording"
# What figures mean in runs of other tools, by what they are of.
_OF_IMPORTED = {
    "step_time": {"traced steps": "Wall time of one training step, the profiler's own cost in it"},
    "mean_power": {RECORDING: "Mean power over the whole recording"},
}
_WITH_IDLE = "_with_idle"
_MOST_TITLE = 120  # characters
_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "sha256": "SHA-256", "p99": "99th percentile"}

HEADLINES = (
    "time_to_target",
    "energy_to_target",
    "step_time",
    "recorded_time",
    "gpu_time",
    "throughput",
    "energy_per_step",
    "energy_per_sample",
    "recorded_energy",
    "busy_time",
    "busy_energy",
    "busy_power",
    "mean_power",
    "machine_energy_per_step",
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


def metric_of(document: Document, name: str) -> Metric:
    """The same for the figure of one run: energy above idle says so, and whose cores were busy."""
    known, metrics = metric(name), document.get("metrics") or {}
    if f"{name}{_WITH_IDLE}" in metrics:
        meaning = f"{known.meaning}, less that of the idle device in the same time"
        return replace(known, label=f"{known.label} above idle", meaning=meaning)
    if name in _OF_IMPORTED:
        meaning = _OF_IMPORTED[name].get(figures_of(document), known.meaning)
        return replace(known, meaning=meaning)
    if name == "cpu_utilization" and _of_others(document):
        meaning = f"Part of the time that the cores of {sensors(document)} were busy"
        return replace(known, label=f"{known.label} of {sensors(document)}", meaning=meaning)
    return known


def _of_others(document: Document) -> bool:
    """Whether the load is not that of the machine that trained."""
    figure = (document.get("metrics") or {}).get("cpu_utilization")
    return bool(sensors(document)) and is_figure(figure) and figure["status"] != "measured"


def figures_of(document: Document) -> str:
    """What the figures of a run are of: clean steps, traced ones, or the whole recording."""
    return plain(document.get("figures_of") or "clean steps")


def operations_of(document: Document) -> str:
    """What the times of its operations are of, to follow a heading."""
    whole = document.get("operations_of") == RECORDING
    return "for the whole recording" if whole else "for one step"


def side_by_side(documents: Sequence[Document]) -> list[Mapping[str, Any]]:
    """The metrics of several runs: energy with idle power, unless all have it taken off."""
    found = [document.get("metrics") or {} for document in documents]
    if all(f"energy_per_step{_WITH_IDLE}" in metrics for metrics in found):
        return found
    return [_with_idle(metrics) for metrics in found]


def _with_idle(metrics: Mapping[str, Any]) -> dict[str, Any]:
    whole = {n.removesuffix(_WITH_IDLE): metrics[n] for n in metrics if n.endswith(_WITH_IDLE)}
    return {n: whole.get(n, metrics[n]) for n in metrics if not n.endswith(_WITH_IDLE)}


def whole_step(document: Document) -> str:
    """What operations and rests make together, in a sentence."""
    if document.get("operations_of") == RECORDING:
        return "Together they make the whole trace."
    shown = show_metric(document, f"energy_per_step{_WITH_IDLE}")
    if shown is None or shown.missing:
        return "Together they make the step."
    return f"Together they make the step with idle power, {shown.value}."


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
    name = brief(document.get("title") or document.get("workload") or "A run", _MOST_TITLE)
    batch = document.get("batch_size")
    return name if batch is None else f"{name} · batch {plain(batch)}"


def titles(documents: Sequence[Document]) -> list[str]:
    """What each of several runs is called: its title, and how it was trained where they differ."""
    found = []
    for document in documents:
        # Other workloads differ anyway: runs of one workload are told apart by their ways.
        alike = [_way(one) for one in documents if one.get("title") == document.get("title")]
        way = _way(document)
        differing = [key for key in way if len({other[key] for other in alike}) > 1]
        found.append(" · ".join([title(document), *(way[key] for key in differing if way[key])]))
    return found


def _way(document: Document) -> dict[str, str]:
    """How it was trained, in words that stand beside a title."""
    options = document.get("options") or {}
    times, rule, size = (options.get(key) for key in ("accumulate", "rate_rule", "image_size"))
    return {
        "precision": plain(document.get("precision") or ""),
        "accumulate": f"accumulated {times} times" if times and times != 1 else "",
        "rate_rule": f"{plain(rule)} rate" if rule else "",
        "image_size": f"{size}×{size}" if size else "",
        "sensors": sensors(document),
    }


def compared(documents: Sequence[Document]) -> tuple[str, ...]:
    """The metrics that runs are compared by: to a goal, where one had a goal, else per step."""
    if any("time_to_target" in (document.get("metrics") or {}) for document in documents):
        return ("time_to_target", "energy_to_target", "samples_to_target", "step_time")
    return ("step_time", "throughput", "energy_per_step", "peak_memory")


def setting(document: Document) -> list[str]:
    """What ran and how, in a few words each: engine, batch, threads, precision, processor."""
    threads = document.get("threads")
    parts = [
        document.get("engine"),
        _batch(document),
        None if threads is None else f"{threads} thread" + ("" if threads == 1 else "s"),
        document.get("precision"),
        document.get("processor"),
    ]
    return [plain(part) for part in parts if part]


def _batch(document: Document) -> str | None:
    """ "batch 8", or "batch 8 accumulated 4 times"."""
    if document.get("batch_size") is None:
        return None
    times = int((document.get("options") or {}).get("accumulate", 1))
    again = "" if times == 1 else f" accumulated {times} times"
    return f"batch {document['batch_size']}{again}"


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
    hidden = ("recorded", "clean", "settling") if _only_traced(document) else ("recorded",)
    kinds = [f"{counts[key]:,} {plain(key)}" for key in counts if key not in hidden]
    if "recorded" not in counts:
        return ", ".join(kinds)
    if not counts["recorded"] and document.get("imported"):
        return "no steps were recorded"
    recorded = f"{counts['recorded']:,} step{'' if counts['recorded'] == 1 else 's'} recorded"
    return f"{recorded}: {', '.join(kinds)}" if kinds else recorded


def cautions(document: Document) -> list[Caution]:
    """What the reader must know first: an unfinished record, a stand-in, a virtual machine."""
    found = []
    if document.get("state") == "recording":
        found.append((True, "This run is still being recorded; its figures will change."))
    if document.get("state") == "recovered":
        found.append((True, "This run was never closed; it was recovered from its journals."))
    found += [(True, plain(note)) for note in document.get("status_notes") or ()]
    for failure in document.get("failures") or ():
        text = f"Failed inside, and left out: {failure['part']} ({failure['reason']})"
        found.append((True, plain(text)))
    facts = document.get("data") or {}
    if facts.get("stand_in"):
        found.append((False, f"The data are not the real ones: {_stand_in(facts)}."))
    if virtuality(document):
        found.append((False, f"This is a {virtuality(document)}; {_stolen(document)}."))
    if _only_traced(document):
        what = "All of it was" if document.get("operations_of") == RECORDING else "All steps were"
        found.append((False, f"{what} traced: the profiler's own cost is in the figures."))
    elif document.get("imported") and figures_of(document) == RECORDING:
        found.append((False, "There are no steps: figures are of the whole recording."))
    found += [(True, text) for text in _throttled(document)]
    disturbed = (document.get("steps") or {}).get("disturbed")
    if disturbed:
        recorded = (document.get("steps") or {}).get("recorded")
        of = "" if recorded is None else f" of {recorded:,}"
        found.append((False, f"Something disturbed {disturbed:,}{of} steps."))
    return [Caution(grave=grave, text=text) for grave, text in found]


def _only_traced(document: Document) -> bool:
    return figures_of(document) == "traced steps"


def _throttled(document: Document) -> list[str]:
    conditions = document.get("conditions") or {}
    count = conditions.get("throttled_steps")
    if not count:
        return []
    left_out = "throttled" in (conditions.get("excluded") or ())
    how = "they are left out" if left_out else "the figures include them (--exclude throttled)"
    of = f"{conditions.get('of_steps', 0):,} {figures_of(document)}"
    return [f"{count:,} of {of} were throttled; {how}."]


def rest_name(name: str) -> str:
    """What a rest is called."""
    return "too short for the sensor" if name == "not_resolved" else name


def summary(document: Document) -> list[str]:
    """The run in sentences, for somebody who reads nothing else."""
    what = plain(document.get("title") or document.get("workload") or "The script")
    found = [
        _ran(document, what),
        _without(document),
        _sentence(document, "step_time", "One step took {}"),
        _sentence(document, "throughput", "That makes {}"),
        _sentence(document, "energy_per_step", f"One step needed {{}} of energy{_above(document)}"),
        _sentence(document, "recorded_energy", "All that was recorded took {} of energy"),
        _sentence(
            document,
            "cpu_utilization",
            f"The processor{_whose(document)} was busy for {{}} of the time",
        ),
        _sentence(document, "peak_memory", "At its peak, training held {} of memory"),
        _costliest(document),
        _sentence(document, "recording_overhead", "Recording took {} of the recorded time"),
    ]
    return [sentence for sentence in found if sentence]


def _above(document: Document) -> str:
    taken_off = f"energy_per_step{_WITH_IDLE}" in (document.get("metrics") or {})
    return " above that of the idle device" if taken_off else ""


def _whose(document: Document) -> str:
    return f" of {sensors(document)}" if _of_others(document) else ""


def in_words(shown: Shown) -> str:
    """A figure inside a sentence: with its status, unless a sensor or a clock gave it."""
    return shown.text if shown.missing else f"{shown.value}{_aside(shown)}"


def _aside(shown: Shown) -> str:
    """Interval and status in brackets."""
    status = "" if shown.status in ("measured", "counted") else shown.status
    inside = [part for part in (shown.interval, status) if part]
    return f" ({'; '.join(inside)})" if inside else ""


def _ran(document: Document, what: str) -> str:
    if document.get("imported"):
        return f"{what} was recorded by other tools: {_files(document)}."
    engine, *rest = setting(document) or [""]
    how = f" with {engine}" if engine else ""
    how += f" ({', '.join(rest)})" if rest else ""
    device = host(document)
    where = plain(device.get("cpu") or device.get("model") or "")
    where += f", a {virtuality(document)}" if where and virtuality(document) else ""
    there = sensors(document)
    whose = f" Power, temperature, clocks and load are those of {there}." if there else ""
    return f"{what} was trained{how}{f' on {where}' if where else ''}.{whose}"


def imported_from(document: Document) -> str:
    """The files of other tools that a run was made of, with their formats; "" for none."""
    return _files(document) if document.get("imported") else ""


def _files(document: Document) -> str:
    found = document.get("imported") or {}
    entries = [found.get("trace") or {}, *(found.get("telemetry") or ())]
    words = [_file(entry) for entry in entries if entry]
    return " and ".join(words) or "their files are not recorded"


def _file(entry: Mapping[str, Any]) -> str:
    name, form = plain(entry.get("file") or ""), plain(entry.get("format") or "")
    return f"{form} ({name})" if form and name else form or name or "a file"


def _without(document: Document) -> str:
    """Why nothing can be said of a step, once for all figures that are missing for it."""
    shown = show_metric(document, "step_time")
    if not document.get("imported") or shown is None or not shown.missing:
        return ""
    return f"Nothing can be said of a step: {shown.reason.rstrip('.')}."


def _sentence(document: Document, name: str, words: str) -> str:
    shown = show_metric(document, name)
    if shown is None or (shown.missing and shown.reason in _without(document)):
        return ""
    if shown.missing:
        return f"{metric_of(document, name).label} is missing: {shown.reason.rstrip('.')}."
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
    of = "the recording" if document.get("operations_of") == RECORDING else "a step"
    return f"Most time went to {named}: {shown.value} of {of}{_aside(shown)}{part}."


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
