"""The table of what fits: workloads by batch size, from the result of a sweep; nothing is measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wattstep.report.machines import UNKNOWN
from wattstep.report.ranges import with_ranges, without_numbers
from wattstep.report.values import Shown, brief, plain, quantity, show
from wattstep.schema.ceilings import spoken_threads
from wattstep.schema.configuration import NOT_TOLD
from wattstep.schema.outcome import Outcome
from wattstep.schema.run_documents import MeasuringMachine
from wattstep.schema.sweep_report import SweepReport

# Workload, threads, precision, device, state, engine: `Configuration.family`.
Family = tuple[str, int | None, str, str | None, str, str]

TRAINED: Final = "trained"
OUT_OF_MEMORY: Final = "out of memory"
BOARD: Final = "Jetson TX2 with 8 GB"
_RUN_AGAIN: Final = ("", "interrupted", "unrecorded")
# Beginnings of notes that say nothing of memory at its peak or the time of a step.
_OF_OTHER_FIGURES: Final = (
    "memory by category is not known",
    "traced steps: ",
    "no canary ",
    "the ambient temperature is unknown",
    "whether a fan cools the device is unknown",
)
_QUIET: Final = (TRAINED, "skipped")  # what the table says in full
_MOST_NAMES: Final = 4  # of configurations of which the same is to be said
_NOTHING_TO_SAY: Final = (("Not run yet", "0"), ("Versions", ""))
TELLING: Final = ("threads", "precision", "device", "state", "engine")  # rows of one workload apart


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Outcome of one workload at one batch size.

    Attributes:
        status: Of its repetitions; the one that is not "trained" where they differ; "" for none.
        words: Lines of the cell.
        peak: Peak memory of the middle repetition, or None.
        step: Step time of the middle repetition, or None.
        reason: Why it did not train, or "".
        finite: True if the losses were finite numbers; None: nobody knows.
    """

    status: str
    words: tuple[str, ...]
    peak: Shown | None = None
    step: Shown | None = None
    reason: str = ""
    finite: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row of the table: a workload, with the threads, precision and device that set it apart.

    Attributes:
        title: Title of the workload.
        cells: One for each batch size.
        verdict: "Successful training?", as the paper's Table II asks.
        fits: True if every batch size that the workload takes was trained, as it should.
        paper: Statement of the paper on the workload on its board, or "".
    """

    title: str
    cells: tuple[Cell, ...]
    verdict: str
    fits: bool
    paper: str = ""


@dataclass(frozen=True, kw_only=True)
class FitTable:
    """Rows of workloads, columns of batch sizes.

    Attributes:
        source: Of the rows' `paper`, or "" where none has one.
    """

    batches: tuple[int, ...]
    rows: tuple[Row, ...]
    source: str = ""


def fit_table(sweep: SweepReport) -> FitTable:
    """The table of what fits."""
    batches = sweep.axes.batches
    telling = [key for key in TELLING if len(_values(sweep, key)) > 1]
    families: dict[Family, list[Outcome]] = {family: [] for family in sweep.families}
    for outcome in sweep.outcomes:
        families.setdefault(outcome.configuration.family, []).append(outcome)
    rows = tuple(
        replace(
            _row(family, outcomes, batches, telling),
            paper=plain(sweep.paper.trains.get(family[0], "")),
        )
        for family, outcomes in families.items()
    )
    source = plain(sweep.paper.source) if any(row.paper for row in rows) else ""
    return FitTable(batches=batches, rows=rows, source=source)


def unfit(sweep: SweepReport, *, full: bool = True) -> list[tuple[str, str, list[str]]]:
    """Outcomes that need words: which, why or in which way they ended, and evidence or notes.

    Those of which the same is to be said stand together, also where numbers of their notes differ.

    Args:
        sweep: Its result.
        full: False leaves out the evidence of memory that ran out, which the reason sums up.
    """
    alike: dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]] = {}
    for outcome in sweep.outcomes:
        if outcome.status in _QUIET and not outcome.evidence.notes:
            continue
        ended = plain(outcome.reason) or plain(outcome.status)
        trained = outcome.status == TRAINED  # how it ended is no news
        words = [plain(note) for note in outcome.evidence.notes] if trained else evidence(outcome)
        if outcome.status == OUT_OF_MEMORY and not full:
            words = []
        texts = (ended, *words)
        key = tuple(map(without_numbers, texts)) if trained else texts
        alike.setdefault(key, []).append((brief(outcome.configuration.name), texts))
    return [_told(entries) for entries in alike.values()]


def _told(entries: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, str, list[str]]:
    """Configurations of which the same is to be said, but for numbers."""
    names, texts = zip(*entries, strict=True)
    ended, *words = map(with_ranges, zip(*texts, strict=True))
    return _together(names), ended, words


def _together(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def evidence(outcome: Outcome) -> list[str]:
    """Evidence of how a training process ended, in words."""
    known = outcome.evidence
    message = None if known.said in (None, outcome.reason) else plain(known.said)
    parts = [
        ("exit code {}", known.exit_code),
        ("signal {}", known.signal),
        ("it said: {}", message),
        ("the kernel said: {}", known.kernel and plain(known.kernel)),
        ("{} of its processes killed for memory", known.oom_kills or None),
        ("its cgroup held {} at most", _bytes(known.cgroup_peak)),
        ("most resident memory seen {}", _bytes(known.peak_resident)),
        ("last seen {}", _bytes(known.last_resident)),
        ("begun {} times", outcome.attempts if outcome.attempts > 1 else None),
    ]
    sentences = [text.format(plain(value)) for text, value in parts if value is not None]
    return sentences + [plain(note) for note in known.notes]


def facts(sweep: SweepReport) -> list[tuple[str, str]]:
    """Extent, memory limits and duration of a sweep, by name."""
    outcomes = sweep.outcomes
    limits = list(dict.fromkeys(one.limit for one in outcomes if one.limit))
    asked = sweep.settings.get("memory_limit")
    counts = {
        status: sum(one.status == status for one in outcomes)
        for status in dict.fromkeys(one.status for one in outcomes)
    }
    cooled = sum(one.cooled for one in outcomes)
    sessions = len(sweep.sessions)
    in_sessions = f", in {sessions} turns" if sessions > 1 else ""
    rows = [
        ("Memory limit", "; ".join(plain(each) for each in limits) or _bytes(asked) or "none"),
        (
            "Outcomes",
            ", ".join(f"{count} {plain(status)}" for status, count in counts.items()) or "none",
        ),
        ("Not run yet", str(sweep.planned - len(outcomes))),
        ("Whole sweep took", spell_duration(sweep.duration) + in_sessions),
        ("Of that, cool-down", spell_duration(cooled) if cooled else "none"),
        ("Machine", _machines(sweep)),
        ("Versions", _versions(outcomes)),
    ]
    return [(name, text) for name, text in rows if (name, text) not in _NOTHING_TO_SAY]


def spell_duration(seconds: float) -> str:
    """A duration as people say it: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    minutes, left_s = divmod(whole, 60)
    hours, left_min = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left_min} min"
    return f"{minutes} min {left_s} s" if minutes else f"{whole} s"


