"""The packets of a Perfetto trace, one by one: binary, as text, packed whole or packet by packet."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import FormatError
from wattstep.formats.sniff import GZIP, LOOK_BYTES, BinaryFormatError, looks_like
from wattstep.schema.extras import require

FORMAT: Final = "Perfetto trace"
MOST_PACKET: Final = 256 << 20  # bytes; Perfetto's own service writes packets far smaller
MOST_TEXT: Final = 256 << 20  # bytes of a trace in text form, which is read as a whole
MOST_BYTES: Final = 64 << 30  # unpacked; more is a file made to fill the disk
_TEXT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*packet\s*:?\s*[{<]")
_PROTOS: Final = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
_PACKET, _VARINT, _EIGHT, _BYTES, _FOUR = 1, 0, 1, 2, 5  # field of a packet; kinds on the wire
_REPORT_EVERY: Final = 20_000


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Packets:
    """The packets of one file, in its order; never more than one in memory.

    Attributes:
        ignored: What could not be read, by reason, once the packets were walked through.
        notes: What a reader must know of the file itself ("it is cut ...").
    """

    def __init__(self, path: Path, on_progress: Callable[[float], None] | None = None) -> None:
        self.path = path
        self.on_progress = on_progress or (lambda share: None)
        self.ignored: Counter[str] = Counter()
        self.notes: list[str] = []
        self._protos = require(_PROTOS)
        self._decode_error: Any = require("google.protobuf.message").DecodeError
        self._read = 0

    def __iter__(self) -> Iterator[Any]:
        """The packets, as perfetto's `TracePacket`.

        Raises:
            InvalidValueError: The file cannot be read, or is no Perfetto trace.
        """
        try:
            with self.path.open("rb") as file:
                size = max(self.path.stat().st_size, 1)
                packed = file.read(2) == GZIP
                file.seek(0)
                source = gzip.GzipFile(fileobj=file) if packed else file
                head = self._head(source)
                if _TEXT.match(head):
                    yield from self._text(head, source)
                else:
                    for packet in self._packets(_Source(head, source), head):
                        yield packet
                        self._read += 1
                        if self._read % _REPORT_EVERY == 0:
                            self.on_progress(min(file.tell() / size, 1.0))
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise InvalidValueError(f"{self.path.name}: {problem}", id="unreadable-file") from error
        self.on_progress(1.0)

    def _head(self, source: _Readable) -> bytes:
        try:
            return source.read(LOOK_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidValueError(
                f"{self.path.name}: its gzip data is cut or damaged: {error}"
            ) from error

    def _text(self, head: bytes, source: _Readable) -> Iterator[Any]:
        text_format = require("google.protobuf.text_format")
        data = head + source.read(MOST_TEXT)
        if len(data) >= MOST_TEXT:
            raise InvalidValueError(
                f"{self.path.name}: a text of more than {MOST_TEXT >> 20} MiB: give the binary"
            )
        trace = self._protos.Trace()
        try:
            text_format.Parse(data.decode("utf-8-sig"), trace)
        except text_format.ParseError as error:
            problem = " ".join(str(error).split())
            raise FormatError(FORMAT, error.GetLine() or 1, problem) from error
        except (UnicodeDecodeError, RecursionError) as error:
            raise FormatError(FORMAT, 1, f"{type(error).__name__} in its text") from error
        for packet in trace.packet:
            yield from self._opened(packet)

    def _packets(self, source: _Source, head: bytes) -> Iterator[Any]:
        """Of a binary file; what is wrong with its first packet is wrong with the file."""
        count = 0
        try:
            for data in _frames(source, self.ignored):
                try:
                    packet = self._protos.TracePacket.FromString(data)
                except self._decode_error as error:
                    if not count:
                        raise _no_trace(head, "its first packet cannot be read") from error
                    self.ignored["packet that cannot be read"] += 1
                    continue
                count += 1
                yield from self._opened(packet)
        except BinaryFormatError as error:
            if not count:
                raise _no_trace(head, str(error)) from error
            self.notes.append(f"damaged: {error}; what follows was left out")
            self.ignored["rest of a damaged file"] += 1
        if source.cut and count:
            self.notes.append(
                f"the file is cut behind byte {source.at}: it is read up to there ({source.cut})"
            )
            self.ignored["packet that is cut"] += 1
        if not count:
            raise _no_trace(head, source.cut or "it holds no packet")

    def _opened(self, packet: Any) -> Iterator[Any]:
        """The packet, or those that are packed in it."""
        kind = packet.WhichOneof("data")
        if kind == "zstd_compressed_packets":
            self.ignored["packets packed by zstd: record with compression_type DEFLATE"] += 1
        elif kind == "compressed_packets":
            yield from self._unpacked(packet.compressed_packets)
        else:
            yield packet

    def _unpacked(self, data: bytes) -> Iterator[Any]:
        unpacker = zlib.decompressobj()
        try:
            plain = unpacker.decompress(data, MOST_PACKET)
            if not unpacker.eof:
                raise zlib.error("it is cut or too large")
            inner = [
                self._protos.TracePacket.FromString(each)
                for each in _frames(_Source(plain, io.BytesIO()), self.ignored)
            ]
        except (zlib.error, self._decode_error, BinaryFormatError):
            self.ignored["packed packets that cannot be unpacked"] += 1
            return
        for packet in inner:
            if packet.WhichOneof("data") in ("compressed_packets", "zstd_compressed_packets"):
                self.ignored["packets packed twice"] += 1
            else:
                yield packet


def words(value: str | bytes) -> str:
    """A text of a packet: protobuf gives one that is no UTF-8 as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _no_trace(head: bytes, problem: str) -> BinaryFormatError:
    looks = looks_like(head)
    reason = problem if looks == "a Perfetto trace" else f"it looks like {looks}"
    return BinaryFormatError(FORMAT, 0, reason)


