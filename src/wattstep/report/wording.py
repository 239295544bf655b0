"""The words of a report: what metrics and statuses are called and mean, and a run summed up in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wattstep.report.machines import host, sensors, virtuality
from wattstep.report.values import Shown, brief, plain, show
from wattstep.schema.channel import thing_of
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Metrics
from wattstep.schema.metrics import HEADLINES as HEADLINES
from wattstep.schema.metrics import METRICS
from wattstep.schema.metrics import Metric as Metric
from wattstep.schema.run_documents import ImportedFile, TrainingOptions
from wattstep.schema.run_report import RunReport
from wattstep.schema.workload import DataFacts

ALWAYS = (
    "step_time", "throughput", "energy_per_step", "energy_per_sample", "peak_memory", "cpu_utilization"
)  # fmt: skip
ALWAYS_ATTACHED = ("mean_power",)
ALWAYS_OF_IMPORTED = ("step_time", "energy_per_step")
STATUS_MEANINGS = {
    "counted": "exact, such as parameters and FLOPs",
    "measured": "read from a sensor or a clock",
    "attributed": "a measured whole, divided among parts by a stated method",
    "replayed": "from sensors that were recorded earlier",
    "modelled": "computed from measured activity by a model; no sensor saw it (≈)",
    "predicted": "no such run took place (~)",
    "missing": "not known, with the reason; never zero",
}


RECORDING = "recording"
# What figures mean in runs of other tools, by what they are of.
_OF_IMPORTED = {
    "step_time": {"traced steps": "Wall time of one training step, the profiler's own cost in it"},
    "mean_power": {RECORDING: "Mean power over the whole recording"},
}
_WITH_IDLE = "_with_idle"
_FEW_RAILS = 3  # that stand among the first figures where there is no total
_MOST_TITLE = 120  # characters
_LEAST_GAIN = 0.005  # less is shown as 0 %
SLIGHT = 0.01  # of the time, stolen by the hypervisor
_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "sha256": "SHA-256", "p99": "99th percentile"}


@dataclass(frozen=True, kw_only=True)
class Caution:
    """Something that the reader must know before believing the figures.

    Attributes:
        grave: Figures may mislead without it.
        text: A sentence.
        slight: It hardly moves any figure here.
    """

    grave: bool
    text: str
    slight: bool = False


def metric(name: str) -> Metric:
    """Label and meaning of a metric; a name that is not known is its own label."""
    return METRICS.get(name) or Metric(label=label(name), meaning="")


def metric_of(report: RunReport, name: str) -> Metric:
    """Metric as the report of one run words it: energy above idle says so, and whose cores were busy."""
    known = among(report.metrics, name)
    if name in _OF_IMPORTED:
        meaning = _OF_IMPORTED[name].get(figures_of(report), known.meaning)
        return replace(known, meaning=meaning)
    if name == "cpu_utilization" and _of_others(report):
        meaning = f"Part of the time that the cores of {sensors(report.device)} were busy"
        return replace(known, label=f"{known.label} of {sensors(report.device)}", meaning=meaning)
    return known


def among(metrics: Metrics, name: str) -> Metric:
    """Metric as it is worded beside others: energy is above idle where that with idle power stands there."""
    known = metric(name)
    if f"{name}{_WITH_IDLE}" not in metrics:
        return known
    meaning = f"{known.meaning}, less that of the idle device in the same time"
    return replace(known, label=f"{known.label} above idle", meaning=meaning)


def _of_others(report: RunReport) -> bool:
    """True if the load is not that of the machine that trained."""
    figure = report.metrics.figure("cpu_utilization")
    seen = figure is None or figure.status is Status.MEASURED
    return bool(sensors(report.device)) and not seen


def attached(report: RunReport) -> bool:
    """True if the training was recorded from outside, while it ran."""
    return "attached" in report.options


def always_asked(report: RunReport) -> tuple[str, ...]:
    """The metrics that are missed where they are missing: the first screen says why."""
    if attached(report):
        return ALWAYS_ATTACHED
    return ALWAYS_OF_IMPORTED if report.imported else ALWAYS


def figures_of(report: RunReport) -> str:
    """Basis of the figures of a run: clean steps, traced ones, or the whole recording."""
    return plain(report.figures_of)


def operations_of(report: RunReport) -> str:
    """Basis of the times of its operations, to follow a heading."""
    whole = report.operations_of == RECORDING
    return "for the whole recording" if whole else "for one step"


def side_by_side(reports: Sequence[RunReport]) -> list[Metrics]:
    """The metrics of several runs: energy with idle power, unless all have it taken off."""
    by_run = [report.metrics for report in reports]
    if all(f"energy_per_step{_WITH_IDLE}" in metrics for metrics in by_run):
        return by_run
    return [_with_idle(metrics) for metrics in by_run]


def _with_idle(metrics: Metrics) -> Metrics:
    whole = {n.removesuffix(_WITH_IDLE): metrics[n] for n in metrics if n.endswith(_WITH_IDLE)}
    return Metrics({n: whole.get(n, metrics[n]) for n in metrics if not n.endswith(_WITH_IDLE)})


def whole_step(report: RunReport) -> str:
    """Sum of operations and unattributed time, in a sentence."""
    if report.operations_of == RECORDING:
        return "Together they make the whole trace."
    shown = show_metric(report.metrics, f"energy_per_step{_WITH_IDLE}")
    if shown is None or shown.missing:
        return "Together they make the step."
    return f"Together they make the step with idle power, {shown.value}."


def label(name: object) -> str:
    """A name of a report as words: "late_or_lost" becomes "Late or lost"."""
    words = " ".join(_ACRONYMS.get(word, word) for word in plain(name).replace("_", " ").split())
    return words[:1].upper() + words[1:]


def show_metric(metrics: Metrics, name: str) -> Shown | None:
    """A metric that is a single figure, as text; None where the run has no such metric."""
    figure = metrics.figure(name)
    return None if figure is None else show(figure, metric(name).notation)


def headlines(
    report: RunReport, names: Sequence[str] = HEADLINES
) -> Iterator[tuple[str, Metric, Shown]]:
    """The first figures that a run has, by name; after a total energy that is missing that of the parts measured."""
    for name in names:
        shown = show_metric(report.metrics, name)
        if shown is not None:
            yield name, metric_of(report, name), shown
            if name == "energy_per_step" and shown.missing:
                yield from ((name, *part) for part in _few_rails(report))


def _few_rails(report: RunReport) -> Iterator[tuple[Metric, Shown]]:
    """Energy of the parts of the machine that are measured, where these are few; if of none is it known, why."""
    rails = report.energy_by_rail
    known = {name: figure for name, figure in rails.items() if not figure.missing} or rails
    if len(known) <= _FEW_RAILS:
        for name, figure in known.items():
            part = brief(thing_of(name, figure.unit) or name)
            meaning = f"Energy of {part} alone: there is no total of the machine"
            label = f"{metric_of(report, 'energy_per_step').label}, {part}"
            yield Metric(label=label, meaning=meaning), show(figure)


def title(report: RunReport) -> str:
    """Title of the run: its workload's title and the batch size."""
    name = brief(report.title or report.workload or "A run", _MOST_TITLE)
    batch = report.batch_size
    return name if batch is None else f"{name} · batch {plain(batch)}"


