"""Batches that an exported training holds: known before it is exported, since they lie in its process's memory."""

from __future__ import annotations

from typing import Final

MOST_BATCHES: Final = 64
MOST_BYTES: Final = 64 << 20  # of all batches, unless one alone takes more


def batches_of(batch_bytes: float) -> int:
    """How many batches an export holds of batches of this size in B."""
    if batch_bytes <= 0:
        return MOST_BATCHES
    return max(1, min(MOST_BATCHES, int(MOST_BYTES // batch_bytes)))
