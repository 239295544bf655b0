"""The runner's journal, as lines come from the phone; its format stands in `engines/mnn/runner.cpp`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from wattstep.errors import RecordingError

MOST_OPERATIONS: Final = 1_000_000
LONGEST: Final = 64 << 20  # a line of more bytes is none of the runner's
_MOST_NS: Final = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """MNN is loaded: its version, and the threads of an operation."""

    version: str
    threads: int


@dataclass(frozen=True, kw_only=True)
class ClockStamp:
    """Wall clock and time since the phone's start, in ns, read between two times of the runner's clock."""

    before_ns: int
    real_ns: int
    boot_ns: int
    after_ns: int

    @property
    def middle_ns(self) -> int:
        """By the runner's clock."""
        return (self.before_ns + self.after_ns) // 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """Step of the training, in ns of the runner's clock, CPU times in ns of its process.

    Attributes:
        index: Counted from 0.
        begin_ns: When it began to fill in its batch.
        run_ns: When MNN began.
        end_ns: When the loss was there.
        cpu_ns: The process's CPU time at its begin and end.
        loss: NaN where it is no number.
        opened_ns: Of a traced step, since when nothing is training; else None.
        operations: Of a traced step, begin and end of each operation.
    """

    index: int
    begin_ns: int
    run_ns: int
    end_ns: int
    cpu_ns: tuple[int, int]
    loss: float
    opened_ns: int | None = None
    operations: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Name:
    """Operation of the graph: name, type, work in millions and shapes of the inputs, as MNN tells them."""

    told: tuple[str, str, float, str]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Resident memory in B at a time: "peak", "traced", "before" or "after" a traced step."""

    kind: str
    at_ns: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What the reader must know: "least", "windows", "reset" or "stopped", and a number."""

    what: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The training is over."""


Record: TypeAlias = Beginning | ClockStamp | Step | Name | Memory | Remark | Ending


class JournalReader:
    """Makes records of what has come of a journal.

    Attributes:
        unfinished: Bytes of a line whose end has not come.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._traced: Step | None = None  # whose operations come next

    @property
    def unfinished(self) -> int:
        """Bytes of a line whose end has not come."""
        return len(self._rest)

    def take(self, data: bytes) -> Iterator[Record]:
        """Records that are whole with these bytes; a traced step comes with its operations.

        Raises:
            RecordingError: A line is none of the runner's.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            raise _garbled("a line has no end")
        for line in lines:
            try:
                record = self._parse(line.decode("utf-8", errors="replace").split("\t"))
            except (ValueError, IndexError) as error:
                raise _garbled(
                    f"a line that begins with {line[:20].decode('latin-1')!a}"
                ) from error
            if record is not None:
                yield record

    def _parse(self, words: list[str]) -> Record | None:
        """A line; None: its record is whole only with the next.

        Raises:
            ValueError: It is none of the runner's; or IndexError.
        """
        kind, *values = words
        if kind == "P":
            return self._with_operations([_time(word) for word in values])
        if self._traced is not None:
            raise ValueError("a traced step has no operations")
        if kind == "S":
            return _step(values, None)
        if kind == "T":
            self._traced = _step(values[1:], _time(values[0]))
            return None
        if kind == "C":
            before, real, boot, after = map(_time, values)
            return ClockStamp(before_ns=before, real_ns=real, boot_ns=boot, after_ns=after)
        if kind == "N":
            name, type_, work, shapes = values
            millions = _number(work)
            if math.isnan(millions):
                raise ValueError("an operation's work is no number")
            known = ("" if text == "-" else text for text in (name, shapes))
            return Name(told=(next(known), type_, millions, next(known)))
        if kind == "M":
            what, at, size = values
            return Memory(kind=what, at_ns=_time(at), size=_time(size))
        if kind == "X":
            what, count = values
            return Remark(what=what, number=_time(count))
        if kind == "H":
            version, threads = values
            return Beginning(version=version, threads=_time(threads))
        if kind == "E" and not values:
            return Ending()
        raise ValueError(f"unknown kind {kind}")

    def _with_operations(self, values: list[int]) -> Step:
        step, self._traced = self._traced, None
        if step is None or len(values) % 2 or len(values) > 2 * MOST_OPERATIONS:
            raise ValueError("operations of no step")
        last = step.begin_ns
        for gap, length in zip(values[::2], values[1::2], strict=True):
            step.operations.append((last + gap, last + gap + length))
            last += gap + length
        if last > step.end_ns:
            raise ValueError("operations end after their step")
        return step


def _step(values: list[str], opened_ns: int | None) -> Step:
    index, begin, run, end, first, last = map(_time, values[:6])
    (loss,) = values[6:]
    if not (opened_ns or 0) <= begin <= run <= end or first > last or index >= 1 << 32:
        raise ValueError("a step ends before it begins")
    return Step(
        index=index, begin_ns=begin, run_ns=run, end_ns=end, cpu_ns=(first, last),
        loss=_number(loss), opened_ns=opened_ns,
    )  # fmt: skip


def _time(word: str) -> int:
    """A number that is not negative and that a table can hold.

    Raises:
        ValueError: It is another.
    """
    value = int(word) if word.isascii() and word.isdigit() else -1
    if not 0 <= value < _MOST_NS:
        raise ValueError(f"{word[:30]} is no such number")
    return value


def _number(word: str) -> float:
    value = float(word)
    return value if math.isfinite(value) else math.nan


def _garbled(what: str) -> RecordingError:
    return RecordingError(
        f"--target adb: the runner's journal is garbled: {what}", id="garbled-runner-journal"
    )
