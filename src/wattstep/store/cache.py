"""Cache of results between commands, in the user's cache folder: all can be computed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from wattstep import errors
from wattstep.schema.version import VERSION
from wattstep.store.folder import read_plain, replacing

FOLDER = "wattstep"


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
        name: Of the file; one key is kept for each name.
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
    return cached(f"{what}-{name}", _key(run), compute)


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
