"""A limit on a child's memory: a memory cgroup where permitted, else a limit on data segments."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.sensors import machine

Means = Literal["memory cgroup v2", "memory cgroup v1", "data segments"]

PROCESSES: Final = "cgroup.procs"
_LIMIT_FILES: Final = {
    "memory cgroup v2": "memory.max",
    "memory cgroup v1": "memory.limit_in_bytes",
}
_PEAK_FILES: Final = {
    "memory cgroup v2": "memory.peak",
    "memory cgroup v1": "memory.max_usage_in_bytes",
}
_EVENT_FILES: Final = {
    "memory cgroup v2": "memory.events",
    "memory cgroup v1": "memory.oom_control",
}
_UNITS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_LEAST = 16 * 1024**2  # less than an interpreter takes to start
_SWEEP_UP_S = 5.0


def parse_size(text: str, option: str = "--memory-limit") -> int:
    """Bytes of "8GiB", "512MiB" (powers of 1024), "8GB", "8G" (powers of 1000) or "1000000".

    Args:
        text: The size.
        option: Whose value it is.

    Raises:
        InvalidValueError: It is no size, or too small for any process.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?\s*", text.lower())
    if match is None:
        raise InvalidValueError(
            f"{option} {text!r}: a size is wanted, e.g. 8GiB, 512MiB or 8GB", id="malformed-size"
        )
    number, unit, binary = match.groups()
    size = int(float(number) * (1024 if binary else 1000) ** _UNITS.get(unit or "", 0))
    if size < _LEAST:
        raise InvalidValueError(
            f"{option} {text}: no process starts in less than 16MiB", id="out-of-range"
        )
    return size


@dataclass(frozen=True, kw_only=True)
class MemoryLimit:
    """A limit, and how it is enforced on this machine.

    Attributes:
        size: In bytes.
        means: A memory cgroup bounds the training and all it starts together, as the memory of a
            board would; a limit on data segments (RLIMIT_DATA) bounds each process alone.
        home: Folder in which cgroups can be made, or None.
        why_not: Why no cgroup could be used; "" where one is.
        swapless: Whether the cgroup may not swap either; kernels that do not account for swap
            cannot be determined so.
    """

    size: int
    means: Means
    home: str | None = None
    why_not: str = ""
    swapless: bool = False

    @property
    def described(self) -> str:
        """Limit and means in words."""
        if self.means == "data segments":
            how = "a limit on the data segments of each process (RLIMIT_DATA)"
            return f"{spell_size(self.size)} by {how}; no cgroup: {self.why_not}"
        swap = " without swap" if self.swapless else ", swap not bounded"
        return f"{spell_size(self.size)} by a {self.means}{swap}"


def spell_size(size: int) -> str:
    """A limit as one types it: 8 GiB, 512 MiB, 8,000,000,000 bytes."""
    for power, unit in ((3, "GiB"), (2, "MiB")):
        if size % 1024**power == 0:
            return f"{size // 1024**power:,} {unit}"
    return f"{size:,} bytes"


def find_limit(size: int, root: Path = Path("/")) -> MemoryLimit:
    """The best means that this machine permits, found by trying it.

    Args:
        size: In bytes.
        root: The root of the file system, "/" or a fixture tree.
    """
    reasons = []
    for means, home in possible_homes(root):
        try:
            swapless = _try(means, home, size)
        except RecordingError as reason:
            reasons.append(str(reason))
            continue
        _tidy(home)
        return MemoryLimit(size=size, means=means, home=str(home), swapless=swapless)
    why_not = reasons[0] if reasons else "there is no memory controller"
    return MemoryLimit(size=size, means="data segments", why_not=why_not)


def limit_elsewhere(size: int) -> MemoryLimit:
    """A limit of a training on another device: how it can be enforced is found out there."""
    return MemoryLimit(
        size=size, means="data segments", why_not="the device that trains looks for one"
    )


def beyond_machine(limit: MemoryLimit) -> str | None:
    """Warning of a limit above the machine's memory, which is then the limit; else None."""
    memory = machine.describe()["memory"]
    if memory is None or limit.size <= memory:
        return None
    return (
        f"the memory limit of {spell_size(limit.size)} is more than this machine has "
        f"({memory / 1024**3:.1f} GiB): it is the machine that bounds"
    )


@contextmanager
def enforced(limit: MemoryLimit | None) -> Iterator[Cage]:
    """Makes the cage of a child; it is gone afterwards, with whatever is still running in it.

    Raises:
        RecordingError: The cgroup, which could be made before, cannot be made now.
    """
    if limit is None or limit.home is None:
        yield Cage(limit=limit, folder=None)
        return
    folder = Path(limit.home, f"wattstep-{os.getpid()}-{time.monotonic_ns()}")
    try:
        _make(limit.means, folder, limit.size)
    except OSError as error:
        raise RecordingError(f"the memory limit cannot be set: {_message(error)}") from error
    try:
        yield Cage(limit=limit, folder=folder)
    finally:
        _remove(folder)


