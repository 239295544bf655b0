"""Energy over time: from counters, from sampled power, or from a model of the cores' activity that is marked as such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.recorded.calibration import Calibration
from wattstep.recorded.calibration import calibrated as corrected
from wattstep.recorded.clock_error import ADVICE, ClockError
from wattstep.recorded.curves import Curve, add_curves
from wattstep.recorded.stretches import Stretches
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Status, weakest
from wattstep.schema.settings import PowerModel
from wattstep.schema.spelling import rounded
from wattstep.stats.student import NORMAL

WAITING_S = 0.02  # that a value may wait until it is shown
UNKNOWN_S = 0.1  # that a gauge may be late whose averaging window is not documented
UPDATES = 5  # of its source that clean time must hold, for a mean power to be one
NOT_MEASURED = "computed from {}, not measured"
NEVER_COUNTED = "{} showed the same value at every read: it may be dead, or its step is more than all that was used"
HOLE = 20.0  # median spacings: single samples were not kept in a longer one
NEXT = "; "  # between one thing that a note says and the next
# 95 % of a sum of errors that each lie anywhere in half a step: 1.96 of their standard deviations.
_OF_SQUARES = NORMAL / math.sqrt(3)


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergySource:
    """Cumulative energy in J, with what stands behind it.

    Attributes:
        curve: Energy since its first sample.
        gauge: The samples of power (t_ns, W) that it integrates, or None for a counter.
        status: "measured", "replayed" or "modelled".
        source: Sensor or model.
        note: What the reader must know, or None.
        carries_s: The shortest time in s whose energy it can tell from that of the time beside it:
            the update interval that was seen, or the window that it averages over; 0: no limit.
        limit: Why that is so, in words: "VDD_IN gave a new value every 422 ms"; "" for no limit.
        resolution: Smallest step that was seen (W of a gauge, J of a counter), or None.
        systematic: Relative error (95 %) of gain and offset, where it was calibrated, or None.
        half_step_w: How far its power may lie beside the truth because it goes in steps, in W. It
            does not get less where values go up and down: whether a chip rounds or cuts off is
            nowhere documented. 0 for counters, whose steps many steps of training share.
        clock: How far its clock may lie beside that of the steps; None: it is the same clock.
        window_s: Time in s that it averages over before each value, where that is documented.
        prompt: Whether it is up to date whenever it is read: a counter that every read found changed.
        sensed: Whether a sensor gave it, which shows power late and averaged; a model of the cores'
            activity has the power of what runs at each moment.
        saturated: Why it shows less than there is: it was at the end of its range; None where it was
            not.
        slow_s: Update interval that was seen, where it is longer than the time between reads; else 0.
        observed_share: Part of the time in which its sensor looks; None: not known, or all of it.
        thinned: Whether single samples were not kept of all of its time (`--keep`).
        stretches: What stands for them, of one gauge; None: there are none.
        beside: What else may be right: another channel of the same supply that contradicts this one,
            the count of a counter that may have been stuck; intervals hold all of it.
    """

    curve: Curve
    status: Status
    source: str
    gauge: tuple[IntArray, FloatArray] | None = None
    note: str | None = None
    carries_s: float = 0.0
    limit: str = ""
    resolution: float | None = None
    systematic: float | None = None
    half_step_w: float = 0.0
    clock: ClockError | None = None
    window_s: float | None = None
    prompt: bool = False
    sensed: bool = True
    slow_s: float = 0.0
    saturated: str | None = None
    observed_share: float | None = None
    thinned: bool = False
    stretches: Stretches | None = None
    beside: tuple[Curve, ...] = ()

    @property
    def by_regression(self) -> bool:
        """True if regression over many steps, and not overlap in time, tells what operations take.

        What a sensor shows late and averaged must be taken apart, more so where its clock may lie
        beside that of the steps. A model of the cores has the power of what runs.
        """
        return self.sensed

    @property
    def late_s(self) -> tuple[float, float]:
        """Delay of the sensor's power in s: likely, and at most.

        An average over some time shows the power of its middle, on the whole; what else a value
        waits for (conversion, a bus, a driver) is hardly ever documented.
        """
        if not self.sensed:
            return 0.0, 0.0
        if self.gauge is None:
            return 0.0, WAITING_S + self.slow_s
        if self.window_s is None:
            return 0.0, max(UNKNOWN_S, WAITING_S + self.slow_s)
        late = 0.0 if self.clock is not None and self.clock.centred else self.window_s / 2
        return late, late + WAITING_S + self.slow_s

    @property
    def mixes_s(self) -> float:
        """Time in s that one of its values mixes: a window, an update, what lies between two reads.

        What an undocumented gauge averages over is no longer than it may be late.
        """
        t_ns = self.curve.t_ns if self.gauge is None else self.gauge[0]
        lengths = np.diff(t_ns)
        if (
            self.thinned and self.gauge is not None
        ):  # where single samples were not kept, one is NaN
            known = np.isfinite(self.gauge[1])
            lengths = lengths[known[1:] & known[:-1]]
        spacing = float(np.median(lengths)) * 1e-9 if len(lengths) else 0.0
        window = self.window_s or 0.0
        if self.gauge is not None and self.window_s is None:
            window = UNKNOWN_S
        return max(spacing, window if self.sensed else 0.0, self.slow_s)

    def sampling_error(self, begin_ns: IntArray, end_ns: IntArray) -> float:
        """Energy in J (95 %) that spans may have beyond what samples of a gauge say, all together.

        What a value says of the time up to the next is off by as much as the next differs from it:
        for n values that differ at random, the spacing times their deviation times the root of n.

        Args:
            begin_ns: Begin of each span.
            end_ns: Their ends.
        """
        if self.gauge is None or not self.sensed:
            return 0.0
        t_ns, power = self.gauge
        known = np.isfinite(power)
        t_ns, power = t_ns[known], power[known]
        length = np.diff(t_ns) * 1e-9
        change = np.diff(power) * length
        change[np.diff(self.curve.covered_at(t_ns)) == 0] = 0.0  # a gap, which is in no energy
        if self.thinned:  # as in the samples on either side
            alone = length > HOLE * float(np.median(length))
            seen = change[~alone] ** 2 / length[~alone]
            change[alone] = np.sqrt(float(seen.mean()) * length[alone]) if len(seen) else np.nan
        squares = np.concatenate([[0.0], np.cumsum(change**2)])
        first = np.clip(np.searchsorted(t_ns, begin_ns, side="right") - 1, 0, None)
        last = np.clip(np.searchsorted(t_ns, end_ns), 0, len(t_ns) - 1)
        inside = float((squares[last] - squares[first]).clip(0.0).sum())
        return NORMAL * math.sqrt(inside / 2)

    def highest_near(self, t_ns: IntArray, within_s: float) -> FloatArray:
        """The highest power in W that it shows within so many s of each time.

        Args:
            t_ns: Times, shape (n,).
            within_s: Before and after.
        """
        times, power = self._powers()
        power = np.append(np.nan_to_num(power), 0.0)  # a slice may begin behind the last
        within = round(within_s * 1e9)
        first = np.searchsorted(times, t_ns - within)
        # The value behind the span covers its end, too.
        last = np.minimum(np.searchsorted(times, t_ns + within, side="right") + 1, len(times))
        edges = np.stack([np.minimum(first, len(times)), np.maximum(last, first + 1)], axis=1)
        highest: FloatArray = np.maximum.reduceat(power, np.minimum(edges, len(times)).ravel())[::2]
        return highest

    def _powers(self) -> tuple[IntArray, FloatArray]:
        """Times, and the highest power in W since the one before: of samples, and of what stands for thinned ones."""
        if self.gauge is None:
            return self.curve.t_ns, self.curve.rates()
        if self.stretches is None:
            return self.gauge
        known = self.stretches.known
        begin, end, first, most = (
            getattr(self.stretches, name)[known] for name in ("begin_ns", "end_ns", "first", "most")
        )
        # At its end before the sample there, which says nothing of the time before.
        times = np.concatenate([begin, begin + 1, end, self.gauge[0]])
        power = np.concatenate([first, most, most, self.gauge[1]])
        order = np.argsort(times, kind="stable")
        return times[order], power[order]

    @property
    def shortest(self) -> tuple[float, str]:
        """The shortest time in s whose energy can be told apart, clocks included, and why."""
        limits = [(self.carries_s, self.limit)]
        if self.clock is not None:
            limits.append((self.clock.seconds, self.clock.words))
        return max(limits)

    def systematic_at(self, watts: float) -> float | None:
        """Relative error (95 %) of a power that it gives: of its calibration and of its steps.

        Args:
            watts: The power in W; relative to 0, an error in W is nothing that can be told.
        """
        if not self.half_step_w:
            return self.systematic
        if not watts:
            return None
        return math.hypot(self.systematic or 0.0, self.half_step_w / watts)

    def too_short(self, seconds: float, what: str) -> str | None:
        """Reason why energy in so short a time cannot be determined; None where it can.

        Args:
            seconds: How long it lasts.
            what: What lasts so long: "this operation".
        """
        least, limit = self.shortest
        if seconds >= least:
            return None
        return f"not resolvable: {limit}, {what} lasts {spoken(seconds)}"

    def too_little(self, seconds: float, gain: float) -> str | None:
        """Reason why the energy of clean time as a whole cannot be determined; None where it can.

        Args:
            seconds: Clean time in all.
            gain: Energy in it in J.
        """
        if self.saturated:
            return self.saturated
        if self.sensed and self.gauge is None and not self.curve.total[-1]:
            return NEVER_COUNTED.format(self.source)
        if seconds < UPDATES * self.carries_s:
            return (
                f"not resolvable: {self.limit}, and all that was measured together lasts "
                f"{spoken(seconds)}: {UPDATES} new values are the least; record more steps"
            )
        if self.clock is not None and seconds < UPDATES * self.clock.seconds:
            return (
                f"not resolvable: {self.clock.words}, and all that was measured together lasts "
                f"{spoken(seconds)}, less than {UPDATES} times as long; {ADVICE}"
            )
        if abs(gain) < self.half_step_w * seconds:
            return (
                f"not resolvable: {self.source} goes in steps of {rounded(2 * self.half_step_w)} W"
            )
        if self.resolution is None or not self.carries_s:
            return None
        least = self.resolution if self.gauge is None else self.resolution * seconds
        if gain < least:
            unit = "J" if self.gauge is None else "W"
            return (
                f"not resolvable: {self.source} goes in steps of {rounded(self.resolution)} {unit}"
            )
        return None


def spoken(seconds: float) -> str:
    """A time in s as words for a sentence: "422 ms", "8.3 µs"."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if abs(seconds) * factor >= 1:
            return f"{rounded(seconds * factor)} {unit}"
    return f"{rounded(seconds * 1e6)} µs"


