"""The sensor's delay and averaging window, found from the samples themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, optimize

from wattstep.attribution.regression.explained import Explained, Explaining
from wattstep.attribution.regression.folded_search import Guess, delays_tried, lasting, look
from wattstep.attribution.regression.locking import locked
from wattstep.attribution.regression.mixed import IMPOSSIBLE
from wattstep.attribution.regression.observed import Observed
from wattstep.attribution.regression.problem import Kinds
from wattstep.schema.arrays import FloatArray

LARGE = 100  # kinds: from here on, each try takes long
TRIES = (60, 25)  # of a closer look at each guess, with few kinds and with many
ROWS = (20_000, 2_000)  # observations in it
MODES = (9, 2)  # guesses that are followed
TRIED = (40, 4)  # of the guesses
MOMENTS, MOST_MOMENTS = 3, 10  # at which clocks may differ: in a stretch of the same, in all
ALIASES = (-2, -1, 1, 2)  # steps by which a window may be longer
SIDE = 10  # tries on each side of a guess
BESIDE = 0.6  # of the time for which the same runs: from one to the next
FEW = 1500  # samples
FAR = (
    0.4  # of -2 log likelihood a sample: a guess that is so much worse than another is not followed
)
FEWEST = 4  # guesses that are followed, however far they are
NEWTON = 6
NO_BETTER = 1e-3  # of -2 log likelihood
INSTANT = 0.1  # of how far tries are apart: a window that may be none
NEARER = 1e-6 * np.array([0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0])  # s
FARTHEST = 1.5  # times the longest delay that is looked for
SCANNED = 100  # delays that are tried exactly, at most
SCANNED_FEW = 400  # with few samples
ROUNDS = 4  # of a look about the best
SCANNED_MODES = 3
SAME = 0.02  # of the window: delays nearer than this are one
FINE = 1e-3  # of the window or of what a try is apart: change of a difference quotient
WORSE = 12.0  # -2 log likelihood: a mode that is so much worse is none
# Few samples are explained by many sensors, and the likelihood does not know how many were tried.
WORSE_FEW = 40.0
FEW_ROWS = 300
# Where samples fall at a few places only, any delay fits, and what is held likely of powers decides.
WORSE_LOCKED = 150.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensor:
    """A delay and a window that explain the samples.

    Attributes:
        delay: In s.
        window: In s; 0 for a counter, whose differences have their own.
        weight: How likely among those found, from 0 to 1.
    """

    delay: float
    window: float
    weight: float


def find_sensor(
    observed: Observed, kinds: Kinds, root: FloatArray, delay: float | None, window: float | None
) -> list[Sensor]:
    """The likeliest delays and windows, best first; empty where nothing can be explained.

    Args:
        observed: The samples.
        kinds: What is told apart.
        root: Lower root of the prior covariance of powers, shape (k + 1, k + 1).
        delay: In s, where it is known.
        window: In s, where it is known; a counter has none.
    """
    if observed.counter:
        window = 0.0
    if delay is not None and window is not None:
        return [Sensor(delay=delay, window=window, weight=1.0)]
    large = len(root) > LARGE
    explaining = Explaining(observed.thinned(ROWS[large]), root)
    guesses = look(explaining.observed, kinds, delay, window)
    guesses = [*_usual(observed, delay, window), *guesses[: TRIED[large]]]
    many = large or (explaining.observed.count >= FEW and not locked(observed, 0.0))
    if delay is None and window is not None and not large:
        guesses += _scanned(explaining, window, SCANNED)
    elif delay is None and not many:
        guesses += _scanned(explaining, observed.spacing_s, SCANNED_FEW)
    exact = [explaining.explain(guess.delay, guess.window) for guess in guesses]
    begun = [
        (each, guess.apart) for each, guess in zip(exact, guesses, strict=True) if each is not None
    ]
    if not begun:
        return []
    begun = sorted(begun, key=lambda pair: pair[0].total)
    best = begun[0][0].total
    follow = [
        pair
        for nth, pair in enumerate(begun)
        if (nth < FEWEST and not large) or pair[0].total < best + FAR * explaining.observed.count
    ]
    candidates = []
    # Few samples leave many delays likely, and are quickly asked.
    most = MODES[0] if not many else MODES[1] if large else MODES[1] + 2
    for each, apart in _distinct(follow, lasting(explaining.observed))[:most]:
        nearby = _about(explaining, each, apart, delay, window)
        # What is found at the side may lie in another valley: the best of its own may be better.
        begins = [nearby] if nearby[0] is each or large else [nearby, (each, nearby[1])]
        for begin in begins:
            closer = _closer(explaining, *begin, delay, window, TRIES[large])
            candidates.append(_newton(explaining, closer, delay is None, window is None))
    # At its window other valleys of delays show than at that of the guess that led there.
    for _ in range(0 if large or delay is not None else ROUNDS):
        leading = min(candidates, key=lambda each: each.total)
        beside, apart = _about(
            explaining, leading, BESIDE * lasting(explaining.observed), delay, window
        )
        if beside is leading:
            break
        closer = _closer(explaining, beside, apart, delay, window, TRIES[large])
        candidates.append(_newton(explaining, closer, True, window is None))
    if window is None:
        candidates += _aliases(
            explaining, min(candidates, key=lambda each: each.total), delay, TRIES[large]
        )
    # What explains samples by what ran long before does not explain them.
    if delay is None:
        candidates = [each for each in candidates if each.delay <= _longest(observed, each.window)]
    if not candidates:
        return []
    sure = WORSE_LOCKED if locked(observed, 0.0) else WORSE
    if len(candidates[0].rows.watts) < FEW_ROWS:
        sure = max(sure, WORSE_FEW)
    return _weighted(sorted(candidates, key=lambda each: each.total), sure)


def _distinct(
    begun: Sequence[tuple[Explained, float]], scale: float
) -> list[tuple[Explained, float]]:
    """Guesses, none of which sees the time that a better one sees: they would lead to the same.

    Args:
        begun: The best first.
        scale: How long the same runs, in s.
    """
    distinct: list[tuple[Explained, float]] = []
    for pair in begun:
        one = pair[0]
        if not any(
            abs(one.delay + one.window / 2 - other.delay - other.window / 2) < BESIDE * scale / 2
            and abs(one.window - other.window) < BESIDE * scale
            for other, _ in distinct
        ):
            distinct.append(pair)
    return distinct


def _aliases(
    explaining: Explaining, best: Explained, delay: float | None, tries: int
) -> list[Explained]:
    """The best window that is longer or shorter by whole steps, where it explains more.

    A whole step more in a window adds the same to every sample, but for how steps vary: powers that
    differ less, in a window that is shorter, look alike.
    """
    step = explaining.observed.seconds
    windows = [best.window + nth * step for nth in ALIASES if best.window + nth * step > 0]
    tried = [explaining.explain(best.delay, each) for each in windows]
    better = [each for each in tried if each is not None and each.total < best.total]
    if not better:
        return []
    begin = min(better, key=lambda each: each.total)
    apart = BESIDE * lasting(explaining.observed)
    closer = _closer(explaining, begin, apart, delay, None, tries)
    return [_newton(explaining, closer, delay is None, True)]


def _usual(observed: Observed, delay: float | None, window: float | None) -> list[Guess]:
    """Sensors as most are: without delay, instant or averaging from sample to sample.

    Where clocks may differ, at all moments between which they may.
    """
    windows = [0.0, observed.spacing_s] if window is None else [window]
    apart, off = lasting(observed) / 3, observed.beside_s
    tries = int(np.clip(np.ceil(MOMENTS * off / apart), 0, MOST_MOMENTS))
    by = np.linspace(-off, off, 2 * tries + 1) if tries and delay is None else np.zeros(1)

    def at(width: float, off_s: float) -> Guess:
        middle = -width / 2 if observed.centred else 0.0
        late = middle + off_s if delay is None else delay
        return Guess(delay=late, window=width, score=0.0, apart=apart)

    return [at(width, off_s) for width in windows for off_s in by.tolist()]


def _scanned(explaining: Explaining, window: float, most: int) -> list[Guess]:
    """The best delays of a row of all that are possible, exactly: where the window is known, one does.

    Of slow sensors, most average from sample to sample: that window is as good as known.

    Samples folded onto the step, as a first look takes them, blur valleys that are narrow.
    """
    observed = explaining.observed
    begun = explaining.explain(0.0, window)
    if begun is None:
        return []
    first, longest = delays_tried(observed, window)
    apart = max(lasting(observed) / 3, (longest - first) / most)
    delays = np.arange(first, longest, apart)
    scores = np.array([explaining.score(each, window, begun.evidence.ratio) for each in delays])
    around = np.concatenate([[np.inf], scores, [np.inf]])
    lowest = np.flatnonzero((scores <= around[:-2]) & (scores <= around[2:]))
    best = lowest[np.argsort(scores[lowest])][:SCANNED_MODES]
    return [
        Guess(delay=float(delays[i]), window=window, score=float(scores[i]), apart=apart)
        for i in best
    ]


def _about(
    explaining: Explaining, begun: Explained, apart: float, delay: float | None,
    window: float | None,
) -> tuple[Explained, float]:  # fmt: skip
    """The best of a row of delays, and of a row of windows, about a guess: valleys are narrow."""
    ratio, scale = begun.evidence.ratio, lasting(explaining.observed)
    best = begun.delay, begun.window
    tried: list[tuple[float, float]] = []
    if delay is None:
        delays = [best[0] + i * BESIDE * scale for i in range(-SIDE, SIDE + 1)]
        lowest = _earliest(explaining.observed, best[1])
        tried = [(max(each, lowest), best[1]) for each in delays]
        best = min(tried, key=lambda each: explaining.score(each[0], each[1], ratio))
    if window is None and best[1] > 0:
        middle = best[0] + best[1] / 2
        widths = [best[1] + i * BESIDE * scale for i in range(-SIDE // 2, SIDE // 2 + 1)]
        tried = [
            (
                max(middle - width / 2, _earliest(explaining.observed, width))
                if delay is None
                else delay,
                width,
            )
            for width in widths
            if width > 0
        ]
        best = min(tried, key=lambda each: explaining.score(each[0], each[1], ratio))
    explained = explaining.explain(*best)
    if explained is None or explained.total > begun.total:
        explained = begun
    return explained, min(apart, BESIDE * scale) if tried else apart


def _earliest(observed: Observed, window: float) -> float:
    """The least delay in s that there can be."""
    return observed.delays(window)[0]


def _latest(observed: Observed, window: float) -> float:
    """The longest delay in s that there can be."""
    return observed.delays(window)[1] if observed.centred else math.inf


def _longest(observed: Observed, window: float) -> float:
    """The longest delay in s that is believed."""
    return min(_latest(observed, window), FARTHEST * observed.delays(window)[1])


def _closer(
    explaining: Explaining, begun: Explained, apart: float, delay: float | None,
    window: float | None, tries: int,
) -> Explained:  # fmt: skip
    """The best nearby, by a simplex search over the window's middle and length."""
    ratio, observed = begun.evidence.ratio, explaining.observed

    def at(free: FloatArray) -> tuple[float, float]:
        width = abs(float(free[1])) if window is None else window
        return (float(free[0]) - width / 2 if delay is None else delay), width

    def score(free: FloatArray) -> float:
        shift, width = at(free)
        return (
            min(explaining.score(shift, width, ratio), IMPOSSIBLE)
            if _earliest(observed, width) <= shift <= _latest(observed, width)
            else IMPOSSIBLE
        )

    middle = begun.delay + begun.window / 2
    longer = max(apart, 0.15 * begun.window) if window is None else 0.0
    first = np.array([[middle, begun.window]])
    if delay is None and window is None:
        corners = first + np.array([[0.0, 0.0], [0.4 * apart, 0.0], [0.0, longer]])
        result = optimize.minimize(
            score, first[0], method="Nelder-Mead",
            options={"initial_simplex": corners, "maxfev": tries, "xatol": 1e-8, "fatol": 1e-3},
        ).x  # fmt: skip
    else:
        result = _along(score, first[0], 0 if delay is None else 1, apart + longer, tries)
    chosen = [at(result)]
    if window is None and 0 < chosen[0][1] < 3 * apart:
        chosen.append(at(np.array([result[0], 0.0])))
    tried = [begun, *(explaining.explain(*each) for each in chosen)]
    known = [each for each in tried if each is not None]
    best = min(known, key=lambda each: each.total)
    if window is None and delay is None and best.window < INSTANT * apart:
        return _instant(explaining, best)
    return best


