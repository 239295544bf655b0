"""Where a measurement takes place: facts of the machine, versions, and one measurement at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from wattstep import __version__
from wattstep.sensors import machine

# Of the same board, a kernel keeps now more and now less of the memory for itself.
_MEMORY_SLACK: Final = 0.02
_LOCK: Final = "wattstep-measuring.lock"


def this_machine() -> dict[str, Any]:
    """What must not differ between outcomes that stand side by side; memory in bytes."""
    facts = machine.describe()
    return {key: facts[key] for key in ("model", "cpu", "cores", "memory")}


def versions() -> dict[str, str]:
    """What measures, and what is measured, without loading it."""
    found = {"wattstep": __version__}
    # Without torch every configuration is refused, and says what is missing.
    with suppress(metadata.PackageNotFoundError):
        found["torch"] = metadata.version("torch")
    return found


def unlike(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In what two machines differ, in words; what one of them does not tell does not count."""
    return [
        f"{key} was {before[key]}, now {now[key]}"
        for key in before
        if key in now and not _same(key, before[key], now[key])
    ]


def _same(key: str, before: Any, now: Any) -> bool:
    if key == "memory" and before and now:
        return bool(abs(before - now) <= _MEMORY_SLACK * before)
    return bool(before == now)


@contextmanager
def one_at_a_time(folder: Path | None = None) -> Iterator[None]:
    """Waits until nobody else on this machine measures within this context.

    Args:
        folder: Where all who measure here look; the system's folder for temporary files.
    """
    descriptor = _opened(Path(folder or tempfile.gettempdir(), _LOCK))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which lets go, as does the end of this process


def _opened(path: Path) -> int:
    """The file of the lock, which may be another user's: it is never written into."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # anybody may have put something there
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o644)
