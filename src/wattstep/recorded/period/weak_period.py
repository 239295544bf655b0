"""A period that is weak against the noise of single samples, found as a line in the spectra of several channels.

Where a step shows as a few percent of the power, no block of the recording is like the next; over
thousands of steps its line stands out of the spectrum all the same, in every rail at one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from scipy import ndimage, signal, special

from wattstep.recorded.period.period import LEAST_A_PERIOD, LEAST_SAMPLES
from wattstep.recorded.power import spoken
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.student import half_width

LEAST_PERIODS: Final = 60  # fewer make no line
SEGMENT: Final = 1024  # samples, of which a spectrum is made; the mean of several counts
LEAST_SEGMENTS: Final = 4
BESIDE: Final = 51  # bins of the spectrum whose median is the noise there
FALSE: Final = 1e-4  # chance that noise has such a line anywhere; the halves must have it, too
MARGIN: Final = 1.5  # noise of real sensors is not that of the textbook
AGREE: Final = 0.03  # halves of the recording have the line at one place
MOST_BLOCKS, BLOCK_PERIODS = 20, 40
MOST_DIVISOR: Final = 4
MOST_TOGETHER: Final = 6  # periods that may make a step
ALIKE_BLOCKS: Final = 20
CLEARLY: Final = 4.0  # standard errors by which a multiple repeats better than those beside it
_CONFIDENCE: Final = 0.95


def weak_period(t_ns: IntArray, values: Sequence[FloatArray], source: str) -> Figure:
    """The typical time from the begin of one step to that of the next.

    A line at an alias of a shorter time looks the same: what is returned takes steps to last at
    least `LEAST_A_PERIOD` samples.

    Args:
        t_ns: Times in ns, increasing, shape (n,).
        values: Channels that were sampled at these times, shape (n,) each, no NaN.
        source: What they were read from.

    Returns:
        The period in s with a 95 % interval over blocks of time; missing with the reason.
    """
    spacing = float(np.median(np.diff(t_ns))) * 1e-9 if len(t_ns) > 1 else 0.0
    segment = min(SEGMENT, len(t_ns) // LEAST_SEGMENTS)
    if segment < 2 * LEAST_SAMPLES or not spacing:
        return missing("s", f"{len(t_ns)} samples are too few for a line in their spectrum")
    at = np.arange(t_ns[0] * 1e-9, t_ns[-1] * 1e-9, spacing)
    even = [_even(np.interp(at, t_ns * 1e-9, value)) for value in values if np.ptp(value)]
    if not even:
        return missing("s", "every channel is constant")
    half = len(at) // 2
    lines_or_none = [_line([x[part] for x in even], spacing, segment) for part in (
        slice(None), slice(0, half), slice(half, None),
    )]  # fmt: skip
    lines = [each for each in lines_or_none if each is not None]
    if len(lines) < len(lines_or_none) or np.ptp(lines) > AGREE * lines[0]:
        return missing(
            "s", f"no line stands out of the spectrum, at a sample every {spoken(spacing)}"
        )
    figure = _figure(at - at[0], even, lines[0], source)
    if figure.value is not None and (together := _together(even, figure.value / spacing)):
        return missing(
            "s", f"a line at {lines[0]:.3g} Hz may be a part of steps of {together} times its "
            f"period: what lies so far apart is more alike",
        )  # fmt: skip
    return figure


def _together(even: Sequence[FloatArray], period: float) -> int:
    """Number of periods that clearly make a step together; 0 where none do.

    The likeness of what lies some periods apart falls smoothly with their number, as steps vary and
    pauses come between; where several periods make a step, it has a top at the step.

    Args:
        even: Channels at even times, shape (n,) each.
        period: In samples.
    """
    size = len(even[0])
    edges = np.linspace(0, size, ALIKE_BLOCKS + 1).astype(np.int64)
    place = np.arange(size, dtype=np.float64)
    for value in even:
        centred = value - value.mean()
        means = []
        for number in range(1, MOST_TOGETHER + 2):
            later = np.interp(place + number * period, place, centred)
            product = centred * later
            product[place + number * period > size - 1] = np.nan
            means.append([float(_mean(product[a:b])) for a, b in pairwise(edges.tolist())])
        alike = np.array(means)
        above = alike[1:-1] - (alike[:-2] + alike[2:]) / 2
        known = np.isfinite(above).all(axis=0)
        if known.sum() < ALIKE_BLOCKS / 2:
            continue
        above = above[:, known]
        error = above.std(axis=1, ddof=1) / np.sqrt(known.sum())
        clear = (above.mean(axis=1) > CLEARLY * error) & (alike[1:-1, known].mean(axis=1) > 0)
        if clear.any():
            return int(np.argmax(clear)) + 2
    return 0


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if 2 * len(known) > len(values) else np.nan


def _even(value: FloatArray) -> FloatArray:
    """Centred, in units of its spread, without outliers."""
    centred = value - np.median(value)
    spread = float(np.median(np.abs(centred))) or float(centred.std()) or 1.0
    clipped: FloatArray = np.clip(centred / spread, -8, 8)
    return clipped


def _line(even: Sequence[FloatArray], spacing: float, segment: int) -> float | None:
    """Frequency in Hz of the lowest line to whose series the strongest one belongs."""
    size = min(segment, len(even[0]) // 4)
    ratio, frequency, segments = _spectrum(even, spacing, size)
    lasts = len(even[0]) * spacing
    looked = (frequency >= LEAST_PERIODS / 2 / lasts) & (
        frequency <= 1 / (LEAST_A_PERIOD * spacing)
    )
    if not looked.any():
        return None
    degrees = 2 * max(segments // 2, 1)  # neighbours overlap by half
    least = MARGIN * float(special.chdtri(degrees, FALSE / looked.sum())) / degrees
    best = int(np.argmax(np.where(looked, ratio, 0.0)))
    if ratio[best] < least:
        return None
    for divisor in range(MOST_DIVISOR, 1, -1):
        low = round(best / divisor)
        near = slice(max(low - 1, 0), low + 2)
        if looked[near].all() and ratio[near].max() >= least:
            return float(frequency[near][np.argmax(ratio[near])])
    return float(frequency[best])


def _spectrum(
    even: Sequence[FloatArray], spacing: float, size: int
) -> tuple[FloatArray, FloatArray, int]:
    """Power over that beside it, the strongest channel's; its frequencies; of how many segments."""
    ratios = []
    for value in even:
        frequency, power = signal.welch(value, 1 / spacing, nperseg=size, detrend="linear")
        noise = ndimage.median_filter(power, BESIDE, mode="reflect")  # no zeros beyond the ends
        ratios.append(power / np.maximum(noise, 1e-12 * power.max()))
    return np.max(ratios, axis=0), frequency, 2 * len(even[0]) // size - 1


