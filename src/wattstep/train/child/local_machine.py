"""Machine of a measurement: its facts, versions, and one measurement at a time."""

from __future__ import annotations

import fcntl
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from wattstep.engines import ENGINES, find
from wattstep.engines.nvidia import gpu_names
from wattstep.record.sensors import machine
from wattstep.schema.configuration import Rule, clocks, values_of_machine
from wattstep.schema.run_documents import MeasuringMachine
from wattstep.schema.version import VERSION

_LOCK: Final = "wattstep-measuring.lock"


def this_machine(processor: str = "cpu") -> MeasuringMachine:
    """Facts that must not differ between outcomes that stand side by side; memory in bytes.

    Args:
        processor: What trains, as `check_processing` takes it: GPUs are looked at where it is one.
    """
    facts = machine.describe()
    return {
        "model": facts["model"],
        "board": facts["board"],
        "cpu": facts["cpu"],
        "architecture": facts["architecture"],
        "cores": facts["cores"],
        "memory": facts["memory"],
        "clocks": clocks(facts),
        "gpus": [] if processor == "cpu" else gpu_names(),
    }


def versions() -> dict[str, str]:
    """What is said where it changed (`Rule.WARN` of `schema.configuration`), frameworks not loaded."""
    facts = machine.describe()
    by_name = {"wattstep": VERSION, "python": platform.python_version()}
    by_name.update(values_of_machine(facts, Rule.WARN))
    # Without its framework every configuration is refused, and says what is missing.
    packages = {name: getattr(find(name), "package", name) for name in ENGINES.own}
    for name, package in {"numpy": "numpy", **packages}.items():
        with suppress(metadata.PackageNotFoundError):
            by_name[name] = metadata.version(package)
    return by_name


def unlike(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """In what versions or limits differ, in words; what one of them does not tell does not count."""
    return [
        f"{key} was {before[key]}, now {now[key]}"
        for key in before
        if key in now and before[key] != now[key]
    ]


@contextmanager
def one_at_a_time(
    folder: Path | None = None, waits: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Waits until nobody else on this machine measures within this context.

    Args:
        folder: Where all who measure here look; the system's folder for temporary files.
        waits: Told where somebody else does.
    """
    descriptor = _opened(Path(folder or tempfile.gettempdir(), _LOCK))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
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
