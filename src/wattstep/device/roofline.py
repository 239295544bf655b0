"""The roofline: what bounds an operation, and how far from its bound it stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from wattstep.schema.arrays import FloatArray

FAR_BELOW: Final = 0.1  # of the ceiling that binds: less is overhead, whatever is computed
Bound = Literal["compute", "memory", "overhead", "unknown"]
BOUNDS: Final[tuple[Bound, ...]] = ("compute", "memory", "overhead", "unknown")


@dataclass(frozen=True, kw_only=True, eq=False)
class Placed:
    """Operations under their ceilings; all arrays have shape (n,).

    Attributes:
        compute_s: Time that the FLOPs take at the peak; NaN where either is not known.
        memory_s: Time that the bytes take at the bandwidth; likewise.
        least_s: The longer of those that are known: no operation is faster; NaN where none is.
        share: Of the binding ceiling that it reaches, `least_s` over its time.
        bound: What bounds it.
    """

    compute_s: FloatArray
    memory_s: FloatArray
    least_s: FloatArray
    share: FloatArray
    bound: tuple[Bound, ...]


def place(
    seconds: FloatArray,
    flops: FloatArray,
    moved: FloatArray,
    peak: FloatArray,
    bandwidth: FloatArray,
) -> Placed:
    """Sets operations under their ceilings (Williams, Waterman and Patterson 2009).

    Args:
        seconds: Time of each, shape (n,).
        flops: FLOPs in that time; NaN where not counted.
        moved: Bytes in that time; NaN where not known.
        peak: FLOP/s at most; NaN where not measured.
        bandwidth: Bytes in a second at most; likewise.
    """
    compute_s, memory_s = flops / peak, moved / bandwidth
    least = np.fmax(compute_s, memory_s)
    share = np.divide(least, seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
    bound = tuple(_bound(*values) for values in zip(share, compute_s, memory_s, strict=True))
    return Placed(compute_s=compute_s, memory_s=memory_s, least_s=least, share=share, bound=bound)


def _bound(share: float, compute_s: float, memory_s: float) -> Bound:
    if not np.isfinite(share):
        return "unknown"
    if share < FAR_BELOW:
        return "overhead"
    return "compute" if np.fmax(compute_s, -1.0) >= np.fmax(memory_s, -1.0) else "memory"