def calibrated(source: EnergySource, by: Calibration) -> EnergySource:
    """Source calibrated by the meter, with the remaining uncertainty as its systematic part."""
    curve = source.curve
    seconds = float(curve.covered_ns[-1]) * 1e-9 if len(curve.t_ns) else 0.0
    own_w = float(curve.total[-1]) / seconds if seconds > 0 else by.center_w
    gauge, stretches = source.gauge, source.stretches
    words = (
        f"calibrated against an external meter: {rounded(by.gain, 4)} × + {rounded(by.offset_w)} W"
    )
    return replace(
        source,
        curve=corrected(curve, by),
        gauge=None if gauge is None else (gauge[0], by.gain * gauge[1] + by.offset_w),
        resolution=None if source.resolution is None else source.resolution * abs(by.gain),
        half_step_w=source.half_step_w * abs(by.gain),
        source=f"{source.source}, {words}",
        systematic=by.systematic(own_w),
        stretches=None
        if stretches is None
        else replace(stretches, most=by.gain * stretches.most + by.offset_w),
        beside=tuple(corrected(curve, by) for curve in source.beside),
    )


def summed(sources: Sequence[EnergySource]) -> EnergySource:
    """The sum of rails that together make a whole; a gap in one is a gap in the sum.

    It is as weak as the weakest of them, and as slow as the slowest.
    """
    if len(sources) == 1:
        return sources[0]
    slowest = max(sources, key=lambda source: source.carries_s)
    windows = {source.window_s for source in sources}
    quanta = [source.resolution for source in sources if source.resolution is not None]
    return EnergySource(
        curve=add_curves([source.curve for source in sources]),
        gauge=_summed_gauge(sources),
        status=weakest(source.status for source in sources),
        source=" + ".join(source.source for source in sources),
        note=_common_note(sources),
        carries_s=slowest.carries_s,
        limit=slowest.limit,
        resolution=max(quanta, default=None),
        systematic=_summed_systematic(sources),
        half_step_w=_summed_half_step([source.half_step_w for source in sources]),
        window_s=windows.pop() if len(windows) == 1 else None,
        prompt=all(source.prompt for source in sources),
        sensed=all(source.sensed for source in sources),
        slow_s=max(source.slow_s for source in sources),
        observed_share=min(
            (source.observed_share for source in sources if source.observed_share is not None),
            default=None,
        ),
        saturated=next((source.saturated for source in sources if source.saturated), None),
        thinned=any(source.thinned for source in sources),
        stretches=_summed_stretches([source.stretches for source in sources]),
        beside=tuple(
            add_curves([next(iter(s.beside[at : at + 1]), s.curve) for s in sources])
            for at in range(max(len(source.beside) for source in sources))
        ),
    )