def _instant(explaining: Explaining, explained: Explained) -> Explained:
    """The best delay of a sensor that averages nothing, to the sample: likelihood goes in steps."""
    middle = explained.delay + explained.window / 2
    best: Explained | None = None
    for _ in range(2):
        for by in np.concatenate([-NEARER[::-1], [0.0], NEARER]):
            tried = explaining.explain(middle + by, 0.0)
            if tried is not None and (best is None or tried.total < best.total):
                best = tried
        middle = best.delay if best is not None else middle
    # A window that is hardly better than none is none.
    return best if best is not None and best.total <= explained.total + WORSE else explained


def _along(
    score: Callable[[FloatArray], float], begin: FloatArray, free: int, apart: float, tries: int
) -> FloatArray:
    """The best along one direction, the other being known."""
    ahead = np.zeros(2)
    ahead[free] = 1.0
    result = optimize.minimize_scalar(
        lambda by: score(begin + by * ahead), bounds=(-apart, apart), method="bounded",
        options={"xatol": 1e-8, "maxiter": tries},
    )  # fmt: skip
    optimum: FloatArray = begin + float(result.x) * ahead
    return optimum


def _newton(
    explaining: Explaining, best: Explained, free_delay: bool, free_window: bool
) -> Explained:
    """Refinement by Gauss-Newton steps (variable projection: powers are refitted)."""
    for _ in range(NEWTON):
        step = _step(explaining, best, free_delay, free_window and best.window > 0)
        if step is None or best.window + step[1] < 0:
            return best
        later = (
            max(best.delay + step[0], _earliest(explaining.observed, best.window + step[1]))
            if free_delay
            else best.delay
        )
        tried = explaining.explain(later, best.window + step[1])
        if tried is None or tried.total >= best.total - NO_BETTER:
            return best
        best = tried
    return best


