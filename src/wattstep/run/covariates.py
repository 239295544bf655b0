"""Covariates of each moment of a run, for slow operations to coincide with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.variation import DEVIATIONS, SLOW, TO_NORMAL
from wattstep.device.disturbance import OTHER_CORES, STOLEN, WINDOW_NS, other_cpu
from wattstep.device.throttling import Stretch, overlapping
from wattstep.recorded.curves import Curve, add_curves
from wattstep.recorded.imported import UNKNOWN
from wattstep.recorded.marks import Marks
from wattstep.recorded.series import Series
from wattstep.recorded.steps import Steps
from wattstep.run.step_flags import NO_EVIDENCE, StepFlags, around_training, own_curves
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.journal import Mark

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
class Covariate:
    """Something that held at some times of a run and not at others.

    Attributes:
        name: In JSON.
        words: What went on, after "while": "the main thread waited for a core".
        source: What tells of it.
        every_s: How far apart it is seen: what is shorter cannot be distinguished; 0: exact.
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
        if (none := end_ns <= start_ns).any():
            end_ns = np.where(none, start_ns + 1, end_ns)
        return self.rate(start_ns, end_ns)

    def limit(self, rates: FloatArray) -> float:
        """The rate from which on it holds.

        Args:
            rates: In all intervals that are compared; NaN where not known.
        """
        if not self.relative:
            return self.least
        known = rates[np.isfinite(rates)]
        if not len(known):
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


