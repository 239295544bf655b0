"""The clock of a device that runs behind the host: from events in its queue to times of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.journal import Mark

TIGHT_NS: Final = 200_000  # events that are known to so much tell the clock
TIGHTER: Final = 3  # times the tightest of all are as good
FAR_NS: Final = 30_000_000_000  # further from a tight one, others count as well
APART_NS: Final = 250_000_000  # of the device's time: the tightest event of each stretch counts
END_NS: Final = 5_000_000_000  # at either end, in which a busy device's events are taken together
ROUNDS: Final = 4  # within which the rate by such ends does not change any more
SURE: Final = 50e-6  # of a rate from such ends
DRIFT: Final = (
    200e-6  # by which two clocks may go apart where their rate is not known: 100 ppm each
)
RATED_NS: Final = 1_000_000_000  # over less, both clocks are taken to go alike
WITHIN: Final = 0.99  # of the events, which lie within the uncertainty
UNORDERED_NS: Final = 1_000_000_000  # by so much marks may go back in the journal, at least
ANCHORED: Final = (Mark.DEVICE, Mark.DEVICE_ANCHOR)  # what tells the clock
Rows = npt.NDArray[Any]


@dataclass(slots=True)
class _Events:
    """What a device's clock needs of its events, put together a block at a time.

    Of hours of events it keeps the tightest of each quarter of a second, and both ends.

    Attributes:
        zero_ns: The device's time of the first event.
        last_ns: From there to the last one.
        count: Number of events.
    """

    zero_ns: int
    last_ns: int = 0
    count: int = 0
    _sum_ns: int = 0
    _least: int = np.iinfo(np.int64).min
    _most: int = np.iinfo(np.int64).max
    _tight: list[IntArray] = field(default_factory=list)  # each shape (3, n): at, low, high
    _first: list[IntArray] = field(default_factory=list)
    _last: IntArray = field(default_factory=lambda: np.empty((3, 0), np.int64))

    def add(self, at: IntArray, low: IntArray, high: IntArray) -> None:
        """The next events.

        Args:
            at: Times of the device from the first event on, in ns, shape (n,), n > 0.
            low: Least offset of each.
            high: Most.
        """
        block = np.stack([at, low, high])
        self.count += len(at)
        self.last_ns = max(self.last_ns, int(at.max()))  # each stream has an order of its own
        self._sum_ns += int(at.sum())
        self._least, self._most = max(self._least, int(low.max())), min(self._most, int(high.min()))
        width = high - low
        tight = np.flatnonzero(width <= TIGHT_NS)
        self._tight.append(block[:, _first_of_each(tight, at[tight] // APART_NS, width)])
        if (early := at <= END_NS).any():
            self._first.append(block[:, early])
        both = np.concatenate([self._last, block], axis=1)
        self._last = both[:, both[0] >= self.last_ns - END_NS - UNORDERED_NS]

    def tightest(self) -> IntArray:
        """The events that tell the clock, in order, shape (3, n): of each short stretch the tightest.

        A long stretch that has none as tight as others takes what it has.
        """
        tight = np.concatenate(self._tight, axis=1)
        at, low, high = tight
        width = high - low
        if not len(at):
            return tight
        best = np.flatnonzero(width <= TIGHTER * width.min())
        of_short = _first_of_each(best, at[best] // APART_NS, width)
        long = at // FAR_NS
        without = np.flatnonzero(~np.isin(long, at[of_short] // FAR_NS))
        rows = np.union1d(of_short, _first_of_each(without, long[without], width))
        chosen: IntArray = tight[:, rows[np.argsort(at[rows], kind="stable")]]
        return chosen

    def ends(self, rate: float) -> tuple[_Knot, _Knot]:
        """The first seconds and the last: their middle, offset and half of its bounds.

        Args:
            rate: By how much the offset changes in a ns.
        """
        first = np.concatenate(self._first, axis=1)
        last = self._last[:, self._last[0] >= self.last_ns - END_NS]
        return _knot_of(first, rate), _knot_of(last, rate)

    def whole(self) -> _Knot:
        """All of them together."""
        middle = self._sum_ns / self.count
        return middle, (self._least + self._most) / 2, (self._most - self._least) / 2


_Knot = tuple[float, float, float]  # time of the device, offset and half of its bounds, in ns


def _knot_of(events: IntArray, rate: float) -> _Knot:
    at, low, high = events
    middle = float(at.mean())
    change = rate * (at - middle)
    least, most = float((low - change).max()), float((high - change).min())
    return middle, (least + most) / 2, abs(most - least) / 2


class DeviceClock:
    """A device's times as the run's (`schema.clock.Clock`), from events that lie between two times of the run.

    The host put an event into the queue at one time, and saw at another that the device had come to
    it: the device did so between. Events of an idle device are known to microseconds; between the
    tightest of them the map is linear. No event is mapped out of its own bounds.

    Args:
        events: Of the device.

    Attributes:
        uncertainty_ns: Half of the widest bounds that were used, and by how much others disagree
            with them, once `check` has seen all.
        anchors: Number of events that tell the clock.
        rate: Seconds of the run's clock in one of the device's.
    """

    def __init__(self, events: _Events) -> None:
        at, low, high = tight = events.tightest()
        self.anchors = tight.shape[1]
        knots = np.stack([at.astype(np.float64), (low + high) / 2.0, (high - low) / 2.0])
        self._at, self._offset, halves = _with_ends(knots, events)
        half = float(halves.max())
        span = float(self._at[-1] - self._at[0])
        change = float(self._offset[-1] - self._offset[0])
        self._slope = change / span if span >= RATED_NS else 0.0
        # Beyond the knots the clocks may go apart by what the rate is not known to.
        unsure = min(float(halves[0] + halves[-1]) / span, DRIFT) if self._slope else DRIFT
        half += unsure * max(float(self._at[0]), events.last_ns - float(self._at[-1]), 0.0)
        self.rate = 1.0 + self._slope
        self._zero = events.zero_ns
        self._half = half
        self.uncertainty_ns = int(half)
        self.count = events.count
        self._seen = 0
        # By how much the events that disagree most do: enough of them for the quantile.
        self._worst: FloatArray = np.empty(0)
        self._kept = math.ceil((1 - WITHIN) * events.count) + 2

    def check(self, device_ns: IntArray, low: IntArray, high: IntArray) -> None:
        """The next of all events, which may disagree with those that tell the clock."""
        fitted = self._offsets(device_ns)
        outside = np.maximum(np.maximum(low - fitted, fitted - high), 0.0)
        self._seen += len(outside)
        worst = np.concatenate([self._worst, outside])
        self._worst = np.sort(worst)[-self._kept :]
        at = WITHIN * (self._seen - 1) - (self._seen - len(self._worst))
        ranks = np.arange(len(self._worst))
        self.uncertainty_ns = int(self._half + np.interp(at, ranks, self._worst))

    def events_ns(self, device_ns: IntArray, low: IntArray, high: IntArray) -> IntArray:
        """When the device came to events, on the run's clock; none out of its own bounds."""
        offset = np.clip(self._offsets(device_ns), low, high)
        mapped: IntArray = device_ns + offset.astype(np.int64)
        return mapped

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


