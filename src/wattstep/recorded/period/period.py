"""The period of the training steps found from the samples of a channel alone, without any mark.

The samples, which come unevenly and with gaps, are interpolated on an even grid; the lag at which the
series is most like itself is the period. Step times vary, so that nothing is asked to keep its
phase over the whole recording: products of values one lag apart are averaged, in blocks of time,
and whatever is claimed must hold over the blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from wattstep.recorded.period.aliases import tell_aliases
from wattstep.recorded.period.cycles import cycles_together
from wattstep.recorded.period.multiples import settled
from wattstep.recorded.power import spoken
from wattstep.recorded.refresh import HOLE, few_levels, refresh
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.stats.bootstrap import block_starts, ends

LEAST_SAMPLES = 40
LEAST_PERIODS = 6  # that a recording must hold
LEAST_A_PERIOD = 3.0  # values of the source; fewer could be the alias of anything
LEAST_A_CYCLE = 6.0  # of its parts, if it is said to have any
GRID = 4  # points of the even grid to a sample
MOST_POINTS = 1 << 19  # of the grid: what is longer is looked at in part
LEAST_CORRELATION = 0.1  # the autocorrelation at the period, less that at the lag least like it
SURE = 4.5  # standard errors by which that must be above 0: chosen among many lags
WORSE = 3.0  # standard errors by which a shorter lag must be worse to be none
MOST_BLOCKS = 40
MOST_SHORT_BLOCKS = 400
COARSE = 64  # points of a lag that is compared with others: steps vary by more
MOST_LAGS = 10  # either side, that a block may choose from
NEARLY = 0.75
MOST_DIVISOR = 12  # a lag is looked at as up to so many periods
ASTRAY = 0.05  # of the period: the exact lag belongs to another part of the step
MOST_TOGETHER = 8  # periods: how far apart values are whose lag gives the interval
_RESAMPLES = 400
_CONFIDENCE = 0.95
_TOO_FEW = "too short: it holds {:.1f} of what may be periods of {}, and {} are needed"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Even:
    """The samples on an even grid.

    Attributes:
        value: Centred, 0 where nothing is known, shape (n,).
        known: 1.0 where it is, shape (n,).
        step_s: From point to point.
        t_s: Times of the samples themselves, from the first on.
        sample: Their values, centred and clipped like the grid.
        spacing_s: From one value of the source to the next.
        regular: Whether the source updates by a beat of its own, which reads cannot show.
    """

    value: FloatArray
    known: FloatArray
    step_s: float
    t_s: FloatArray
    sample: FloatArray
    spacing_s: float
    regular: bool


def period(
    t_ns: IntArray,
    value: FloatArray,
    source: str,
    status: Status = Status.MEASURED,
    *,
    longer_than_s: float | None = None,
    seed: int = 0,
) -> Figure:
    """The typical time from the begin of one step to that of the next.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,); unevenly spaced, dithered, with
            gaps. Of a counter give its rates, each at the middle of its interval (`rates`).
        value: The samples, shape (n,); NaN: failed read.
        source: What they were read from.
        status: Of the samples.
        longer_than_s: What is known of the steps from elsewhere, in s: aliases below it are ruled
            out. None: nothing; a period that could be an alias of a shorter one is then missing.
        seed: Of the resampling.

    Returns:
        The period in s with a 95 % interval; missing with the reason where there is none to be
        found. It is the time after which the series repeats: steps that alternate between two
        kinds have the period of both together.
    """
    even = _even_grid(t_ns, value, source)
    if isinstance(even, Missing):
        return missing("s", even)
    lag = _best_lag(even)
    if isinstance(lag, Missing):
        return missing("s", lag)
    lag_s = settled(even.t_s, even.sample, lag * even.step_s)
    if isinstance(lag_s, Missing):
        return missing("s", lag_s)
    if (whole := float(even.known.sum()) * even.step_s / lag_s) < LEAST_PERIODS:
        return missing("s", _TOO_FEW.format(whole, spoken(lag_s), LEAST_PERIODS))
    if lag_s < LEAST_A_PERIOD * even.spacing_s:
        return missing(
            "s",
            f"the samples are slower than the steps, or nearly so: a new value comes every "
            f"{spoken(even.spacing_s)}, and what repeats every {spoken(lag_s)} in them may be the "
            "alias of anything shorter",
        )
    if why := tell_aliases(
        even.t_s, even.sample, lag_s, even.spacing_s, regular=even.regular,
        longer_than_s=longer_than_s,
    ):  # fmt: skip
        return missing("s", why)
    exact = _figure(even, lag_s / even.step_s, source, status, seed)
    if abs((exact.value or lag_s) / lag_s - 1) > ASTRAY:
        return missing(
            "s",
            f"steps vary too much against their parts: {spoken(lag_s)} over the whole recording "
            f"is {spoken(exact.value or lag_s)} over blocks of it",
        )
    return exact


def rates(t_ns: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Rates of a counter, each at the middle of its interval; NaN where it went back or has a gap.

    Args:
        t_ns: Times in ns, increasing, shape (n,).
        value: What was counted, shape (n,).

    Returns:
        Times in ns and rates in units a second, shape (n - 1,).
    """
    length = np.diff(t_ns)
    gain = np.diff(value)
    known = np.isfinite(gain) & (gain >= 0) & (length > 0)
    rate = np.divide(gain, length * 1e-9, out=np.full(len(gain), np.nan), where=known)
    return t_ns[:-1] + length // 2, rate


