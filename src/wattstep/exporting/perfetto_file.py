"""Perfetto traces packet by packet: tracks, slices, counters; nothing is held but names.

Each track is a packet sequence of its own: it says once which track and which clock its packets are
of, and numbers its names. After Perfetto's `TracePacket`, `TrackEvent` and `TrackDescriptor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np

from wattstep.analysis.steps import BoolArray, FloatArray, IntArray
from wattstep.exporting.labels import label
from wattstep.exporting.lanes import event_order
from wattstep.exporting.perfetto_wire import (
    Part,
    block,
    constant,
    eights,
    message,
    number,
    numbers,
    texts,
)
from wattstep.exporting.timeline import NONE, Known, Slices
from wattstep.run.naming import Names

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
    """What a track is.

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
        """One packet."""
        self._file.write(block(_PACKET, packet))

    def write_all(self, parts: Sequence[Part]) -> None:
        """Packets of these fields."""
        self._file.write(message(_PACKET, parts).to_bytes())

    def clocks(self, pairs: Sequence[tuple[int, int]], begin_ns: int) -> None:
        """Which clock the times are of, and when it was what on the wall.

        Args:
            pairs: Monotonic time and what the wall clock was ahead of it, in ns.
            begin_ns: A time of the trace, for where there are no pairs.
        """
        told_of: list[tuple[int, int | None]] = [*pairs] or [(begin_ns, None)]
        for t_ns, ahead in told_of:
            told = block(1, number(1, MONOTONIC) + number(2, max(t_ns + self.shift_ns, 0)))
            if ahead is not None and t_ns + ahead >= 0:
                told += block(1, number(1, REALTIME) + number(2, t_ns + ahead))
            packet = block(_SNAPSHOT, told + number(2, MONOTONIC))
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
    found = number(1, uuid) + block(2, name) + number(12, described.rank)
    if described.parent:
        found += number(5, described.parent)
    if described.about:
        found += block(14, label(described.about))
    if described.thread is not None:
        found += block(4, number(1, PROCESS) + number(2, described.thread) + block(5, name))
    if described.process is not None:
        labels = b"".join(block(8, label(text)) for text in described.labels)
        found += block(3, number(1, PROCESS) + block(6, label(described.process)) + labels)
    if described.unit is not None:
        unit = number(3, _SIZE_BYTES) if described.unit == "B" else block(6, described.unit)
        found += block(8, unit)
    else:
        found += number(11, _EXPLICIT)
    return found


@dataclass
class _Numbered:
    """Texts that a sequence numbers as they come.

    Attributes:
        interned: Field of `InternedData` that they stand in.
        known: Number by text.
    """

    interned: int
    known: dict[str, int] = field(default_factory=dict)

    def of(self, names: Names, waiting: list[bytes]) -> IntArray:
        """The number of each row's text; what is new is added to the interned data."""
        codes, inverse = np.unique(names.code, return_inverse=True)
        found = np.array([self.one(str(names.texts[code]), waiting) for code in codes], np.int64)
        return found[inverse.ravel()] if len(codes) else np.zeros(0, np.int64)

    def one(self, text: str, waiting: list[bytes]) -> int:
        """Likewise, of one text."""
        shown = label(text)
        if shown not in self.known:
            self.known[shown] = len(self.known) + 1
            waiting.append(block(self.interned, number(1, self.known[shown]) + block(2, shown)))
        return self.known[shown]


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

    def slices(self, slices: Slices, flows: Mapping[int, Sequence[int]] | None = None) -> None:
        """Slices that nest; see `Lanes`.

        Args:
            slices: In any order.
            flows: By `number` of a slice, those that it launched.
        """
        row, begins = event_order(slices.start_ns, slices.end_ns)
        for at in range(0, len(row), ROWS):
            self._events(slices, row[at : at + ROWS], begins[at : at + ROWS], flows or {})

    def _events(
        self, slices: Slices, row: IntArray, begins: BoolArray, flows: Mapping[int, Sequence[int]]
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
        found = []
        for key, names in mine.told.items():
            there = begins & (names.texts != "")[names.code]
            if there.any():
                values = numbers(_STRING_ID, self._strings.of(names, interned))
                found.append(self._argument(key, values, there, interned))
        for key, column in mine.counted.items():
            there = begins & column.there
            if there.any():
                found.append(self._argument(key, _value(column), there, interned))
        return found

    def _argument(self, key: str, value: Part, there: BoolArray, interned: list[bytes]) -> Part:
        name = number(_KEY, self._keys.one(key, interned))
        return message(_ARGUMENT, [constant(name, len(there)), value], there)

    def values(self, t_ns: IntArray, value: FloatArray) -> None:
        """Values of a counter; each holds until the next."""
        for at in range(0, len(t_ns), ROWS):
            some = slice(at, at + ROWS)
            count = len(t_ns[some])
            event = [constant(number(_TYPE, _COUNTER), count), eights(_VALUE, value[some])]
            self._packets(t_ns[some], event)

    def instant(self, t_ns: int, name: str, told: Mapping[str, Any]) -> None:
        """One moment, with texts and numbers beside it."""
        arguments = b"".join(
            block(_ARGUMENT, block(_KEY_TEXT, key) + block(_STRING, label(str(value))))
            for key, value in told.items()
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


def _value(column: Known) -> Part:
    if column.values.dtype == np.float64:
        return eights(_DOUBLE, column.values)
    kind = _BOOL if column.values.dtype == bool else _INT
    return numbers(kind, column.values.astype(np.int64))


def _arrows(mine: Slices, begins: BoolArray, flows: Mapping[int, Sequence[int]]) -> list[Part]:
    """Flows from what launches to what was launched; each has the latter's number, from 1 on."""
    if mine.number is None or mine.launched_by is None or not flows:
        return []
    drawn = np.array(sorted({each for some in flows.values() for each in some}), np.int64)
    ending = begins & (mine.launched_by != NONE) & np.isin(mine.number, drawn)
    found = [eights(_ENDING_FLOWS, mine.number + 1, ending)]
    starting = [(row, flows[n]) for row, n in enumerate(mine.number.tolist()) if n in flows]
    for rank in range(max((len(some) for _, some in starting), default=0)):
        rows = [(row, some[rank]) for row, some in starting if rank < len(some)]
        ids, there = np.zeros(len(begins), np.int64), np.zeros(len(begins), bool)
        at = np.array([row for row, _ in rows], np.int64)
        ids[at], there[at] = [each + 1 for _, each in rows], True
        found.append(eights(_FLOWS, ids, there & begins))
    return found


def flows_of(slices: Sequence[Slices]) -> tuple[dict[int, list[int]], int]:
    """By number of what launched, the numbers of what it did; and how many arrows are left out."""
    found: dict[int, list[int]] = {}
    left_out = 0
    for some in slices:
        if some.number is None or some.launched_by is None:
            continue
        launched = np.flatnonzero(some.launched_by != NONE)
        for by, each in zip(
            some.launched_by[launched].tolist(), some.number[launched].tolist(), strict=True
        ):
            mine = found.setdefault(by, [])
            if len(mine) < MOST_FLOWS:
                mine.append(each)
            else:
                left_out += 1
    return found, left_out
