"""Measures of spread over traced windows as Figures, with intervals from a block bootstrap over windows."""

from __future__ import annotations

import math

import numpy as np

from wattstep.attribution.variation import HIGH, Instances, Variation
from wattstep.attribution.window_means import ONE_WINDOW
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.bootstrap import ends, resampled, usual_block_length
from wattstep.stats.proportions import wilson

RESAMPLES = 1000
CONFIDENCE = 0.95
ENOUGH = (
    40  # windows: rare instances that fewer did not see are not in what they are resampled from
)
FEW = f"no interval: fewer than {ENOUGH} traced steps hardly see what is rare"
NO_TIME = "these instances took no time that is left after the tracer's"


class Spreads:
    """Measures of the instances of single operations.

    Args:
        of: The instances.
        found: What they say.
        source: The clock behind them.
    """

    def __init__(self, of: Instances, variation: Variation, source: str) -> None:
        self._of, self._variation, self._source = of, variation, source
        self._draws: dict[int, FloatArray | None] = {}
        self._order = np.argsort(of.group, kind="stable")
        self._first = np.searchsorted(of.group[self._order], np.arange(of.groups + 1))

    def measures(self, group: int) -> dict[str, Figure]:
        """By name: median (s), high_ratio, deviation_ratio, cv, slow_share, lost (s a step), lost_share.

        Median, deviation and share of slow instances have an interval from two windows on; what
        rare instances decide, from 40 on.

        Args:
            group: Number of the operation.

        Raises:
            InvalidValueError: It has no instances.
        """
        rows = self._order[self._first[group] : self._first[group + 1]]
        if not len(rows):
            raise InvalidValueError(f"operation {group} has no instances", id="no-instances")
        windows, window = np.unique(self._of.window[rows], return_inverse=True)
        seconds = self._of.seconds[rows]
        sums = _Sums(
            seconds, self._variation.slow[rows], self._variation.lost_s[rows], window, len(windows)
        )
        if len(windows) not in self._draws:
            self._draws[len(windows)] = _drawn(len(windows))
        drawn = self._draws[len(windows)]
        typical = float(self._variation.median_s[group])
        measures = {"median": self._ordered(seconds, window, 0.5, 1.0, "s", drawn)}
        if typical > 0:
            measures["high_ratio"] = self._ordered(seconds, window, HIGH, typical, "ratio", drawn)
            away = np.abs(seconds - typical)
            measures["deviation_ratio"] = self._ordered(away, window, 0.5, typical, "ratio", drawn)
        else:
            measures |= {
                name: missing("ratio", NO_TIME) for name in ("high_ratio", "deviation_ratio")
            }
        for name, unit in _OF_SUMS.items():
            measures[name] = self._of_sums(name, unit, sums, drawn)
        return measures

    def _of_sums(self, name: str, unit: str, sums: _Sums, drawn: FloatArray | None) -> Figure:
        value = float(getattr(sums, name)(np.ones((1, sums.windows)))[0])
        if not math.isfinite(value):
            why = "one instance does not vary" if name == "cv" and sums.total > 0 else NO_TIME
            return missing(unit, why)
        bounds = None
        if drawn is not None and name == "slow_share":
            shares = sums.slow_share(drawn)
            bounds = wilson(value, _independent(value, shares, sums), CONFIDENCE)
        elif drawn is not None and sums.windows >= ENOUGH:
            low, high = _ends(getattr(sums, name)(drawn), value, drawn)
            bounds = max(low, 0.0), min(high, 1.0 if name == "lost_share" else math.inf)
        return self._figure(value, unit, bounds, sums.windows, _METHODS[name])

    def _ordered(
        self, values: FloatArray, window: IntArray, share: float, over: float, unit: str,
        drawn: FloatArray | None,
    ) -> Figure:  # fmt: skip
        """A quantile over a constant: the share below it is resampled (Woodruff 1952)."""
        value = float(np.quantile(values, share))
        windows = int(window.max()) + 1
        bounds = None
        if drawn is not None and (share == 0.5 or windows >= ENOUGH):
            below = (values < value) + 0.5 * (values == value)
            shares = (drawn @ np.bincount(window, below)) / (drawn @ np.bincount(window))
            low, high = _ends(shares, share, drawn)
            # Between two instances: the interval ends at the next one.
            least = 1 / len(values)
            wanted = np.clip([min(low, share - least), max(high, share + least)], 0.0, 1.0)
            quantiles = np.quantile(values, wanted)
            bounds = float(quantiles[0]) / over, float(quantiles[1]) / over
        words = "median" if share == 0.5 else f"{100 * share:g}th percentile"
        words += "" if over == 1.0 else " over the median"
        return self._figure(value / over, unit, bounds, windows, words)

    def _figure(
        self, value: float, unit: str, bounds: tuple[float, float] | None, windows: int, method: str
    ) -> Figure:
        low, high = (None, None) if bounds is None else bounds
        known = bounds is not None
        return Figure(
            value=value, unit=unit, status=Status.MEASURED, n=windows, source=self._source,
            low=low, high=high, confidence=CONFIDENCE if known else None,
            method=f"{method}; block bootstrap over traced steps" if known else method,
            reason=None if known else FEW if windows > 1 else ONE_WINDOW,
        )  # fmt: skip