def _with_ends(knots: FloatArray, events: _Events) -> FloatArray:
    """The knots of the clock, with one at either end where a busy device had none that is tight.

    All events of a few seconds together bound the offset there as closely as the device was asked
    for them. That gives the rate where the run is so long that it does not matter.

    Args:
        knots: Time of the device, offset and half of its bounds, in ns, in order, shape (3, n).
        events: All of them.
    """
    first, last = events.ends(0.0)
    if not knots.size:
        for _ in range(ROUNDS):
            first, last = events.ends(_rate(first, last))
        apart = last[0] - first[0]
        both = apart > 0 and (first[2] + last[2]) / apart < SURE
        if both:
            return np.concatenate([_widened(first, apart), _widened(last, apart)], axis=1)
        alone: FloatArray = np.array([events.whole()]).T
        return alone
    begin, end = tuple(knots[:, 0].tolist()), tuple(knots[:, -1].tolist())
    for _ in range(ROUNDS):
        first, last = events.ends(_rate(first, begin))[0], events.ends(_rate(end, last))[1]
    before, behind = begin[0] - first[0], last[0] - end[0]
    parts = [knots]
    if before > END_NS and first[2] / before < SURE:
        parts.insert(0, _widened(first, before))
    if behind > END_NS and last[2] / behind < SURE:
        parts.append(_widened(last, behind))
    return np.concatenate(parts, axis=1)