def titles(reports: Sequence[RunReport]) -> list[str]:
    """Titles of several runs, with the training settings by which they differ; what repeats is counted."""
    names = []
    for report in reports:
        # Other workloads differ anyway: runs of one workload are told apart by their ways.
        alike = [_way(one) for one in reports if one.title == report.title]
        way = _way(report)
        differing = [key for key in way if len({other[key] for other in alike}) > 1]
        names.append(" · ".join([title(report), *(way[key] for key in differing if way[key])]))
    return [
        name if names.count(name) == 1 else f"{name} (run {names[: at + 1].count(name)})"
        for at, name in enumerate(names)
    ]


def _way(report: RunReport) -> dict[str, str]:
    """Training settings, in words that stand beside a title."""
    options = report.options
    rule, size = (options.get(key) for key in ("rate_rule", "image_size"))
    return {
        "precision": plain(report.precision or ""),
        "channels_last": "channels last" if options.get("channels_last") else "",
        "compiled": "compiled" if options.get("compiled") else "",
        "policy": planned_by(options),
        "opencl_mode": plain(options.get("opencl_mode") or ""),
        "accumulate": _accumulated(options),
        "rate_rule": f"{plain(rule)} rate" if rule else "",
        "image_size": f"{size}×{size}" if size else "",
        **strategies(options),
        "sensors": sensors(report.device),
        "arguments": brief(str(options.get("arguments") or ""), _MOST_TITLE),
    }


