"""Cuts the text of a trace into blocks of whole events, without reading it byte by byte.

A block is cut behind a "}" that is followed by "," and "{", or by "]". Such a place may lie inside
an event (in its arguments, in a string). But text that begins between two events and has been
decoded as a list says itself whether its end is between two events, too: inside of one, brackets
or a string would be open and the list would not end. So the last such place is tried, then a few
before it, and only then the block is walked bracket by bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from wattstep.formats.recording import FormatError

NAME = "Kineto trace"
BLOCK = 4 << 20  # bytes
LONGEST = 16 << 20  # bytes of one event, or of one value beside them
TRIES = 4  # places before a block is walked
STEPS = 200  # closing brackets looked at to find them
RESUMED = 50  # times that reading goes on behind damage
KEPT = 1 << 20  # bytes of a value beside the events that are looked into

BLANK = re.compile(rb"[ \t\r\n]*")
BETWEEN = re.compile(rb"[ \t\r\n,]*")
BEHIND = re.compile(rb"\s*(?:,\s*\{|,?\s*\])")
BEHIND_LAST = re.compile(rb"\s*(?:,\s*\{|,?\s*\]|,?\s*\Z)")
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|"', re.DOTALL)
SCALAR = re.compile(rb"[^,\]}\s\[{\"]+")
EVENT = re.compile(rb'[}\]0-9"]\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|s|bp|args)"\s*:)')

Events = TypeVar("Events")


class UndecodableError(Exception):
    """Text that is no list of events."""


@dataclass(kw_only=True)
class Surroundings:
    """Header and trailer of a trace around its events, filled while they are read.

    Attributes:
        values: By key, decoded; only those asked for.
        cut: Bytes of the unfinished event at the end of the file.
        ended: The list of events was closed, as a whole file's is.
        complete: So was the object around it.
        skipped: Bytes that are no event and were left out, in how many places.
        form: "object" or "array".
    """

    values: dict[str, Any] = field(default_factory=dict)
    cut: int = 0
    ended: bool = False
    complete: bool = False
    skipped: list[int] = field(default_factory=list)
    form: str = ""


class Cutter(Generic[Events]):
    """Finds the events of a trace.

    Args:
        pieces: Of the text.
        decode: Makes events of a JSON list, or raises `UndecodableError`.
        decode_each: Makes events of texts of which each may be damaged.
        keys: Values beside the events that are wanted.
        block: Bytes of text that are decoded at once.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        decode: Callable[[bytes], Events],
        decode_each: Callable[[list[bytes]], Events],
        keys: frozenset[str],
        block: int = BLOCK,
    ) -> None:
        self.around = Surroundings()
        self._pieces = pieces
        self._decode = decode
        self._decode_each = decode_each
        self._keys = keys
        self._size = block
        self._text = b""
        self._at = 0
        self._over = False

    def blocks(self) -> Iterator[Events]:
        """Events, a block at a time; `around` is complete at the end.

        Raises:
            FormatError: It is no trace of this form.
        """
        first = self._begin()
        self._at += 1
        if first == b"[":
            self.around.form = "array"
            yield from self._events()
            return
        self.around.form = "object"
        yield from self._members()

    # --- around the events ----------------------------------------------------------------------

    def _begin(self) -> bytes:
        self._more()
        if self._text.startswith(b"\xef\xbb\xbf"):
            self._at = 3
        first = self._peek()
        if first not in (b"{", b"["):
            raise FormatError(NAME, 1, _what_it_is(self._text[:4096]), id="not-a-trace")
        return first

    def _members(self) -> Iterator[Events]:
        seen = False
        while (key := self._key()) is not None:
            if key == "traceEvents":
                if self._peek() != b"[":
                    raise FormatError(NAME, 1, '"traceEvents" is no list', id="events-not-a-list")
                self._at += 1
                seen = True
                yield from self._events()
                if not self.around.ended:
                    return
            elif not self._value(key):
                break
        self.around.complete = self._peek(BETWEEN) == b"}"
        if not seen:
            raise FormatError(
                NAME,
                1,
                'it has no "traceEvents": give the file of export_chrome_trace',
                id="no-trace-events",
            )

    def _key(self) -> str | None:
        """The next key of the outermost object; None at its end."""
        if self._peek(BETWEEN) != b'"' or (end := self._end()) is None:
            return None
        key = self._text[self._at + 1 : end - 1].decode("utf-8", "replace")
        self._at = end
        if self._peek() != b":":
            return None
        self._at += 1
        self._peek()
        return key

    def _value(self, key: str) -> bool:
        """Passes a value, and keeps it if it is wanted; False: it does not end."""
        if (end := self._end()) is None:
            return False
        if key in self._keys and end - self._at <= KEPT:
            try:
                self.around.values[key] = json.loads(self._text[self._at : end])
            except (ValueError, RecursionError):
                self.around.skipped.append(end - self._at)
        self._at = end
        return True

    # --- events ---------------------------------------------------------------------------------

    def _events(self) -> Iterator[Events]:
        self.around.ended = False
        while (char := self._peek(BETWEEN)) != b"":
            if char == b"]":
                self._at += 1
                self.around.ended = True
                return
            while len(self._text) - self._at < self._size and self._more():
                pass
            block = self._block()
            if block is not None:
                yield block
            elif self.around.cut:
                return

    def _block(self) -> Events | None:
        """Events up to a place between two of them; None: there were only damaged ones."""
        for end in self._places():
            try:
                events = self._decode(
                    b"".join((b"[", memoryview(self._text)[self._at : end], b"]"))
                )
            except UndecodableError:
                continue
            self._at = end
            return events
        return self._walked()

    def _places(self) -> Iterator[int]:
        """Last few places where a block may end."""
        end, tries = len(self._text), 0
        behind = BEHIND_LAST if self._over else BEHIND
        for _ in range(STEPS):
            end = self._text.rfind(b"}", self._at, end)
            if end < 0 or tries == TRIES:
                return
            if behind.match(self._text, end + 1):
                tries += 1
                yield end + 1

    def _walked(self) -> Events | None:
        """Events of this block one by one, which are decoded alone: some of them are damaged."""
        texts: list[bytes] = []
        first = self._at
        while self._at - first < self._size and self._peek(BETWEEN) not in (b"", b"]"):
            end = self._end() if not texts else ending(self._text, self._at)
            if end is None:
                if texts:  # the next round begins with it
                    break
                self._go_on_behind(len(self._text))
                break
            text = self._text[self._at : end]
            if (behind := EVENT.search(text, 1)) and not _is_json(text):
                self._go_on_behind(end, behind.end())
                continue
            texts.append(text)
            self._at = end
        return self._decode_each(texts) if texts else None

    def _go_on_behind(self, end: int, length: int | None = None) -> None:
        """Leaves out damage: up to the next text that looks like an event's begin, else all."""
        if length is None and (match := EVENT.search(self._text, self._at + 1, end)):
            length = match.end() - self._at
        if length is None or len(self.around.skipped) >= RESUMED:
            self.around.cut = len(self._text) - self._at + self._pass_rest()
            self._at = len(self._text)
            return
        self.around.skipped.append(length)
        self._at += length

    def _pass_rest(self) -> int:
        return sum(map(len, self._pieces))

    # --- text -----------------------------------------------------------------------------------

    def _peek(self, blank: re.Pattern[bytes] = BLANK) -> bytes:
        """The next character that is not blank; b"" at the end of the file."""
        while True:
            match = blank.match(self._text, self._at)
            assert match  # matches nothing, too
            self._at = match.end()
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _more(self) -> bool:
        piece = next(self._pieces, b"")
        self._over = self._over or not piece
        if piece:
            self._text = self._text[self._at :] + piece
            self._at = 0
        return bool(piece)

    def _end(self) -> int | None:
        """End of the value that begins here; None if it does not end, or is too long."""
        end = ending(self._text, self._at)
        while end is None or end == len(self._text):
            length = len(self._text) - self._at
            if length > LONGEST or not self._more():
                break
            while len(self._text) - self._at < 2 * length and self._more():
                pass  # twice as much each time: what is long is not looked through too often
            end = ending(self._text, self._at)
        return end


def ending(text: bytes, start: int) -> int | None:
    """End of the JSON value that begins at `start`; None if not in this text."""
    first = text[start : start + 1]
    if first not in (b"{", b"[", b'"'):
        match = SCALAR.match(text, start)
        return match.end() if match else start + 1
    depth = 0
    for match in TOKEN.finditer(text, start):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b'"':
            return None
        if depth <= 0:
            return match.end()
    return None


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _what_it_is(text: bytes) -> str:
    begin = text.lstrip()
    if not begin:
        return "it is empty"
    if begin.startswith(b"<"):
        return "it is a web page or XML: download the file itself"
    if text.startswith((b"\n", b"\xff\xfe", b"\xfe\xff")) or b"\0" in text:
        return "it is binary, perhaps a Perfetto trace: export it as Chrome JSON"
    return 'it begins with neither "{" nor "["'
