"""Perfetto traces packet by packet: tracks, slices, counters; nothing is held but names.

Each track is a packet sequence of its own: it says once which track and which clock its packets are
of, and numbers its names. After Perfetto's `TracePacket`, `TrackEvent` and `TrackDescriptor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np

from wattstep.attribution.tables.naming import Names
from wattstep.report.export.labels import label
from wattstep.report.export.lanes import event_order
from wattstep.report.export.perfetto_wire import (
    Part,
    block,
    constant,
    eights,
    message,
    number,
    numbers,
    texts,
)
from wattstep.report.export.timeline import NONE, Masked, Slices
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

REALTIME, MONOTONIC = 1, 3  # BuiltinClock
ROWS: Final = 1 << 15  # messages that are built at once
MOST_FLOWS: Final = 16  # arrows that leave one slice
_PACKET = 1
# Fields of TracePacket.
_SNAPSHOT, _TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS = 6, 8, 10, 11, 12, 13
_CLOCK, _DEFAULTS, _DESCRIPTOR = 58, 59, 60
_CLEARED, _NEEDS_STATE = 1, 2  # sequence_flags
# Fields of TrackEvent, and its types.
_CATEGORY, _ARGUMENT, _TYPE, _NAME, _TRACK, _TEXT = 3, 4, 9, 10, 11, 23
_VALUE, _FLOWS, _ENDING_FLOWS = 44, 47, 48
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
# Fields of InternedData by what they number.
_NAMES, _CATEGORIES, _KEYS, _STRINGS = 2, 1, 3, 29
# Fields of DebugAnnotation.
_KEY, _BOOL, _INT, _DOUBLE, _STRING, _STRING_ID, _KEY_TEXT = 1, 2, 4, 5, 6, 17, 10
_SIZE_BYTES = 3  # CounterDescriptor.Unit
_EXPLICIT = 3  # ChildTracksOrdering


@dataclass(frozen=True, kw_only=True)
class Described:
    """Description of a track.

    Attributes:
        name: For readers.
        parent: The track that it stands below, or 0.
        about: In a sentence or two.
        thread: Number of the thread whose track it is, or None.
        process: Name of the process whose track it is, or None.
        labels: Beside the name of a process.
        unit: Of a counter, or None where it is none.
        rank: Its place among its neighbours.
    """

    name: str
    parent: int = 0
    about: str = ""
    thread: int | None = None
    process: str | None = None
    labels: Sequence[str] = ()
    unit: str | None = None
    rank: int = 0


PROCESS: Final = 1  # number that the training has in a trace: its own is not recorded


class PerfettoFile:
    """Writes a trace.

    Args:
        file: Where to.
        shift_ns: Added to all times, which must not be negative in a trace.
    """

    def __init__(self, file: BinaryIO, shift_ns: int = 0) -> None:
        self._file = file
        self.shift_ns = shift_ns
        self._tracks = 0

    def write(self, packet: bytes) -> None:
        """Writes a packet."""
        self._file.write(block(_PACKET, packet))

    def write_all(self, parts: Sequence[Part]) -> None:
        """Packets of these fields."""
        self._file.write(message(_PACKET, parts).to_bytes())

    def clocks(self, pairs: Sequence[tuple[int, int]], begin_ns: int) -> None:
        """Writes snapshots that name the clock of the times and map it to the wall clock.

        Args:
            pairs: Monotonic time and what the wall clock was ahead of it, in ns.
            begin_ns: A time of the trace, for where there are no pairs.
        """
        snapshots: list[tuple[int, int | None]] = [*pairs] or [(begin_ns, None)]
        for t_ns, offset_ns in snapshots:
            message = block(1, number(1, MONOTONIC) + number(2, max(t_ns + self.shift_ns, 0)))
            if offset_ns is not None and t_ns + offset_ns >= 0:
                message += block(1, number(1, REALTIME) + number(2, t_ns + offset_ns))
            packet = block(_SNAPSHOT, message + number(2, MONOTONIC))
            self.write(packet + number(_SEQUENCE, 1))

    def track(self, described: Described) -> Track:
        """A new track."""
        self._tracks += 1
        uuid = self._tracks
        state = number(_CLOCK, MONOTONIC) + block(_EVENT, number(_TRACK, uuid))
        self.write(
            block(_DESCRIPTOR, _descriptor(uuid, described))
            + number(_SEQUENCE, uuid + 1)
            + number(_FLAGS, _CLEARED)
            + block(_DEFAULTS, state)
        )
        return Track(file=self, uuid=uuid)


def _descriptor(uuid: int, described: Described) -> bytes:
    name = label(described.name)
    message = number(1, uuid) + block(2, name) + number(12, described.rank)
    if described.parent:
        message += number(5, described.parent)
    if described.about:
        message += block(14, label(described.about))
    if described.thread is not None:
        message += block(4, number(1, PROCESS) + number(2, described.thread) + block(5, name))
    if described.process is not None:
        labels = b"".join(block(8, label(text)) for text in described.labels)
        message += block(3, number(1, PROCESS) + block(6, label(described.process)) + labels)
    if described.unit is not None:
        unit = number(3, _SIZE_BYTES) if described.unit == "B" else block(6, described.unit)
        message += block(8, unit)
    else:
        message += number(11, _EXPLICIT)
    return message


@dataclass
class _Numbered:
    """Texts that a sequence numbers as they come.

    Attributes:
        interned: Field of `InternedData` that they stand in.
        numbers_of: Number by text.
    """

    interned: int
    numbers_of: dict[str, int] = field(default_factory=dict)

    def of(self, names: Names, waiting: list[bytes]) -> IntArray:
        """The number of each row's text; what is new is added to the interned data."""
        numbers = np.zeros(len(names.texts), np.int64)
        for code in np.flatnonzero(np.bincount(names.code, minlength=len(numbers))).tolist():
            numbers[code] = self.one(str(names.texts[code]), waiting)
        return numbers[names.code]

    def one(self, text: str, waiting: list[bytes]) -> int:
        """Number of one text; a new one's definition goes to `waiting`."""
        shown = label(text)
        if shown not in self.numbers_of:
            self.numbers_of[shown] = len(self.numbers_of) + 1
            waiting.append(
                block(self.interned, number(1, self.numbers_of[shown]) + block(2, shown))
            )
        return self.numbers_of[shown]


