"""A limit on what this process may have in memory while a query works: a long text is in none of DuckDB's own."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

BESIDE: Final = 768 << 20  # bytes that threads, Arrow and rows on their way take beside the query


class MemoryLimit:
    """Limit on the data of the process, as long as a query works; other threads are under it, too.

    Args:
        memory: Bytes that the query may take.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._before: tuple[int, int] | None = None

    def set(self) -> None:
        """Sets it, where what is there is known and no limit is lower."""
        used = _data_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = used + self._memory + BESIDE
        lower = any(each != resource.RLIM_INFINITY and each <= limit for each in (soft, hard))
        if used and not lower:
            self._before = (soft, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))

    def lift(self) -> None:
        """Puts back what was before."""
        if self._before is not None:
            resource.setrlimit(resource.RLIMIT_DATA, self._before)
            self._before = None


def _data_bytes() -> int:
    """Private memory of the process that can be written; 0 where the system does not say."""
    try:
        text = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    words = next((line.split() for line in text.splitlines() if line.startswith("VmData:")), [])
    return int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else 0
