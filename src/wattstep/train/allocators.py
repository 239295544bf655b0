"""Allocators of memory that a training may have in place of the system's own defaults, by its environment."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wattstep.errors import InvalidValueError

# glibc gives large blocks back to the kernel when they are freed, and each step has to touch them anew
# (mallopt(3): M_MMAP_THRESHOLD is never above 32 MiB, M_TRIM_THRESHOLD moves with it).
_KEEPING: Final = MappingProxyType(
    {
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_TOP_PAD_": str(64 << 20),
    }
)
_HUGE: Final = MappingProxyType(
    {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
)  # glibc 2.35 and later
_HUGE_PAGES: Final = "sys/kernel/mm/transparent_hugepage/enabled"
_LIBRARIES: Final = MappingProxyType(
    {
        "jemalloc": ("libjemalloc.so.2", "libjemalloc.so"),
        "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"),
    }
)
_FOLDERS: Final = ("usr/lib", "usr/local/lib", "lib", "usr/lib64", "lib64", "opt/homebrew/lib")
ALLOCATORS: Final = ("keep", "keep-huge", *_LIBRARIES)


def find_allocator(
    name: str, root: Path = Path("/"), environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Environment of a process that allocates so.

    Args:
        name: One of `ALLOCATORS`: "keep" has glibc keep what is freed, "keep-huge" asks for huge pages, too,
            the others are libraries that are loaded first.
        root: Of the file system.
        environment: That the process would have otherwise.

    Raises:
        InvalidValueError: There is no such allocator, or it is not installed here.
    """
    if name not in ALLOCATORS:
        raise InvalidValueError(
            f"--allocator {name}: there are {', '.join(ALLOCATORS)}", id="unknown-allocator"
        )
    if name not in _LIBRARIES:
        _check_glibc(name, root)
        own = dict(_KEEPING)
        if name == "keep-huge":
            own["GLIBC_TUNABLES"] = _joined(
                environment.get("GLIBC_TUNABLES"), _HUGE["GLIBC_TUNABLES"], ":"
            )
        return own
    library = _library(name, root, environment)
    if library is None:
        raise InvalidValueError(
            f"--allocator {name}: {_LIBRARIES[name][0]} is not installed (Debian: apt install "
            f"{'libjemalloc2' if name == 'jemalloc' else 'libtcmalloc-minimal4'})",
            id="no-such-allocator",
        )
    return {"LD_PRELOAD": _joined(environment.get("LD_PRELOAD"), str(library), ":")}


def _check_glibc(name: str, root: Path) -> None:
    libc, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if libc != "glibc":
        raise InvalidValueError(
            f"--allocator {name}: it is glibc's, which this Python does not use",
            id="no-such-allocator",
        )
    if name != "keep-huge":
        return
    try:
        pages = (root / _HUGE_PAGES).read_text(encoding="ascii")
    except OSError:
        pages = "[never]"
    if numbers < (2, 35) or "[never]" in pages:
        why = "glibc is older than 2.35" if numbers < (2, 35) else "the kernel gives no huge pages"
        raise InvalidValueError(f"--allocator {name}: {why}", id="no-such-allocator")


def _library(name: str, root: Path, environment: Mapping[str, str]) -> Path | None:
    """The library's file, where the loader would look for it."""
    own = [Path(each) for each in environment.get("LD_LIBRARY_PATH", "").split(":") if each]
    triple = f"{platform.machine()}-linux-gnu"
    system = [root / folder / inner for folder in _FOLDERS for inner in (triple, ".")]
    places = (folder / file for file in _LIBRARIES[name] for folder in (*own, *system))
    return next((place.resolve() for place in places if place.is_file()), None)


def _joined(before: str | None, own: str, sign: str) -> str:
    return f"{before}{sign}{own}" if before else own
