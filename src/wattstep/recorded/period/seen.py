"""Presence of a period along a recording: its line in short windows, against the noise beside it.

A validation, a pause between epochs or steps that take another time have no line there, whether
the mean power tells them or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage, signal

from wattstep.recorded.period.period import LEAST_A_PERIOD
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

WINDOWS: Final = (8, 16, 32, 64, 128)  # periods; the shortest in which the line stands out will do
LEAST_WINDOWS: Final = 4  # of a recording: longer ones place little in time
MOST_PARTS: Final = 8  # of a period that is found as a multiple
TURNS: Final = 8  # of the line in a window, to count how often it turned
PARTS: Final = 10  # of a recording, whose means say how sure the mean is
HOPS: Final = 8  # of a window
NEAR: Final = 0.04  # of the period by which the time of a step may drift
BESIDE: Final = np.array([-1.5, -1.25, -1.0, 1.0, 1.25, 1.5])  # where noise is looked for
NOISE: Final = 5.0  # line over what is beside it; of windows of mere noise 2 % have as much
CLEAR: Final = 3 * NOISE  # in three of four windows: hardly one that has the line drowns it
FAINT: Final = 0.2  # of the line's usual power; half a window of it has a quarter
LEAST: Final = 1e-12  # of the variance: what rounding leaves


def seen(t_ns: IntArray, values: Sequence[FloatArray], period_s: float) -> BoolArray:
    """True for samples around which the period shows.

    Args:
        t_ns: Times in ns, increasing, shape (n,).
        values: Channels that were sampled at these times, shape (n,) each, no NaN.
        period_s: The period in s.

    Returns:
        Shape (n,); true everywhere where the recording is too short to be divided. Where the line
        is weak, windows are long, and pauses of less than half of one do not show.
    """
    spacing = float(np.median(np.diff(t_ns))) * 1e-9
    t_s = (t_ns - t_ns[0]) * 1e-9
    at = np.arange(0.0, t_s[-1], spacing)
    a_period = period_s / spacing
    even = [_even(np.interp(at, t_s, value), a_period) for value in values if np.ptp(value)]
    mask: BoolArray = np.ones(len(t_ns), bool)
    for periods in WINDOWS:
        size = round(periods * a_period)
        if not even or len(at) < LEAST_WINDOWS * size:
            break
        hop = max(size // HOPS, 1)
        there, clear = _windows(even, size, hop, a_period)
        # A window that hardly lies in a pause has the line still: to either side it is longer.
        there = ndimage.minimum_filter1d(there.astype(np.int8), 3) > 0
        nearest = np.rint((t_s / spacing - size / 2) / hop).astype(np.int64)
        mask = there[np.clip(nearest, 0, len(there) - 1)]
        if clear:
            break
    return mask


def equal_parts(t_ns: IntArray, values: Sequence[FloatArray], period_s: float) -> int:
    """Of how many shorter periods a period that was found consists: 1 where they differ at all.

    Likeness alone prefers the multiple that is nearest to a whole number of samples. Where parts are
    alike, no line stands between those of the shorter period.
    """
    spacing = float(np.median(np.diff(t_ns))) * 1e-9
    t_s = (t_ns - t_ns[0]) * 1e-9
    a_period = period_s / spacing
    most = min(int(a_period / LEAST_A_PERIOD), MOST_PARTS)
    size = round(WINDOWS[0] * a_period)
    if most < 2 or len(t_ns) < LEAST_WINDOWS * size:
        return 1
    at = np.arange(0.0, t_s[-1], spacing)
    heights = np.zeros(most)
    for value in values:
        if np.ptp(value):
            even = _even(np.interp(at, t_s, value), a_period)
            lines = [
                _line(even, size, max(size // HOPS, 1), n * size / a_period)
                for n in range(1, most + 1)
            ]
            ratios = [float(np.median(a / np.maximum(b, LEAST * size**2))) for a, b in lines]
            heights = np.maximum(heights, ratios)
    first = int(np.argmax(heights >= NOISE))  # the lowest line that there is
    return first + 1 if heights[first] >= CLEAR else 1


def mean_periods(
    t_ns: IntArray, values: Sequence[FloatArray], steady: BoolArray, period_s: float
) -> FloatArray:
    """The mean time of a step in parts of a recording in s, by how often its line turned there.

    The phase of the line from window to window, a period apart, says how many periods went by, also
    where each is a little longer or shorter than the last.

    Args:
        t_ns: As `seen`.
        values: As `seen`.
        steady: Where the period shows, shape (n,); the rest is left out.
        period_s: The period in s, roughly.

    Returns:
        Shape (p,), of parts with as many steady windows each; none where there are too few.
    """
    spacing = float(np.median(np.diff(t_ns))) * 1e-9
    t_s = (t_ns - t_ns[0]) * 1e-9
    at = np.arange(0.0, t_s[-1], spacing)
    a_period = period_s / spacing
    size, hop = round(TURNS * a_period), max(round(a_period), 1)
    if len(at) < 2 * size:
        return np.zeros(0)
    wave = signal.windows.hann(size, sym=False) * np.exp(-2j * np.pi * np.arange(size) / a_period)
    centre = spacing * (hop * np.arange((len(at) - size) // hop + 1) + size / 2)
    held = np.interp(centre, t_s, steady) > 0.5
    moved = np.zeros(len(centre) - 1, complex)
    for value in values:
        if np.ptp(value):
            even = _even(np.interp(at, t_s, value), a_period)
            line = sliding_window_view(even, size)[::hop] @ wave
            moved += line[1:] * np.conj(line[:-1])
    moved = moved[held[1:] & held[:-1]]
    if len(moved) < PARTS * TURNS:
        return np.zeros(0)
    # The wave of each window begins at zero with it: what is left are the turns beyond whole ones.
    turned = hop / a_period + np.angle(moved * np.exp(-2j * np.pi * hop / a_period)) / (2 * np.pi)
    parts: FloatArray = np.array(
        [hop * spacing / part.mean() for part in np.array_split(turned, PARTS)]
    )
    return parts


def _even(value: FloatArray, a_period: float) -> FloatArray:
    """Without what is slower than two periods, in units of its spread, without outliers."""
    centred = value - ndimage.uniform_filter1d(value, max(round(2 * a_period), 3))
    spread = float(np.median(np.abs(centred))) or float(centred.std()) or 1.0
    clipped: FloatArray = np.clip(centred / spread, -8, 8)
    return clipped


def _windows(
    even: Sequence[FloatArray], size: int, hop: int, a_period: float
) -> tuple[BoolArray, bool]:
    """Mask of windows that have the line in any channel, and whether most have it clearly.

    Where the period itself is faint, its next harmonic that samples can carry may not be.
    """
    best: list[tuple[FloatArray, FloatArray]] = []
    clearest = -1.0
    for harmonic in range(1, max(int(a_period / LEAST_A_PERIOD), 1) + 1):
        lines = [_line(value, size, hop, harmonic * size / a_period) for value in even]
        usual = [
            float(np.quantile(line / np.maximum(beside, LEAST * size**2), 0.25))
            for line, beside in lines
        ]
        if max(usual) > clearest:
            clearest = max(usual)
            # Each more channel that is looked at is one more in which noise may have a line.
            best = [each for each, of in zip(lines, usual, strict=True) if of >= clearest / 2]
        if clearest >= CLEAR:
            break
    there = np.any([_over(line, beside, size) for line, beside in best], axis=0)
    return there, clearest >= CLEAR


def _over(line: FloatArray, beside: FloatArray, size: int) -> BoolArray:
    """Mask of windows that have the line: more than noise, and no less than a part of what is usual."""
    mask: BoolArray = line >= np.maximum(NOISE * beside, LEAST * size**2)
    return mask & (line >= FAINT * np.median(line[mask])) if mask.any() else mask


def _line(value: FloatArray, size: int, hop: int, turns: float) -> tuple[FloatArray, FloatArray]:
    """Power in each window at so many turns, or near them, and the median of what is beside it."""
    half_width = max(NEAR * turns, 0.5)
    near = np.linspace(-half_width, half_width, 2 * int(np.ceil(2 * half_width)) + 1)
    centres = turns + np.concatenate([[0.0], (2 * half_width + 3) * BESIDE])
    at = np.add.outer(centres, near).ravel()
    taper = signal.windows.hann(size, sym=False)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(size) / size, at)) * taper[:, None]
    power = np.abs(sliding_window_view(value, size)[::hop] @ waves) ** 2
    strongest = power.reshape(len(power), len(centres), len(near)).max(axis=2)
    return strongest[:, 0], np.median(strongest[:, 1:], axis=1)
