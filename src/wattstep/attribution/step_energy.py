"""Mean power and energy a step of what a sensor shows, with intervals as wide as it may be late and may mix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from wattstep.attribution.folding import mean_gain
from wattstep.attribution.part_time import unevenly_seen
from wattstep.attribution.regression.locking import places_seen
from wattstep.recorded.curves import Curve
from wattstep.recorded.power import NEXT, EnergySource, spoken
from wattstep.recorded.step_stretches import Counted
from wattstep.recorded.steps import Steps, slices
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import CLOCK, Figure, Missing, missing
from wattstep.schema.spelling import rounded
from wattstep.stats.statistics import ratio_figure
from wattstep.store.thinning import STRETCH_NS

SLICE_NS = 200_000_000  # power is resampled in slices of clean time of this length or longer
TRIED = 5  # of how late a sensor may be, at least
MOST_TRIED = 101
FEW_SLICES = 10  # of power: fewer tell little of how far samples lie beside the mean
MOST_OFF = 0.5  # of a value without a spread: what may be off by more is not told
LEAST_COVERED = 0.95  # of the time that a figure is of: with less of it sampled, it says so
MIXED_IN = "a value of the sensor may mix in {}"
BETWEEN = (
    "time outside of steps lies between the same samples: the interval reaches {} % further down and "
    "{} % further up"
)


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Power in W and energy a step in J of clean steps.

    `still` is the power as it is where the clocks are right; `moved` is the power with the samples
    moved against the steps, or None where there is one clock.
    """

    power: Figure
    per_step: Figure
    still: Figure
    moved: FloatArray | None


def spent(energy: EnergySource, steps: Steps) -> Spent | Missing:
    """Power and energy a step of the clean steps, or why they cannot be determined."""
    counted = steps.counted
    if not counted.count:
        return Missing(steps.none_clean)
    stretches = steps.stretches()
    parts = steps.slices(_slice_ns(energy))
    power = _power_over(energy, stretches, steps.figures_of, parts)
    gain = counted.mean_gain(energy.curve)
    if power.missing or gain is None:
        return Missing(power.reason or f"no samples of {energy.source} in {steps.figures_of}")
    power = replace(power, reason=joined(power.reason, _mixed(energy, steps)))
    time = counted.mean(counted.seconds, "s", CLOCK, steps.status)
    per_step = product(power, time, "J", f"what {steps.figures_of} gained, mean")
    per_step = _centred(per_step, gain)
    power = _at_ends(_late(power, energy, *_spans(energy, stretches)), energy, steps)
    per_step = _late(per_step, energy, *_of_steps(energy, counted))
    per_step = _at_ends(_beside(per_step, energy, steps), energy, steps)
    power, per_step = (_in_part(each, energy, steps) for each in (power, per_step))
    alike = _repeats(energy, steps.start_ns[steps.clean], steps.end_ns[steps.clean])
    if len(parts) < FEW_SLICES or alike > 1:
        power, per_step = (_by_chance(each, energy, stretches, alike) for each in (power, per_step))
    if len(parts) == 1 and (reason := _too_loose(per_step, energy, stretches, steps.figures_of)):
        return Missing(reason)
    still, moved = power, None
    if energy.clock is not None:
        gains = _moved(energy, _of_steps(energy, counted)[0])
        seconds = float(np.mean(stretches[:, 1] - stretches[:, 0])) * 1e-9
        moved = _moved(energy, _spans(energy, stretches)[0]) / seconds
        power = energy.clock.applied(power, moved)
        per_step = energy.clock.applied(per_step, gains)
    spans = np.stack([counted.start_ns, counted.end_ns], axis=1)
    return Spent(
        power=holding_both(power, energy, stretches),
        per_step=holding_both(per_step, energy, spans, time.value or 0.0),
        still=still,
        moved=moved,
    )


def holding_both(
    figure: Figure, energy: EnergySource, spans: IntArray, seconds: float = 1.0
) -> Figure:
    """The figure, its interval with what else may be right.

    Args:
        figure: Power in W over the spans, or energy in J.
        energy: Its source.
        spans: When, begin and end in ns, shape (s, 2).
        seconds: Time in s that the figure's energy is of; 1 for power.
    """
    for curve in energy.beside:
        gains, known_s = curve.gains(spans)
        if figure.value is None or not known_s.any():
            continue
        other = float(np.nansum(gains) / known_s.sum()) * seconds
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        figure = replace(figure, low=min(low, other), high=max(high, other))
    return figure


def not_told(energy: EnergySource, steps: Steps) -> str | None:
    """Reason why the energy of so few and short steps is not told; None where it is, or they are more."""
    if len(steps.slices(_slice_ns(energy))) != 1:
        return None
    energies = spent(energy, steps)
    return energies if isinstance(energies, Missing) else None