class Track:
    """A track that takes slices or values.

    Args:
        file: Where it stands.
        uuid: Its number.
    """

    def __init__(self, *, file: PerfettoFile, uuid: int) -> None:
        self.uuid = uuid
        self._file = file
        self._names, self._categories = _Numbered(_NAMES), _Numbered(_CATEGORIES)
        self._keys, self._strings = _Numbered(_KEYS), _Numbered(_STRINGS)

    def slices(self, slices: Slices, flows: Flows | None = None) -> None:
        """Slices that nest; see `Lanes`.

        Args:
            slices: In any order.
            flows: Arrows from and to them.
        """
        row, begins = event_order(slices.start_ns, slices.end_ns)
        for at in range(0, len(row), ROWS):
            self._events(slices, row[at : at + ROWS], begins[at : at + ROWS], flows)

    def _events(
        self, slices: Slices, row: IntArray, begins: BoolArray, flows: Flows | None
    ) -> None:
        mine = slices.at(row)
        interned: list[bytes] = []
        time = np.where(begins, mine.start_ns, mine.end_ns)
        event = [numbers(_TYPE, np.where(begins, _BEGIN, _END))]
        event.append(self._name(mine, begins, interned))
        if mine.kinds is not None:
            event.append(numbers(_CATEGORY, self._categories.of(mine.kinds, interned), begins))
        event += self._arguments(mine, begins, interned)
        event += _arrows(mine, begins, flows)
        if interned:
            self._file.write(self._header + block(_INTERNED, b"".join(interned)))
        self._packets(time, event)

    def _name(self, mine: Slices, begins: BoolArray, interned: list[bytes]) -> Part:
        if mine.numbers is None:
            return numbers(_NAME, self._names.of(mine.names, interned), begins)
        behind = mine.numbers.astype(np.bytes_)
        prefix = np.array([f"{label(str(text))} ".encode() for text in mine.names.texts])
        return texts(_TEXT, np.char.add(prefix[mine.names.code], behind), begins)

    def _arguments(self, mine: Slices, begins: BoolArray, interned: list[bytes]) -> list[Part]:
        parts = []
        for key, names in mine.annotations.items():
            mask = begins & (names.texts != "")[names.code]
            if mask.any():
                values = numbers(_STRING_ID, self._strings.of(names, interned))
                parts.append(self._argument(key, values, mask, interned))
        for key, column in mine.counted.items():
            mask = begins & column.mask
            if mask.any():
                parts.append(self._argument(key, _value(column), mask, interned))
        return parts

    def _argument(self, key: str, value: Part, mask: BoolArray, interned: list[bytes]) -> Part:
        name = number(_KEY, self._keys.one(key, interned))
        return message(_ARGUMENT, [constant(name, len(mask)), value], mask)

    def values(self, t_ns: IntArray, value: FloatArray) -> None:
        """Values of a counter; each holds until the next."""
        for at in range(0, len(t_ns), ROWS):
            some = slice(at, at + ROWS)
            count = len(t_ns[some])
            event = [constant(number(_TYPE, _COUNTER), count), eights(_VALUE, value[some])]
            self._packets(t_ns[some], event)

    def instant(self, t_ns: int, name: str, annotations: Mapping[str, Any]) -> None:
        """Writes an instant event with texts and numbers beside it."""
        arguments = b"".join(
            block(_ARGUMENT, block(_KEY_TEXT, key) + block(_STRING, label(str(value))))
            for key, value in annotations.items()
        )
        event = number(_TYPE, _INSTANT) + block(_TEXT, label(name)) + arguments
        time = number(_TIME, t_ns + self._file.shift_ns)
        self._file.write(time + self._header + block(_EVENT, event))

    @property
    def _header(self) -> bytes:
        return number(_SEQUENCE, self.uuid + 1) + number(_FLAGS, _NEEDS_STATE)

    def _packets(self, t_ns: IntArray, event: list[Part]) -> None:
        time = numbers(_TIME, t_ns + self._file.shift_ns)
        header = constant(self._header, len(t_ns))
        self._file.write_all([time, header, message(_EVENT, event)])