_OF_SUMS = {"cv": "ratio", "slow_share": "ratio", "lost": "s", "lost_share": "ratio"}
_METHODS = {
    "cv": "standard deviation over mean",
    "slow_share": "instances beyond 1.5 times the median of their place",
    "lost": "time of slow instances beyond the median of their place, a traced step",
    "lost_share": "time of slow instances beyond the median of their place, of all time",
}


class _Sums:
    """Sums in each window, of which any resample's measure can be made."""

    def __init__(
        self, seconds: FloatArray, slow: BoolArray, lost: FloatArray, window: IntArray, windows: int
    ) -> None:
        def add(values: FloatArray | None) -> FloatArray:
            return np.bincount(window, values, minlength=windows).astype(np.float64)

        self.windows = windows
        self.total = float(seconds.sum())
        self._middle = self.total / len(seconds)
        self.calls, self._time = add(None), add(seconds)
        self._squares = add((seconds - self._middle) ** 2)
        self._slow, self._lost = add(slow.astype(np.float64)), add(lost)

    def cv(self, drawn: FloatArray) -> FloatArray:
        calls = drawn @ self.calls
        mean = drawn @ self._time / calls
        squares = drawn @ self._squares - calls * (mean - self._middle) ** 2
        spread = np.sqrt(np.maximum(squares, 0.0) / np.maximum(calls - 1, 1))
        defined = (mean > 0) & (calls > 1)
        ratio: FloatArray = np.divide(spread, mean, out=np.full(len(calls), np.nan), where=defined)
        return ratio

    def slow_share(self, drawn: FloatArray) -> FloatArray:
        shares: FloatArray = (drawn @ self._slow) / (drawn @ self.calls)
        return shares

    def lost(self, drawn: FloatArray) -> FloatArray:
        means: FloatArray = (drawn @ self._lost) / drawn.sum(axis=1)
        return means

    def lost_share(self, drawn: FloatArray) -> FloatArray:
        time = drawn @ self._time
        shares: FloatArray = np.full(len(time), np.nan)
        return np.divide(drawn @ self._lost, time, out=shares, where=time > 0)


def _drawn(windows: int) -> FloatArray | None:
    """Count of each window in each resample of blocks that wrap around, shape (resamples, windows)."""
    if windows < 2:
        return None
    drawn = resampled(windows, usual_block_length(windows), RESAMPLES, seed=0)
    flat = drawn + windows * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(flat.ravel(), minlength=RESAMPLES * windows)
    return counts.reshape(RESAMPLES, windows).astype(np.float64)


def _independent(value: float, shares: FloatArray, sums: _Sums) -> float:
    """Number of independent instances that vary as these: that of windows where none is slow, or all."""
    variance = float(shares.var())
    if variance <= 0:
        return float(sums.windows)
    return float(np.clip(value * (1 - value) / variance, 2.0, sums.calls.sum()))


def _ends(values: FloatArray, value: float, drawn: FloatArray) -> tuple[float, float]:
    """Ends of the interval; it always holds the value itself."""
    known = values[np.isfinite(values)]
    if not len(known):
        return value, value
    windows = drawn.shape[1]
    low, high = ends(known - value, -(-windows // usual_block_length(windows)), CONFIDENCE)
    return value + min(low, 0.0), value + max(high, 0.0)