def _figure(at: FloatArray, even: Sequence[FloatArray], line: float, source: str) -> Figure:
    """The line made exact in blocks of time, and their mean with its interval."""
    blocks = int(np.clip(at[-1] * line / BLOCK_PERIODS, 2, MOST_BLOCKS))
    edges = np.linspace(0, len(at), blocks + 1).astype(np.int64)
    periods = np.array(
        [
            1 / _strongest(at[low:high], [value[low:high] for value in even], line)
            for low, high in pairwise(edges.tolist())
        ]
    )
    # A block in which the line drowns tells nothing of it.
    near = periods[np.abs(periods * line - 1) < AGREE]
    if len(near) < max(blocks / 2, 2):
        return missing("s", f"a line at {line:.3g} Hz does not last: its blocks differ")
    mean = float(near.mean())
    wide = max(half_width(near, _CONFIDENCE), mean / (at[-1] * line * 10))
    return Figure(
        value=mean, low=mean - wide, high=mean + wide, unit="s", confidence=_CONFIDENCE,
        n=int(at[-1] / mean), status=Status.MEASURED, source=source,
        method=f"line of {1 / mean:.4g} Hz in the spectrum of {len(even)} channels; Student's t over "
        f"{len(near)} blocks of time; no marks",
    )  # fmt: skip


def _strongest(at: FloatArray, even: Sequence[FloatArray], line: float) -> float:
    """The frequency near a line at which these blocks have most power, in Hz."""
    step = 1 / (8 * (at[-1] - at[0]))
    wide = max(2 * AGREE * line, 2 * step)
    frequency = np.arange(line - wide, line + wide + step, step)
    waves = np.exp(-2j * np.pi * np.outer(frequency, at))
    window = signal.windows.hann(len(at))
    power = sum(np.abs(waves @ (signal.detrend(value) * window)) ** 2 for value in even)
    return float(frequency[int(np.argmax(power))])
