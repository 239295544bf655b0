"""Cache of results between commands, in the user's cache folder: all can be computed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

from wattstep import errors
from wattstep.schema.version import VERSION
from wattstep.store.folder import read_plain, replacing

FOLDER: Final = "wattstep"
RUNS: Final = "runs"
MOST_BYTES_OF_RUNS: Final = 500 * 10**6  # ten thousand runs with all their figures
_LOOKS: Final = 64  # results between two looks at how much they take together

_computed = count()


def cache_folder() -> Path:
    """Folder of caches (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    # The specification says that a relative path is to be ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / FOLDER


def hash_files(paths: Iterable[Path], *texts: str) -> str:
    """A key that changes with the content of any of the files, or of the texts."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def cached(name: str, key: str, compute: Callable[[], Any]) -> Any:
    """Result of `compute` for this key, from before or computed now; JSON-ready.

    A cache that cannot be read counts as none; one that cannot be written is done without.

    Args:
        name: Of the file, with its folder in the cache where it has one; one key is kept for each name.
        key: What the value depends on.
    """
    path = cache_folder() / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        cache = json.loads(read_plain(path))
        if cache["key"] == key:
            return cache["value"]
    value = compute()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps({"key": key, "value": value}).encode())
    return value


def cached_of_run(what: str, run: Path, compute: Callable[[], Any]) -> Any:
    """Result of `compute` for a run as it is now, from before or computed now; JSON-ready.

    Args:
        what: Begin of the file's name.
        run: Folder of the run.
        compute: What is kept until a file of the run changes, or wattstep's own code does.
    """
    name = hashlib.sha256(os.fsencode(run.resolve())).hexdigest()[:20]

    def counted() -> Any:
        if next(_computed) % _LOOKS == 0:
            forget_oldest(cache_folder() / RUNS, most_bytes=MOST_BYTES_OF_RUNS)
        return compute()

    return cached(f"{RUNS}/{what}-{name}", _key(run), counted)


def forget_oldest(
    folder: Path, *, most_bytes: float = math.inf, most_files: float = math.inf
) -> None:
    """Removes the files of a folder that were written or touched longest ago, until it is small enough.

    The newest stays, however large: somebody is about to look at it.

    Args:
        folder: Of files; one that is not there is small enough.
        most_bytes: Of all files together.
        most_files: Number of files.
    """
    files: list[tuple[int, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as inside:
        for entry in inside:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                files.append((status.st_mtime_ns, status.st_size, entry.path))
    files.sort(reverse=True)
    total = 0
    for number, (_, size, path) in enumerate(files):
        total += size
        if number and (total > most_bytes or number >= most_files):
            with contextlib.suppress(OSError):
                Path(path).unlink()


def _key(run: Path) -> str:
    """Cache key that changes with any file of a run, and with the code that computes its figures."""
    files = sorted(
        (entry.name, entry.stat().st_mtime_ns, entry.stat().st_size)
        for entry in os.scandir(run)
        if entry.is_file()
    )
    return json.dumps([_code(), files], ensure_ascii=True)


@cache
def _code() -> list[Any]:
    """Version of wattstep, and when its code changed last: a checkout changes without its version."""
    package = Path(errors.__file__).parent
    changed = max(path.stat().st_mtime_ns for path in package.rglob("*.py"))
    return [VERSION, changed]
