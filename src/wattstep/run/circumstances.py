"""What surrounded each moment of a run, as far as its samples tell: what slow operations may coincide with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.analysis.curves import Curve, add_curves
from wattstep.analysis.disturbance import OTHER_CORES, STOLEN, WINDOW_NS, other_cpu
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray, Steps
from wattstep.analysis.throttling import Stretch, overlapping
from wattstep.analysis.variation import DEVIATIONS, SLOW, TO_NORMAL
from wattstep.records.channel import Channel
from wattstep.records.journal import Mark
from wattstep.run.conditions import NO_EVIDENCE, Conditions, around_training, own_curves
from wattstep.run.imported import UNKNOWN
from wattstep.run.reading import Marks
from wattstep.run.series import Series

USUAL = 0.25  # quantile of the steps that is taken as usual: up to three quarters may be unusual
TIMES = 2.0  # as much as is usual
LEAST_COVERED = 0.5  # of an interval
LOW_CLOCK = 0.9  # of the highest usual clock
AFTER_WINDOW = 5  # steps after a traced one
FAULT_S = (
    3e-6  # the most that a minor page fault takes: 2.7 µs in a virtual machine (docs/variance.md)
)
Rate = Callable[[IntArray, IntArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Circumstance:
    """Something that held at some times of a run and not at others.

    Attributes:
        name: In JSON.
        words: What went on, after "while": "the main thread waited for a core".
        source: What tells of it.
        every_s: How far apart it is seen: what is shorter cannot be told apart; 0: exact.
        rate: How much of it there was, for begin and end of intervals in ns; NaN where not known.
        least: The rate from which on it holds, whatever is usual.
        relative: Whether it must be twice what is usual, too.
        cost_s: The most time that a unit of what the rate counts takes, in s; 0: not known.
        leaves_out: Phase whose operations it is made of.
    """

    name: str
    words: str
    source: str
    every_s: float
    rate: Rate
    least: float
    relative: bool = False
    cost_s: float = 0.0
    leaves_out: str = ""

    def seen(self, start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        """The rate in intervals, of which some may have no length; NaN where not known."""
        return self.rate(start_ns, np.maximum(end_ns, start_ns + 1))

    def limit(self, rates: FloatArray) -> float:
        """The rate from which on it holds.

        Args:
            rates: In all intervals that are compared; NaN where not known.
        """
        known = rates[np.isfinite(rates)]
        if not self.relative or not len(known):
            return self.least
        return max(self.least, TIMES * float(np.quantile(known, USUAL)))

    def holds(self, start_ns: IntArray, end_ns: IntArray, usual_s: float) -> FloatArray:
        """1 where it holds in an interval, 0 where not, NaN where that is not known.

        Where a unit of it costs a known time at most, there must also be enough of it, as far
        apart as it is seen, to make what usually takes `usual_s` half as long again.

        Args:
            start_ns: Begin of intervals that are compared with each other.
            end_ns: Their ends.
            usual_s: Their median length in s.
        """
        rates = self.seen(start_ns, end_ns)
        held = rates >= self.limit(rates)
        if self.cost_s:
            seconds = np.maximum((end_ns - start_ns) * 1e-9, self.every_s)
            held &= rates * seconds * self.cost_s >= (SLOW - 1.0) * usual_s
        return np.where(np.isfinite(rates), held.astype(np.float64), np.nan)


@dataclass(frozen=True, kw_only=True)
class Unwatched:
    """Something that may have gone on and that nothing tells of."""

    name: str
    words: str
    reason: str


def circumstances(
    series: Series, conditions: Conditions, marks: Marks
) -> tuple[list[Circumstance], list[Unwatched]]:
    """What can be told of, and what cannot and why.

    Args:
        series: The samples.
        conditions: Stretches of throttling and of disturbance.
        marks: Of phases.
    """
    found = [
        *_counters(series), *_taken(series, conditions), _throttled(series, conditions),
        _frequency(series),
        *_of_steps(series.steps, marks), GARBAGE,
    ]  # fmt: skip
    return (
        [one for one in found if isinstance(one, Circumstance)],
        [one for one in found if isinstance(one, Unwatched)],
    )


# --- counters ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Counter:
    """A counter whose growth in a second tells of something."""

    name: str
    role: str
    channel: str
    words: str
    least: float
    relative: bool
    cost_s: float = 0.0


COUNTERS: Final = (
    _Counter(
        name="core_wait", role="core_wait", channel="",
        words="the main thread waited for a core", least=0.02, relative=True, cost_s=1.0,
    ),
    _Counter(
        name="involuntary_switches", role="nonvoluntary_switches", channel="",
        words="the main thread was taken off its core", least=5.0, relative=True,
    ),
    _Counter(
        name="minor_faults", role="minor_faults", channel="",
        words="the training touched fresh memory (minor page faults)", least=5000.0, relative=True,
        cost_s=FAULT_S,
    ),
    _Counter(
        name="major_faults", role="major_faults", channel="",
        words="memory was read from the disk (major page faults)", least=1e-9, relative=False,
    ),
    _Counter(
        name="memory_pressure", role="pressure", channel="pressure.memory.some",
        words="tasks waited for memory", least=0.01, relative=False,
    ),
    _Counter(
        name="disk_pressure", role="pressure", channel="pressure.io.some",
        words="tasks waited for the disk", least=0.01, relative=True,
    ),
)  # fmt: skip


def _counters(series: Series) -> Iterator[Circumstance | Unwatched]:
    for one in COUNTERS:
        channels = [
            channel for channel in series.with_role(one.role)
            if not one.channel or channel.name == one.channel
        ]  # fmt: skip
        if not channels:
            reason = series.without("this was not sampled, or its channel gave no values")
            yield Unwatched(name=one.name, words=one.words, reason=reason)
            continue
        channel = channels[0]
        alignment = series.alignment(channels)
        if alignment is not None and alignment.uncertainty_s is None:
            yield Unwatched(name=one.name, words=one.words, reason=UNKNOWN)
            continue
        beside = 0.0 if alignment is None else alignment.uncertainty_s or 0.0
        yield Circumstance(
            name=one.name, words=one.words, source=f"{channel.source} ({channel.name})",
            every_s=max(_spacing(series, channel), beside), rate=_rate(series.curve(channel)),
            least=one.least, relative=one.relative, cost_s=one.cost_s,
        )  # fmt: skip


def _spacing(series: Series, channel: Channel) -> float:
    t_ns, value = series.raw(channel.name)
    return float(np.median(np.diff(t_ns[np.isfinite(value)]))) * 1e-9


def _rate(curve: Curve) -> Rate:
    def rate(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        gained, covered = curve.difference(start_ns, end_ns)
        seconds = (end_ns - start_ns) * 1e-9 * np.maximum(covered, LEAST_COVERED)
        found: FloatArray = np.where(covered >= LEAST_COVERED, gained / seconds, np.nan)
        return found

    return rate


def _frequency(series: Series) -> Circumstance | Unwatched:
    words = "the cores' clock was low"
    channels = [c for c in series.with_role("frequency") if c.domain == "cpu"]
    if not channels:
        reason = series.without("no frequency of a core was sampled")
        return Unwatched(name="low_frequency", words=words, reason=reason)
    rate = _rate(add_curves([series.curve(channel) for channel in channels]))
    steps = series.steps
    seen = rate(steps.start_ns, np.maximum(steps.end_ns, steps.start_ns + 1))
    usual = float(np.nanquantile(seen, 0.95)) if np.isfinite(seen).any() else np.nan

    def below(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        found: FloatArray = usual - rate(start_ns, end_ns)
        return found

    return Circumstance(
        name="low_frequency", words=words, source=", ".join(c.name for c in channels[:2]),
        every_s=max(_spacing(series, c) for c in channels), rate=below,
        least=(1 - LOW_CLOCK) * usual,
    )  # fmt: skip


# --- what else had the cores, and throttling ------------------------------------------------------


def _taken(series: Series, conditions: Conditions) -> Iterator[Circumstance | Unwatched]:
    """What others took of the cores in the half second around: the system's counters go in ticks."""
    others, host = "other processes had the cores", "the hypervisor took cores away"
    system = series.one(around_training(series, "busy_time"))
    if conditions.unseen or system is None:
        reason = conditions.unseen or "busy time of the system was not sampled"
        yield Unwatched(name="other_processes", words=others, reason=reason)
    else:
        own = own_curves(series)

        def by_others(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
            begin, end = _half_second(start_ns, end_ns)
            found: FloatArray = other_cpu(system, own, begin, end) / ((end - begin) * 1e-9)
            return found

        yield Circumstance(
            name="other_processes", words=others, source="/proc/stat less the training's CPU time",
            every_s=WINDOW_NS * 1e-9, rate=by_others, least=OTHER_CORES, relative=True,
        )  # fmt: skip
    steal = series.one(around_training(series, "steal_time"))
    if steal is None:
        reason = series.without("time that the hypervisor took was not sampled")
        yield Unwatched(name="steal", words=host, reason=reason)
        return
    rate = _rate(steal)
    yield Circumstance(
        name="steal", words=host, source="/proc/stat", every_s=WINDOW_NS * 1e-9,
        rate=lambda start_ns, end_ns: rate(*_half_second(start_ns, end_ns)),
        least=STOLEN, relative=True,
    )  # fmt: skip


def _half_second(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Intervals made as long as it takes to see something, around their middles."""
    missing = np.maximum(WINDOW_NS - (end_ns - start_ns), 0) // 2
    return start_ns - missing, end_ns + missing


def _throttled(series: Series, conditions: Conditions) -> Circumstance | Unwatched:
    words = "the device throttled"
    if not conditions.watched:
        return Unwatched(name="throttled", words=words, reason=NO_EVIDENCE)
    mine = [one for one in conditions.stretches if one.kind == "throttled"]
    return _of_stretches("throttled", words, ", ".join(conditions.watched[:3]), mine)


def _of_stretches(name: str, words: str, source: str, stretches: Sequence[Stretch]) -> Circumstance:
    def rate(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        return overlapping(start_ns, end_ns, stretches).astype(np.float64)

    every_s = float(np.median([one.uncertain_s for one in stretches])) if stretches else 0.5
    return Circumstance(
        name=name, words=words, source=source, every_s=every_s, rate=rate, least=0.5
    )


# --- marks of the training itself -------------------------------------------------------------


def _of_steps(steps: Steps, marks: Marks) -> Iterator[Circumstance | Unwatched]:
    rests = [spans for name, spans in steps.rest_ns.items() if name != "startup" and len(spans)]
    words = "an evaluation or another rest had just ended"
    if rests:
        after = _after(steps, np.concatenate(rests))
        yield _by_step("after_rest", words, "marks between steps", steps, after)
    else:
        yield Unwatched(name="after_rest", words=words, reason="there was none between the steps")
    words = "the step had waited long for its data"
    slow = _slow_data(steps, marks)
    if slow is None:
        reason = "the steps carry no mark of a phase called data"
        yield Unwatched(name="slow_data", words=words, reason=reason)
    else:
        source = "marks of the phase data"
        yield _by_step("slow_data", words, source, steps, slow, leaves_out="data")
    if not steps.only_traced and steps.traced.any():
        traced = steps.traced.astype(np.int64)
        recent = np.convolve(traced, np.ones(AFTER_WINDOW + 1, np.int64))[: len(traced)]
        words = f"a traced step was no more than {AFTER_WINDOW} steps before"
        near = (recent - traced > 0).astype(np.float64)
        yield _by_step("after_window", words, "marks of traced steps", steps, near)


def shapes_circumstance(steps: Steps, windows: IntArray, other: BoolArray) -> Circumstance:
    """That the operations of a traced step had other input shapes than those of most.

    Args:
        steps: All steps.
        windows: Rows of the traced steps.
        other: Whether each of these had other shapes.
    """
    held = np.full(len(steps.index), np.nan)
    held[windows] = other
    words = "the step had other input shapes than most"
    return _by_step("other_shapes", words, "trace", steps, held)


def _by_step(
    name: str, words: str, source: str, steps: Steps, held: FloatArray, leaves_out: str = ""
) -> Circumstance:
    """Something that is known of steps as a whole."""

    def rate(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        at = np.searchsorted(steps.start_ns, start_ns, side="right") - 1
        inside = (at >= 0) & (start_ns <= steps.end_ns[np.maximum(at, 0)])
        found: FloatArray = np.where(inside, held[np.maximum(at, 0)], np.nan)
        return found

    return Circumstance(
        name=name, words=words, source=source, every_s=0.0, rate=rate, least=0.5,
        leaves_out=leaves_out,
    )  # fmt: skip


def _after(steps: Steps, spans: IntArray) -> FloatArray:
    """Whether any of these spans ended since the end of the step before."""
    ends = np.sort(spans[:, 1])
    before = np.concatenate([[np.iinfo(np.int64).min], steps.end_ns[:-1]])
    found: BoolArray = np.searchsorted(ends, steps.start_ns, side="right") > np.searchsorted(
        ends, before, side="right"
    )
    return found.astype(np.float64)


def _slow_data(steps: Steps, marks: Marks) -> FloatArray | None:
    """Whether the phase "data" of each step was slow; None where no step has one."""
    phase = marks.kind == Mark.PHASE
    step, t_ns, name = marks.step[phase], marks.t_ns[phase], marks.name[phase]
    if not len(step):
        return None
    last = np.append(step[1:] != step[:-1], True)
    end = np.where(last, steps.end_ns[step], np.append(t_ns[1:], 0))
    mine = name == "data"
    if not mine.any():
        return None
    lasted = (end - t_ns)[mine] * 1e-9
    seconds = np.bincount(step[mine], lasted, minlength=len(steps.index)).astype(np.float64)
    has = np.bincount(step[mine], minlength=len(steps.index)) > 0
    found = np.full(len(seconds), np.nan)
    for alike in (steps.traced, ~steps.traced):  # tracing makes the phase longer
        rows = np.flatnonzero(has & alike & ~steps.warmup)
        if len(rows):
            found[rows] = slow_ones(seconds[rows])
    return found


def slow_ones(seconds: FloatArray) -> BoolArray:
    """Which are slow: beyond 1.5 times their median and three robust standard deviations."""
    median = float(np.median(seconds))
    spread = TO_NORMAL * float(np.median(np.abs(seconds - median)))
    found: BoolArray = seconds > max(SLOW * median, median + DEVIATIONS * spread)
    return found


GARBAGE: Final = Unwatched(
    name="garbage_collection",
    words="Python collected garbage",
    reason="no mark tells when",
)