def _summed_stretches(parts: Sequence[Stretches | None]) -> Stretches | None:
    """Those of the first with the sum of the highest powers; None where they are not of the same times."""
    first = parts[0]
    if first is None:
        return None
    alike = [
        each
        for each in parts
        if each is not None
        and np.array_equal(each.begin_ns, first.begin_ns)
        and np.array_equal(each.end_ns, first.end_ns)
    ]
    if len(alike) < len(parts):
        return None
    return replace(first, most=np.sum([each.most for each in alike], axis=0))


def _common_note(sources: Sequence[EnergySource]) -> str | None:
    """Notes that all parts share, said of their sum; others stand with each part."""
    notes = [dict.fromkeys((source.note or "").split(NEXT)) for source in sources]
    common = [part for part in notes[0] if part and all(part in note for note in notes)]
    return NEXT.join(common) or None


def _summed_half_step(halves: Sequence[float]) -> float:
    """Errors of rounding fall either way: in squares, and never more than all of them together."""
    return min(sum(halves), _OF_SQUARES * math.hypot(*halves))


def _summed_systematic(sources: Sequence[EnergySource]) -> float | None:
    """Errors of gain may all point the same way: they add up, each by its share of the energy."""
    known = [source for source in sources if source.systematic is not None]
    if not known:
        return None
    energies = [float(source.curve.total[-1]) for source in sources]
    whole = sum(energies)
    parts = (s.systematic * e for s, e in zip(sources, energies, strict=True) if s.systematic)
    return sum(parts) / whole if whole > 0 else None


