"""Protobuf's wire format for many messages at once: one row a message, in arrays.

A message that is built field by field takes microseconds, and a trace has millions. Here a field of
all messages is a matrix of bytes with a mask of those that are used; concatenated in the order of
rows they are the file. After the specification ("Encoding", protobuf.dev).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wattstep.schema.arrays import BoolArray

_VARINT, _EIGHT, _BYTES = 0, 1, 2  # kinds on the wire
_SEVEN: Final = np.uint64(7)


_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Bytes of each message: columns side by side, put together only when all are there.

    Attributes:
        pieces: Bytes, and which of them are used, of shape (n, w) each.
        lengths: Bytes of each message that are used, shape (n,).
    """

    pieces: tuple[tuple[_Bytes, BoolArray], ...]
    lengths: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """The messages, one after the other."""
        data = np.concatenate([data for data, _ in self.pieces], axis=1)
        used = np.concatenate([used for _, used in self.pieces], axis=1)
        message: bytes = data[used].tobytes()
        return message


def joined(parts: Sequence[Part]) -> Part:
    """Fields of a message side by side."""
    lengths = parts[0].lengths.copy()
    for part in parts[1:]:
        lengths += part.lengths
    return Part(pieces=tuple(piece for part in parts for piece in part.pieces), lengths=lengths)


def numbers(field: int, values: NDArray[np.int64], mask: BoolArray | None = None) -> Part:
    """A field of integers (int64, uint64, bool, enum).

    Args:
        field: Its number.
        values: Negative ones as their two's complement, shape (n,).
        mask: Mask of the messages that have the field; None: all.
    """
    return _tagged(field, _VARINT, _varints(values), mask)


def eights(
    field: int, values: NDArray[np.float64] | NDArray[np.int64], mask: BoolArray | None = None
) -> Part:
    """A field of eight bytes: double, or fixed64."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    data = little.view(np.uint8).reshape(len(values), 8)
    return _tagged(field, _EIGHT, _full(data), mask)


def texts(field: int, values: NDArray[np.bytes_], mask: BoolArray | None = None) -> Part:
    """A field of short texts without zero bytes, of numpy's dtype S."""
    width = values.dtype.itemsize
    data = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), width)
    return message(
        field,
        [Part(pieces=((data, data != 0),), lengths=(data != 0).sum(axis=1, dtype=np.int64))],
        mask,
    )


def message(field: int, parts: Sequence[Part], mask: BoolArray | None = None) -> Part:
    """A field that holds a message of these fields."""
    inner = joined(parts)
    length = _varints(inner.lengths)
    return _tagged(field, _BYTES, joined([length, inner]), mask)


def constant(data: bytes, count: int) -> Part:
    """Part of each of so many messages that has the same bytes in all."""
    used = np.ones((count, len(data)), bool)
    row = np.frombuffer(data, np.uint8)
    lengths = np.full(count, len(data), np.int64)
    return Part(pieces=((np.broadcast_to(row, used.shape), used),), lengths=lengths)


def _full(data: _Bytes) -> Part:
    lengths = np.full(len(data), data.shape[1], np.int64)
    return Part(pieces=((data, np.ones(data.shape, bool)),), lengths=lengths)


def _tagged(field: int, kind: int, part: Part, mask: BoolArray | None) -> Part:
    fields = joined([constant(varint(field << 3 | kind), len(part.lengths)), part])
    if mask is None:
        return fields
    pieces = tuple((data, used & mask[:, None]) for data, used in fields.pieces)
    return Part(pieces=pieces, lengths=fields.lengths * mask)


def _varints(values: NDArray[np.int64]) -> Part:
    """Seven bits a byte, the lowest first."""
    unsigned = values.astype(np.int64).view(np.uint64)
    width = max(1, -(-int(unsigned.max(initial=np.uint64(0))).bit_length() // 7))
    left = unsigned[:, None] >> (np.arange(width, dtype=np.uint64) * _SEVEN)
    more = np.zeros(left.shape, bool)
    more[:, :-1] = left[:, 1:] != 0
    data = (left & np.uint64(0x7F)).astype(np.uint8) | (more.view(np.uint8) << 7)
    used = np.ones(left.shape, bool)
    used[:, 1:] = more[:, :-1]
    lengths = np.ones(len(unsigned), np.int64)
    for bits in range(7, 7 * width, 7):
        lengths += unsigned >= np.uint64(1 << bits)
    return Part(pieces=((data, used),), lengths=lengths)


# --- single messages ----------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Varint encoding of a number: seven bits a byte."""
    encoded = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field: int, value: int) -> bytes:
    """Encoding of a field with an integer."""
    return varint(field << 3 | _VARINT) + varint(value)


def block(field: int, data: bytes | str) -> bytes:
    """Encoding of a field with a text, bytes or a message."""
    data = data.encode(errors="replace") if isinstance(data, str) else data
    return varint(field << 3 | _BYTES) + varint(len(data)) + data