def _even_grid(t_ns: IntArray, value: FloatArray, source: str) -> _Even | Missing:
    """The samples on an even grid, or why nothing can be found in them."""
    known = np.isfinite(value)
    t_ns, value = t_ns[known], value[known]
    if len(value) < LEAST_SAMPLES:
        lost = f", {int((~known).sum())} reads failed" if (~known).any() else ""
        return Missing(f"{len(value)} samples are too few{lost}: {LEAST_SAMPLES} are needed")
    if not np.ptp(value):
        return Missing(f"the channel is constant ({value[0]:.4g} at every read)")
    updates = refresh(t_ns, value, source)
    spacing = updates.spacing_s
    # Of a load between a few levels, repeats say nothing of how often its source gives a value.
    slower = updates.slower and not few_levels(value)
    if slower:
        spacing = float(updates.interval.value or spacing)
        # Repeats are no values of their own.
        new = np.concatenate([[True], np.diff(value) != 0])
        t_ns, value = t_ns[new], value[new]
        if len(value) < LEAST_SAMPLES:
            return Missing(
                f"too short: {len(value)} new values in all, one every {spoken(spacing)}; "
                f"{LEAST_SAMPLES} are needed"
            )
    t_s = (t_ns - t_ns[0]) * 1e-9
    # A few values far off (a traced step, a stall) would outweigh all others.
    low, high = np.quantile(value, [0.005, 0.995])
    clipped = np.clip(value, low, high) if high > low else value
    return _gridded(t_s, clipped, spacing, slower=slower)


def _gridded(t_s: FloatArray, value: FloatArray, spacing: float, *, slower: bool) -> _Even:
    step = spacing / GRID
    points = min(int(t_s[-1] / step) + 1, MOST_POINTS)
    at = np.arange(points) * step
    after = np.clip(np.searchsorted(t_s, at), 1, len(t_s) - 1)
    # A slow source that repeats a value leaves several intervals out, and that is no gap.
    hole = (20.0 if slower else HOLE) * spacing
    known = (t_s[after] - t_s[after - 1] <= hole).astype(np.float64)
    centre = float(np.interp(at, t_s, value) @ known / max(known.sum(), 1.0))
    centred = (np.interp(at, t_s, value) - centre) * known
    within = t_s <= at[-1]
    return _Even(
        value=centred, known=known, step_s=step, t_s=t_s[within], sample=value[within] - centre,
        spacing_s=spacing, regular=slower,
    )  # fmt: skip


def _best_lag(even: _Even) -> float | Missing:
    """The lag of the period in points of the grid, or why there is none."""
    covered = float(even.known.sum())
    longest = int(covered / LEAST_PERIODS)
    correlation = _autocorrelation(even, longest + 2)
    if correlation is None:
        return Missing("the samples have too many gaps")
    peaks = _peaks(correlation, longest)
    if not len(peaks):
        return _none(even)
    # All multiples of a period are alike: the first that comes near the best is looked at.
    best = int(peaks[correlation[peaks] >= NEARLY * correlation[peaks].max()][0])
    lag = _resolved(even, correlation, best, peaks)
    if isinstance(lag, Missing):
        return lag
    if lag > longest:
        return Missing(_TOO_FEW.format(covered / lag, spoken(lag * even.step_s), LEAST_PERIODS))
    why = _chance(even, correlation, lag)
    if why is None:
        return lag
    whole = covered / lag
    if whole < 2 * LEAST_PERIODS and correlation[round(lag)] > LEAST_CORRELATION:
        return Missing(_TOO_FEW.format(whole, spoken(lag * even.step_s), 2 * LEAST_PERIODS))
    return why


def _none(even: _Even) -> Missing:
    lasts = spoken(float(even.known.sum()) * even.step_s)
    return Missing(
        f"no period stands out of the noise: steps too short for a new value every "
        f"{spoken(even.spacing_s)}, too even within, or too long for {lasts} of samples"
    )