def _value(column: Masked) -> Part:
    if column.values.dtype == np.float64:
        return eights(_DOUBLE, column.values)
    kind = _BOOL if column.values.dtype == bool else _INT
    return numbers(kind, column.values.astype(np.int64))


@dataclass(frozen=True, kw_only=True, eq=False)
class Flows:
    """Arrows from slices to those that they launched; shape (n,) each, by what launched.

    Attributes:
        by: `number` of what launched.
        each: Of what it launched.
        rank: Number of the same that come before.
        left_out: Number of further ones: a slice bears only so many.
    """

    by: IntArray
    each: IntArray
    rank: IntArray
    left_out: int


def flows_of(slices: Sequence[Slices]) -> Flows:
    """The arrows of a piece of whole windows."""
    pairs = [np.zeros((2, 0), np.int64)]
    for some in slices:
        if some.number is not None and some.launched_by is not None:
            launched = some.launched_by != NONE
            pairs.append(np.stack([some.launched_by[launched], some.number[launched]]))
    by, each = np.concatenate(pairs, axis=1)
    order = np.lexsort((each, by))
    by, each = by[order], each[order]
    rank = np.arange(len(by)) - np.searchsorted(by, by)
    drawn = rank < MOST_FLOWS
    return Flows(by=by[drawn], each=each[drawn], rank=rank[drawn], left_out=int((~drawn).sum()))


def _arrows(mine: Slices, begins: BoolArray, flows: Flows | None) -> list[Part]:
    """Flows have the number of what was launched, from 1 on."""
    if mine.number is None or flows is None or not len(flows.by):
        return []
    parts = [eights(_ENDING_FLOWS, mine.number + 1, begins & np.isin(mine.number, flows.each))]
    for rank in range(int(flows.rank.max()) + 1):
        of_rank = flows.rank == rank
        by, each = flows.by[of_rank], flows.each[of_rank]
        at = np.minimum(np.searchsorted(by, mine.number), len(by) - 1)
        mask = begins & (by[at] == mine.number)
        if mask.any():
            parts.append(eights(_FLOWS, each[at] + 1, mask))
    return parts
