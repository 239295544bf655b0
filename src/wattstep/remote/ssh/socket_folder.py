"""The folder of a connection's socket."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from wattstep.errors import RecordingError
from wattstep.store.held import HeldFolder

PREFIX: Final = "wattstep-ssh-"


def make_socket_folder() -> HeldFolder:
    """A new one in which a socket's path stays short.

    Raises:
        RecordingError: None can be made.
    """
    # The path of a socket may have 108 bytes.
    parent = Path("/tmp" if len(tempfile.gettempdir()) >= 60 else tempfile.gettempdir())
    try:
        return HeldFolder(parent, PREFIX)
    except OSError as error:
        raise RecordingError(f"no folder can be made in {parent}: {error.strerror}") from error
