"""How a step on a CPU goes with the number of its threads: a share of each operation is divided among them (Amdahl)."""

from __future__ import annotations

from math import log
from typing import Final

from wattstep.devices.table import Device, Value

THREADS: Final = "threads"  # kind of a device's file
SHARE: Final = "parallel_share"
# Of a device whose file does not say: nobody published it of trainings. Products of matrices reach 0.97,
# operations that stream through memory half of that or less.
ESTIMATE: Final = Value(
    value=0.85, low=0.5, high=0.97, basis="estimate", source="products of matrices and streams"
)
UNMEASURED: Final = (
    "with {number} threads: that {share:.0f} % of an operation's work is divided among them is an estimate; the "
    "interval is wider for it"
)


def parallel_share(device: Device, engine: str) -> Value:
    """Part of an operation's time, beside its start, that threads divide among them.

    Args:
        device: Where.
        engine: As its file names it.
    """
    kind = device.kinds.get(engine, {}).get(THREADS)
    return ESTIMATE if kind is None else kind.values.get(SHARE, ESTIMATE)


def left_of(share: float, faster: float) -> float:
    """What is left of a time of which a share is done so many times as fast."""
    return 1 - share + share / faster


def spread_of(share: Value, faster: float) -> float:
    """By how much that may be off, as a logarithm."""
    best = left_of(share.value, faster)
    return max(abs(log(left_of(end, faster) / best)) for end in (share.low, share.high))


def numbers_up_to(cores: int) -> tuple[int, ...]:
    """Numbers of threads that are worth a look: 1, 2, 4, ... and all cores."""
    return tuple(sorted({cores, *(1 << n for n in range(cores.bit_length()) if 1 << n <= cores)}))
