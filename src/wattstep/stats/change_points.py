"""Change points of a series of steps: step times, power, throughput; and the end of a warm-up.

Means of neighbouring stretches are compared at every place in seeded intervals (Kovács et al. 2023,
"Seeded binary segmentation"), the narrowest clear change first. What counts as clear follows from
the long-run variance of the series, taken robustly from differences so that changes themselves do
not enter (Wu and Zhao 2007; for neighbouring values Chakar et al. 2017), and from the rate of false
alarms that is wanted (the boundary of Miller and Siegmund 1982). Stalls of single steps are no
changes: values far off are drawn in first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status
from wattstep.stats.statistics import median_figure

LEAST = 20  # values; fewer say nothing of changes
FALSE_ALARMS = 0.01  # of series without a change
MOST = 4000  # values that are looked at one by one; beyond, neighbours are averaged
SHORTEST = 5  # values on either side of a change
FAR = 4.0  # robust standard deviations from the running median
RUNNING = 11
SLOWER = 0.02  # than what is usual: less is no matter of the beginning
DOUBT = 1.5
SETTLED = 20  # steps that a stretch must last to end a warm-up, or a tenth of a shorter series
MOST_LAGS = 64
LEAST_ALIKE = 0.05  # correlation: lags beyond it count for nothing
_SHRINK = math.sqrt(2)
_MAD = 1.4826
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Change:
    """Change of level.

    Attributes:
        index: The first value after it.
        before: Median of the stretch before, in the unit of the series.
        after: Of the stretch after.
        errors: By how many standard errors the means differ.
    """

    index: int
    before: Figure
    after: Figure
    errors: float


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes of a series.

    Attributes:
        changes: In order.
        settled: The first value after the warm-up: where the first stretch begins that lasts, and
            whatever stood out at the very beginning is over; None: no stretch lasts.
        reason: Why nothing can be said, or None.
        correlation: Of neighbouring values.
    """

    changes: tuple[Change, ...] = ()
    settled: int | None = None
    reason: str | None = None
    correlation: float = 0.0


