"""The clock of a device that runs behind the host: from events in its queue to times of the run."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

TIGHT_NS: Final = 200_000  # events that are known to so much tell the clock
TIGHTER: Final = 3  # times the tightest of all are as good
FAR_NS: Final = 30_000_000_000  # further from a tight one, others count as well
APART_NS: Final = 250_000_000  # of the device's time: the tightest event of each stretch counts
END_NS: Final = 5_000_000_000  # at either end, in which a busy device's events are taken together
SURE: Final = 50e-6  # of a rate from such ends
DRIFT: Final = 100e-6  # by which two clocks may go apart where their rate is not known
RATED_NS: Final = 1_000_000_000  # over less, both clocks are taken to go alike


class DeviceClock:
    """A device's times as the run's (`schema.clock.Clock`), from events that lie between two times of the run.

    The host put an event into the queue at one time, and saw at another that the device had come to
    it: the device did so between. Events of an idle device are known to microseconds; between the
    tightest of them the map is linear. No event is mapped out of its own bounds.

    Args:
        device_ns: When the device came to each event, by its own clock, shape (n,), n > 0.
        least_ns: Not before that time of the run.
        most_ns: Not after that one.

    Attributes:
        uncertainty_ns: Half of the widest bounds that were used, and by how much others disagree
            with them.
        anchors: Number of events that tell the clock.
        rate: Seconds of the run's clock in one of the device's.
    """

    def __init__(self, device_ns: IntArray, least_ns: IntArray, most_ns: IntArray) -> None:
        low = (least_ns - device_ns).astype(np.int64)
        high = (most_ns - device_ns).astype(np.int64)
        tight = _tightest(device_ns, high - low)
        self.anchors = len(tight)
        knots = [
            (
                float(device_ns[at] - device_ns[0]),
                (low[at] + high[at]) / 2.0,
                (high[at] - low[at]) / 2.0,
            )
            for at in tight.tolist()
        ]
        knots = _with_ends(knots, (device_ns - device_ns[0]).astype(np.float64), low, high)
        self._at, self._offset, halves = (np.array(column) for column in zip(*knots, strict=True))
        half = float(halves.max())
        span = float(self._at[-1] - self._at[0])
        change = float(self._offset[-1] - self._offset[0])
        self._slope = change / span if span >= RATED_NS else 0.0
        if not self._slope:  # beyond the knots nothing tells how the clocks go apart
            lasting = float(device_ns[-1] - device_ns[0])
            half += DRIFT * max(float(self._at[0]), lasting - float(self._at[-1]))
        self.rate = 1.0 + self._slope
        self._zero = int(device_ns[0])
        fitted = self._offsets(device_ns)
        outside = np.maximum(np.maximum(low - fitted, fitted - high), 0.0)
        self.uncertainty_ns = int(half + np.quantile(outside, 0.99))
        mapped = device_ns + np.clip(fitted, low, high).astype(np.int64)
        self.events_ns: IntArray = np.maximum.accumulate(mapped)

    def _offsets(self, device_ns: Any) -> FloatArray:
        """The run's clock less the device's, in ns."""
        at = np.asarray(device_ns - self._zero, np.float64)
        offset = np.interp(at, self._at, self._offset)
        beyond = at - np.clip(at, self._at[0], self._at[-1])
        return np.asarray(offset + self._slope * beyond, np.float64)

    def map(self, t_ns: Any) -> Any:
        """As `Clock.map`."""
        mapped = t_ns + np.round(self._offsets(t_ns)).astype(np.int64)
        return int(mapped) if isinstance(t_ns, int) else mapped

    def uncertainty_at(self, t_ns: Any) -> Any:
        """As `Clock.uncertainty_at`: the same everywhere; beyond the outermost events the rate goes on."""
        return (
            self.uncertainty_ns
            if isinstance(t_ns, int)
            else np.full(np.shape(t_ns), self.uncertainty_ns)
        )


def _with_ends(
    knots: list[tuple[float, float, float]], at: FloatArray, low: IntArray, high: IntArray
) -> list[tuple[float, float, float]]:
    """The knots of the clock, with one at either end where a busy device had none that is tight.

    All events of a few seconds together bound the offset there as closely as the device was asked
    for them. That gives the rate where the run is so long that it does not matter.

    Args:
        knots: Time of the device, offset and half of its bounds, in ns, in order.
        at: Times of all events, from the first of them, shape (n,).
        low: Least offset of each.
        high: Most.
    """
    ends = []
    for inside in (at <= at[0] + END_NS, at >= at[-1] - END_NS):
        least, most = float(low[inside].max()), float(high[inside].min())
        ends.append((float(at[inside].mean()), (least + most) / 2, abs(most - least) / 2))
    first, last = ends
    if not knots:
        apart = last[0] - first[0]
        both = apart > 0 and (first[2] + last[2]) / apart < SURE
        least, most = float(low.max()), float(high.min())
        whole = (float(at.mean()), (least + most) / 2, abs(most - least) / 2)
        return [first, last] if both else [whole]
    if knots[0][0] - first[0] > END_NS and first[2] / (knots[0][0] - first[0]) < SURE:
        knots = [first, *knots]
    if last[0] - knots[-1][0] > END_NS and last[2] / (last[0] - knots[-1][0]) < SURE:
        knots = [*knots, last]
    return knots


def _tightest(device_ns: IntArray, width_ns: IntArray) -> IntArray:
    """The events that tell the clock, in order: of each short stretch the tightest, where it is tight.

    A long stretch that has none as tight as others takes what it has.
    """
    tight = np.flatnonzero(width_ns <= TIGHT_NS)
    if not len(tight):
        return tight
    best = tight[width_ns[tight] <= TIGHTER * width_ns[tight].min()]
    kept = _first_of_each(best, (device_ns[best] - device_ns[0]) // APART_NS, width_ns)
    long = (device_ns[tight] - device_ns[0]) // FAR_NS
    without = ~np.isin(long, (device_ns[kept] - device_ns[0]) // FAR_NS)
    return np.union1d(kept, _first_of_each(tight[without], long[without], width_ns))


def _first_of_each(rows: IntArray, stretch: IntArray, width_ns: IntArray) -> IntArray:
    """The tightest of the rows of each stretch."""
    order = np.lexsort((width_ns[rows], stretch))
    first = np.append(True, np.diff(stretch[order]) != 0)[: len(order)]
    found: IntArray = rows[order[first]]
    return found


class DeviceTimes:
    """The times at which a device came to the marks of the host.

    Args:
        rows: Marks of kind `DEVICE` and `DEVICE_END`, in the order of the journal, not empty.
        ends: Which of them are of the latter kind.

    Attributes:
        clocks: By the code of the device's name.
        lost: Steps whose events were never read: left out.
    """

    def __init__(self, rows: npt.NDArray[Any], ends: BoolArray) -> None:
        ended = rows["t"][ends]
        self._end_ns = int(ended[0]) if len(ended) else np.iinfo(np.int64).max
        events = rows[~ends]
        self.clocks: dict[int, DeviceClock] = {}
        keys, times = [], []
        for device in np.unique(events["code"]).tolist():
            mine = events[events["code"] == device]
            # Streams are read one by one: their events come in another order than the device's.
            mine = mine[np.argsort(mine["cpu"], kind="stable")]
            t_ns = mine["t"].astype(np.int64)
            clock = DeviceClock(
                mine["cpu"].astype(np.int64),
                t_ns + mine["index"],
                t_ns + mine["value"].astype(np.int64),
            )
            self.clocks[device] = clock
            keys.append(t_ns)
            times.append(clock.events_ns)
        key: IntArray = np.concatenate(keys) if keys else np.empty(0, np.int64)
        # A mark that has two events counts by the first of them.
        self._keys, first = np.unique(key, return_index=True)
        self._times: IntArray = np.concatenate(times)[first] if keys else key
        self.lost = 0

    def of(self, t_ns: IntArray) -> tuple[IntArray, BoolArray]:
        """The device's times of marks, on the run's clock, and which of the marks have one."""
        if not len(self._keys):
            return t_ns, np.zeros(len(t_ns), bool)
        at = np.minimum(np.searchsorted(self._keys, t_ns), len(self._keys) - 1)
        known = self._keys[at] == t_ns
        return np.where(known, self._times[at], t_ns), known

    def expects(self, t_ns: IntArray) -> BoolArray:
        """Mask of the marks that ought to have one: the device was followed then."""
        first = self._keys[0] if len(self._keys) else self._end_ns
        return (t_ns >= first) & (t_ns < self._end_ns)

    def after(self, t_ns: int) -> int:
        """When the device had done what the host asked for before a time; never before that time."""
        at = int(np.searchsorted(self._keys, t_ns, side="right")) - 1
        return t_ns if at < 0 else max(t_ns, int(self._times[at]))
