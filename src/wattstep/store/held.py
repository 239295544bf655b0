"""Folders that a process holds as long as it lives: what a killed one left is removed by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

_HELD: Final = "held"  # locked as long as its process lives, in whatever container


class HeldFolder:
    """A new folder, readable by nobody else; those of its name whose process is gone are removed on the way.

    Args:
        parent: Where it lies.
        prefix: How its name begins, as that of its like.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        remove_abandoned(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._held = -1
        try:
            made = self.path / f"{_HELD}-not-yet"
            self._held = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._held, fcntl.LOCK_EX)
            made.rename(self.path / _HELD)  # so that nobody sees it without its lock
        except BaseException:  # Ctrl-C, too
            self.remove()
            raise

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Takes it away; more than once does no harm."""
        shutil.rmtree(self.path, ignore_errors=True)
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Removes folders of this user's whose process was killed.

    Args:
        parent: Where they lie.
        prefix: How their names begin.
    """
    with suppress(OSError):
        for entry in os.scandir(parent):
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):  # another removes it just now, or holds it
                    _remove_unheld(Path(entry))


def _remove_unheld(folder: Path) -> None:
    if folder.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    held = os.open(folder / _HELD, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)