def _autocorrelation(even: _Even, lags: int) -> FloatArray | None:
    """Mean product at each lag over the variance, pairs in gaps left out; None: too few pairs."""
    n = len(even.value)
    size = 1 << (n + lags).bit_length()
    pairs = np.fft.irfft(np.abs(np.fft.rfft(even.known, size)) ** 2, size)[:lags]
    if pairs.min() < 0.2 * n * even.known.mean():
        return None
    products = np.fft.irfft(np.abs(np.fft.rfft(even.value, size)) ** 2, size)[:lags]
    correlation: FloatArray = products / pairs
    return correlation / correlation[0] if correlation[0] > 0 else None


def _peaks(correlation: FloatArray, longest: int) -> IntArray:
    """Lags that are more alike than those about them, after it was at its least alike once."""
    inner = correlation[1:-1]
    top = (inner >= correlation[:-2]) & (inner > correlation[2:]) & (inner > LEAST_CORRELATION / 2)
    lags: IntArray = np.flatnonzero(top) + 1
    falls = np.flatnonzero(np.minimum.accumulate(correlation) < correlation - LEAST_CORRELATION / 2)
    first = int(falls[0]) if len(falls) else len(correlation)
    return lags[(lags >= max(first, 2)) & (lags <= longest)]


def _resolved(even: _Even, correlation: FloatArray, best: int, peaks: IntArray) -> float | Missing:
    """The lag of one step, of which the best may be a multiple or a part; or why it is open."""
    lag = best
    for divisor in range(MOST_DIVISOR, 1, -1):
        near = peaks[np.abs(peaks - best / divisor) <= max(1.5, 0.1 * best / divisor)]
        if len(near):
            part = int(near[np.argmax(correlation[near])])
            verdict = _worse(even, part, best)
            if verdict is None:
                return _open(even, part, best)
            if not verdict:
                lag = part
                break
    together = cycles_together(even.value, even.known, lag)
    if together == 0:
        return Missing(
            f"too short: what repeats every {spoken(lag * even.step_s)} may be parts of a step, several "
            "together, and there are too few of them to tell"
        )
    if together > 1 and lag < LEAST_A_CYCLE * GRID:
        return _open(even, lag, together * lag)
    return float(together * lag)


def _open(even: _Even, lag: int, other: int) -> Missing:
    return Missing(
        f"at a sample every {spoken(even.spacing_s)} it cannot be determined whether the steps take "
        f"{spoken(lag * even.step_s)} or {spoken(other * even.step_s)}"
    )


def _worse(even: _Even, lag: int, than: int) -> bool | None:
    """True if a lag is less alike than a longer one, over blocks of time; None if open."""
    coarse, factor = _coarse(even, lag)
    short, long = round(lag / factor), round(than / factor)
    half_width = round(min(0.2 * long, 0.3 * short))
    ours, others = _local(coarse, short, long, half_width), _local(coarse, long, long, half_width)
    known = np.isfinite(ours) & np.isfinite(others)
    if not known.any():
        return False
    lost = float((others - ours)[known].mean() / max(others[known].mean(), 1e-9))
    if lost <= max(0.02, 0.25 * GRID / lag) or _errors(others - ours) <= WORSE:
        return False
    # Between two samples nothing is known: edges of steps may lie anywhere there.
    return None if lost <= (1.2 if lag < 8 * GRID else 0.6) * GRID / lag else True