def planned_by(options: TrainingOptions) -> str:
    """The policy that operations were planned by; "" where the framework ran them."""
    policy = options.get("policy")
    return f"policy {plain(policy)}" if policy else ""


def strategies(options: TrainingOptions) -> dict[str, str]:
    """Strategies against running out of memory, in words that stand beside others; "" for one that is not used."""
    last, rank, optimizer = options.get("train_last"), options.get("lora"), options.get("optimizer")
    return {
        "checkpointing": "checkpointing" if options.get("checkpointing") else "",
        "train_last": f"last {last} layers trained" if last else "",
        "lora": f"LoRA of rank {rank}" if rank else "",
        "optimizer": plain(optimizer) if optimizer else "",
        "offload": "activations offloaded" if options.get("offload") else "",
    }


def compared(reports: Sequence[RunReport]) -> tuple[str, ...]:
    """The metrics that runs are compared by: to a goal, where one had a goal, else per step."""
    if any("time_to_target" in report.metrics for report in reports):
        return ("time_to_target", "energy_to_target", "samples_to_target", "step_time")
    return ("step_time", "throughput", "energy_per_step", "peak_memory")


def setting(report: RunReport) -> list[str]:
    """Settings of the run, in a few words each: engine, batch, threads, precision, processor."""
    threads = report.threads
    parts = [
        report.engine,
        brief(str(report.options.get("arguments") or "")),
        None if report.batch_size is None else f"batch {report.batch_size}",
        _accumulated(report.options),
        None if threads is None else f"{threads} thread" + ("" if threads == 1 else "s"),
        report.precision,
        "channels last" if report.options.get("channels_last") else None,
        "compiled" if report.options.get("compiled") else None,
        planned_by(report.options),
        *strategies(report.options).values(),
        report.processor,
        (report.device.get("gpu") or report.device.get("opencl") or {}).get("name"),
    ]
    return [plain(part) for part in parts if part]


def may_or_should(gain: Figure) -> str:
    """The word before a gain: one whose interval begins at nothing is only a possibility."""
    return "may" if gain.low is not None and gain.low < _LEAST_GAIN else "should"


def _accumulated(options: TrainingOptions) -> str:
    times = options.get("accumulate") or 1
    return "" if times == 1 else f"accumulated {times} times"


def data(report: RunReport) -> str:
    """The data in a few words, and what they stand for where they are a stand-in."""
    facts = report.data
    if facts is None:
        return ""
    samples = f", {facts.samples:,} samples" if facts.samples else ""
    stands_for = f"; {_stand_in(facts)}" if facts.stand_in else ""
    return f"{plain(facts.name or 'unnamed data')}{samples}{stands_for}"


def steps(report: RunReport) -> str:
    """Number of recorded steps, by kind."""
    counts = report.steps.to_dict()
    hidden = ("recorded", "clean", "settling") if _only_traced(report) else ("recorded",)
    kinds = [f"{counts[key]:,} {plain(key)}" for key in counts if key not in hidden]
    if "recorded" not in counts:
        return ", ".join(kinds)
    if not counts["recorded"]:
        return "recorded from outside: no steps" if attached(report) else "no steps were recorded"
    recorded = f"{counts['recorded']:,} step{'' if counts['recorded'] == 1 else 's'} recorded"
    return f"{recorded}: {', '.join(kinds)}" if kinds else recorded


