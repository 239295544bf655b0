"""The period of a load that repeats to the clock, found by folding its samples onto the phase.

A square wave of a few samples a period is most like itself after as many periods as fill a whole
number of samples; folded at its true period, every sample falls where it belongs (phase dispersion
minimization, R. F. Stellingwerf, Astrophys. J. 224, 953, 1978).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.recorded.period.period import LEAST_A_PERIOD
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing

LEAST_PERIODS: Final = 20
PARTS: Final = 16  # of a period
LEAST_A_PART: Final = 10  # samples
EXPLAINED: Final = 0.8  # of the variance by the phase alone, in every part of the recording
ALTERNATES: Final = 0.04  # of the variance that longer steps explain: a fifth of the amplitude
MOST_TOGETHER, FEW_TOGETHER = 12, 3  # steps; fewer are looked for whatever the samples' beat
BEAT: Final = 0.1  # samples by which so many periods are no whole number of samples
MOST_SAMPLES: Final = 4096  # that are folded onto each phase at once
FINE: Final = 16  # frequencies to one turn over the whole
FUNDAMENTAL: Final = 0.5  # of the variance: where harmonics are more, samples may beat with them


def even_beat(t_ns: IntArray, value: FloatArray, source: str) -> Figure:
    """The time after which power repeats, where it keeps one phase over the whole recording.

    What is shorter than `LEAST_A_PERIOD` samples looks like something longer, as with any sampling.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,).
        value: The samples, shape (n,); no NaN.
        source: What they were read from.

    Returns:
        The period in s, with the bounds that a sample and half a step over all of it leave; missing
        where nothing repeats so evenly, or where longer steps explain more.
    """
    none = missing("s", "nothing repeats to the clock over the whole recording")
    if len(t_ns) < PARTS * LEAST_A_PART or not np.ptp(value):
        return none
    t_s = (t_ns - t_ns[0]) * 1e-9
    spacing = float(np.median(np.diff(t_s)))
    chunks = [
        (t_s[at], value[at] - value[at].mean())
        for at in np.array_split(np.arange(len(t_s)), -(-len(t_s) // MOST_SAMPLES))
        if np.ptp(value[at])
    ]
    time, part = chunks[0]
    lasts = float(time[-1] - time[0])
    rough = _strongest(time, part, spacing)
    if rough is None:
        return none
    near = rough + np.linspace(-1, 1, 4 * FINE + 1) / (2 * lasts)
    shares = np.array([_share(time, part, each) for each in near])
    frequency = float(near[shares >= shares.max() - 1e-6].mean())
    if min(_share(*each, frequency) for each in chunks) < EXPLAINED or _longer(
        time, part, frequency, spacing
    ):
        return none
    # To a sample at either end; a stretch of busy time holds whole steps, to half a one.
    half_width = (spacing + 0.5 / frequency) / lasts / frequency
    return Figure(
        value=1 / frequency, low=1 / frequency - half_width, high=1 / frequency + half_width, unit="s",
        n=int(t_s[-1] * frequency), status=Status.MEASURED, source=source,
        method=f"the phase of {1 / frequency:.4g} s alone explains {100 * shares.max():.0f} % of the variance; "
        "bounds: a sample and half a step over all of it; no marks",
    )  # fmt: skip


def _strongest(t_s: FloatArray, value: FloatArray, spacing: float) -> float | None:
    """The frequency in Hz that by itself explains most; None where that is not the bulk."""
    at = np.arange(0, float(t_s[-1] - t_s[0]), spacing)
    even = np.interp(at, t_s - t_s[0], value)
    size = 1 << (FINE * len(at) - 1).bit_length()
    power = np.abs(np.fft.rfft(even, size)) ** 2
    frequency = np.fft.rfftfreq(size, spacing)
    looked = (frequency >= LEAST_PERIODS / at[-1]) & (frequency <= 1 / (LEAST_A_PERIOD * spacing))
    if not looked.any():
        return None
    best = int(np.argmax(np.where(looked, power, 0.0)))
    share = 2 * float(power[best]) / (len(even) * float(even @ even))
    return float(frequency[best]) if share >= FUNDAMENTAL else None


def _share(t_s: FloatArray, value: FloatArray, frequency: float, parts: int = PARTS) -> float:
    """Of the variance, what the mean of each part of the period explains."""
    at = (t_s * frequency % 1 * parts).astype(np.int64) % parts
    count = np.bincount(at, minlength=parts)
    summed = np.bincount(at, value, parts)
    return float((summed**2 / np.maximum(count, 1)).sum() / (value @ value))


def _longer(t_s: FloatArray, value: FloatArray, frequency: float, spacing: float) -> bool:
    """True if steps of several periods explain clearly more: parts that alternate.

    Periods that together are a whole number of samples always do: each sample has its own place.
    """
    a_period = 1 / (frequency * spacing)
    beats = np.abs(a_period * np.arange(MOST_TOGETHER + 1) % 1 - 0.5) > 0.5 - BEAT
    beats = beats & ~beats[1]
    alone = _share(t_s, value, frequency)
    most = min(MOST_TOGETHER, len(t_s) // (PARTS * LEAST_A_PART // 2))
    return any(
        _share(t_s, value, frequency / m, m * PARTS) - alone > ALTERNATES
        for m in range(2, most + 1)
        if m <= FEW_TOGETHER or not beats[m]
    )