def find_changes(
    values: FloatArray,
    unit: str,
    source: str,
    status: Status = Status.MEASURED,
    false_alarms: float = FALSE_ALARMS,
) -> Changes:
    """The places at which a series changes its level.

    Args:
        values: One a step, in order, shape (n,); NaN: not known, and left out.
        unit: Of the values.
        source: Where they come from.
        status: Of the values.
        false_alarms: Share of series without a change in which one may be found.

    Raises:
        InvalidValueError: The values have more than one dimension, or the share is not within 0
            and 1.
    """
    if values.ndim != 1:
        raise InvalidValueError(
            f"a series has one dimension, not {values.ndim}", id="not-one-dimensional"
        )
    if not 0 < false_alarms < 1:
        raise InvalidValueError(
            f"a share of false alarms of {false_alarms:g} is none", id="out-of-range"
        )
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < LEAST:
        return Changes(reason=f"too few steps for changes ({len(known)}): {LEAST} are needed")
    series = values[known]
    if not np.ptp(series):
        return Changes(settled=int(known[0]))
    run = -(-len(series) // MOST)
    robust = _drawn_in(series)
    means = np.add.reduceat(robust, np.arange(0, len(robust), run))[: len(robust) // run] / run
    correlation = _neighbours(means)
    at = [run * place for place in _places(means, correlation, false_alarms)]
    edges = [0, *at, len(series)]
    changes = tuple(
        _change(series, known, edges[k : k + 3], unit, source, status, _spread(means, run))
        for k in range(len(at))
    )
    settled = _first_lasting(series, edges)
    return Changes(
        changes=changes,
        settled=None if settled is None else int(known[settled]),
        correlation=correlation,
    )


def slow_beginning(values: FloatArray) -> int:
    """Number of first values that lie above what is usual later on, until several in a row do not.

    What is done once (kernels that are loaded, memory that is taken) shows at the beginning alone,
    and in one direction; of short series change points say too little.

    Args:
        values: One a step, in order, shape (n,), without NaN.
    """
    n = len(values)
    if n < LEAST:
        return 0
    late = values[n // 2 :]
    middle = float(np.median(late))
    off = np.abs(late - middle)
    usual = max(float(np.quantile(off, 0.99)), FAR * _MAD * float(np.median(off)))
    slow = values > middle + usual + SLOWER * middle
    begun = np.flatnonzero(np.convolve(slow[: n // 2], np.ones(SHORTEST), "valid") == 0)
    return int(begun[0]) if len(begun) else 0


def _change(
    series: FloatArray, known: IntArray, edges: Sequence[int], unit: str, source: str,
    status: Status, spread: float,
) -> Change:  # fmt: skip
    first, place, last = edges
    parts = series[first:place], series[place:last]
    before, after = (median_figure(part, unit, source, status) for part in parts)
    difference = abs(float(parts[1].mean() - parts[0].mean()))
    error = spread * math.sqrt(1 / (place - first) + 1 / (last - place))
    return Change(
        index=int(known[place]), before=before, after=after,
        errors=difference / error if error > 0 else math.inf,
    )  # fmt: skip


def _drawn_in(series: FloatArray) -> FloatArray:
    """Values far from the median of those about them brought to the edge of what is usual."""
    half = min(RUNNING // 2, (len(series) - 1) // 2)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(series, half, mode="reflect"), 2 * half + 1
    )
    middle = np.median(windows, axis=1)
    left = series - middle
    scale = _MAD * float(np.median(np.abs(left)))
    if scale == 0:
        scale = float(left.std())
    drawn: FloatArray = middle + np.clip(left, -FAR * scale, FAR * scale)
    return drawn


def _neighbours(series: FloatArray) -> float:
    """Correlation of neighbouring values, from differences, so that changes of level hardly count."""
    one = float(np.median(np.abs(series[1:] - series[:-1])))
    two = float(np.median(np.abs(series[2:] - series[:-2])))
    if one == 0:
        return 0.0
    raw = (two / one) ** 2 - 1
    # Biased towards less in short series (Kendall 1954).
    return float(np.clip(raw + (1 + 3 * max(raw, 0.0)) / len(series), 0.0, 0.95))


def _spread(series: FloatArray, run: int = 1) -> float:
    """Square root of the long-run variance of single values: the largest of several views."""
    correlation = _neighbours(series)
    differences = np.diff(series)
    size = np.abs(differences)
    # Of heavy tails a median says too little; changes of level are few among the differences.
    usual = np.minimum(size, np.quantile(size, 0.995))
    innovation = max(_MAD * float(np.median(size)), math.sqrt(float((usual**2).mean())))
    own = innovation / math.sqrt(2 * max(1 - correlation, 0.05))
    candidates = [own * math.sqrt((1 + correlation) / (1 - correlation))]
    n = len(series)
    candidates.append(math.sqrt(_by_variogram(series)))
    for length in (2, 4, 8, 16, 32, 64):
        blocks = n // length
        if blocks < 12:
            break
        means = series[: blocks * length].reshape(blocks, length).mean(axis=1)
        steps = np.abs(np.diff(means))
        candidates.append(_MAD * float(np.median(steps)) * math.sqrt(length / 2))
    return (
        max(candidates) * math.sqrt(run)
        if max(candidates) > 0
        else float(series.std()) * math.sqrt(run)
    )


def _by_variogram(series: FloatArray) -> float:
    """Long-run variance from medians of differences at growing lags."""
    lags = np.arange(1, max(min(len(series) // 6, MOST_LAGS), 2) + 1)
    half = [0.5 * (_MAD * float(np.median(np.abs(series[h:] - series[:-h])))) ** 2 for h in lags]
    whole = float(np.median(half[len(half) // 2 :]))
    if whole <= 0:
        return 0.0
    alike = 1 - np.array(half) / whole
    over = np.flatnonzero(alike < LEAST_ALIKE)
    last = int(over[0]) if len(over) else len(alike)
    return whole * (1 + 2 * float(alike[:last].sum()))


def _places(series: FloatArray, correlation: float, false_alarms: float) -> list[int]:
    """Places at which the series changes, in order."""
    n = len(series)
    apart = max(SHORTEST, math.ceil(3 * correlation / (1 - correlation)))
    spread = _spread(series)
    if spread == 0 or n < 2 * apart:
        return []
    total = np.concatenate([[0.0], np.cumsum(series)])
    intervals = _seeded(n, 2 * apart)
    # What is not known of the correlation of a short series counts against changes in it.
    doubt = 1 + DOUBT * (1 + correlation) / (1 - correlation) / n
    bound = doubt * _bound(n, apart, false_alarms)
    changes: list[tuple[int, float, int, int, int]] = []
    for begin, end in intervals:
        place, errors = _highest(total, begin, end, apart)
        errors /= spread
        if errors > bound:
            changes.append((end - begin, -errors, place, begin, end))
    chosen: list[int] = []
    for _, _, place, begin, end in sorted(changes):
        if not any(begin < other < end for other in chosen):
            chosen.append(place)
    return _confirmed(total, sorted(chosen), n, spread, bound)


def _confirmed(
    total: FloatArray, places: list[int], n: int, spread: float, bound: float
) -> list[int]:
    """Those that still stand out between the whole stretches on either side, least clear ones last."""
    while places:
        edges = [0, *places, n]
        around = (edges[k : k + 3] for k in range(len(places)))
        errors = [
            float(_errors(total, first, np.array(place), last)) / spread
            for first, place, last in around
        ]
        weakest = int(np.argmin(errors))
        if errors[weakest] > bound:
            break
        places = places[:weakest] + places[weakest + 1 :]
    return places


def _errors(total: FloatArray, first: int, place: IntArray, last: int) -> FloatArray:
    """By how many standard deviations of a value the means on both sides of each place differ, weighed."""
    left, right = place - first, last - place
    difference = (total[last] - total[place]) / right - (total[place] - total[first]) / left
    errors: FloatArray = np.abs(difference) * np.sqrt(left * right / (left + right))
    return errors


def _highest(total: FloatArray, begin: int, end: int, apart: int) -> tuple[int, float]:
    place = np.arange(begin + apart, end - apart + 1)
    errors = _errors(total, begin, place, end)
    best = int(np.argmax(errors))
    return int(place[best]), float(errors[best])


def _seeded(n: int, least: int) -> list[tuple[int, int]]:
    """Intervals of all lengths that overlap by half."""
    intervals, length = [], float(n)
    while length >= least:
        count = 2 * math.ceil(n / length) - 1
        size = math.ceil(length)
        starts = np.linspace(0, n - size, max(count, 1)).astype(int)
        intervals += [(int(start), int(start) + size) for start in np.unique(starts)]
        length /= _SHRINK
    return intervals


def _bound(n: int, apart: int, false_alarms: float) -> float:
    """Standard errors that a series without a change exceeds anywhere with this probability.

    The boundary of Miller and Siegmund (1982) for the comparison of what lies before a place with
    what lies after it, which every change has to pass in the end; half of the probability is for
    stretches in the middle.
    """
    ratio = max(math.log(((n - apart) / apart) ** 2), 0.1)
    low, high = 1.0, 12.0
    for _ in range(60):
        b = (low + high) / 2
        tail = _NORMAL.pdf(b) * ((b - 1 / b) * ratio + 4 / b)
        low, high = (b, high) if tail > false_alarms / 2 else (low, b)
    return high


def _first_lasting(series: FloatArray, edges: Sequence[int]) -> int | None:
    """Begin of the first stretch that lasts, less what stands out at its begin."""
    lasting = min(SETTLED, max(len(series) // 10, SHORTEST))
    for first, last in itertools.pairwise(edges):
        if last - first >= lasting:
            break
    else:
        return None
    stretch = series[first:last]
    rest = stretch[min(SHORTEST, len(stretch) // 2) :]
    middle = float(np.median(rest))
    # As few of the values of the stretch lie so far off: one in two hundred on either side.
    usual_distance = max(
        float(np.quantile(np.abs(rest - middle), 0.99)),
        FAR * _MAD * float(np.median(np.abs(rest - middle))),
    )
    usual = np.abs(stretch - middle) <= usual_distance
    return first + (int(np.argmax(usual)) if usual.any() else 0)