def cautions(report: RunReport) -> list[Caution]:
    """Cautions that come first: an unfinished record, a stand-in, a virtual machine."""
    texts: list[tuple[bool, str]] = []
    slight = ""
    if report.state == "recording":
        texts.append((True, "This run is still being recorded; its figures will change."))
    if report.state == "recovered":
        texts.append((True, "This run was never closed; it was recovered from its journals."))
    texts += [(True, begun(plain(note))) for note in report.notes]
    for failure in report.failures:
        text = f"Failed inside, and left out: {failure.part} ({failure.reason})"
        texts.append((True, plain(text)))
    if report.data is not None and report.data.stand_in:
        texts.append((False, f"The data are not the real ones: {_stand_in(report.data)}."))
    if virtuality(report.device):
        text = f"This is a {virtuality(report.device)}; {_stolen(report)}."
        stolen = report.metrics.figure("steal")
        slight = text if stolen and stolen.value is not None and stolen.value < SLIGHT else ""
        texts.append((False, text))
    if _only_traced(report):
        what = "All of it was" if report.operations_of == RECORDING else "All steps were"
        texts.append((False, f"{what} traced: the profiler's own cost is in the figures."))
    elif attached(report):
        texts.append((False, "Recorded from outside: its steps and operations are not known; "
                             "wattstep profile SCRIPT records them."))  # fmt: skip
    elif report.imported and figures_of(report) == RECORDING:
        texts.append((False, "Figures are of the whole recording."))
    texts += [(True, text) for text in _throttled(report)]
    if report.steps.disturbed:
        conditions, of = report.conditions, " steps"
        if conditions is not None and "disturbed" not in conditions.excluded:
            of = f" of {conditions.of_steps:,} {figures_of(report)}"
        texts.append((False, f"Something disturbed {report.steps.disturbed:,}{of}."))
    return [Caution(grave=grave, text=text, slight=text == slight) for grave, text in texts]


def begun(note: str) -> str:
    """A note as a sentence begins; one that begins with a name stays as it is spelt."""
    return note[:1].upper() + note[1:] if note.partition(" ")[0].isalpha() else note


def _only_traced(report: RunReport) -> bool:
    return figures_of(report) == "traced steps"


def _throttled(report: RunReport) -> list[str]:
    conditions = report.conditions
    if conditions is None or not conditions.throttled_steps:
        return []
    count = conditions.throttled_steps
    if "throttled" in conditions.excluded:
        return [f"Throttling: {left_out(report, count, 'throttled')}."]
    of = f"{conditions.of_steps:,} {figures_of(report)}"
    return [f"{count:,} of {of} were throttled; the figures include them (--exclude throttled)."]


def left_out(report: RunReport, count: int, kind: str) -> str:
    """How many steps figures leave out, and of how many they are: these alone are called clean."""
    were = "1 step was" if count == 1 else f"{count:,} steps were"
    clean = report.steps.clean
    others = "" if clean is None else f": those are of {clean:,} {figures_of(report)}"
    return f"{were} {kind} and left out of the figures{others}"


def unattributed_name(name: str, report: RunReport) -> str:
    """Label of an unattributed part; a phase of the same name has the operations."""
    if name == "not_resolved":
        return "too short for the sensor"
    return f"{name}, no operation" if any(row.phase == name for row in report.phases) else name


def summary(report: RunReport) -> list[str]:
    """The run in sentences, for somebody who reads nothing else."""
    what = plain(report.title or report.workload or "The script")
    sentences = [
        _ran(report, what),
        _without(report),
        _sentence(report, "step_time", "One step took {}"),
        _sentence(report, "throughput", "That makes {}"),
        _sentence(report, "energy_per_step", f"One step needed {{}} of energy{_above(report)}"),
        _sentence(report, "recorded_energy", "All that was recorded took {} of energy"),
        _sentence(
            report,
            "cpu_utilization",
            f"The processor{_whose(report)} was busy for {{}} of the time",
        ),
        _sentence(report, "peak_memory", "At its peak, training held {} of memory"),
        _costliest(report),
        _sentence(report, "recording_overhead", "Recording took {} of the recorded time"),
    ]
    return [sentence for sentence in sentences if sentence]


