"""Random numbers of a capture: the same each time, whatever the process drew before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch

MOST: Final = 1 << 32  # from which on numpy takes no seed
DRAWN: Final = (
    "its step draws random numbers of Python's or numpy's: its operations are those of one draw, and others may "
    "take more or less"
)


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """The generators of torch, Python and numpy begin at a seed, and in the end are as they were."""
    with torch.random.fork_rng(devices=[]):
        before = random.getstate(), np.random.get_state()
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % MOST)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])


def drawn_so_far() -> tuple[Any, ...]:
    """Tells whether Python's or numpy's generator gave a number since: it is another then."""
    _, keys, *place = np.random.get_state()
    return random.getstate(), np.asarray(keys).tobytes(), *place
