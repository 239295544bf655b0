"""Looks samples up on some of the CPU's cores, by threads that are bound to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise

from threadpoolctl import ThreadpoolController

from wattstep.errors import InvalidValueError
from wattstep.labeling.arrays import Floats
from wattstep.labeling.lookup import Found, Index, joined, look_up
from wattstep.schema.cores import spell_cores


class CpuCluster:
    """Cores with a thread for each, among which samples are divided evenly.

    BLAS has threads of its own, on any core: lookups have to happen within `one_blas_thread`.

    Args:
        name: What it is called.
        cores: Their numbers.

    Raises:
        InvalidValueError: The system binds no thread to them.
    """

    index: Index

    def __init__(self, name: str, cores: tuple[int, ...]) -> None:
        self.name, self.device = name, f"NumPy on cores {spell_cores(cores)}"
        self._cores = cores
        self._threads = ThreadPoolExecutor(len(cores))
        self._threads.submit(self._bind).result()

    def hold(self, index: Index) -> None:
        """See `placement.Processor`."""
        self.index = index

    def look_up(self, space: Floats, standard: Floats) -> Found:
        """See `placement.Processor`."""
        count = len(self._cores)
        ends = [len(space) * n // count for n in range(count + 1)]
        parts = [slice(first, end) for first, end in pairwise(ends) if first < end]

        def found_in(rows: slice) -> Found:
            self._bind()
            return look_up(self.index, space[rows], standard[rows])

        return joined(list(self._threads.map(found_in, parts)))

    def _bind(self) -> None:
        """Keeps the calling thread, one of this cluster's own, to its cores."""
        try:
            os.sched_setaffinity(0, self._cores)
        except OSError as error:
            raise InvalidValueError(
                f"{self.name}: threads cannot be bound to these cores here: {error.strerror or error}",
                id="refused-affinity",
            ) from error


def one_blas_thread() -> Callable[[], AbstractContextManager[object]]:
    """Makes what holds BLAS to the thread that calls it, in the whole process, and lets go of it afterwards."""
    return partial(ThreadpoolController().limit, limits=1, user_api="blas")