def _spans(
    energy: EnergySource, spans: IntArray
) -> tuple[Callable[[int], float | None], FloatArray]:
    """Gives the mean gain in J of spans with the samples moved by so many ns; and their lengths in ns."""

    def gain(by: int) -> float | None:
        return mean_gain(energy.curve, spans[:, 0] + by, spans[:, 1] + by)

    return gain, (spans[:, 1] - spans[:, 0]).astype(np.float64)


def _of_steps(
    energy: EnergySource, counted: Counted
) -> tuple[Callable[[int], float | None], FloatArray]:
    """As `_spans`, of steps; lengths of what is known of them singly or together."""

    def gain(by: int) -> float | None:
        return counted.mean_gain(energy.curve, by)

    return gain, counted.in_steps_ns / counted.steps


def _moved(energy: EnergySource, gain: Callable[[int], float | None]) -> FloatArray:
    """Mean gain in J of spans with the samples moved against them, NaN where none is left."""
    assert energy.clock is not None
    late_ns = round(energy.late_s[0] * 1e9)
    shifts = [late_ns - by for by in energy.clock.shifts_ns]
    gains = map(gain, shifts)
    return np.array([np.nan if each is None else each for each in gains])


def _late(
    figure: Figure,
    energy: EnergySource,
    gain: Callable[[int], float | None],
    lasting_ns: FloatArray,
) -> Figure:
    """The figure as it is where samples show power late, its interval as wide as that is unknown.

    At the ends of stretches of steps a late sensor shows what ran before them, and not what ran at
    their end: the shorter the stretches, the more of it.
    """
    likely, most = energy.late_s
    if not most or figure.value is None:
        return figure
    # Of spans that are shorter than that, there is more to gain between two shifts than at either.
    times = 8 * most * 1e9 / max(float(np.median(lasting_ns)), 1.0)
    tried = int(np.clip(times, TRIED, MOST_TRIED))
    shifts = np.rint(np.array([likely, *np.linspace(0.0, most, tried)]) * 1e9).astype(np.int64)
    gains = [gain(by) for by in shifts.tolist()]
    still = gain(0)
    if still is None or any(each is None for each in gains):
        return figure
    # Where nothing was gained, moving may still find something: J, or W of the spans' mean length.
    mean_s = 1.0 if figure.unit == "J" else float(np.mean(lasting_ns)) * 1e-9
    values = np.array(gains, float) * (figure.value / still if still else 1.0 / mean_s)
    moved = _centred(figure, float(values[0]))
    # Of a single step, whose spread nobody knows, it is the range of that alone.
    begin = float(values[0]) if moved.low is None else moved.low
    end = float(values[0]) if moved.high is None else moved.high
    low, high = begin - (values[0] - values.min()), end + (values.max() - values[0])
    words = f"{figure.method}; the sensor may show it up to {spoken(most)} late"
    return replace(moved, low=_from_0(float(low), moved), high=float(high), method=words)


def _from_0(low: float, figure: Figure) -> float:
    """The lower end of what is no less than 0, but where a sensor itself says less."""
    return low if (figure.value or 0.0) < 0 else max(low, 0.0)


def _beside(figure: Figure, energy: EnergySource, steps: Steps) -> Figure:
    """The figure, its interval as wide as gaps between steps that samples mix into them make it.

    In a gap power may be anything from none to twice that of a step.
    """
    if energy.thinned or not energy.sensed:
        figure = with_time_between(figure, energy.curve, steps)
    if not energy.sensed:
        return figure
    counted = steps.counted
    gaps = np.minimum(counted.gap_s, energy.mixes_s * counted.steps)
    share = float(gaps.sum() / counted.seconds.sum())
    return _wider(figure, share, MIXED_IN.format("the gaps between steps"))


def with_time_between(figure: Figure, curve: Curve, steps: Steps) -> Figure:
    """The figure of a step, its interval as wide as time outside of steps between two samples makes it.

    Args:
        figure: What a step gained of the curve, mean.
        curve: Goes evenly from sample to sample.
        steps: Of which the clean ones are in the figure.
    """
    counted = steps.counted
    least, most = curve.apart(counted.start_ns, counted.end_ns, counted.in_steps_ns)
    if figure.value is None or least == most:
        return figure
    down, up = (rounded(100 * abs(part - 1), 2) for part in (least, most))
    low = figure.value if figure.low is None else figure.low
    high = figure.value if figure.high is None else figure.high
    return replace(
        figure,
        low=low * (least if low > 0 else 1.0),
        high=high * most,
        method=f"{figure.method}; {BETWEEN.format(down, up)}",
    )


