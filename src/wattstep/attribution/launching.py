"""Launchers of work that ran elsewhere: the calls behind kernels, the operations behind calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.attribution.nesting import Bools, Family, Rows, first_with
from wattstep.formats.trace import NONE, Codes, Longs


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """Rows that mean what another row means; all are positions of rows.

    Attributes:
        call: Calls of the runtime that no operation encloses.
        operation: The operation that asked for each.
        gpu: Work on a GPU.
        launch: The call, or else the operation, that launched each.
    """

    call: Longs
    operation: Longs
    gpu: Longs
    launch: Longs

    def taken_over(self, values: Codes) -> Codes:
        """The values, with linked rows having those of what asked for them; changed in place."""
        values[self.call] = values[self.operation]
        values[self.gpu] = values[self.launch]
        return values


def find_links(
    rows: Rows,
    family: Family,
    *,
    correlation: Longs,
    external: Longs,
    runtime: Bools,
    operation: Bools,
) -> Links:
    """Ties work on a GPU to the call of the same correlation, else to the operation of the same number.

    All kernels of one launch of a CUDA graph have its correlation. Some versions of Kineto write
    the correlation into the external number, too: then it says nothing.

    Args:
        rows: Events in order.
        family: Their nesting.
        correlation: Number that a call shares with the work that it launched, shape (n,); NONE: none.
        external: Number that both share with the operation that asked for them, and that operations
            have themselves, shape (n,); NONE: none.
        runtime: Rows that call a driver or runtime, shape (n,).
        operation: Rows that are operations on the CPU, shape (n,).
    """
    external = np.where(external == correlation, NONE, external)
    number = np.where(operation, external, NONE)
    calls = np.flatnonzero(runtime & ~rows.on_gpu & (family.parent == NONE))
    asked = first_with(number, external[calls])
    gpu = np.flatnonzero(rows.on_gpu)
    launch = first_with(np.where(runtime & ~rows.on_gpu, correlation, NONE), correlation[gpu])
    launch = np.where(launch == NONE, first_with(number, external[gpu]), launch)
    return Links(
        call=calls[asked != NONE],
        operation=asked[asked != NONE],
        gpu=gpu[launch != NONE],
        launch=launch[launch != NONE],
    )
