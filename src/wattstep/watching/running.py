"""What a channel gave until now: its last value, what it has accumulated, and its mean of the last seconds."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from wattstep.analysis.curves import curve_of
from wattstep.errors import InvalidValueError
from wattstep.records.channel import Channel

POINT_NS: Final = 10**9 // 4  # so far apart, at least, are the points of the trail
MOST_POINTS: Final = 512
BIN_NS: Final = 2 * POINT_NS  # a value of the history
GAP_PERIODS: Final = 20  # periods without a sample are a gap
RECENT_NS: Final = 60 * 10**9
MOST_RECENT: Final = 2048

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Point = tuple[int, float, float]  # ns, accumulated, covered s


class Running:
    """One channel, of which samples come bit by bit.

    Args:
        channel: The channel.
        period_s: The time between its samples, as planned.
        keep: Whether its last minute is kept, sample by sample.

    Attributes:
        total: What a counter counted, or the integral of a gauge over time, since the first sample.
        covered_s: The time of that which samples cover.
        last: The last value that was read; None before.
        highest: The highest.
        first_ns: When the first sample was taken.
        last_ns: When the last sample was taken, failed or not.
        failed: Whether the last read failed.
    """

    def __init__(self, channel: Channel, period_s: float, *, keep: bool = False) -> None:
        self.channel = channel
        self._gap_ns = max(round(GAP_PERIODS * period_s * 1e9), 1)
        self._keep = keep
        self.total = self.covered_s = 0.0
        self.last: float | None = None
        self.highest: float | None = None
        self.first_ns = self.last_ns = 0
        self.failed = False
        self.trail: deque[Point] = deque(maxlen=MOST_POINTS)
        self._edge: tuple[Ints, Floats] = (np.empty(0, np.int64), np.empty(0))
        self.recent = self._edge

    def take(self, t_ns: Ints, value: Floats) -> None:
        """Takes in samples.

        Args:
            t_ns: Their times, shape (n,).
            value: In the channel's unit, NaN for a read that failed, shape (n,).
        """
        t_ns, value = _in_order(t_ns, value, self.last_ns)
        if not len(t_ns):
            return
        self.first_ns = self.first_ns or int(t_ns[0])
        self.last_ns, self.failed = int(t_ns[-1]), bool(np.isnan(value[-1]))
        known = value[np.isfinite(value)]
        if len(known):
            self.last = float(known[-1])
            most = float(known.max())
            self.highest = most if self.highest is None else max(self.highest, most)
        if self._keep:
            self._keep_recent(t_ns, value)
        joined = np.concatenate([self._edge[1], value])
        self._accumulate(np.concatenate([self._edge[0], t_ns]), joined)
        self._edge = t_ns[-1:], value[-1:]

    def _keep_recent(self, t_ns: Ints, value: Floats) -> None:
        t_all = np.concatenate([self.recent[0], t_ns])
        v_all = np.concatenate([self.recent[1], value])
        kept = np.flatnonzero(t_all > t_all[-1] - RECENT_NS)[-MOST_RECENT:]
        self.recent = t_all[kept], v_all[kept]

    def _accumulate(self, t_ns: Ints, value: Floats) -> None:
        """The curve of the new samples goes on where that of the old ones ended."""
        usual = float(np.median(np.diff(t_ns))) if len(t_ns) > 1 else 0.0
        gap_ns = max(self._gap_ns, round(GAP_PERIODS * usual))
        try:
            curve = curve_of(self.channel, t_ns, value, gap_ns)
        except InvalidValueError:  # a counter beyond its own wrap: nothing is known of that time
            return
        if not len(curve.t_ns):
            return
        last = self.trail[-1][0] // POINT_NS if self.trail else -1
        slot = curve.t_ns // POINT_NS
        turns = np.flatnonzero(np.diff(slot, prepend=last) > 0)[-MOST_POINTS:]
        for n in turns.tolist():
            covered = self.covered_s + float(curve.covered_ns[n]) * 1e-9
            self.trail.append((int(curve.t_ns[n]), self.total + float(curve.total[n]), covered))
        self.total += float(curve.total[-1])
        self.covered_s += float(curve.covered_ns[-1]) * 1e-9

    def gained(self, seconds: float) -> tuple[float, float] | None:
        """What it gained in the last seconds, and the time of that which samples cover, in s."""
        if not self.trail:
            return None
        since = self.last_ns - round(seconds * 1e9)
        first = next((point for point in self.trail if point[0] >= since), self.trail[-1])
        covered = self.covered_s - first[2]
        return (self.total - first[1], covered) if covered > 0 else None

    @property
    def span_s(self) -> float:
        """From the first sample to the last, in s."""
        return (self.last_ns - self.first_ns) * 1e-9

    def rate(self, seconds: float) -> float | None:
        """Mean of a gauge, or growth of a counter in a second, in the last seconds; None: not known."""
        found = self.gained(seconds)
        return None if found is None else found[0] / found[1]

    def rates(self) -> dict[int, float]:
        """The same between the points of the trail, by the number of the half second it lies in."""
        found: dict[int, float] = {}
        before: Point | None = None
        for point in self.trail:
            if before is None or point[0] // BIN_NS != before[0] // BIN_NS:
                if before is not None and point[2] > before[2]:
                    number = point[0] // BIN_NS
                    found[number] = (point[1] - before[1]) / (point[2] - before[2])
                before = point
        return found


def _in_order(t_ns: Ints, value: Floats, after_ns: int) -> tuple[Ints, Floats]:
    """Samples later than those before; a clock that stands still or goes back gives none."""
    if not len(t_ns):
        return t_ns, value
    highest = np.maximum.accumulate(np.concatenate([[after_ns], t_ns]))
    later = t_ns > highest[:-1]
    return t_ns[later], value[later]