def _at_ends(figure: Figure, energy: EnergySource, steps: Steps) -> Figure:
    """The figure, its interval as wide as what runs before and after stretches of steps makes it.

    Between two values of a sensor energy counts as spent evenly. Where power changes at the end of
    a stretch, at a part u of what one value mixes, u (1 - u) of it comes in: a quarter at most. The
    power there may be anything from none to twice that of a step, or to the highest that is shown
    there.
    """
    if not energy.sensed or not figure.value:
        return figure
    count, seconds = steps.counted.count, float(steps.counted.seconds.sum())
    mean_w = abs(figure.value) * (count / seconds if figure.unit == "J" else 1.0)
    ends_ns = steps.stretches()
    highest_w = energy.highest_near(ends_ns.ravel(), energy.mixes_s + energy.late_s[1])
    beside = np.minimum(steps.beside_stretches_s, energy.mixes_s / 4)
    changes = np.maximum(highest_w / mean_w, 1.0).reshape(ends_ns.shape)
    share = float((beside * changes).sum()) / seconds
    return _wider(figure, share, MIXED_IN.format("what ran before and after stretches of steps"))


def _in_part(figure: Figure, energy: EnergySource, steps: Steps) -> Figure:
    """The figure, its interval as wide as times at which the sensor did not look make it."""
    share = energy.observed_share
    if share is None or share >= 1:
        return figure
    off = unevenly_seen(share, steps.start_ns[steps.clean], steps.end_ns[steps.clean])
    looks = f"the sensor looks for {100 * share:g} % of the time"
    if not off:
        return replace(
            figure, method=f"{figure.method}; {looks}, and at all places of a step alike"
        )
    return _wider(figure, off, f"{looks}, and at some places of a step more often than at others")


def _by_chance(figure: Figure, energy: EnergySource, spans: IntArray, alike: float) -> Figure:
    """The figure, its interval as wide as samples at other moments of the spans would make it.

    Args:
        figure: The figure.
        energy: Its source.
        spans: When, begin and end in ns, shape (s, 2).
        alike: Samples that fell at the same place of a step, whose errors are the same.
    """
    whole = float(np.nansum(energy.curve.difference(spans[:, 0], spans[:, 1])[0]))
    if not whole:
        return figure
    off = energy.sampling_error(spans[:, 0], spans[:, 1]) * float(np.sqrt(alike))
    return _wider(figure, off / abs(whole), "samples may have fallen at other moments")


def _repeats(energy: EnergySource, start_ns: IntArray, end_ns: IntArray) -> float:
    """How many samples fell at each place of a step; 1 where they fell anywhere."""
    if energy.gauge is None or not energy.sensed:
        return 1.0
    t_ns = energy.gauge[0]
    at = np.maximum(np.searchsorted(start_ns, t_ns, side="right") - 1, 0)
    inside = (t_ns >= start_ns[at]) & (t_ns < end_ns[at])
    at, t_ns = at[inside], t_ns[inside]
    _, places = places_seen((t_ns - start_ns[at]) / (end_ns[at] - start_ns[at]))
    return len(t_ns) / places if places else 1.0


def _too_loose(figure: Figure, energy: EnergySource, spans: IntArray, what: str) -> str | None:
    """Reason why one short stretch has no energy; None where it is told well enough."""
    if figure.low is None or figure.high is None or not figure.value:
        return None
    if max(figure.value - figure.low, figure.high - figure.value) <= MOST_OFF * abs(figure.value):
        return None
    lasting = spoken(float((spans[:, 1] - spans[:, 0]).sum()) * 1e-9)
    return (
        f"not resolvable: the sensor may show power up to {spoken(energy.late_s[1])} late, and one "
        f"value mixes up to {spoken(energy.mixes_s)}; the {what} last {lasting} in all, of which this "
        f"is anything from {rounded(figure.low)} to {rounded(figure.high)} {figure.unit}; record more steps"
    )


def _wider(figure: Figure, share: float, why: str) -> Figure:
    """The figure, its interval wider by a share of the value on either side, and why."""
    if figure.low is None or figure.high is None or figure.value is None or not share:
        return figure
    margin = abs(figure.value) * share
    words = (
        f"{figure.method}; {why}: the interval is wider by {rounded(100 * share, 2)} % of the value on either "
        "side"
    )
    low, high = _from_0(figure.low - margin, figure), figure.high + margin
    return replace(figure, low=low, high=high, method=words)


