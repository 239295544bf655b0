"""Pages that were worked out before, kept in a folder outside of the store that stays small."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wattstep.schema.version import VERSION
from wattstep.serve.store_view import Entry
from wattstep.store.cache import cache_folder, forget_oldest
from wattstep.store.folder import replacing

MOST_BYTES: Final = 256 * 10**6
MOST_FILES: Final = 5000
FOLDER: Final = "serve"


class Cache:
    """Files by key, the least used of which go first when there are too many.

    Args:
        folder: Where they lie; None: in the user's cache folder, or a temporary one where that
            cannot be written.
        most_bytes: Of all files together.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._code = code_stamp()
        self.folder = folder or cache_folder() / FOLDER
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError:
            self._temporary = tempfile.TemporaryDirectory(prefix="wattstep-serve-")
            self.folder = Path(self._temporary.name)

    def place(self, what: str, entries: Sequence[Entry], *options: str) -> Path:
        """Path of the file of some entries, which another state of them does not share.

        Args:
            what: "report", "compare", ...
            entries: Entries that it is made from.
            options: Options that it depends on.
        """
        digest = hashlib.sha256()
        parts = [what, self._code, *options]
        for entry in entries:
            parts += [os.fsdecode(os.fsencode(entry.path)), entry.stamp, entry.state]
        digest.update(json.dumps(parts).encode())
        whose = entries[0].id if len(entries) == 1 else "several"
        return self.folder / f"{whose}-{what}-{digest.hexdigest()[:32]}"

    def find(self, path: Path) -> bytes | None:
        """Cached bytes; reading them counts as use."""
        try:
            data = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return data

    def keep(self, path: Path, document: Any) -> None:
        """Keeps a JSON document; a folder that cannot be written is done without."""
        with contextlib.suppress(OSError), replacing(path) as file:
            file.write(json.dumps(document).encode("ascii"))

    def forget(self, id: str) -> None:
        """Removes what was made from an entry; of several together all is removed."""
        for pattern in (f"{id}-*", "several-*"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def shrink(self) -> None:
        """Removes what was not used for longest, until it is small enough."""
        forget_oldest(self.folder, most_bytes=self._most_bytes, most_files=MOST_FILES)

    def close(self) -> None:
        """Removes a temporary folder."""
        if self._temporary is not None:
            self._temporary.cleanup()


def code_stamp() -> str:
    """Changes with the version, and with any file of the package: pages are made by all of it."""
    digest = hashlib.sha256(VERSION.encode())
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".html", ".css", ".js", ".toml"):
            status = path.stat()
            digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
