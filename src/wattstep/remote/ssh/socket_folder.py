"""The folder of a connection's socket, and those that a process left behind which was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from wattstep.errors import RecordingError

_PREFIX: Final = "wattstep-ssh-"
_HELD: Final = "held"  # locked as long as its process lives, in whatever container
_YOUNG_S: Final = 60.0  # a folder that is being made is not locked yet


class SocketFolder:
    """A new one, readable by nobody else, in which a socket's path stays short.

    Those whose process is gone are removed on the way.

    Raises:
        RecordingError: None can be made.
    """

    def __init__(self) -> None:
        # The path of a socket may have 108 bytes.
        parent = Path("/tmp" if len(tempfile.gettempdir()) >= 60 else tempfile.gettempdir())
        remove_abandoned(parent)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._held = os.open(self.path / _HELD, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._held, fcntl.LOCK_EX)
        except OSError as error:
            raise RecordingError(f"no folder can be made in {parent}: {error.strerror}") from error

    def remove(self) -> None:
        """Takes it away; more than once does no harm."""
        shutil.rmtree(self.path, ignore_errors=True)
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)


def remove_abandoned(parent: Path) -> None:
    """Removes folders of this user's whose process was killed.

    Args:
        parent: Where they lie.
    """
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another removes it just now
            status = folder.stat(follow_symlinks=False)
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG_S:
                _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    held = os.open(folder / _HELD, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)
