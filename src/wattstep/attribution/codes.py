"""Names as numbers: columns of codes, and the distinct ones among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattstep.schema.arrays import IntArray

MOST_FLAGS = 10**7  # numbers up to which flags are quicker than sorting
Codes = NDArray[np.integer[Any]]


def compact(code: Codes) -> tuple[IntArray, IntArray]:
    """Distinct numbers, none negative, in order, and the position of each row among them."""
    size = int(code.max(initial=-1)) + 1
    if size > max(MOST_FLAGS, len(code)):
        used, number = np.unique(code, return_inverse=True)
        return used.astype(np.int64), number.astype(np.int64)
    seen = np.zeros(size, bool)
    seen[code] = True  # far quicker than sorting millions of rows
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[code]
