"""Samples as pictures that stand in a page themselves: PNG as a data address."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from wattstep.schema.arrays import ByteArray

GAP = 1  # pixels between pictures of a strip
_GREY, _COLORS = 0, 2  # of a PNG


def address(pixels: ByteArray) -> Markup:
    """A picture as an address that holds a PNG.

    Args:
        pixels: Shape (height, width, channels), of one channel in shades of grey or three of colours.
    """
    height, width, channels = pixels.shape
    rows = pixels.reshape(height, width * channels)
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1).tobytes()
    kind = _GREY if channels == 1 else _COLORS
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return Markup("data:image/png;base64," + base64.b64encode(png).decode())


def strip(rows: Sequence[Sequence[float]], width: int, height: int) -> Markup:
    """Features as pictures in shades of grey side by side, each over its own range."""
    parts = []
    for row in rows:
        pixels = np.array(row).reshape(height, width)
        low, high = pixels.min(), pixels.max()
        grey = (255 * (pixels - low) / (high - low if high > low else 1)).astype(np.uint8)
        parts += [grey, np.full((height, GAP), 128, dtype=np.uint8)]
    return address(np.concatenate(parts, axis=1)[:, :, np.newaxis])
