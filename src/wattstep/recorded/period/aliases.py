"""Test whether a period may be the alias of a shorter one, by the true times of the samples."""

from __future__ import annotations

import itertools
import math

import numpy as np

from wattstep.recorded.power import spoken
from wattstep.schema.arrays import FloatArray

MOST_HARMONICS = 6
MOST_ORDER = 3  # multiples of the sampling rate: beyond, dither tells with ease
PERIODS = 3  # of a window: over more, step times have lost their beat
MOST_WINDOWS = 200
SURE = 2.0  # standard errors by which the period must fit better than an alias


def tell_aliases(
    t_s: FloatArray,
    value: FloatArray,
    period_s: float,
    spacing_s: float,
    *,
    regular: bool,
    longer_than_s: float | None,
) -> str | None:
    """Reason why a period may be the alias of a shorter one; None where it is none.

    A series that is sampled by an even beat fits a period P and periods 1 / (k / T ± 1 / P) equally
    well, T being the beat: nothing in it tells them apart. Times that are dithered do: a harmonic
    model is fitted, by the true times, at the period and at each alias, in windows of some periods.

    Args:
        t_s: Times of the samples in s, shape (n,).
        value: The samples, centred, shape (n,).
        period_s: The period in s.
        spacing_s: From one sample to the next in s.
        regular: The source's own beat lies behind the times that are known.
        longer_than_s: Steps are known to be longer; None: nothing is known.
    """
    rate, frequency = 1 / spacing_s, 1 / period_s
    orders = range(1, MOST_ORDER + 1)
    shorter = [1 / (k * rate + sign * frequency) for k in orders for sign in (-1, 1)]
    left = [each for each in shorter if longer_than_s is None or each > longer_than_s]
    if not left:
        return None
    if regular:
        return _ambiguous(period_s, left, f"the source gives a new value every {spoken(spacing_s)}")
    harmonics = int(np.clip(period_s / (3 * spacing_s), 1, MOST_HARMONICS))
    windows = _windows(t_s, PERIODS * period_s, 4 * harmonics + 4)
    own = _explained(t_s, value, frequency, windows, harmonics)
    doubtful, better = [], []
    for each in left:
        errors = _errors(own - _explained(t_s, value, 1 / each, windows, harmonics))
        if errors < -SURE:
            better.append(each)
        elif errors < SURE:
            doubtful.append(each)
    if better:
        return (
            f"the samples are slower than the steps: what repeats every {spoken(period_s)} in them "
            f"is the alias of about {spoken(better[0])}, seen every {spoken(spacing_s)}"
        )
    if doubtful:
        return _ambiguous(
            period_s, doubtful, f"samples come every {spoken(spacing_s)} with too little dither"
        )
    return None


def _ambiguous(period_s: float, others: list[float], why: str) -> str:
    named = ", ".join(spoken(each) for each in sorted(others, reverse=True)[:2])
    return (
        f"cannot be distinguished from its aliases: {why}, so that a period of {spoken(period_s)} looks the "
        f"same as one of {named} or less; a faster or dithered channel would tell"
    )


def _windows(t_s: FloatArray, length_s: float, least: int) -> list[tuple[int, int]]:
    """Begin and end of windows with enough samples for the fit."""
    count = max(int((t_s[-1] - t_s[0]) / length_s), 1)
    edges = np.searchsorted(t_s, t_s[0] + length_s * np.arange(count + 1))
    pairs = [(int(a), int(b)) for a, b in itertools.pairwise(edges)]
    enough = [pair for pair in pairs if pair[1] - pair[0] > least]
    return enough[:: max(-(-len(enough) // MOST_WINDOWS), 1)]


def _explained(
    t_s: FloatArray,
    value: FloatArray,
    frequency: float,
    windows: list[tuple[int, int]],
    harmonics: int,
) -> FloatArray:
    """Share of each window's squares that a harmonic model explains, by least squares."""
    shares = []
    for begin, end in windows:
        time = t_s[begin:end] - t_s[begin]
        part = value[begin:end] - value[begin:end].mean()
        whole = float(part @ part)
        angles = 2 * math.pi * frequency * np.outer(time, np.arange(1, harmonics + 1))
        model = np.concatenate([np.ones((len(time), 1)), np.cos(angles), np.sin(angles)], axis=1)
        left = part - model @ np.linalg.lstsq(model, part, rcond=1e-9)[0]
        shares.append(1 - float(left @ left) / whole if whole > 0 else 0.0)
    return np.array(shares)


def _errors(differences: FloatArray) -> float:
    """The mean in standard errors; 0 where there are too few windows to tell."""
    if len(differences) < 3:
        return 0.0
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if abs(mean) < 1e-6:  # numerically the same fit
        return 0.0
    return mean / (spread / math.sqrt(len(differences))) if spread > 0 else math.copysign(99, mean)