class _Source:
    """Bytes in order, from what was read already and the rest; knows where it is.

    Attributes:
        at: Bytes given so far.
        cut: Why the last read gave less than was asked for; "" while none did.
    """

    def __init__(self, head: bytes, tail: _Readable) -> None:
        self.at = 0
        self.cut = ""
        self._head = io.BytesIO(head)
        self._tail = tail

    def some(self, count: int) -> bytes:
        """So many bytes, or fewer at the end."""
        data = self._head.read(count)
        if len(data) < count:
            try:
                data += self._tail.read(count - len(data))
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self.cut = str(error) or type(error).__name__
        self.at += len(data)
        if self.at > MOST_BYTES:
            raise InvalidValueError(f"it unpacks to more than {MOST_BYTES >> 30} GiB")
        return data

    def exactly(self, count: int) -> bytes | None:
        """So many bytes; None where there are fewer."""
        data = self.some(count)
        if len(data) == count:
            return data
        self.cut = self.cut or f"{count} bytes were to come, {len(data)} did"
        return None

    def varint(self) -> int | None:
        """A number of seven bits a byte; None at the end of the file.

        Raises:
            BinaryFormatError: It is longer than ten bytes.
        """
        value = shift = 0
        while byte := self.some(1):
            value |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise BinaryFormatError(FORMAT, self.at, "a number of more than ten bytes")
        if shift:
            self.cut = self.cut or "a number is not whole"
        return None


def _frames(source: _Source, ignored: Counter[str]) -> Iterator[bytes]:
    """Values of the field "packet" of the message `Trace`, one by one.

    Raises:
        BinaryFormatError: The bytes there are no field.
    """
    while (tag := source.varint()) is not None:
        field, kind = tag >> 3, tag & 7
        if not field or kind not in (_VARINT, _EIGHT, _BYTES, _FOUR):
            raise BinaryFormatError(FORMAT, source.at, "no field of a trace begins there")
        if kind == _VARINT:
            source.varint()
        else:
            length = {_EIGHT: 8, _FOUR: 4}.get(kind) or source.varint()
            if length is None and not source.cut:
                source.cut = "a length is missing"
            if length is not None and length > MOST_PACKET:
                raise BinaryFormatError(FORMAT, source.at, f"a packet of {length} B")
            data = None if length is None else source.exactly(length)
            if data is None:
                return
            if field == _PACKET and kind == _BYTES:
                yield data
                continue
        ignored["field of the file that is no packet"] += 1
