"""A period that is weak against the noise of single samples, found as a line in the spectra of several channels.

Where a step shows as a few percent of the power, no block of the recording is like the next; over
thousands of steps its line stands out of the spectrum all the same, in every rail at one place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from scipy import signal, stats

from wattstep.analysis.period import LEAST_A_PERIOD, LEAST_SAMPLES
from wattstep.analysis.power import spoken
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.records.figure import Figure, Status, missing

LEAST_PERIODS: Final = 60  # fewer make no line
SEGMENT: Final = 1024  # samples, of which a spectrum is made; the mean of several counts
LEAST_SEGMENTS: Final = 4
BESIDE: Final = 51  # bins of the spectrum whose median is the noise there
FALSE: Final = 1e-4  # chance that noise has such a line anywhere; the halves must have it, too
MARGIN: Final = 1.5  # noise of real sensors is not that of the textbook
AGREE: Final = 0.03  # halves of the recording have the line at one place
MOST_BLOCKS, BLOCK_PERIODS = 20, 40
MOST_DIVISOR: Final = 4
_CONFIDENCE: Final = 0.95


def weak_period(
    t_ns: IntArray, values: Sequence[FloatArray], source: str, status: Status = Status.MEASURED
) -> Figure:
    """The typical time from the begin of one step to that of the next.

    A line at an alias of a shorter time looks the same: what is returned takes steps to last at
    least `LEAST_A_PERIOD` samples.

    Args:
        t_ns: Times in ns, increasing, shape (n,).
        values: Channels that were sampled at these times, shape (n,) each, no NaN.
        source: What they were read from.
        status: Of the samples.

    Returns:
        The period in s with a 95 % interval over blocks of time; missing with the reason.
    """
    spacing = float(np.median(np.diff(t_ns))) * 1e-9 if len(t_ns) > 1 else 0.0
    segment = min(SEGMENT, len(t_ns) // LEAST_SEGMENTS)
    if segment < 2 * LEAST_SAMPLES or not spacing:
        return missing("s", f"{len(t_ns)} samples are too few for a line in their spectrum")
    at = np.arange(t_ns[0] * 1e-9, t_ns[-1] * 1e-9, spacing)
    laid = [_even(np.interp(at, t_ns * 1e-9, value)) for value in values if np.ptp(value)]
    if not laid:
        return missing("s", "every channel is constant")
    half = len(at) // 2
    found = [_line([x[part] for x in laid], spacing, segment) for part in (
        slice(None), slice(0, half), slice(half, None),
    )]  # fmt: skip
    lines = [each for each in found if each is not None]
    if len(lines) < len(found) or np.ptp(lines) > AGREE * lines[0]:
        return missing(
            "s", f"no line stands out of the spectrum, at a sample every {spoken(spacing)}"
        )
    return _figure(at - at[0], laid, lines[0], source, status)


def _even(value: FloatArray) -> FloatArray:
    """Centred, in units of its spread, without outliers."""
    centred = value - np.median(value)
    spread = float(np.median(np.abs(centred))) or float(centred.std()) or 1.0
    found: FloatArray = np.clip(centred / spread, -8, 8)
    return found


def _line(laid: Sequence[FloatArray], spacing: float, segment: int) -> float | None:
    """Frequency in Hz of the lowest line to whose series the strongest one belongs."""
    size = min(segment, len(laid[0]) // 4)
    ratio, frequency, segments = _spectrum(laid, spacing, size)
    lasts = len(laid[0]) * spacing
    looked = (frequency >= LEAST_PERIODS / 2 / lasts) & (
        frequency <= 1 / (LEAST_A_PERIOD * spacing)
    )
    if not looked.any():
        return None
    freedom = 2 * max(segments // 2, 1)  # neighbours overlap by half
    least = MARGIN * float(stats.chi2.isf(FALSE / looked.sum(), freedom)) / freedom
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
    laid: Sequence[FloatArray], spacing: float, size: int
) -> tuple[FloatArray, FloatArray, int]:
    """Power over that beside it, the strongest channel's; its frequencies; of how many segments."""
    ratios = []
    for value in laid:
        frequency, power = signal.welch(value, 1 / spacing, nperseg=size, detrend="linear")
        noise = signal.medfilt(power, BESIDE)
        ratios.append(power / np.maximum(noise, 1e-12 * power.max()))
    return np.max(ratios, axis=0), frequency, 2 * len(laid[0]) // size - 1


def _figure(
    at: FloatArray, laid: Sequence[FloatArray], line: float, source: str, status: Status
) -> Figure:
    """The line made exact in blocks of time, and their mean with its interval."""
    blocks = int(np.clip(at[-1] * line / BLOCK_PERIODS, 2, MOST_BLOCKS))
    edges = np.linspace(0, len(at), blocks + 1).astype(np.int64)
    periods = np.array(
        [
            1 / _strongest(at[low:high], [value[low:high] for value in laid], line)
            for low, high in pairwise(edges.tolist())
        ]
    )
    # A block in which the line drowns tells nothing of it.
    kept = periods[np.abs(periods * line - 1) < AGREE]
    if len(kept) < max(blocks / 2, 2):
        return missing("s", f"a line at {line:.3g} Hz does not last: its blocks differ")
    mean = float(kept.mean())
    reach = float(stats.t.isf((1 - _CONFIDENCE) / 2, len(kept) - 1) * kept.std(ddof=1))
    reach = max(reach / math.sqrt(len(kept)), mean / (at[-1] * line * 10))
    return Figure(
        value=mean, low=mean - reach, high=mean + reach, unit="s", confidence=_CONFIDENCE,
        n=int(at[-1] / mean), status=status, source=source,
        method=f"line of {1 / mean:.4g} Hz in the spectrum of {len(laid)} channels; Student's t over "
        f"{len(kept)} blocks of time; no marks",
    )  # fmt: skip


def _strongest(at: FloatArray, laid: Sequence[FloatArray], line: float) -> float:
    """The frequency near a line at which these blocks have most power, in Hz."""
    step = 1 / (8 * (at[-1] - at[0]))
    reach = max(2 * AGREE * line, 2 * step)
    frequency = np.arange(line - reach, line + reach + step, step)
    waves = np.exp(-2j * np.pi * np.outer(frequency, at))
    window = signal.windows.hann(len(at))
    power = sum(np.abs(waves @ (signal.detrend(value) * window)) ** 2 for value in laid)
    return float(frequency[int(np.argmax(power))])
