"""MNN's library, loaded without what it prints."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from wattstep.schema.extras import require


@contextmanager
def silenced() -> Iterator[IO[bytes]]:
    """What C code prints meanwhile goes into the file that is given, not to the terminal.

    MNN prints facts of the processor when it is loaded, and errors where it returns none.
    """
    flush = ctypes.CDLL(None).fflush
    with tempfile.TemporaryFile() as output:
        kept = [(stream, os.dup(stream)) for stream in ((1,) if os.environ.get("DBG") else (1, 2))]
        flush(None)
        try:
            for stream, _ in kept:
                os.dup2(output.fileno(), stream)
            yield output
        finally:
            flush(None)
            for stream, copy in kept:
                os.dup2(copy, stream)
                os.close(copy)


def load_mnn() -> Any:
    """The package.

    Raises:
        MissingPartError: It is not installed.
    """
    with silenced():
        return require("MNN")
