"""Under which conditions a run's steps were made: throttled, disturbed, or neither, with the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.device.disturbance import CpuOfOthers, cpu_of_others
from wattstep.device.throttling import (
    OWN_ROLES,
    Stretch,
    by_channel,
    held_cap,
    merged,
    overlapping,
    slow_while_busy,
    windows_as_stretches,
)
from wattstep.recorded.curves import Curve, add_curves
from wattstep.recorded.series import Series
from wattstep.recorded.step_stretches import Counted
from wattstep.recorded.steps import SINGLE_STEPS, Steps
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import RECORDING_CPU, Channel
from wattstep.schema.condition_documents import ConditionFacts, GovernorFacts
from wattstep.schema.figure import Status
from wattstep.schema.report_rows import ConditionStretch, RunConditions

EMULATOR = "emulator_cpu_time"  # of ours as well, but none of what recording costs
MOST_SHOWN = 100
SETTLES_NS = 200_000_000  # until a clock follows its cap, and a sample shows it
NO_EVIDENCE = (
    "no sensor shows throttling here: no flag, no cap of the frequency, no temperature with a "
    "known limit, and no frequency of a core beside its busy time"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepFlags:
    """Flags of steps that were slowed down.

    Attributes:
        throttled: Whether each step was, shape (n,).
        disturbed: Likewise.
        stretches: When, by what, with which evidence.
        notes: What else the reader must know: caps that never moved, what was not seen.
        watched: What throttling was looked for in: names of channels.
        unseen: Why nothing can be known of disturbances; None where it can.
    """

    throttled: BoolArray
    disturbed: BoolArray
    stretches: Sequence[Stretch]
    notes: Sequence[str]
    watched: Sequence[str]
    unseen: str | None = None

    def steps(self, names: Sequence[str]) -> BoolArray:
        """Steps in any of the named states."""
        mask: BoolArray = np.zeros(len(self.throttled), bool)
        for name in names:
            mask |= self.throttled if name == "throttled" else self.disturbed
        return mask

    def share(self, counted: Counted, kind: str) -> float:
        """The part of some steps that was "throttled" or "disturbed"; where single ones were not kept, of their time."""
        own = [one for one in self.stretches if one.kind == kind]
        touched = overlapping(counted.start_ns, counted.end_ns, own).astype(np.float64)
        many = np.flatnonzero((counted.steps > 1) & (touched > 0))
        start_ns, end_ns = counted.start_ns[many], counted.end_ns[many]
        lasting = np.zeros(len(many))
        for begin, end in _united(own):
            lasting += np.maximum(np.minimum(end_ns, end) - np.maximum(start_ns, begin), 0)
        touched[many] = lasting / np.maximum(end_ns - start_ns, 1)
        return float((touched * counted.steps).sum()) / max(counted.count, 1)

    def count(self, counted: Counted, kind: str) -> int | None:
        """How many of some steps were; None where that is not known, as single ones were not kept."""
        own = [one for one in self.stretches if one.kind == kind]
        touched = overlapping(counted.start_ns, counted.end_ns, own)
        steps = counted.steps[touched]
        return int(touched.sum()) if (steps == 1).all() else None


def _united(stretches: Sequence[Stretch]) -> list[tuple[int, int]]:
    """Begin and end of the times that they are, without what lies in two."""
    united: list[tuple[int, int]] = []
    for begin, end in sorted((one.start_ns, one.end_ns) for one in stretches):
        if united and begin <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], end)
        else:
            united.append((begin, end))
    return united


def find_step_flags(series: Series, cores: int, governor: GovernorFacts | None = None) -> StepFlags:
    """Conditions of every step by the samples.

    Args:
        series: The samples.
        cores: How many the machine that trains has.
        governor: What capped the clocks on purpose, which is no throttling; None: nothing did.
    """
    steps = series.steps
    throttling, watched, notes = _throttling(series, governor)
    unseen = not_comparable(series)
    stretches = merged([*throttling, *_disturbances(series, cores)])
    if not watched:
        notes.append(NO_EVIDENCE)
    if unseen:
        notes.append(f"whether anything disturbed the steps is not known: {unseen}")
    return StepFlags(
        throttled=_touched(steps, stretches, "throttled"),
        disturbed=_touched(steps, stretches, "disturbed"),
        stretches=stretches,
        notes=notes,
        watched=watched,
        unseen=unseen,
    )


def _touched(steps: Steps, stretches: Sequence[Stretch], kind: str) -> BoolArray:
    own = [stretch for stretch in stretches if stretch.kind == kind]
    return overlapping(steps.start_ns, steps.end_ns, own)


def _throttling(
    series: Series, governor: GovernorFacts | None
) -> tuple[list[Stretch], list[str], list[str]]:
    """Stretches, what they were looked for in, and notes."""
    stretches: list[Stretch] = []
    watched: list[str] = []
    notes: list[str] = []
    for channel in series.with_role(*OWN_ROLES):
        if channel.role == "temperature" and channel.limit is None:
            continue
        t_ns, value = _uncapped(channel, *series.course(channel.name, "most")[:2], governor)
        watched.append(channel.name)
        stretches += by_channel(channel, t_ns, value)
        if channel.role == "frequency_cap" and (note := held_cap(channel, value)):
            notes.append(note)
    for channel in series.with_role("frequency"):
        busy = _busy_behind(series, channel)
        if busy is not None:
            watched.append(channel.name)
            t_ns, value = _uncapped(channel, *series.raw(channel.name), governor)
            stretches += slow_while_busy(channel, t_ns, value, busy)
    return stretches, watched, _one_of_each(notes)


def _uncapped(
    channel: Channel, t_ns: IntArray, value: FloatArray, governor: GovernorFacts | None
) -> tuple[IntArray, FloatArray]:
    """A clock or its cap as it would have been without the governor's caps: divided by their share.

    Where it moves just after a change, the lower of the shares before and after counts.
    """
    caps = (governor or {}).get("caps")
    governed = channel.role in ("frequency", "frequency_cap")
    if not caps or not governor or not governed or channel.domain != governor.get("part"):
        return t_ns, value
    times = np.array([at for at, _ in caps], np.int64)
    shares = np.array([1.0, *(share for _, share in caps)])
    now = np.searchsorted(times, t_ns, side="right")
    before = np.searchsorted(times, t_ns - SETTLES_NS, side="right")
    share = np.minimum(shares[now], shares[before])
    highest = float(np.nanmax(value)) if np.isfinite(value).any() else np.inf
    return t_ns, np.minimum(value / share, highest)


def _busy_behind(series: Series, channel: Channel) -> Curve | None:
    """Busy time of what a clock drives: its core, or all cores together where it drives them all."""
    if channel.core is not None:
        return series.core_busy.get(channel.core)
    if channel.domain != "cpu" or not series.core_busy:
        return None
    return add_curves(list(series.core_busy.values()))


def _one_of_each(notes: Sequence[str]) -> list[str]:
    """Of caps that say the same of many cores, the first."""
    notes_by_text: dict[str, str] = {}
    for note in notes:
        notes_by_text.setdefault(note.partition(" ")[2], note)
    return list(notes_by_text.values())


def own_curves(series: Series) -> list[Curve]:
    """CPU time of the training, of the sampler, of its collector and of an emulator."""
    own = [] if series.process_cpu is None else [series.process_cpu[0]]
    ours = (series.one(role) for role in (*RECORDING_CPU, EMULATOR))
    return own + [curve for curve in ours if curve is not None]


def around_training(series: Series, what: str) -> str:
    """The role of "busy_time" or "steal_time" of the machine that trains.

    Beside replayed or emulated sensors that is a machine of its own.
    """
    host = f"host_{what}"
    return host if any(series.with_role(host)) else f"system_{what}"


def not_comparable(series: Series) -> str | None:
    """Reason why other processes cannot be distinguished from the training; None where they can."""
    role = around_training(series, "busy_time")
    if series.one(role) is None:
        return series.without("busy time of the system was not sampled")
    if series.process_cpu is None:
        return "CPU time of the training was not sampled"
    status = series.status_of(role)
    if status is not Status.MEASURED:
        return f"the system's busy time is {status.value} and the training's own is real"
    return None


def _disturbances(series: Series, cores: int) -> list[Stretch]:
    steps, system = series.steps, series.one(around_training(series, "busy_time"))
    if not len(steps.index) or system is None or not_comparable(series):
        return []
    begin, end = int(steps.start_ns[0]), int(steps.end_ns[-1])
    steal = series.one(around_training(series, "steal_time"))
    occupied = cpu_of_others(begin, end, system, own_curves(series), steal, cores)
    return [*_by_others(occupied), *_by_host(occupied)]


def _by_others(occupied: CpuOfOthers) -> list[Stretch]:
    def words(at: slice) -> str:
        seconds = float(occupied.end_ns[at.stop - 1] - occupied.begin_ns[at.start]) * 1e-9
        return f"other processes took {np.nansum(occupied.other_s[at]) / seconds:.2g} cores"

    return windows_as_stretches(
        occupied.begin_ns, occupied.end_ns, occupied.by_others, "other processes", words
    )


def _by_host(occupied: CpuOfOthers) -> list[Stretch]:
    def words(at: slice) -> str:
        seconds = float(occupied.end_ns[at.stop - 1] - occupied.begin_ns[at.start]) * 1e-9
        share = np.nansum(occupied.stolen_s[at]) / seconds / occupied.cores
        return f"the hypervisor took {100 * share:.1f} % of the cores' time"

    return windows_as_stretches(
        occupied.begin_ns, occupied.end_ns, occupied.by_host, "hypervisor", words
    )


def step_flags_report(
    flags: StepFlags, steps: Steps, excluded: tuple[str, ...], recorded: ConditionFacts
) -> RunConditions:
    """Times in s from the begin of the first step, or of a recording without; None: what could not be seen."""
    counted = steps.with_left_out.clean
    disturbed = None if flags.unseen else int((flags.disturbed & counted).sum())
    notes = list(flags.notes)
    if flags.unseen and "disturbed" in excluded:
        notes.append("--exclude disturbed left nothing out: no disturbance could be seen")
    if steps.thinned is not None:
        notes.append(SINGLE_STEPS)
    base, end = steps.span_ns or (0, 0)
    inside = [one for one in flags.stretches if one.end_ns > base and one.start_ns < end]
    return RunConditions(
        throttled_steps=int((flags.throttled & counted).sum()),
        disturbed_steps=disturbed,
        of_steps=int(counted.sum()),
        excluded=excluded,
        watched=tuple(flags.watched),
        stretches=tuple(_stretch(one, base) for one in inside[:MOST_SHOWN]),
        more_stretches=max(len(inside) - MOST_SHOWN, 0),
        notes=tuple(notes),
        recorded=recorded,
    )


def _stretch(stretch: Stretch, base: int) -> ConditionStretch:
    return ConditionStretch(
        start=(stretch.start_ns - base) * 1e-9,
        end=(stretch.end_ns - base) * 1e-9,
        uncertain=stretch.uncertain_s,
        kind=stretch.kind,
        cause=stretch.cause,
        evidence=stretch.evidence,
    )