def _coarse(even: _Even, lag: int) -> tuple[_Even, int]:
    """The grid with points taken together, so that a lag is of about `COARSE` of them."""
    factor = max(1, lag // COARSE)
    if factor == 1:
        return even, 1
    whole = len(even.value) // factor * factor
    known = even.known[:whole].reshape(-1, factor).mean(axis=1)
    value = even.value[:whole].reshape(-1, factor).mean(axis=1)
    return replace(even, value=value, known=known, step_s=factor * even.step_s), factor


def _local(even: _Even, lag: int, longest: int, half_width: int) -> FloatArray:
    """The autocorrelation near a lag in short blocks of time, each at the lag that suits it best.

    Step times vary: over all of a recording that blurs long lags more than short ones.
    """
    stride = max(1, -(-half_width // MOST_LAGS))
    lags = lag + stride * np.arange(-(half_width // stride), half_width // stride + 1)
    table = [_by_block(even, int(each), longest + half_width, MOST_SHORT_BLOCKS) for each in lags]
    whole = np.isfinite(table).all(axis=0)
    best: FloatArray = np.where(whole, np.max(table, axis=0), np.nan)
    return best


def _chance(even: _Even, correlation: FloatArray, lag: float) -> Missing | None:
    """Reason why the lag may stand out by chance; None where it does not."""
    at = round(lag)
    between = correlation[max(at // 4, 1) : max(3 * at // 4, 2)]
    least = max(at // 4, 1) + int(np.argmin(between))
    contrast = float(correlation[at] - correlation[least])
    differences = _by_block(even, at, at) - _by_block(even, least, at)
    blocks = int(np.isfinite(differences).sum())
    if contrast < LEAST_CORRELATION or blocks < LEAST_PERIODS // 2:
        return _none(even)
    # Few blocks: as many errors as are as unlikely under Student's t.
    degrees = blocks - 1
    needed = SURE * (1 + (SURE**2 + 1) / (4 * degrees))
    if _errors(differences) < needed:
        return _none(even)
    return None


def _errors(differences: FloatArray) -> float:
    """The mean in standard errors; blocks that lie in gaps are left out."""
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return 0.0
    spread = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    mean = float(differences.mean())
    return mean / spread if spread > 0 else math.inf * np.sign(mean)


def _by_block(even: _Even, lag: int, longest: int, most: int = MOST_BLOCKS) -> FloatArray:
    """The autocorrelation at a lag in each block of time, blocks of two periods at the least."""
    count = max(2, min(most, int(len(even.value) / (2 * longest))))
    products = even.value[:-lag] * even.value[lag:]
    both = even.known[:-lag] * even.known[lag:]
    edges = np.linspace(0, len(even.value) - longest, count + 1).astype(np.int64)[:-1]
    above = np.add.reduceat(products[: len(even.value) - longest], edges)
    below = np.add.reduceat(both[: len(even.value) - longest], edges)
    variance = float((even.value**2).sum() / even.known.sum())
    enough: BoolArray = below > 0.3 * below.max()
    correlations: FloatArray = np.where(enough, above / np.maximum(below, 1.0), np.nan) / variance
    return correlations


def _figure(even: _Even, lag: float, source: str, status: Status, seed: int) -> Figure:
    """The lag made exact over several periods, with its interval over blocks of time."""
    even, factor = _coarse(even, round(lag))
    lag /= factor
    together = 1
    exact, low, high, blocks = _refined(even, lag, 1, seed)
    most = min(MOST_TOGETHER, int(even.known.sum() / (LEAST_PERIODS * lag)))
    while 2 * together <= most:
        refined = _refined(even, exact, 2 * together, seed)
        # Beyond where step times have lost their beat the interval grows again.
        if not (low <= refined[0] <= high) or refined[2] - refined[1] > high - low:
            break
        exact, low, high, blocks = refined
        together *= 2
    scale = even.step_s
    return Figure(
        value=exact * scale, low=low * scale, high=high * scale, unit="s", confidence=_CONFIDENCE,
        n=int(even.known.sum() / exact), status=status, source=source,
        method=f"lag at which the samples are most like themselves, over {together} steps at a "
        f"time; bootstrap over {blocks} blocks of time; no marks",
    )  # fmt: skip


def _refined(even: _Even, lag: float, times: int, seed: int) -> tuple[float, float, float, int]:
    """The lag from values so many periods apart, its interval, and over how many blocks."""
    half_width = max(2, round(0.2 * lag))
    centre = round(times * lag)
    lags = np.arange(max(centre - half_width, 1), centre + half_width + 1)
    table = np.array([_by_block(even, int(k), int(lags[-1])) for k in lags])
    shape = np.array([_by_block(even, int(k), int(lags[-1])) for k in range(1, half_width + 1)])
    whole = np.isfinite(table).all(axis=0) & np.isfinite(shape).all(axis=0)
    table, shape = table[:, whole], shape[:, whole]
    blocks = table.shape[1]
    if blocks < 2:
        return lag, 0.0, math.inf, blocks
    template = np.concatenate([shape[::-1].mean(axis=1), [1.0], shape.mean(axis=1)])
    drawn = block_starts(blocks, 1, _RESAMPLES, seed)  # each is a block of time already
    means = table[:, drawn].mean(axis=2).T
    tops = np.array([_matched(lags, each, template) for each in means]) / times
    value = _matched(lags, table.mean(axis=1), template) / times
    low, high = ends(tops - value, blocks, _CONFIDENCE)
    floor = 0.1 / times  # of a point: what the grid itself leaves open
    return value, value + low - floor, value + high + floor, blocks


def _matched(lags: IntArray, correlation: FloatArray, template: FloatArray) -> float:
    """Lag, between points, at which the autocorrelation is most like itself about lag 0."""
    at = int(np.argmax(correlation))
    half = len(template) // 2
    window = min(half, max(2, half // 2))
    kernel = template[half - window : half + window + 1]
    padded = np.pad(correlation, window, mode="edge")
    score = np.correlate(padded - padded.mean(), kernel - kernel.mean(), mode="valid")
    near = slice(max(at - window, 0), at + window + 1)
    top = int(np.argmax(score[near])) + max(at - window, 0)
    if not 0 < top < len(score) - 1:
        return float(lags[top])
    before, here, after = score[top - 1 : top + 2]
    bend = before - 2 * here + after
    return float(lags[top] + (0.5 * (before - after) / bend if bend < 0 else 0.0))