def _widened(knot: _Knot, apart: float) -> FloatArray:
    """A knot of one of the ends, shape (3, 1): the rate by which its seconds were brought together errs, too."""
    middle, offset, half = knot
    return np.array([[middle], [offset], [half * (1 + END_NS / 2 / apart)]])


def _rate(first: _Knot, last: _Knot) -> float:
    """By how much the offset changes in a ns between two knots that are far enough apart."""
    apart = last[0] - first[0]
    return (last[1] - first[1]) / apart if apart > END_NS else 0.0


def _first_of_each(rows: IntArray, stretch: IntArray, width_ns: IntArray) -> IntArray:
    """The tightest of the rows of each stretch."""
    order = np.lexsort((width_ns[rows], stretch))
    first = np.append(True, np.diff(stretch[order]) != 0)[: len(order)]
    tightest: IntArray = rows[order[first]]
    return tightest


class DeviceTimes:
    """The times at which a device came to the marks of the host.

    The marks are read several times over, so that hours of them need no more memory than minutes.

    Args:
        read: Gives the marks of kind `DEVICE` and `DEVICE_END`, in the order of the journal, in
            blocks, from the first one on each time.

    Attributes:
        clocks: By the code of the device's name.
        lost: Steps whose events were never read: left out.
        costs_ns: What tracing cost the device for each piece of work, as it was measured in turn.
    """

    def __init__(self, read: Callable[[], Iterator[Rows]]) -> None:
        self._read = read
        self._end_ns = self._first_ns = np.iinfo(np.int64).max
        events: dict[int, _Events] = {}
        latest_ns, self._unordered_ns = 0, UNORDERED_NS
        self.costs_ns: list[float] = []
        for rows in read():
            if len(rows):  # a stream that is far behind is read long after the others
                so_far = np.maximum.accumulate(np.append(latest_ns, rows["t"]).astype(np.int64))
                latest_ns = int(so_far[-1])
                behind = int((so_far[1:] - rows["t"]).max())
                self._unordered_ns = max(self._unordered_ns, behind)
            self.costs_ns += rows["value"][rows["kind"] == Mark.DEVICE_COST].tolist()
            ended = rows["t"][rows["kind"] == Mark.DEVICE_END]
            if len(ended):
                self._end_ns = min(self._end_ns, int(ended[0]))
            for device, mine in _by_device(rows, ANCHORED):
                placed = mine["t"][mine["kind"] == Mark.DEVICE]
                self._first_ns = min(self._first_ns, int(placed.min(initial=self._first_ns)))
                device_ns, low, high = _bounds(mine)
                its_events = events.setdefault(device, _Events(int(device_ns[0])))
                its_events.add(device_ns - its_events.zero_ns, low, high)
        self.clocks = {
            device: DeviceClock(its_events) for device, its_events in sorted(events.items())
        }
        for rows in read():
            for device, mine in _by_device(rows, ANCHORED):
                if device in self.clocks:  # else it came while this was read
                    self.clocks[device].check(*_bounds(mine))
        self.lost = 0

    def expects(self, t_ns: IntArray) -> BoolArray:
        """Mask of the marks that ought to have one: the device was followed then."""
        first = min(self._first_ns, self._end_ns)
        return (t_ns >= first) & (t_ns < self._end_ns)

    def passage(self) -> DevicePassage:
        """The times once more from the first on, for marks that are asked for in order."""
        return DevicePassage(self.clocks, self._read(), self._unordered_ns)


