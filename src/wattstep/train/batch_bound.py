"""The batch that is larger than this machine's memory, refused before any of it is drawn."""

from __future__ import annotations

import math
import os
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import WorkloadFacts

_LEAST: Final = 2  # bytes of a number, in the smallest precision that trains


def check_batch(
    facts: WorkloadFacts, batch_size: int, image_size: int | None = None, memory: int | None = None
) -> None:
    """Refuses a batch whose inputs alone are larger than the memory of the machine.

    Args:
        facts: Of the workload.
        batch_size: Samples of one forward pass.
        image_size: As of `Preparation`.
        memory: Of the machine in bytes; None: of this one.

    Raises:
        InvalidValueError: It is.
    """
    if memory is None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    numbers = math.prod(facts.input_shape)
    if image_size is not None and facts.image_size is not None:
        numbers = numbers * image_size**2 // facts.image_size**2
    size = _LEAST * numbers * batch_size
    if size > memory:
        raise InvalidValueError(
            f"--batch {batch_size}: inputs of {facts.name} alone take {(size >> 30) + 1:,} GiB, and this machine has "
            f"{memory / 2**30:.1f} GiB of memory: take a smaller one",
            id="batch-beyond-memory",
        )