def _above(report: RunReport) -> str:
    taken_off = f"energy_per_step{_WITH_IDLE}" in report.metrics
    return " above that of the idle device" if taken_off else ""


def _whose(report: RunReport) -> str:
    return f" of {sensors(report.device)}" if _of_others(report) else ""


def in_words(shown: Shown) -> str:
    """A figure inside a sentence: with its status, unless a sensor or a clock gave it."""
    return shown.text if shown.missing else f"{shown.value}{_aside(shown)}"


def _aside(shown: Shown) -> str:
    """Interval and status in brackets."""
    status = "" if shown.status in ("measured", "counted") else shown.status
    inside = [part for part in (shown.interval, status) if part]
    return f" ({'; '.join(inside)})" if inside else ""


def _ran(report: RunReport, what: str) -> str:
    if report.imported:
        return f"{what} was recorded by other tools: {_files(report)}."
    engine, *rest = setting(report) or [""]
    how = f" with {engine}" if engine else ""
    how += f" ({', '.join(rest)})" if rest else ""
    device = host(report.device)
    where = plain(device.get("cpu") or device.get("model") or "")
    where += f", a {virtuality(report.device)}" if where and virtuality(report.device) else ""
    there = sensors(report.device)
    whose = f" Power, temperature, clocks and load are those of {there}." if there else ""
    return f"{what} was trained{how}{f' on {where}' if where else ''}.{whose}"


def imported_from(report: RunReport) -> str:
    """The files of other tools that a run was made of, with their formats; "" for none."""
    return _files(report) if report.imported else ""


def _files(report: RunReport) -> str:
    imported = report.imported
    entries = [imported.get("trace") or {}, *(imported.get("telemetry") or ())]
    words = [_file(entry) for entry in entries if entry]
    return " and ".join(words) or "their files are not recorded"


def _file(entry: ImportedFile) -> str:
    name, form = plain(entry.get("file") or ""), plain(entry.get("format") or "")
    return f"{form} ({name})" if form and name else form or name or "a file"


def _without(report: RunReport) -> str:
    """Reason why all figures of a step are missing, said once."""
    shown = show_metric(report.metrics, "step_time")
    if not report.imported or shown is None or not shown.missing:
        return ""
    return f"Nothing can be said of a step: {shown.reason.rstrip('.')}."


def _sentence(report: RunReport, name: str, words: str) -> str:
    shown = show_metric(report.metrics, name)
    if shown is None or (shown.missing and shown.reason in _without(report)):
        return ""
    if shown.missing:
        return f"{metric_of(report, name).label} is missing: {shown.reason.rstrip('.')}."
    return f"{words.format(shown.value)}{_aside(shown)}."


def _costliest(report: RunReport) -> str:
    row = max(report.operations, key=lambda row: row.figures.value("time") or 0.0, default=None)
    if row is None or row.time is None or row.time.missing:
        return ""
    shown = show(row.time)
    place = ", ".join(plain(part) for part in (row.layer, row.phase) if part)
    named = plain(row.name) + (f" ({place})" if place else "")
    figure = row.figures.figure("share")
    share = None if figure is None else show(figure)
    part = f", {share.value} of it" if share and not share.missing else ""
    of = "the recording" if report.operations_of == RECORDING else "a step"
    return f"Most time went to {named}: {shown.value} of {of}{_aside(shown)}{part}."


def _stand_in(facts: DataFacts) -> str:
    return f"a stand-in for {plain(facts.stands_for)}" if facts.stands_for else "a stand-in"


def _stolen(report: RunReport) -> str:
    steal = show_metric(report.metrics, "steal")
    if steal is None:
        return "CPU time stolen by the hypervisor is unknown"
    if steal.missing:
        return f"CPU time stolen by the hypervisor is missing: {steal.reason}"
    return f"CPU time stolen by the hypervisor: {in_words(steal)}"
