"""Keeps what an engine's library prints by itself from the terminal."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def silenced() -> Iterator[IO[bytes]]:
    """What C code prints meanwhile goes into the file that is given, not to the terminal."""
    flush = ctypes.CDLL(None).fflush
    with tempfile.TemporaryFile() as output:
        kept = [(stream, os.dup(stream)) for stream in (1, 2)]
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
