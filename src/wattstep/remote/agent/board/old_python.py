"""Replacements for what Python 3.6 and 3.7 lack and the one file uses; stands before all other modules."""

import importlib
import os
import sys
import threading
import time
import types


class Late:
    """A module that is imported when something of it is asked for first: torch, once a script has loaded it."""

    def __init__(self, name):
        self.__dict__["_late"] = name

    def __getattr__(self, name):
        module = sys.modules.get(self._late) or importlib.import_module(self._late)
        return getattr(module, name)


def _completed(module, **functions):
    """A copy of a module, which itself stays as the script expects it, with functions that it lacks."""
    copy = types.ModuleType(module.__name__, module.__doc__)
    copy.__dict__.update(functions)
    copy.__dict__.update(module.__dict__)
    return copy


if sys.version_info < (3, 8):
    time = _completed(
        time,
        perf_counter_ns=lambda: int(time.perf_counter() * 1e9),
        process_time_ns=lambda: int(time.process_time() * 1e9),
        time_ns=lambda: int(time.time() * 1e9),
        thread_time_ns=lambda: int(time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) * 1e9),
    )
    threading = _completed(
        threading, get_native_id=lambda: int(os.readlink("/proc/thread-self").rpartition("/")[2])
    )
if not hasattr(os, "register_at_fork"):  # Python 3.6

    def register_at_fork(after_in_child):
        """As `os.register_at_fork`; told by whatever forks through `os.fork`."""
        everyones = vars(sys.modules["os"])
        fork = everyones["fork"]

        def fork_and_call():
            pid = fork()
            if pid == 0:
                after_in_child()
            return pid

        everyones["fork"] = fork_and_call

    os = _completed(os, register_at_fork=register_at_fork)