@dataclass(frozen=True, kw_only=True)
class Cage:
    """Memory limit of a child, with its cgroup.

    Attributes:
        limit: The limit, or None for none.
        folder: Its cgroup, or None where it has none of its own.
    """

    limit: MemoryLimit | None
    folder: Path | None

    @property
    def guard(self) -> dict[str, Any]:
        """Settings that `guard.main` applies before anything is loaded, JSON-ready."""
        if self.folder is not None:
            return {"cgroup": str(self.folder / PROCESSES)}
        return {} if self.limit is None else {"data": self.limit.size}

    @property
    def oom_kills(self) -> int | None:
        """Processes that the kernel killed in it because memory ran out; None: it does not say."""
        if self.limit is None or self.folder is None:
            return None
        text = _read(self.folder / _EVENT_FILES[self.limit.means])
        match = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return None if match is None else int(match[1])

    @property
    def peak(self) -> int | None:
        """Most memory that it held, page cache included, in bytes; None: it does not say."""
        if self.limit is None or self.folder is None:
            return None
        text = _read(self.folder / _PEAK_FILES[self.limit.means])
        return int(text) if text.isdigit() else None


def possible_homes(root: Path) -> Iterator[tuple[Means, Path]]:
    """Folders in which a memory cgroup may be made: our own one, then the one above it.

    With version 2 a cgroup that holds processes cannot have children with a limit: there it is
    the one above, which systemd hands to its user.
    """
    own = _own_groups(_read(root / "proc/self/cgroup"))
    for mounted, point, kind, options in _mounts(_read(root / "proc/self/mountinfo")):
        means: Means = "memory cgroup v2" if kind == "cgroup2" else "memory cgroup v1"
        if kind == "cgroup" and "memory" not in options:
            continue
        path = own.get("" if kind == "cgroup2" else "memory")
        if path is None:
            continue
        inside = os.path.relpath(path, mounted) if mounted != "/" else path.lstrip("/")
        folder = root / point.lstrip("/") / ("" if inside.startswith("..") else inside)
        yield means, folder
        if inside not in ("", ".") and not inside.startswith(".."):
            yield means, folder.parent


def _own_groups(text: str) -> dict[str, str]:
    """Path of our cgroup by controller, "" for version 2; from /proc/self/cgroup."""
    groups = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _mounts(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Root, mount point, type and options of the cgroup mounts; from /proc/self/mountinfo."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind and kind[0] in ("cgroup", "cgroup2"):
            yield fields[3], fields[4], kind[0], kind[-1].split(",")


def _try(means: Means, home: Path, size: int) -> bool:
    """Makes a cgroup and puts a process into it; whether swap is bounded as well.

    Raises:
        RecordingError: That does not work.
    """
    folder = home / f"wattstep-try-{os.getpid()}-{time.monotonic_ns()}"
    try:
        swapless = _make(means, folder, size)
    except OSError as error:
        raise RecordingError(_message(error)) from error
    try:
        enter = "import sys; open(sys.argv[1], 'r+').write('0')"
        command = [sys.executable, "-I", "-S", "-c", enter, str(folder / PROCESSES)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=dict(os.environ)
        )
        if done.returncode != 0:
            raise RecordingError((done.stderr.strip().splitlines() or [""])[-1])
        return swapless
    finally:
        _remove(folder)


def _tidy(home: Path) -> None:
    """Removes cgroups of ours whose maker was killed before it could."""
    for folder in home.glob("wattstep-*-*"):
        maker = folder.name.split("-")[-2]
        if not Path("/proc", maker).exists():
            with suppress(OSError):  # something still runs in it
                folder.rmdir()


def _make(means: Means, folder: Path, size: int) -> bool:
    """Makes a cgroup with a limit, or leaves nothing behind; whether swap is bounded as well."""
    if means == "memory cgroup v2" and "memory" not in _read(
        folder.parent / "cgroup.subtree_control"
    ):
        _write(folder.parent / "cgroup.subtree_control", "+memory")
    folder.mkdir()
    try:
        _write(folder / _LIMIT_FILES[means], str(size))
        return _forbid_swap(means, folder, size)
    except OSError:
        folder.rmdir()
        raise


def _forbid_swap(means: Means, folder: Path, size: int) -> bool:
    """A kernel that does not account for swap lacks these files; then nothing can be forbidden."""
    try:
        if means == "memory cgroup v2":
            _write(folder / "memory.swap.max", "0")
        else:
            _write(folder / "memory.swappiness", "0")
            _write(folder / "memory.memsw.limit_in_bytes", str(size))
    except FileNotFoundError:
        return False
    return True


def _remove(folder: Path) -> None:
    """Ends what still runs in a cgroup (the sampler takes a moment) and removes it."""
    end = time.monotonic() + _SWEEP_UP_S
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                return  # a process that cannot be ended keeps it; the kernel has its limit still
        if time.monotonic() > end - _SWEEP_UP_S / 2:
            for pid in _read(folder / PROCESSES).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.02)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    """Writes into a file of the kernel's, which must be there."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode("ascii"))
    except OSError as error:
        error.filename = str(path)  # `os.write` does not say
        raise
    finally:
        os.close(descriptor)


def _message(error: OSError) -> str:
    return f"{error.filename or ''}: {(error.strerror or str(error)).lower()}".removeprefix(": ")
