"""ExecuTorch's ETDump: what its runtime did, event by event, and how long it took.

The layout is that of `etdump_schema_flatcc.fbs` (ExecuTorch, devtools/etdump), a flatbuffer with
the identifier ED00; a length of four bytes may stand before it. Times are ticks of the platform,
which are ns from the runtime's start where ExecuTorch's own default for POSIX is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wattstep.formats.event_rows import MOST_NS, EventRows
from wattstep.formats.sniff import BinaryFormatError, looks_like, read_whole
from wattstep.formats.trace import Trace
from wattstep.schema.extras import require

FORMAT: Final = "ExecuTorch ETDump"
_IDENTIFIER: Final = b"ED00"
_PREFIX: Final = 4  # bytes of a length before the buffer
_HEAD: Final = 8  # bytes of the offset of the root, and of the identifier

# Positions of fields in their tables, as the schema orders them.
_VERSION, _RUNS = 0, 1
_RUN_NAME, _ALLOCATORS, _EVENTS = 0, 2, 3
_ALLOCATOR_NAME = 0
_PROFILE, _ALLOCATION, _DEBUG = 0, 1, 2
_NAME, _DELEGATE_NUMBER, _DELEGATE_NAME, _START, _END = 0, 3, 4, 6, 7
_ALLOCATOR_ID, _SIZE = 0, 1

_STEP: Final = "Method::execute"
# What the runtime does around the operators: instructions of the program, loading, and so on.
_OPERATORS: Final = "native_call_"


@dataclass(frozen=True, kw_only=True)
class _Profiled:
    """Profile event; `delegated` where a delegate (a backend's library) reports it."""

    name: str
    delegated: bool
    start: int
    end: int


def read(path: Path, on_progress: Callable[[float], None] | None = None) -> Trace:
    """Parsed content of a file; see `parse`.

    Raises:
        InvalidValueError: It cannot be read, or is no ETDump.
        MissingPartError: flatbuffers is not installed.
    """
    return read_whole(path, parse, on_progress)


def parse(data: bytes) -> Trace:
    """The profile events of all blocks (loads and executions of a method) of one file.

    An operator's own time has the category "operation"; the program's instruction around it
    (OPERATOR_CALL, DELEGATE_CALL) and loading are "runtime"; an execution of a method is a "step".

    Raises:
        FormatError: It is no ETDump, or a reference in it leads outside or to too much.
        MissingPartError: flatbuffers is not installed.
    """
    begin = next((at for at in (0, _PREFIX) if data[at + 4 : at + _HEAD] == _IDENTIFIER), None)
    if begin is None:
        raise BinaryFormatError(
            FORMAT, 4, f"its identifier {_IDENTIFIER.decode()} is missing; it looks like "
            f"{looks_like(data)}", id="no-identifier",)  # fmt: skip
    dump = _Dump(_Buffer(data[begin:]))
    dump.take()
    return dump.trace()


class _Buffer:
    """The bytes of a flatbuffer, and what was read of them."""

    def __init__(self, data: bytes) -> None:
        self.runtime = require("flatbuffers")
        self.data = data
        self._texts: dict[int, str] = {}
        self._spent = 0

    def need(self, at: int, width: int) -> int:
        """The place itself, where so many bytes of the file follow it.

        Raises:
            FormatError: They do not.
        """
        if not 0 <= at <= len(self.data) - width:
            raise BinaryFormatError(
                FORMAT,
                max(at, 0),
                "a reference leads there, outside of the file: it is cut or damaged",
                id="outside-of-file",
            )
        return at

    def spend(self, count: int) -> None:
        """Counts elements of vectors: more than the file has room for are the same ones again."""
        self._spent += count
        if self._spent > len(self.data):
            raise BinaryFormatError(
                FORMAT, 0, "its tables lie over one another: it is damaged", id="overlapping-tables"
            )

    def get(self, kind: str, at: int) -> int:
        """An integer of a kind of the flatbuffers runtime, "Uint32"."""
        flags = getattr(self.runtime.number_types, f"{kind}Flags")
        self.need(at, flags.bytewidth)
        return int(self.runtime.encode.Get(flags.packer_type, self.data, at))

    def follow(self, at: int) -> int:
        """The place that the offset there points to."""
        return self.need(at + self.get("Uint32", at), 4)

    def text(self, at: int) -> str:
        """The string whose length stands there."""
        text = self._texts.get(at)
        if text is None:
            length = self.get("Uint32", at)
            self.spend(length)
            begin = self.need(at + 4, length)
            text = self.data[begin : begin + length].decode(errors="replace")
            self._texts[at] = text
        return text


class _Table:
    """Flatbuffer table: its fields by their position in the schema."""

    def __init__(self, buffer: _Buffer, at: int) -> None:
        self.buffer = buffer
        self.at = at
        vtable = at - buffer.get("Int32", at)
        size = buffer.get("Uint16", vtable)
        buffer.need(vtable, size)
        self._fields = max(size - 4, 0) // 2
        self._table: Any = buffer.runtime.table.Table(buffer.data, at)

    def _place(self, field: int) -> int | None:
        """Position of a field; None if it is left out."""
        offset = self._table.Offset(4 + 2 * field) if field < self._fields else 0
        return self.at + offset if offset else None

    def integer(self, field: int, kind: str, default: int = 0) -> int:
        place = self._place(field)
        return default if place is None else self.buffer.get(kind, place)

    def text(self, field: int) -> str:
        place = self._place(field)
        return "" if place is None else self.buffer.text(self.buffer.follow(place))

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return None if place is None else _Table(self.buffer, self.buffer.follow(place))

    def tables(self, field: int) -> Iterator[_Table]:
        place = self._place(field)
        if place is None:
            return
        vector = self.buffer.follow(place)
        count = self.buffer.get("Uint32", vector)
        self.buffer.need(vector + 4, 4 * count)
        self.buffer.spend(4 * count)
        for index in range(count):
            yield _Table(self.buffer, self.buffer.follow(vector + 4 + 4 * index))


class _Dump:
    """State of the reader within a file."""

    def __init__(self, buffer: _Buffer) -> None:
        self.root = _Table(buffer, buffer.follow(0))
        self.rows = EventRows()
        self.ignored: Counter[str] = Counter()
        self.allocated: defaultdict[str, list[int]] = defaultdict(list)
        self.blocks: Counter[str] = Counter()
        self.delegated = 0

    def take(self) -> None:
        """All blocks."""
        for run in self.root.tables(_RUNS):
            self.blocks[run.text(_RUN_NAME)] += 1
            allocators = [each.text(_ALLOCATOR_NAME) for each in run.tables(_ALLOCATORS)]
            profiled = []
            for event in run.tables(_EVENTS):
                if (profile := event.table(_PROFILE)) is not None:
                    profiled.append(_profiled(profile))
                elif (allocation := event.table(_ALLOCATION)) is not None:
                    self._allocation(allocation, allocators)
                elif event.table(_DEBUG) is not None:
                    self.ignored["values of tensors, kept for debugging"] += 1
                else:
                    self.ignored["event without contents"] += 1
            self._block(profiled)

    def _allocation(self, allocation: _Table, allocators: list[str]) -> None:
        number = allocation.integer(_ALLOCATOR_ID, "Int32")
        # The runtime counts allocators from 1: `track_allocator` returns how many there are.
        known = 1 <= number <= len(allocators)
        name = allocators[number - 1] if known else f"number {number}"
        self.allocated[name].append(allocation.integer(_SIZE, "Uint64"))
        self.ignored["allocation, without a time"] += 1

    def _block(self, profiled: list[_Profiled]) -> None:
        """Reads one block; a delegate's events count only where they lie within the runtime's."""
        own = [each for each in profiled if not each.delegated and each.start <= each.end < MOST_NS]
        first = min((each.start for each in own), default=0)
        last = max((each.end for each in own), default=-1)
        for event in profiled:
            if not event.start <= event.end < MOST_NS:
                self.ignored["event that ends before it begins, or beyond 146 years"] += 1
            elif event.delegated and not first <= event.start <= event.end <= last:
                self.ignored["event of a delegate, in a clock of its own"] += 1
            else:
                self.delegated += event.delegated
                self.rows.add(event.name, _category(event), "cpu", event.start, event.end)

    def trace(self) -> Trace:
        """Result at the end of the file."""
        return Trace(
            format=FORMAT,
            names=tuple(self.rows.names),
            events=self.rows.events(),
            clock="unknown",
            device={"blocks": dict(self.blocks)},
            notes=tuple(self._notes()),
            ignored=dict(self.ignored),
        )

    def _notes(self) -> list[str]:
        notes = [
            "times are taken for ns from the runtime's start, as ExecuTorch counts on POSIX; a "
            "platform of its own may count cycles, which the file does not tell"
        ]
        if _STEP in self.rows.names:
            notes.append(
                "each execution of a method stands as one step: an inference, or the forward and "
                "backward passes of a training step; what is done outside of methods is not in it"
            )
        if self.delegated:
            notes.append(
                f"{self.delegated} events were reported by delegates: the unit of their times is "
                "unknown; they lie within the runtime's own"
            )
        for name, sizes in sorted(self.allocated.items()):
            notes.append(f"allocator {name}: {len(sizes)} allocations of {sum(sizes)} B together")
        if self.root.integer(_VERSION, "Uint32"):
            notes.append("its version of the format is newer than the one that is known (0)")
        return notes


def _profiled(event: _Table) -> _Profiled:
    name, delegate = event.text(_NAME), event.text(_DELEGATE_NAME)
    number = event.integer(_DELEGATE_NUMBER, "Int32", -1)
    delegated = bool(delegate) or (not name and number >= 0)
    return _Profiled(
        name=name or delegate or (f"delegate event {number}" if number >= 0 else "unnamed"),
        delegated=delegated,
        start=event.integer(_START, "Uint64"),
        end=event.integer(_END, "Uint64"),
    )


def _category(event: _Profiled) -> str:
    if event.name == _STEP:
        return "step"
    return "operation" if event.delegated or event.name.startswith(_OPERATORS) else "runtime"
