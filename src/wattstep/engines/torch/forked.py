"""Children forked after torch's profiler was used end as they would have without it."""

from __future__ import annotations

import ctypes
import functools
import os


@functools.cache
def spare_children() -> None:
    """Once: a forked child skips destructors of C++ as it ends.

    Kineto's wait for its thread, which no child has: a child that ended by itself hung or was aborted.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # not in musl
        os.register_at_fork(after_in_child=functools.partial(_skip_destructors, libc))


def _skip_destructors(libc: ctypes.CDLL) -> None:
    """What is registered last is called first: output is flushed, then the process ends with its own code."""
    libc.on_exit(libc._exit, None)
    libc.__cxa_atexit(libc.fflush, None, None)
