"""State of a channel until now: its last value, what it has accumulated, and its mean of the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError
from wattstep.recorded.curves import Curve, curve_across, curve_of
from wattstep.recorded.plausible import LEAST, Screen, tells_power
from wattstep.recorded.stretches import Stretches
from wattstep.schema.channel import Channel

POINT_NS: Final = 10**9 // 4  # so far apart, at least, are the points of the trail
MOST_POINTS: Final = 512
MOST_TRACKED: Final = 256  # points of the track: then every other one goes
BIN_NS: Final = 2 * POINT_NS  # a value of the history
GAP_PERIODS: Final = 20  # periods without a sample are a gap
RECENT_NS: Final = 60 * 10**9
MOST_RECENT: Final = 2048

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Point = tuple[int, float, float]  # ns, accumulated, covered s
NONE: Final[tuple[Ints, Floats]] = (np.empty(0, np.int64), np.empty(0))


class Running:
    """Channel of which samples come bit by bit.

    Args:
        channel: The channel.
        period_s: The time between its samples, as planned.
        keep: True if its last minute is kept, sample by sample.

    Attributes:
        total: Count of a counter, or the integral of a gauge over time, since the first sample.
        covered_s: The time of that which samples cover.
        last: The last value that was read; None before.
        highest: The highest.
        first_ns: Time of the first sample.
        last_ns: Time of the last sample, failed or not.
        failed: True if the last read failed.
        trail: Accumulated values with their times, of the last minutes.
        track: Accumulated values of the whole run, a point for every `track_bins` bins.
        track_bins: See there.
    """

    def __init__(self, channel: Channel, period_s: float, *, keep: bool = False) -> None:
        self.channel = channel
        self._gap_ns = max(round(GAP_PERIODS * period_s * 1e9), 1)
        self._keep = keep
        self.last: float | None = None
        self.first_ns = self.last_ns = 0
        self.failed = False
        self.recent: tuple[Ints, Floats] = NONE
        # Of power: the first samples, until there are enough to tell a false one among them.
        self._first: tuple[Ints, Floats] | None = NONE if tells_power(channel) else None
        self._first_stretches: Stretches | None = None  # among them
        self._screen = Screen() if tells_power(channel) else None
        self._begin()

    def _begin(self) -> None:
        """Nothing was taken in yet."""
        self.total = self.covered_s = 0.0
        self.highest: float | None = None
        self.trail: deque[Point] = deque(maxlen=MOST_POINTS)
        self.track: list[Point] = []
        self.track_bins = 1
        self._edge: tuple[Ints, Floats] = NONE

    def take(self, t_ns: Ints, value: Floats, stretches: Stretches | None = None) -> None:
        """Takes in samples.

        Args:
            t_ns: Their times, shape (n,).
            value: In the channel's unit, NaN for a read that failed, shape (n,).
            stretches: What stands for others, which were thinned.
        """
        if stretches is not None:
            stretches = stretches.since(self.last_ns)  # of another only a part would be new
            t_ns, value = stretches.beside(t_ns, value)
        t_ns, value = _in_order(t_ns, value, self.last_ns)
        if not len(t_ns):
            return
        t_ns, value, stretches = self._screened(t_ns, value, stretches)
        self.first_ns = self.first_ns or int(t_ns[0])
        self.last_ns, self.failed = int(t_ns[-1]), bool(np.isnan(value[-1]))
        finite = value[np.isfinite(value)]
        if len(finite):
            self.last = float(finite[-1])
            most = float(finite.max())
            if stretches is not None:
                most = max(most, float(stretches.most[stretches.known].max(initial=most)))
            self.highest = most if self.highest is None else max(self.highest, most)
        if self._keep:
            self._keep_recent(t_ns, value)
        joined = np.concatenate([self._edge[1], value])
        self._accumulate(np.concatenate([self._edge[0], t_ns]), joined, stretches)
        self._edge = t_ns[-1:], value[-1:]

    def _screened(
        self, t_ns: Ints, value: Floats, stretches: Stretches | None
    ) -> tuple[Ints, Floats, Stretches | None]:
        """Values that are no power are failed reads; once they can be told, all begins anew."""
        if self._screen is None:
            return t_ns, value, stretches
        if self._first is None:
            return t_ns, self._screen.cleared(value), stretches
        s_all = self._first_stretches
        if stretches is not None:
            s_all = stretches if s_all is None else s_all.followed_by(stretches)
        t_all, v_all = (
            np.concatenate(pair) for pair in zip(self._first, (t_ns, value), strict=True)
        )
        if np.isfinite(v_all).sum() < LEAST:
            self._first, self._first_stretches = (t_all, v_all), s_all
            return t_ns, value, stretches
        self._first = self._first_stretches = None
        self._begin()
        return t_all, self._screen.cleared(v_all), s_all

    def _keep_recent(self, t_ns: Ints, value: Floats) -> None:
        t_all = np.concatenate([self.recent[0], t_ns])
        v_all = np.concatenate([self.recent[1], value])
        recent = np.flatnonzero(t_all > t_all[-1] - RECENT_NS)[-MOST_RECENT:]
        self.recent = t_all[recent], v_all[recent]

    def _accumulate(self, t_ns: Ints, value: Floats, stretches: Stretches | None) -> None:
        """The curve of the new samples goes on where that of the old ones ended."""
        lengths = np.diff(t_ns)
        if stretches is not None:  # which are no spacing of reads
            lengths = np.delete(lengths, np.searchsorted(t_ns, stretches.begin_ns))
        usual = float(np.median(lengths)) if len(lengths) else 0.0
        gap_ns = max(self._gap_ns, round(GAP_PERIODS * usual))
        try:
            if stretches is None:
                curve = curve_of(self.channel, t_ns, value, gap_ns)
            else:
                curve = curve_across(self.channel, t_ns, value, stretches, gap_ns)
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
        self._keep_track(curve)
        self.total += float(curve.total[-1])
        self.covered_s += float(curve.covered_ns[-1]) * 1e-9

    def _keep_track(self, curve: Curve) -> None:
        """A point for each bin that the new samples reach; all of them thinned where they are many."""
        last = self.track[-1][0] // BIN_NS if self.track else -1
        for n in np.flatnonzero(np.diff(curve.t_ns // BIN_NS, prepend=last) > 0).tolist():
            covered = self.covered_s + float(curve.covered_ns[n]) * 1e-9
            point = int(curve.t_ns[n]), self.total + float(curve.total[n]), covered
            if not self.track or self._tracked(point) > self._tracked(self.track[-1]):
                self.track.append(point)
            if len(self.track) > MOST_TRACKED:
                self.track_bins *= 2
                first = {self._tracked(one): one for one in reversed(self.track)}
                self.track = list(reversed(first.values()))

    def _tracked(self, point: Point) -> int:
        return point[0] // (self.track_bins * BIN_NS)

    def gained(self, seconds: float) -> tuple[float, float] | None:
        """Gain of the last seconds, and the time of that which samples cover, in s."""
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
        gain = self.gained(seconds)
        return None if gain is None else gain[0] / gain[1]


def rates(points: Iterable[Point], bins: int = 1) -> dict[int, float]:
    """Mean of a gauge, or growth of a counter in a second, between points of a trail or a track.

    Args:
        points: In their order.
        bins: Number that make one value.

    Returns:
        By the number of the `bins` bins in which each ends.
    """
    means: dict[int, float] = {}
    each = bins * BIN_NS
    before: Point | None = None
    for point in points:
        if before is None or point[0] // each != before[0] // each:
            if before is not None and point[2] > before[2]:
                means[point[0] // each] = (point[1] - before[1]) / (point[2] - before[2])
            before = point
    return means


def _in_order(t_ns: Ints, value: Floats, after_ns: int) -> tuple[Ints, Floats]:
    """Samples later than those before; a clock that stands still or goes back gives none."""
    if not len(t_ns):
        return t_ns, value
    highest = np.maximum.accumulate(np.concatenate([[after_ns], t_ns]))
    later = t_ns > highest[:-1]
    return t_ns[later], value[later]
