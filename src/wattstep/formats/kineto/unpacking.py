"""The bytes of a file, unpacked if it is packed, in pieces of bounded size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from wattstep.errors import InvalidValueError

PIECE = 4 << 20  # bytes
MOST_BYTES = 32 << 30  # unpacked; no trace that torch could write in one process comes near
MOST_RATIO = 500  # unpacked to packed, beyond the first bytes; traces have 10 to 50
RATIO_FROM = 64 << 20  # bytes
GZIP = b"\x1f\x8b"
AS_GZIP = 16 + zlib.MAX_WBITS


class Unpacking:
    """Reads a file piece by piece; whether it is packed (gzip) is told by its first bytes.

    Args:
        path: The file.
        on_progress: Is told the share of the file that was read, 0 to 1.

    Attributes:
        damage: What is wrong with the packing: "" while nothing is.
    """

    def __init__(self, path: Path, on_progress: Callable[[float], None] | None = None) -> None:
        self.damage = ""
        self._path = path
        self._on_progress = on_progress
        self._read = 0
        self._given = 0

    def pieces(self) -> Iterator[bytes]:
        """Unpacked pieces of at most `PIECE` bytes.

        Raises:
            InvalidValueError: It unpacks to more than `MOST_BYTES`, or far more than a trace does.
            OSError: It cannot be read.
        """
        with self._path.open("rb") as file:
            size = max(self._path.stat().st_size, 1)
            first = file.read(2)
            file.seek(0)
            source = self._unpacked(file) if first == GZIP else self._plain(file)
            for piece in source:
                self._given += len(piece)
                self._check(first == GZIP)
                yield piece
                if self._on_progress:
                    self._on_progress(min(self._read / size, 1.0))

    def _plain(self, file: BinaryIO) -> Iterator[bytes]:
        while piece := file.read(PIECE):
            self._read += len(piece)
            yield piece

    def _unpacked(self, file: BinaryIO) -> Iterator[bytes]:
        """Members of a gzip file one after the other; ends where the packing does."""
        unpacker = zlib.decompressobj(AS_GZIP)
        packed = b""
        while packed := packed or self._next(file):
            if unpacker.eof:
                unpacker = zlib.decompressobj(AS_GZIP)
            before = unpacker.copy()
            try:
                piece = unpacker.decompress(packed, PIECE)
            except zlib.error:
                yield self._up_to_damage(before, packed)
                return
            packed = unpacker.unconsumed_tail
            if unpacker.eof:  # a further member may follow, or padding
                packed = unpacker.unused_data.lstrip(b"\0")
            if piece:
                yield piece
        if not unpacker.eof:
            self.damage = "its packing is cut"

    def _up_to_damage(self, unpacker: zlib._Decompress, packed: bytes) -> bytes:
        """Bytes that can be unpacked before the damage in these; a failed call gives none."""
        pieces: list[bytes] = []
        try:
            for at in range(len(packed)):
                pieces.append(unpacker.decompress(packed[at : at + 1]))
        except zlib.error as error:
            self.damage = f"its packing is damaged ({error})"
        return b"".join(pieces)

    def _next(self, file: BinaryIO) -> bytes:
        packed = file.read(PIECE // 16)
        self._read += len(packed)
        return packed

    def _check(self, packed: bool) -> None:
        if self._given > MOST_BYTES:
            raise InvalidValueError(
                f"{self._path.name} has more than {MOST_BYTES >> 30} GiB: trace fewer steps"
            )
        if packed and self._given > max(RATIO_FROM, MOST_RATIO * self._read):
            raise InvalidValueError(
                f"{self._path.name} unpacks to more than {MOST_RATIO} times its size, as no trace "
                "does: unpack it yourself if you trust it",
                id="unpacks-too-large",
            )
