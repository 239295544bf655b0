"""Names as a timeline shows them: harmless, and short enough to be drawn."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final

from wattstep.schema.sanitize import harmless

LONGEST: Final = 1000  # characters; viewers lay out every label that they draw


@lru_cache(maxsize=4096)
def label(text: str) -> str:
    """A name without control characters; a longer one than a viewer bears is cut, and says so.

    What was cut is still told apart: by its length and a checksum of all of it.
    """
    shown = harmless(text)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}… ({len(text):,} characters, {zlib.crc32(text.encode(errors='replace')):08x})"
