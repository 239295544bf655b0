"""The threads with which a thread of torch divides its operations: OpenMP keeps them, and counts them, until it ends."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

SOFT: Final = 1  # omp_pause_soft


def end_team() -> None:
    """Ends the threads that divide the calling thread's operations; the next one that is divided begins others.

    GNU's OpenMP has waiting threads lie down at once while there are more of them, of all teams, than cores, and
    waking them makes every operation longer: of DCGAN on two cores a step took 16.3 ms by a worker beside whose team
    the caller's was still there, 10.9 ms without it. OpenMP before 5.0 has no such call: nothing ends then.
    """
    pause = getattr(ctypes.CDLL(None), "omp_pause_resource_all", None)
    if pause is not None:
        pause(SOFT)


@contextmanager
def undivided() -> Iterator[None]:
    """Operations of the calling thread are not divided meanwhile, so that they begin no team."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