def covariates(
    series: Series, flags: StepFlags, marks: Marks
) -> tuple[list[Covariate], list[Unwatched]]:
    """Covariates that are known, and the reason for each that is not.

    Args:
        series: The samples.
        flags: Stretches of throttling and of disturbance.
        marks: Of phases.
    """
    every_covariate = [
        *_counters(series), *_cpu_of_others(series, flags), _throttled(series, flags),
        _frequency(series),
        *_of_steps(series.steps, marks), GARBAGE,
    ]  # fmt: skip
    return (
        [one for one in every_covariate if isinstance(one, Covariate)],
        [one for one in every_covariate if isinstance(one, Unwatched)],
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


def _counters(series: Series) -> Iterator[Covariate | Unwatched]:
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
        yield Covariate(
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
        rates: FloatArray = np.where(covered >= LEAST_COVERED, gained / seconds, np.nan)
        return rates

    return rate


def _frequency(series: Series) -> Covariate | Unwatched:
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
        drop: FloatArray = usual - rate(start_ns, end_ns)
        return drop

    return Covariate(
        name="low_frequency", words=words, source=", ".join(c.name for c in channels[:2]),
        every_s=max(_spacing(series, c) for c in channels), rate=below,
        least=(1 - LOW_CLOCK) * usual,
    )  # fmt: skip


# --- what else had the cores, and throttling ------------------------------------------------------


def _cpu_of_others(series: Series, flags: StepFlags) -> Iterator[Covariate | Unwatched]:
    """CPU time of other processes in the half second around: the system's counters go in ticks."""
    others, host = "other processes had the cores", "the hypervisor took cores away"
    system = series.one(around_training(series, "busy_time"))
    if flags.unseen or system is None:
        reason = flags.unseen or "busy time of the system was not sampled"
        yield Unwatched(name="other_processes", words=others, reason=reason)
    else:
        own = own_curves(series)

        def by_others(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
            begin, end = _half_second(start_ns, end_ns)
            rates: FloatArray = other_cpu(system, own, begin, end) / ((end - begin) * 1e-9)
            return rates

        yield Covariate(
            name="other_processes", words=others, source="/proc/stat less the training's CPU time",
            every_s=WINDOW_NS * 1e-9, rate=by_others, least=OTHER_CORES, relative=True,
        )  # fmt: skip
    steal = series.one(around_training(series, "steal_time"))
    if steal is None:
        reason = series.without("time that the hypervisor took was not sampled")
        yield Unwatched(name="steal", words=host, reason=reason)
        return
    rate = _rate(steal)
    yield Covariate(
        name="steal", words=host, source="/proc/stat", every_s=WINDOW_NS * 1e-9,
        rate=lambda start_ns, end_ns: rate(*_half_second(start_ns, end_ns)),
        least=STOLEN, relative=True,
    )  # fmt: skip


def _half_second(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Intervals made as long as it takes to see something, around their middles."""
    missing = np.maximum(WINDOW_NS - (end_ns - start_ns), 0) // 2
    return start_ns - missing, end_ns + missing


def _throttled(series: Series, flags: StepFlags) -> Covariate | Unwatched:
    words = "the device throttled"
    if not flags.watched:
        return Unwatched(name="throttled", words=words, reason=NO_EVIDENCE)
    mine = [one for one in flags.stretches if one.kind == "throttled"]
    return _of_stretches("throttled", words, ", ".join(flags.watched[:3]), mine)


def _of_stretches(name: str, words: str, source: str, stretches: Sequence[Stretch]) -> Covariate:
    def rate(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        return overlapping(start_ns, end_ns, stretches).astype(np.float64)

    every_s = float(np.median([one.uncertain_s for one in stretches])) if stretches else 0.5
    return Covariate(name=name, words=words, source=source, every_s=every_s, rate=rate, least=0.5)


# --- marks of the training itself -------------------------------------------------------------


def _of_steps(steps: Steps, marks: Marks) -> Iterator[Covariate | Unwatched]:
    spans_apart = [
        spans for name, spans in steps.rest_ns.items() if name != "startup" and len(spans)
    ]
    words = "an evaluation or another rest had just ended"
    if spans_apart:
        after = _after(steps, np.concatenate(spans_apart))
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
        traced = steps.index[steps.traced]
        before = np.searchsorted(traced, steps.index) - 1
        since = steps.index - traced[np.maximum(before, 0)]
        words = f"a traced step was no more than {AFTER_WINDOW} steps before"
        near = ((before >= 0) & (since <= AFTER_WINDOW)).astype(np.float64)
        yield _by_step("after_window", words, "marks of traced steps", steps, near)


def shapes_covariate(steps: Steps, windows: IntArray, other: BoolArray) -> Covariate:
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
) -> Covariate:
    """Something that is known of steps as a whole."""

    def rate(start_ns: IntArray, end_ns: IntArray) -> FloatArray:
        at = np.searchsorted(steps.start_ns, start_ns, side="right") - 1
        before = at < 0
        at[before] = 0
        values: FloatArray = held[at]
        values[before | (start_ns > steps.end_ns[at])] = np.nan
        return values

    return Covariate(
        name=name, words=words, source=source, every_s=0.0, rate=rate, least=0.5,
        leaves_out=leaves_out,
    )  # fmt: skip


def _after(steps: Steps, spans: IntArray) -> FloatArray:
    """1 for steps before which one of these spans ended, later than the step before; else 0."""
    ends = np.sort(spans[:, 1])
    before = np.concatenate([[np.iinfo(np.int64).min], steps.end_ns[:-1]])
    mask: BoolArray = np.searchsorted(ends, steps.start_ns, side="right") > np.searchsorted(
        ends, before, side="right"
    )
    return mask.astype(np.float64)


def _slow_data(steps: Steps, marks: Marks) -> FloatArray | None:
    """1 for steps whose phase "data" was slow, else 0; None where no step has one."""
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
    mask = np.full(len(seconds), np.nan)
    for alike in (steps.traced, ~steps.traced):  # tracing makes the phase longer
        rows = np.flatnonzero(has & alike & ~steps.warmup)
        if len(rows):
            mask[rows] = slow_ones(seconds[rows])
    return mask


def slow_ones(seconds: FloatArray) -> BoolArray:
    """Mask of slow values: beyond 1.5 times their median and three robust standard deviations."""
    median = float(np.median(seconds))
    spread = TO_NORMAL * float(np.median(np.abs(seconds - median)))
    mask: BoolArray = seconds > max(SLOW * median, median + DEVIATIONS * spread)
    return mask


GARBAGE: Final = Unwatched(
    name="garbage_collection",
    words="Python collected garbage",
    reason="no mark tells when",
)
