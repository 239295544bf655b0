"""Steps that take CPU time: one that only sleeps has next to none, and its modelled energy no value to name."""

from __future__ import annotations

import time


def burn(seconds: float) -> None:
    """Computes until this thread has had `seconds` of CPU time, however busy the machine is."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