def slopes(
    observed: Observed, optimum: Explained, table: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of the explained power by delay and window, in W/s, shape (n,) each.

    Args:
        observed: The samples.
        optimum: Samples explained.
        table: Energy up to each knot and, last, power between steps, shape (b + 2,).
    """
    step = FINE * (optimum.window or observed.spacing_s)

    def explained(delay: float, window: float) -> FloatArray:
        rows = observed.rows(delay, window)
        every = np.full(len(rows.taken), np.nan)
        every[rows.taken] = rows.weights @ table
        return every[optimum.rows.taken]

    later = explained(optimum.delay + step, optimum.window)
    earlier = explained(optimum.delay - step, optimum.window)
    of_delay = (later - earlier) / (2 * step)
    of_window = np.zeros_like(of_delay)
    if optimum.window > 0:
        longer = explained(optimum.delay, optimum.window + step)
        shorter = explained(optimum.delay, optimum.window - step)
        of_window = (longer - shorter) / (2 * step)
    return np.nan_to_num(of_delay), np.nan_to_num(of_window)


def _step(
    explaining: Explaining, explained: Explained, free_delay: bool, free_window: bool
) -> tuple[float, float] | None:
    if not (free_delay or free_window) or (
        explained.window == 0 and not explaining.observed.counter
    ):
        return None
    energy = explaining.observed.table() @ explained.watts
    free = np.stack(slopes(explaining.observed, explained, energy), axis=1)
    free = free * np.array([free_delay, free_window])
    used = [j for j in range(2) if np.abs(free[:, j]).max(initial=0) > 0]
    if not used:
        return None
    middle = float(explained.rows.watts.mean())
    left = explained.rows.watts - middle - explained.whitened @ explained.solution
    gram = explained.whitened.T @ explained.whitened
    ratio = explained.evidence.noise / explained.evidence.spread
    gram[np.diag_indices(len(gram))] += ratio
    own = free[:, used]
    beside = linalg.solve(gram, explained.whitened.T @ own, assume_a="pos", check_finite=False)
    inner = own.T @ own - (own.T @ explained.whitened) @ beside
    change = np.zeros(2)
    change[used] = np.linalg.lstsq(inner, own.T @ left, rcond=None)[0]
    return float(change[0]), float(change[1])


def _weighted(candidates: Sequence[Explained], sure: float) -> list[Sensor]:
    sensors: list[Sensor] = []
    for each in candidates:
        behind = each.total - candidates[0].total
        if behind <= sure and not any(_same(each, sensor) for sensor in sensors):
            weight = float(np.exp(-behind / 2 * WORSE / sure))
            sensors.append(Sensor(delay=each.delay, window=each.window, weight=weight))
    whole = sum(sensor.weight for sensor in sensors)
    return [replace(sensor, weight=sensor.weight / whole) for sensor in sensors]


def _same(one: Explained, other: Sensor) -> bool:
    near = SAME * max(one.window, other.window, 1e-3)
    return abs(one.delay - other.delay) < near and abs(one.window - other.window) < near