class DevicePassage:
    """Goes through the times of a device's marks once, as through the marks of the host.

    Args:
        clocks: By the code of the device's name.
        blocks: Marks of kind `DEVICE`, in the order of the journal.
        unordered_ns: By how much marks go back there, at most.
    """

    def __init__(
        self, clocks: Mapping[int, DeviceClock], blocks: Iterator[Rows], unordered_ns: int
    ) -> None:
        self._clocks, self._blocks = clocks, blocks
        self._unordered_ns = unordered_ns
        self._keys: IntArray = np.empty(0, np.int64)
        self._times = self._keys
        # By device the latest event: its own time, and the run's; neither goes back from there.
        self._latest: dict[int, tuple[int, int]] = {}
        self._read_ns = np.iinfo(np.int64).min  # the latest mark that was read

    def go_on(self, from_ns: int, to_ns: int) -> None:
        """From here on marks between these times of the host are asked for, and none before.

        Args:
            from_ns: Not before the one of the last call.
            to_ns: The latest.
        """
        keys, times = [self._keys], [self._times]
        while self._read_ns <= to_ns + self._unordered_ns:
            rows = next(self._blocks, None)
            if rows is None:
                break
            for device, mine in _by_device(rows):
                if device in self._clocks:
                    keys.append(mine["t"].astype(np.int64))
                    times.append(self._times_of(device, mine))
                    self._read_ns = max(self._read_ns, int(mine["t"].max()))
        # A mark that has two events counts by the first of them.
        self._keys, first = np.unique(np.concatenate(keys), return_index=True)
        self._times = np.concatenate(times)[first]
        # The last one before is kept: by it `after` tells what came before.
        past = int(np.searchsorted(self._keys, from_ns - self._unordered_ns, side="right")) - 1
        if past > 0:
            self._keys, self._times = self._keys[past:], self._times[past:]

    def _times_of(self, device: int, rows: Rows) -> IntArray:
        device_ns, *bounds = _bounds(rows)
        times = self._clocks[device].events_ns(device_ns, *bounds)
        latest_device_ns, latest_ns = self._latest.get(device, (int(device_ns.min()), 0))
        order = np.argsort(device_ns, kind="stable")
        # What a stream came to before that, but was read of it later, is left as it is.
        onward = order[device_ns[order] >= latest_device_ns]
        if len(onward):
            times[onward] = np.maximum.accumulate(np.maximum(times[onward], latest_ns))
            self._latest[device] = int(device_ns[onward[-1]]), int(times[onward[-1]])
        return times

    def of(self, t_ns: IntArray) -> tuple[IntArray, BoolArray]:
        """The device's times of marks, on the run's clock, and which of the marks have one."""
        if not len(self._keys):
            return t_ns, np.zeros(len(t_ns), bool)
        at = np.minimum(np.searchsorted(self._keys, t_ns), len(self._keys) - 1)
        known = self._keys[at] == t_ns
        return np.where(known, self._times[at], t_ns), known

    def after(self, t_ns: int) -> int:
        """When the device had done what the host asked for before a time; never before that time."""
        at = int(np.searchsorted(self._keys, t_ns, side="right")) - 1
        return t_ns if at < 0 else max(t_ns, int(self._times[at]))


def _by_device(rows: Rows, kinds: Sequence[int] = (Mark.DEVICE,)) -> Iterator[tuple[int, Rows]]:
    """The events of each device among some marks."""
    events = rows[np.isin(rows["kind"], kinds)]
    for device in np.unique(events["code"]).tolist():
        yield device, events[events["code"] == device]


def _bounds(rows: Rows) -> tuple[IntArray, IntArray, IntArray]:
    """The device's times of events, and the least and most that the run's clock was beyond them."""
    device_ns, t_ns = rows["cpu"].astype(np.int64), rows["t"].astype(np.int64)
    low = t_ns + rows["index"] - device_ns
    high = t_ns + rows["value"].astype(np.int64) - device_ns
    return device_ns, low.astype(np.int64), high
