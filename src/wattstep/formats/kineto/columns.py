"""Events as columns: every one becomes an interval, a counter's value, or is counted with a reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.kineto import words
from wattstep.formats.kineto.counters import NO_TIME, Counters
from wattstep.formats.kineto.numbers import nanoseconds
from wattstep.formats.kineto.own import OwnColumns, decoded_text
from wattstep.formats.trace import NONE, Own

if TYPE_CHECKING:
    from wattstep.formats.kineto.decoding import Block, Event

DAMAGED = "damaged: no event can be read from it"
SPAN = "span of the profiler itself"
FLOW = "flow arrow: correlation ids say the same"
METADATA = "metadata: {}"
INSTANT = "instant event: it has no duration"
PHASE = "events of phase {!r} are no work"
NO_DURATION = "its duration is no number"
NEGATIVE = "its duration is negative"
END = "end that was joined with its begin"
NO_BEGIN = "end without a begin, or before it"
NO_END = "begin without an end"
UNNUMBERED = "a {0} without number is taken to be {0}0"
BY_NAME = "threads named by words have numbers from -2 down: {}"
NAMED = 4  # such threads in the note

_INTEGERS = ("external", "correlation", "sequence", "forward_thread", "flops", "bytes")
_GETTERS = {name: attrgetter(name) for name in _INTEGERS}
_NAME, _TID, _ARGS = attrgetter("name"), attrgetter("tid"), attrgetter("args")
_TS, _DUR = attrgetter("ts"), attrgetter("dur")
_BEFORE, _DIMS, _DIMS_BEFORE = map(attrgetter, ("external_before", "dims", "dims_before"))
_SIZE = attrgetter("size")
_SMALL = ("place", "name", "shapes")
_LARGE = ("thread", "start_ns", "end_ns", *_INTEGERS)


class Columns:
    """Takes blocks of events and gives the columns of all of them.

    Attributes:
        ignored: What became no interval and no value, by reason.
        counters: What the trace sampled itself.
        notes: What a reader must know.
        own: What an export of ours says beside each event, once all are there.
    """

    def __init__(self) -> None:
        self.own: Own | None = None
        self.ignored: Counter[str] = Counter()
        self.counters = Counters(self.ignored)
        self.notes: list[str] = []
        self._names: dict[str, int] = {}
        self._shapes: dict[bytes, int] = {b"": NONE}
        self._places: dict[tuple[str, int | str, int], int] = {}  # category, process, device
        self._threads: dict[str, int] = {}
        self._open: defaultdict[tuple[int | str, int | str], list[Event]] = defaultdict(list)
        self._parts: dict[str, list[NDArray[Any]]] = {key: [] for key in (*_SMALL, *_LARGE)}
        self._sizes: dict[int, int] = {}
        self._own: OwnColumns | None = None

    def add(self, block: Block, own: bool = False) -> None:
        """Takes the events of a block; `own`: of an export of ours."""
        if own and self._own is None:
            self._own = OwnColumns(self._code)
        self.ignored[DAMAGED] += block.damaged
        events = [event for event in block.events if event.ph == "X"]
        if len(events) < len(block.events):
            events.extend(self._others(block))
        work = [event for event in events if event.cat != words.SPAN]
        self.ignored[SPAN] += len(events) - len(work)
        if work:
            self._intervals(work)

    # --- events that are no interval by themselves ----------------------------------------------

    def _others(self, block: Block) -> list[Event]:
        """Sorts out what is no interval; gives the intervals that ended with an "E" event."""
        memory: list[Event] = []
        joined: list[Event] = []
        for index, event in enumerate(block.events):
            phase = event.ph
            if phase == "X":
                continue
            if phase in ("i", "I"):
                if event.name == "[memory]":
                    memory.append(event)
                else:
                    self.ignored[INSTANT] += 1
            elif phase == "C":
                self.counters.add_counted(event, block.counted[index])
            elif phase == "B":
                self._open[event.pid, event.tid].append(_detached(event))
            elif phase == "E":
                joined.extend(self._joined(event))
            else:
                self.ignored[_why(event)] += 1
        if memory:
            self.counters.add_memory(memory)
        return joined

    def _joined(self, end: Event) -> list[Event]:
        """The begin on top of this thread's stack, with its duration."""
        stack = self._open[end.pid, end.tid]
        if not stack:
            self.ignored[NO_BEGIN] += 1
            return []
        begin = stack.pop()
        times, known = nanoseconds([begin.ts, end.ts])
        if not known.all() or times[1] < times[0]:
            self.ignored[NO_BEGIN] += 1
            self.ignored[NO_END] += 1
            return []
        self.ignored[END] += 1
        length = int(times[1] - times[0])
        begin.dur = type(begin.ts)(f"{length // 1000}.{length % 1000:03d}".encode())
        return [begin]

    # --- intervals ------------------------------------------------------------------------------

    def _intervals(self, events: list[Event]) -> None:
        start_ns, started = nanoseconds(list(map(_TS, events)))
        length_ns, ended = nanoseconds(list(map(_DUR, events)))
        good = started & ended & (length_ns >= 0)
        if not good.all():
            self.ignored[NO_TIME] += int((~started).sum())
            self.ignored[NO_DURATION] += int((started & ~ended).sum())
            self.ignored[NEGATIVE] += int((started & ended & (length_ns < 0)).sum())
            events = [event for event, whole in zip(events, good.tolist(), strict=True) if whole]
            start_ns, length_ns = start_ns[good], length_ns[good]
        columns = self._described(events)
        if self._own is not None and events:
            self._own.add(events)
        columns["start_ns"] = start_ns
        columns["end_ns"] = start_ns + length_ns
        for key, column in columns.items():
            self._parts[key].append(column)

    def _described(self, events: list[Event]) -> dict[str, NDArray[Any]]:
        fields = list(map(_ARGS, events))
        count = len(events)
        columns: dict[str, NDArray[Any]] = {
            key: np.fromiter(map(get, fields), np.int64, count) for key, get in _GETTERS.items()
        }
        before = np.fromiter(map(_BEFORE, fields), np.int64, count)
        columns["external"] = np.where(columns["external"] == NONE, before, columns["external"])
        names = self._names
        columns["name"] = np.fromiter(
            [names.setdefault(name, len(names)) for name in map(_NAME, events)], np.int32, count
        )
        columns["place"] = np.fromiter(map(self._place, events), np.int32, count)
        columns["shapes"] = np.fromiter(map(self._shape, fields), np.int32, count)
        columns["thread"] = np.fromiter(map(self._thread, map(_TID, events)), np.int64, count)
        self._keep_sizes(fields)
        return columns

    def _place(self, event: Event) -> int:
        by_process = event.cat in words.CATEGORIES and event.cat not in words.DEVICES
        device = NONE if by_process else event.args.device
        key = (event.cat, event.pid, device)
        place = self._places.get(key)
        return self._places.setdefault(key, len(self._places)) if place is None else place

    def _shape(self, fields: Any) -> int:
        raw = bytes(fields.shapes) if self._own is not None else b""
        dims = raw or bytes(fields.dims or fields.dims_before)
        code = self._shapes.get(dims)
        if code is None:
            text = decoded_text(raw) if raw else words.shapes_text(dims)
            code = self._names.setdefault(text, len(self._names)) if text else NONE
            self._shapes[dims] = code
        return code

    def _thread(self, tid: int | str) -> int:
        if isinstance(tid, int):
            return tid
        number = words.last_number(tid)
        if number is not None:
            return number
        return self._threads.setdefault(tid, -2 - len(self._threads))

    def _keep_sizes(self, fields: Sequence[Any]) -> None:
        """Bytes that ROCm writes at the call that copies, not at the copy."""
        for one in fields:
            if one.size != NONE and one.correlation != NONE:
                text = str(one.size)
                if text.isdecimal() and len(text) < 19:
                    self._sizes[one.correlation] = int(text)

    # --- all of them ----------------------------------------------------------------------------

    def finish(self) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
        """Columns of `Events`, and texts by code; nothing can be added any more.

        What our own exports say beside them is in `own` then.
        """
        self.own = None if self._own is None else self._own.finish()
        self.ignored[NO_END] += sum(map(len, self._open.values()))
        if self._threads:
            named = ", ".join(f"{n} {name!r}" for name, n in list(self._threads.items())[:NAMED])
            self.notes.append(BY_NAME.format(named + ", ..." * (len(self._threads) > NAMED)))
        columns = {key: self._joined_parts(key) for key in tuple(self._parts)}
        self._placed(columns)
        self._fill_sizes(columns)
        return columns, tuple(self._names)

    def _joined_parts(self, key: str) -> NDArray[Any]:
        parts = self._parts.pop(key)
        kind = np.int32 if key in _SMALL else np.int64
        return np.concatenate(parts) if parts else np.zeros(0, kind)

    def _placed(self, columns: dict[str, NDArray[Any]]) -> None:
        """Category, processor and process of each event, from its place and its name."""
        texts = list(self._names)
        place = columns.pop("place")
        described = [self._where(*key) for key in self._places]
        codes = [(self._code(c), self._code(p), n) for c, p, n in described]
        table = np.array(codes, np.int64).reshape(-1, 3)
        columns["category"] = table[:, 0].astype(np.int32)[place]
        columns["processor"] = table[:, 1].astype(np.int32)[place]
        processes = set(table[:, 2].tolist()) - {NONE}
        one = len(processes) < 2
        columns["process"] = (np.full_like(table[:, 2], NONE) if one else table[:, 2])[place]
        self._named(columns, texts, ("operation", "annotation"), words.STEP, "step")
        self._named(columns, texts, ("python",), words.MODULE, "module")

    def _named(
        self,
        columns: dict[str, NDArray[Any]],
        texts: list[str],
        of: Sequence[str],
        begin: str | tuple[str, ...],
        is_: str,
    ) -> None:
        """Gives events of these categories whose name begins so another category."""
        begins = np.array([text.startswith(begin) for text in texts], np.bool_)
        if not begins.any():
            return
        codes = [self._names[word] for word in of if word in self._names]
        rows = begins[columns["name"]] & np.isin(columns["category"], codes)
        if rows.any():
            columns["category"][rows] = self._code(is_)

    def _where(self, word: str, process: int | str, device: int) -> tuple[str, str, int]:
        """Category, processor and process number of a place."""
        category = words.category_of(word, process)
        number = words.last_number(process) if isinstance(process, str) else process
        if not words.is_on_gpu(category) and device < 0:
            return category, "cpu", NONE if number is None else number
        kind = words.DEVICES.get(word, "gpu")
        at = device if device >= 0 else number
        if at is None or at < 0 or (kind != "gpu" and at >= words.MOST_DEVICES):
            at = 0
            note = UNNUMBERED.format(kind)
            if note not in self.notes:
                self.notes.append(note)
        return category, f"{kind}{at}", NONE

    def _fill_sizes(self, columns: dict[str, NDArray[Any]]) -> None:
        copies = [self._names[word] for word in ("copy", "set") if word in self._names]
        missing = np.isin(columns["category"], copies) & (columns["bytes"] == NONE)
        for row in np.flatnonzero(missing).tolist() if self._sizes else ():
            columns["bytes"][row] = self._sizes.get(int(columns["correlation"][row]), NONE)

    def _code(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names))


def _detached(event: Event) -> Event:
    """Copy of an event that no longer holds the text of its whole block."""
    event.ts = event.ts.copy()
    event.args.dims = event.args.dims.copy()
    event.args.dims_before = event.args.dims_before.copy()
    return event


def _why(event: Event) -> str:
    if event.ph in ("s", "t", "f"):
        return FLOW
    if event.ph == "M":
        return METADATA.format(event.name if event.name in words.METADATA else "other")
    return PHASE.format(event.ph[:4])
