"""Coincidence of slow instances with a condition: difference, permutation test, false discoveries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Missing
from wattstep.stats.bootstrap import autocovariances
from wattstep.stats.proportions import newcombe

FIRST = 999  # permutations of every pair
FINAL = 19_999  # of those that may be discoveries
PROMISING = 0.1
CELLS = 4_000_000  # numbers in memory at once
MANY = 4000  # windows (clean steps) beyond which all permutations are summed instead of some drawn
LEAST_WINDOWS = 8  # fewer have too few orders for any to be rare


@dataclass(frozen=True, kw_only=True)
class Coincidence:
    """Coincidence of slow instances with a condition.

    Attributes:
        with_slow: Share of slow instances with the condition.
        with_others: Share of the others with it.
        low: Lower end of the 95 % interval of the difference of the two.
        high: Its upper end.
        p: Probability of a difference as large if the two had nothing to do with each other.
        windows: Windows that it rests on.
        slow_windows: Windows that hold slow instances.
        inflation: By how much autocorrelation of both makes the variance of the difference larger.
    """

    with_slow: float
    with_others: float
    low: float
    high: float
    p: float
    windows: int
    slow_windows: int
    inflation: float

    @property
    def difference(self) -> float:
        """Share with the condition among slow instances less that among others."""
        return self.with_slow - self.with_others


class Coincidences:
    """Tests pairs of slowness and condition; the orders of permutations are drawn once.

    Args:
        seed: Of the permutations.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._orders: dict[tuple[int, int], IntArray] = {}

    def test(
        self, slow: FloatArray, calls: FloatArray, present: FloatArray
    ) -> Coincidence | Missing:
        """Tests if slow instances fell together with a condition more often than the others.

        The windows are permuted: which of them has the condition is exchanged, whole windows at a
        time. As both may be autocorrelated, and whole stretches then fall together by chance, the
        difference is divided by the root of Bartlett's factor (1935), 1 + 2 Σ r_slow(k) r_condition(k),
        first. The test is one-sided. The interval is Newcombe's (1998, method 10) with windows in place of
        instances, and fewer of them by the same factor. Of more than 4,000 windows only whether there
        was a slow one, and whether the condition held for more of its instances than on average,
        counts: all permutations are then summed.

        Args:
            slow: Slow instances in each window, shape (windows,).
            calls: All instances in it, same shape; windows without any are left out.
            present: Share of them with the condition, NaN where it is not known, same shape.

        Returns:
            What was found, or why nothing can be.
        """
        chosen = (calls > 0) & np.isfinite(present)
        slow, calls, present = slow[chosen], calls[chosen], present[chosen]
        if why := untestable(slow, calls, present):
            return Missing(why)
        score = slow - calls * (slow.sum() / calls.sum())
        centred = present - present.mean()
        inflation = _inflation(score, centred)
        others = calls - slow
        shares = [float((w * present).sum() / w.sum()) for w in (slow, others)]
        sizes = [float(w.sum() ** 2 / (w**2).sum()) / inflation for w in (slow, others)]
        low, high = newcombe(shares[0], sizes[0], shares[1], sizes[1])
        return Coincidence(
            with_slow=shares[0], with_others=shares[1], low=low, high=high,
            p=self._p(score, centred, inflation), windows=len(slow),
            slow_windows=int((slow > 0).sum()), inflation=inflation,
        )  # fmt: skip

    def _p(self, score: FloatArray, centred: FloatArray, inflation: float) -> float:
        if len(score) > MANY:
            return _exact_tail(score > 0, centred > 0, inflation)
        observed = float(score @ centred) / math.sqrt(inflation)
        p = self._share_beyond(score, centred, observed, FIRST)
        # A second look, by itself, at those that may be discoveries: the first has too few orders.
        return self._share_beyond(score, centred, observed, FINAL) if p <= PROMISING else p

    def _share_beyond(
        self, score: FloatArray, centred: FloatArray, observed: float, count: int
    ) -> float:
        least = observed - 1e-9 * float(np.abs(score).sum() * np.abs(centred).max())
        beyond, windows = 0, len(score)
        orders = self._drawn(windows, count)
        for at in range(0, len(orders), max(CELLS // windows, 1)):
            drawn = centred[orders[at : at + max(CELLS // windows, 1)]] @ score
            beyond += int((drawn >= least).sum())
        return (1 + beyond) / (1 + len(orders))

    def _drawn(self, windows: int, count: int) -> IntArray:
        """Orders of the windows, shape (count, windows); fewer where there are many windows."""
        count = max(FIRST, min(count, 4 * CELLS // windows))
        if (windows, count) not in self._orders:
            random = np.random.default_rng((self._seed, windows, count))
            rows = np.broadcast_to(np.arange(windows, dtype=np.int32), (count, windows))
            self._orders[windows, count] = random.permuted(rows, axis=1)
        return self._orders[windows, count]


def untestable(slow: FloatArray, calls: FloatArray, present: FloatArray) -> str | None:
    """Reason why a pair cannot be tested; None where it can. Only windows in which both are known."""
    if len(slow) < LEAST_WINDOWS:
        return f"{len(slow)} windows are too few: {LEAST_WINDOWS} are needed"
    if not slow.sum():
        return "no instance was slow"
    if slow.sum() >= calls.sum():
        return "every instance was slow"
    if (present == present[0]).all():
        return (
            f"the condition {'never' if present[0] == 0 else 'always'} held"
            if present[0] in (0, 1)
            else "the condition never changed"
        )
    return None


def _exact_tail(slow: BoolArray, present: BoolArray, inflation: float) -> float:
    """Share of all permutations with at least as many windows that are both (hypergeometric).

    Autocorrelated windows count as fewer, by the inflation.
    """
    from scipy.special import betaln

    def choose(n: float | FloatArray, k: FloatArray) -> FloatArray:
        log_tail: FloatArray = -np.log1p(n) - betaln(n - k + 1, k + 1)
        return log_tail

    counts = (len(slow), slow.sum(), present.sum(), (slow & present).sum())
    windows, slows, with_it, both = (float(count) / inflation for count in counts)
    ways = np.arange(both, min(slows, with_it) + 1e-9)
    left = np.maximum(windows - with_it, slows - ways)  # rounding
    chances = choose(with_it, ways) + choose(left, slows - ways)
    logs = chances - choose(windows, np.array([slows]))
    return float(min(1.0, np.exp(logs).sum()))


def first_call(slow: FloatArray, calls: FloatArray, first_slow: FloatArray) -> float:
    """Probability that so many first calls of windows are slow, if any call of a window could be.

    Within each window the slow instances are exchanged with the others; the number of first calls
    that are slow is then a sum of independent draws (Poisson-binomial), whose tail is exact.

    Args:
        slow: Slow instances in each window, shape (windows,).
        calls: All instances in it, at least 1, same shape.
        first_slow: Whether the first of them is slow (0 or 1), same shape.
    """
    chances = slow / calls
    weights = np.ones(1)
    for chance in chances[chances > 0]:
        weights = np.convolve(weights, [1 - chance, chance])
    return float(min(1.0, weights[int(first_slow.sum()) :].sum()))


def _inflation(score: FloatArray, centred: FloatArray) -> float:
    """Bartlett's factor, at least 1: up to the lag at which the correlations are no more than chance."""
    n = len(score)
    product = _autocorrelations(score) * _autocorrelations(centred)
    lags = np.arange(1, len(product) + 1)
    small = np.flatnonzero(product <= 1 / n)
    last = small[0] if len(small) else len(product)
    return max(1.0, 1 + 2 * float(((1 - lags / n) * product)[:last].sum()))


def _autocorrelations(values: FloatArray) -> FloatArray:
    """At lags 1, 2, ... up to a third of the windows."""
    n = len(values)
    covariances = autocovariances(values)[: n // 3 + 1]
    if covariances[0] <= 0:
        return np.zeros(n // 3)
    correlations = covariances[1:] / covariances[0]
    # Estimates from few values are biased towards less (Kendall 1954).
    result: FloatArray = np.minimum(correlations + (1 + 3 * correlations) / n, 1.0)
    return result
