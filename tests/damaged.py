"""Recordings with a few bytes, lines or numbers changed at random."""

from __future__ import annotations

import random
import re

NUMBERS = [
    b"0", b"-1", b"1e308", b"-1e308", b"NaN", b"Infinity", b"9" * 30, b"0.0000001", b"1,5", b"",
    b"9223372036854775807", b"-9223372036854775808", b'"', b"null", b"[[[", b"{}", b"1e-320", b"1e-170",
]  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to four changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(7)
        if kind == 0:  # a few other bytes
            changed[at : at + rng.randint(0, 4)] = rng.randbytes(rng.randint(0, 4))
        elif kind == 1:  # cut
            del changed[at:]
        elif kind == 2:  # a part is gone
            del changed[at : at + rng.randint(1, 400)]
        elif kind == 3:  # a part comes twice
            changed[at:at] = changed[at : at + rng.randint(1, 400)]
        elif kind == 4:  # a part of another place
            there = rng.randrange(len(changed) + 1)
            changed[at:at] = changed[there : there + rng.randint(1, 200)]
        elif kind == 5:  # one bit
            if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
        else:  # another number
            found = re.compile(rb"-?\d[\d.]*").search(changed, at)
            if found:
                changed[found.start() : found.end()] = rng.choice(NUMBERS)
    return bytes(changed)