def setting_words(name: str, value: Any) -> str:
    """A value of `TELLING` as a title has it: "1 thread", "bf16", "on board-2"."""
    if name == "threads":
        return "default threads" if value is None else spoken_threads(value)
    return f"on {value}" if name == "device" else str(value or "default")


def _values(sweep: SweepReport, key: str) -> Sequence[Any]:
    """Values of the axis of a field of a configuration."""
    values: Sequence[Any] = getattr(sweep.axes, "threads" if key == "threads" else f"{key}s")
    return values


def _row(
    family: Family,
    outcomes: Sequence[Outcome],
    batches: Sequence[int],
    telling: Sequence[str],
) -> Row:
    values = dict(zip(TELLING, family[1:], strict=True))
    words = [setting_words(name, values[name]) for name in telling]
    cells = tuple(
        _cell([one for one in outcomes if one.configuration.batch_size == batch])
        for batch in batches
    )
    fits, verdict = _verdict(cells, batches)
    title = ", ".join([plain(family[0]), *(plain(word) for word in words)])
    return Row(title=title, cells=cells, verdict=verdict, fits=fits)


def _cell(outcomes: Sequence[Outcome]) -> Cell:
    if not outcomes:
        return Cell(status="", words=("not run yet",))
    other = [one for one in outcomes if one.status != TRAINED]
    if other:
        first = other[0]
        steps = first.evidence.steps
        words = [plain(first.status)]
        if first.status in (OUT_OF_MEMORY, "crashed", "killed"):
            words.append(f"after {steps} step{'s' * (steps != 1)}" if steps else "never started")
        if len(other) < len(outcomes):
            words.append(f"{len(outcomes) - len(other)} of {len(outcomes)} trained")
        return Cell(status=first.status, words=tuple(words), reason=plain(first.reason))
    middle = sorted(outcomes, key=_seconds)[(len(outcomes) - 1) // 2]
    peak, step = (_shown(middle, name) for name in ("peak_memory", "step_time"))
    words = [shown.value for shown in (peak, step) if shown is not None]
    finite_losses = {one.finite for one in outcomes}
    finite = False if False in finite_losses else None if None in finite_losses else True
    if finite is False:
        words.append("loss not finite")
    elif not all(note.startswith(_OF_OTHER_FIGURES) for note in middle.evidence.notes):
        words.append("see its notes")
    return Cell(
        status=TRAINED, words=tuple(words) or (TRAINED,), peak=peak, step=step, finite=finite
    )


def _shown(outcome: Outcome, name: str) -> Shown | None:
    figure = outcome.figure(name)
    return None if figure is None else show(figure)


def _verdict(cells: Sequence[Cell], batches: Sequence[int]) -> tuple[bool, str]:
    """Of the batch sizes that the workload takes at all: refused ones do not count."""
    tried = [(cell, batch) for cell, batch in zip(cells, batches, strict=True)]
    tried = [(cell, batch) for cell, batch in tried if cell.status != "refused"]
    if not tried:
        return False, "refused"
    if any(cell.status in _RUN_AGAIN for cell, _ in tried):
        return False, "not known yet"
    trained = [batch for cell, batch in tried if cell.status == TRAINED]
    if not trained:
        return False, "no"  # its cells say how it ended
    strange = [batch for cell, batch in tried if cell.finite is False]
    all_of_them = len(trained) == len(tried)
    if all_of_them:
        least = f", from batch {tried[0][1]}" if tried[0][1] != batches[0] else ""
        words = f"{'fits' if strange else 'yes'}{least}"
    elif trained == [batch for _, batch in tried][: len(trained)]:
        words = f"up to batch {trained[-1]}"
    else:
        words = f"at batch {_listed(trained)} only"
    if strange:
        where = "" if strange == trained else f" at batch {_listed(strange)}"
        words += f", but the loss is not finite{where}"
    return all_of_them and not strange, words


def _listed(batches: Sequence[int]) -> str:
    return ", ".join(map(str, batches))


def _seconds(outcome: Outcome) -> float:
    figure = outcome.figure("step_time")
    return (figure.value or 0.0) if figure is not None else 0.0


def _machines(sweep: SweepReport) -> str:
    """The machine, or that of each device of a cluster."""
    devices = {
        one.configuration.device: one.machine
        for one in sweep.outcomes
        if one.configuration.device is not None and one.machine
    }
    parts = [f"{plain(device)}: {_machine(machine)}" for device, machine in devices.items()]
    return "; ".join(parts) or _machine(sweep.machine)


def _machine(machine: MeasuringMachine) -> str:
    spelt = {"cores": "{} cores", "memory": "{} of memory"}
    words = [
        spelt.get(key, "{}").format(_bytes(machine["memory"]) if key == "memory" else plain(fact))
        for key, fact in machine.items()
        if fact not in (None, UNKNOWN, NOT_TOLD) and key != "gpus"
    ]
    return ", ".join([*words, *map(plain, machine.get("gpus", ()))])


def _versions(outcomes: Sequence[Outcome]) -> str:
    """Versions of the software that measured, with counts where they differ."""
    counts = Counter(
        ", ".join(f"{plain(part)} {plain(version)}" for part, version in one.versions.items())
        for one in outcomes
        if one.versions
    )
    if len(counts) < 2:
        return "".join(counts)
    return "; ".join(f"{words} ({count} outcomes)" for words, count in counts.items())


def _bytes(size: int | None) -> str | None:
    return None if size is None else quantity(size, "B")