def _summed_gauge(sources: Sequence[EnergySource]) -> tuple[IntArray, FloatArray] | None:
    """The samples of power of all of them at the times of the first; None where one is a counter."""
    gauges = [source.gauge for source in sources]
    first = gauges[0]
    if first is None or any(gauge is None for gauge in gauges):
        return None
    t_ns, total = first[0], np.zeros(len(first[0]))
    for gauge in gauges:
        assert gauge is not None
        times, power = gauge
        # A failed read stays one: NaN spreads to its neighbours.
        total = total + np.interp(t_ns - t_ns[0], times - t_ns[0], power)
    return t_ns, total


def modelled(cpu: Curve, model: PowerModel, read: str) -> EnergySource:
    """Energy of one training by a linear model of the cores, whatever else the machine does.

    Each second of CPU time costs what a busy core takes: the dynamic part (busy less idle watts),
    and of the machine's idle power the share that the training occupies, its CPU time over that of
    all cores. Idle watts of cores that it does not use, and what other programs use, are not its
    own: they are in `modelled_machine`.

    Args:
        cpu: CPU time of the training and its children in s.
        model: Watts of an idle and of a busy core.
        read: Where the CPU time was read.
    """
    idle, full = model.idle_watts_a_core, model.busy_watts_a_core
    note = f"{NOT_MEASURED.format('the CPU time of the training')}; {model.source}"
    if read_every := _spacing_s(cpu):
        note += (
            f"{NEXT}its CPU time is known every {spoken(read_every)}: what is shorter shares the "
            "power of what ran in the same time"
        )
    name = (
        f"power model {model.name}: {full:g} W for each core that the training kept busy "
        f"({read}), of it {idle:g} W as its share of the idle power"
    )
    curve = replace(cpu, total=full * cpu.total, unit="J")
    return EnergySource(curve=curve, status=Status.MODELLED, source=name, note=note, sensed=False)


def modelled_machine(busy: Sequence[Curve], model: PowerModel) -> EnergySource:
    """Energy of all cores by the same model: idle watts always, the rest while a core is busy.

    Args:
        busy: Busy time of each core in s.
        model: As `modelled`.
    """
    idle, full = model.idle_watts_a_core, model.busy_watts_a_core
    parts = []
    for curve in busy:
        elapsed = curve.covered_ns * 1e-9
        energy = idle * elapsed + (full - idle) * np.minimum(curve.total, elapsed + 0.01)
        parts.append(
            EnergySource(
                curve=replace(curve, total=energy, unit="J"), status=Status.MODELLED, source=""
            )
        )
    name = f"power model {model.name}: {idle:g} to {full:g} W a core over busy time of cores"
    note = (
        f"{NOT_MEASURED.format('the activity of the cores')}; {model.source}{NEXT}all that the "
        "machine does, other programs with it"
    )
    return EnergySource(
        curve=summed(parts).curve, status=Status.MODELLED, source=name, note=note, sensed=False
    )


def _spacing_s(curve: Curve) -> float:
    """Time in s between samples, each stretch weighed by its length; 0 for fewer than two."""
    gaps = np.diff(curve.t_ns).astype(np.float64)
    return float(np.average(gaps, weights=gaps)) * 1e-9 if gaps.any() else 0.0