def _slice_ns(energy: EnergySource) -> int:
    """Least length of a slice of power: a sensor, and what stands for thinned samples, tell nothing of shorter ones."""
    return max(SLICE_NS, round(energy.shortest[0] * 1e9), STRETCH_NS if energy.thinned else 0)


def power_over(energy: EnergySource, spans: IntArray, what: str) -> Figure:
    """Mean power in W over spans of time, begin and end in ns, shape (s, 2).

    Args:
        energy: The source.
        spans: When.
        what: What the spans are, in words.
    """
    parts = slices(spans, _slice_ns(energy))
    return holding_both(_power_over(energy, spans, what, parts), energy, spans)


def _power_over(energy: EnergySource, spans: IntArray, what: str, parts: IntArray) -> Figure:
    """Mean power in W over spans of time, as one channel says it.

    They are cut into slices no shorter than what the sensor can tell apart: samples that repeat an
    old value are no further observations. Where samples are there for a part of the time only, the
    figure says so.

    Args:
        energy: The source.
        spans: When.
        what: What the spans are, in words.
        parts: The slices.
    """
    gains, lengths = energy.curve.gains(parts)
    known = lengths > 0
    if not known.any():
        return missing("W", none_of(energy, what))
    if reason := energy.too_little(float(lengths[known].sum()), float(gains[known].sum())):
        return missing("W", reason)
    gained, seconds = _by_update(energy, parts[known, 0], gains[known], lengths[known])
    figure = ratio_figure(gained, seconds, "W", energy.source, energy.status)
    share = float(lengths[known].sum()) / (float((spans[:, 1] - spans[:, 0]).sum()) * 1e-9)
    return replace(
        figure,
        systematic=energy.systematic_at(figure.value or 0.0),
        reason=joined(figure.reason, partly(share, what)),
    )


def none_of(energy: EnergySource, what: str) -> str:
    """Reason why there is no energy in a time that nothing was sampled of."""
    alone = "two samples one after the other" if len(energy.curve.t_ns) > 1 else "samples"
    return f"no {alone} of {energy.source} in {what}"


def partly(share: float, what: str) -> str | None:
    """That a figure rests on a part of the time only, where it does."""
    return None if share >= LEAST_COVERED else f"power covers {100 * share:.0f} % of the {what}"


def joined(*notes: str | None) -> str | None:
    """Notes in one, none of them twice; None where there are none."""
    return NEXT.join(dict.fromkeys(note for note in notes if note)) or None


def _by_update(
    energy: EnergySource, begin_ns: IntArray, gains: FloatArray, lengths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gains and lengths added up over what the source can tell apart: one observation each."""
    least = round(energy.shortest[0] * 1e9)
    if not least:
        return gains, lengths
    number = (begin_ns - begin_ns[0]) // least
    _, group = np.unique(number, return_inverse=True)
    sums: list[FloatArray] = [
        np.bincount(group, values).astype(np.float64) for values in (gains, lengths)
    ]
    return sums[0], sums[1]


def _mixed(energy: EnergySource, steps: Steps) -> str | None:
    """Note on a mean power."""
    notes = [energy.note] if energy.note else []
    stretches = steps.stretches()
    length = float(np.mean(stretches[:, 1] - stretches[:, 0])) * 1e-9
    least, limit = energy.shortest
    if length < least:
        between = (
            "before and after them is mixed in"
            if steps.only_traced
            else "between them (traced steps) is mixed in; trace fewer steps"
        )
        notes.append(
            f"{limit}, and {steps.figures_of} come in stretches of {spoken(length)}: "
            f"what ran {between}"
        )
    return joined(*notes)


def product(a: Figure, b: Figure, unit: str, method: str) -> Figure:
    """The product of two figures, their relative half widths added in squares."""
    if a.value is None or b.value is None:
        return missing(unit, a.reason or b.reason or "a factor is missing")
    value = a.value * b.value
    least = 0.0 if _not_below(a) and _not_below(b) else -np.inf
    relative = np.hypot(_relative(a), _relative(b))
    exact = a.low is None or b.low is None
    return replace(
        a,
        value=value,
        unit=unit,
        low=None if exact else max(value * (1 - float(relative)), least),
        high=None if exact else value * (1 + float(relative)),
        n=b.n if a.n is None else a.n,
        method=method,
    )


def _relative(figure: Figure) -> float:
    return figure.half_width / figure.value if figure.value else 0.0


def _not_below(figure: Figure) -> bool:
    """True if a figure's interval says that it cannot be below 0."""
    return figure.low is not None and figure.low >= 0


def _centred(figure: Figure, value: float) -> Figure:
    """The figure with its relative interval around another value of the same quantity."""
    if not figure.value:
        return figure
    return replace(figure.scaled(value / figure.value, figure.unit), value=value)
