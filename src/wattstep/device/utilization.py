"""Utilization of cores over time: equations 1 to 3 of the TX2 paper, and the share of time that a core is idle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.statistics import mean_figure, ratio_figure

IDLE_BELOW = 0.05  # of a window; the sampler itself wakes up in each, and takes 1 % of it or more


def active_ratio(busy: Curve, parts: IntArray, source: str) -> Figure:
    """T_active / T_total of one core (equation 1), over parts of the clean time, shape (p, 2)."""
    return within(rate(busy, parts, source))


def rate(curve: Curve, parts: IntArray, source: str) -> Figure:
    """CPU time gained in a second, over parts of the clean time: busy cores."""
    gains, lengths = curve.gains(parts)
    known = lengths > 0
    if not known.any():
        return missing("ratio", f"no samples of {source} in clean steps")
    return ratio_figure(gains[known], lengths[known], "ratio", source, Status.MEASURED)


def within(figure: Figure, least: float = 0.0, most: float = 1.0) -> Figure:
    """The figure with its interval cut where the quantity cannot go."""

    def cut(number: float | None) -> float | None:
        return None if number is None else min(max(number, least), most)

    return replace(figure, value=cut(figure.value), low=cut(figure.low), high=cut(figure.high))


def mean_active_ratio(busy: list[Curve], parts: IntArray, source: str) -> Figure:
    """Mean of equation 1 over cores (equation 2)."""
    gains = np.zeros(len(parts))
    lengths = np.zeros(len(parts))
    for curve in busy:
        gain, length = curve.gains(parts)
        gains += np.nan_to_num(gain)
        lengths += length
    known = lengths > 0
    if not known.any():
        return missing("ratio", f"no samples of {source} in clean steps")
    return within(ratio_figure(gains[known], lengths[known], "ratio", source, Status.MEASURED))


def idle_windows(
    curve: Curve, stretches: IntArray, window_ns: int, grows_idle: bool = True
) -> FloatArray:
    """Idle state of a core in each window of clean time: 1 or 0.

    The kernel adds an idle period to its counter when the period ends, so that one window may
    read nothing and the next more than its length: the surplus is carried back.

    Args:
        curve: Time of the core in s.
        stretches: Clean time, begin and end in ns, shape (s, 2).
        window_ns: Length of a window.
        grows_idle: Whether that time is idle time, or time at work.
    """
    length = window_ns * 1e-9
    verdicts = []
    for begin, end in stretches:
        edges = np.arange(begin, end + 1, window_ns)
        if len(edges) < 2:
            continue
        gains, covered = curve.difference(edges[:-1], edges[1:])
        seconds = np.nan_to_num(gains)
        if grows_idle:
            idle = _carried_back(seconds, length) >= (1 - IDLE_BELOW) * length
        else:
            idle = seconds <= IDLE_BELOW * length
        verdicts.append(idle[covered > 0.5])
    return np.concatenate(verdicts).astype(float) if verdicts else np.empty(0)


def _carried_back(seconds: FloatArray, length: float) -> FloatArray:
    surplus = 0.0
    result: FloatArray = seconds.copy()
    for position in range(len(result) - 1, -1, -1):
        value = result[position] + surplus
        surplus = max(value - length, 0.0)
        result[position] = min(value, length)
    return result


def idle_state_ratio(
    curve: Curve, stretches: IntArray, window_ns: int, source: str, *, grows_idle: bool = True
) -> Figure:
    """Share of windows of clean time in which a core's utilization is 0.

    Args:
        curve: Time of the core in s.
        stretches: Clean time, begin and end in ns, shape (s, 2).
        window_ns: Length of a window; the ratio depends on it.
        source: Where that time was read.
        grows_idle: Whether it is idle time, or time at work.
    """
    verdicts = idle_windows(curve, stretches, window_ns, grows_idle)
    if not len(verdicts):
        return missing("ratio", f"no stretch of clean steps is as long as {window_ns / 1e6:g} ms")
    figure = within(mean_figure(verdicts, "ratio", source, Status.MEASURED))
    note = (
        f"share of {window_ns / 1e6:g} ms windows with the core busy below {100 * IDLE_BELOW:.0f} %"
    )
    return _with_method(figure, note)


def _with_method(figure: Figure, note: str) -> Figure:
    return replace(figure, method=f"{note}; {figure.method}" if figure.method else note)
