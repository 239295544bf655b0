"""Launches of work on GPUs: how long each piece waited since it was asked for, and what asking cost the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.attribution.gpu_breakdown import Work
from wattstep.attribution.gpu_idle import UNKNOWN
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Launches:
    """Launches of the work of one GPU.

    Attributes:
        processor: Which.
        unknown: Pieces of which the trace does not say what launched them.
        queued_ns: From the begin of its call to the begin of each other piece, in order of begin.
        call_ns: How long each call lasted that launched anything; of a graph, one call launches many.
    """

    processor: str
    unknown: int
    queued_ns: IntArray
    call_ns: IntArray


def launches(work: Work, call: IntArray) -> tuple[Launches, ...]:
    """Launches of the work of each GPU, in their order.

    Args:
        work: What ran.
        call: When the call began and ended that launched each piece, `UNKNOWN` where that is not
            known, shape (n, 2).

    Raises:
        InvalidValueError: Columns differ in length.
    """
    if call.shape != (len(work), 2):
        raise InvalidValueError("columns of work differ in length", id="unequal-lengths")
    by_gpu = []
    for code in np.unique(work.processor).tolist():
        mine = np.flatnonzero(work.processor == code)
        mine = mine[np.argsort(work.start_ns[mine], kind="stable")]
        known = mine[call[mine, 0] != UNKNOWN]
        calls = np.unique(call[known], axis=0)
        by_gpu.append(
            Launches(
                processor=work.processors[code],
                unknown=len(mine) - len(known),
                queued_ns=work.start_ns[known] - call[known, 0],
                call_ns=calls[:, 1] - calls[:, 0],
            )
        )
    return tuple(by_gpu)
