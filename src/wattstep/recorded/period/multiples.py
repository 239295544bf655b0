"""Test whether a period is the step itself: not a part of it, and not several steps together.

Samples are folded onto the phase of the period, which is followed by its strongest harmonic so that
steps may vary in time. Steps of m periods show as lines at whole multiples of 1/m of the
frequency; lines are judged against the spectrum right beside them, which holds whatever noise
there is, correlated or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.recorded.power import spoken
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Missing

TRIED = (2, 3)  # times longer or shorter
FOLLOWED = 3  # harmonics, by one of which the phase is followed
LINES = 6  # of each kind that are looked at
BESIDE = np.array([2.5, 3.5, 4.5, 5.5, 6.5, 7.5])  # widths of a line: where its noise is taken
CHANCE = 0.002  # that lines of noise alone are believed
SURELY = 1e-5  # chance below which there are longer steps
DOUBTFUL = 5e-4  # and below which they are not ruled out
LINE = 1.5  # widths of a line that noise is not taken from
LEAST_BESIDE = 4  # places, both sides together
SEEN = 4.3  # amplitudes of noise that a line needs to be seen in 99 of 100
SHARE = 0.2  # of the amplitude of the period: a smaller alternation may stay unseen


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Amplitudes at some frequencies of the phase.

    Attributes:
        chance: That noise alone would stand out so far.
        noise: Power of one line of noise, in the mean over these frequencies.
    """

    chance: float
    noise: float


def settled(t_s: FloatArray, value: FloatArray, period_s: float) -> float | Missing:
    """The period of the steps, of which the one given may be a part or several together.

    A longer period is taken where its lines stand out beyond doubt, a shorter one where no line
    speaks against it. What is left is given only if steps of two or three periods, that differ by
    `SHARE` of the amplitude, would have been seen.

    Args:
        t_s: Times of the samples in s, increasing, shape (n,).
        value: Centred, shape (n,).
        period_s: What repeats in them, in s.

    Returns:
        The period in s; or why it cannot be distinguished from its multiples.
    """
    seen: list[float] = []
    while not any(abs(period_s / each - 1) < 0.1 for each in seen):
        seen.append(period_s)
        factor = _off(t_s, value, period_s)
        if isinstance(factor, Missing):
            return factor
        if factor == 1:
            return period_s
        period_s *= factor
    return Missing(
        f"a pattern that comes back every {spoken(seen[-1])} is no more likely than one of "
        f"{spoken(period_s)}: samples and steps may beat"
    )


def _off(t_s: FloatArray, value: FloatArray, period_s: float) -> float | Missing:
    """By what the period must be multiplied, or why that is open."""
    if len(_beside(float(t_s[-1] - t_s[0]) / period_s, 2)) < LEAST_BESIDE:
        return Missing(
            f"too short to tell steps of {spoken(period_s)} from steps of {spoken(2 * period_s)}"
        )
    phase = _followed(t_s, value, period_s)
    a_period = period_s * len(t_s) / float(t_s[-1] - t_s[0])
    for m in TRIED:
        if a_period < 2 * m:
            continue
        alone = _lines(phase, value, _own(a_period, 1, m), m)
        if alone.chance > CHANCE and not _refuted(t_s, value, period_s / m, m):
            return 1 / m
    power = float(_power(phase, value, _own(a_period, 1, 0)).sum())
    for m in TRIED:
        lines = _lines(phase, value, _own(a_period, m, m), m)
        if lines.chance < SURELY:
            return float(m)
        if why := _open(lines, power, period_s, m):
            return why
    return 1.0


def _open(lines: Lines, power: float, period_s: float, m: int) -> Missing | None:
    """Reason why steps of m periods are not ruled out."""
    both = f"steps of {spoken(period_s)} from steps of {spoken(m * period_s)}"
    if lines.chance < DOUBTFUL:
        return Missing(
            f"the samples do not tell {both}: every other part seems to differ, which may be chance"
        )
    share = SEEN * math.sqrt(lines.noise / power) if power > 0 else math.inf
    if share > SHARE:
        return Missing(
            f"the samples do not tell {both}: parts that differ by less than "
            f"{100 * share:.0f} % of the amplitude would not be seen"
        )
    return None


def _refuted(t_s: FloatArray, value: FloatArray, period_s: float, m: int) -> bool:
    """True if lines of steps of m periods stand out, so that one period is but a part."""
    phase = _followed(t_s, value, period_s)
    a_period = period_s * len(t_s) / float(t_s[-1] - t_s[0])
    return _lines(phase, value, _own(a_period, m, m), m).chance < SURELY


def _own(a_period: float, m: int, without: int) -> FloatArray:
    """Lines at multiples of 1/m below half the rate of the samples, less each so-manieth."""
    most = min(LINES, max(int(a_period / 2), 1))
    at = np.arange(1, m * most + 1)
    frequencies: FloatArray = (at[at % without > 0] if without else at) / m
    return frequencies


def _beside(periods: float, m: int) -> FloatArray:
    """Distance from a line at which its noise is taken, so that no other line of the period is near."""
    offsets: FloatArray = BESIDE[periods / m - LINE >= BESIDE]
    return np.concatenate([-offsets, offsets]) / periods


def _followed(t_s: FloatArray, value: FloatArray, period_s: float) -> FloatArray:
    """The phase at each sample, in periods."""
    best, followed = -math.inf, t_s / period_s
    begin = np.searchsorted(t_s, t_s - period_s)
    end = np.searchsorted(t_s, t_s + period_s)
    for harmonic in range(1, FOLLOWED + 1):
        turned = value * np.exp(-2j * math.pi * harmonic * t_s / period_s)
        summed = np.concatenate([[0.0], np.cumsum(turned)])
        local = summed[end] - summed[begin]
        strength = float((np.abs(local) ** 2 / (end - begin)).mean())
        if strength > best:
            best = strength
            cycles = np.unwrap(np.angle(local)) / (2 * math.pi * harmonic)
            followed = t_s / period_s + cycles
    return followed


def _lines(phase: FloatArray, value: FloatArray, at: FloatArray, m: int) -> Lines:
    beside = _beside(float(phase[-1] - phase[0]), m)
    if len(beside) < LEAST_BESIDE or not len(at):
        return Lines(chance=1.0, noise=0.0)
    here = _power(phase, value, at)
    noise = _power(phase, value, (at[:, None] + beside).ravel()).reshape(len(at), -1).mean(axis=1)
    ratio = here / np.maximum(noise, 1e-300)
    alone = min(1.0, len(at) * (1 + float(ratio.max()) / len(beside)) ** -len(beside))
    return Lines(chance=min(1.0, 2 * min(alone, _together(ratio))), noise=float(noise.mean()))


def _together(ratio: FloatArray) -> float:
    """Chance that the sum of so many lines of noise is as large (Erlang's distribution)."""
    total, count = float(ratio.sum()), len(ratio)
    term = summed = math.exp(-min(total, 700.0))
    for k in range(1, count):
        term *= total / k
        summed += term
    return min(summed, 1.0)


def _power(phase: FloatArray, value: FloatArray, at: FloatArray) -> FloatArray:
    turned: FloatArray = np.abs(np.exp(-2j * math.pi * np.outer(at, phase)) @ value) ** 2
    return turned
