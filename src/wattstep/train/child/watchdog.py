"""Ends a training before the memory that CPU and GPU share runs out, which would hang the machine.

What a GPU takes there is pinned: it is in no cgroup, cannot be swapped, and the kernel's killer of
processes does not see whose it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.engines.nvidia import shares_memory
from wattstep.schema.workload import kind_of
from wattstep.train.child.limits import parse_size

# A board fills 9 to 30 GB of memory a second (memset, on a Nano and an AGX Orin): 90 to 300 MB
# between two looks. 5 % of the memory is 200 MB to 3 GB of these; the least is for the system,
# which must get a killed process's pages back.
LOOK_EVERY_S: Final = 0.01
SHARE: Final = 0.05
LEAST: Final = 256 * 1024**2
_MEMINFO: Final = "proc/meminfo"


@dataclass(frozen=True, kw_only=True)
class Watchdog:
    """Watches what the system as a whole has left.

    Attributes:
        reserve: Bytes that must stay available.
        before: Bytes that were available when it began.
        meminfo: The kernel's file.
    """

    reserve: int
    before: int
    meminfo: Path = Path("/", _MEMINFO)

    def look(self) -> str | None:
        """Why the training must be ended now, in words; None: there is enough."""
        left = _field(self.meminfo, "MemAvailable")
        if left is None or left >= self.reserve:
            return None
        return (
            f"it did not fit: ended by the watchdog at {_mib(left)} available, below the reserve of "
            f"{_mib(self.reserve)} ({_mib(self.before)} before it began)"
        )


def find_watchdog(
    processor: str, reserve: str | None = None, root: Path = Path("/")
) -> Watchdog | None:
    """The watchdog of a training; None where none is needed.

    Args:
        processor: What trains.
        reserve: As `--memory-reserve` gives it, which asks for a watchdog whatever trains; by
            default of a GPU that shares the system's memory, and 5 % of it, at least 256 MiB.
        root: The root of the file system, "/" or a fixture tree.

    Raises:
        InvalidValueError: The reserve is no size.
    """
    meminfo = root / _MEMINFO
    before = _field(meminfo, "MemAvailable")
    if before is None:  # kernels before 3.14 do not tell
        return None
    if reserve is not None:
        size = parse_size(reserve, "--memory-reserve")
    elif kind_of(processor) == "cuda" and shares_memory(root):
        size = max(LEAST, round(SHARE * (_field(meminfo, "MemTotal") or 0)))
    else:
        return None
    return Watchdog(reserve=size, before=before, meminfo=meminfo)


def _field(meminfo: Path, name: str) -> int | None:
    """Bytes that a line of /proc/meminfo tells."""
    try:
        match = re.search(rf"^{name}:\s*(\d+) kB", meminfo.read_text(encoding="ascii"), re.M)
    except OSError:
        return None
    return None if match is None else int(match[1]) * 1024


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"
