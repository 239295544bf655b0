"""Looks samples up on an OpenCL device, with the same result as on the CPU.

The device ranks nodes by float32 products and keeps more of them than are wanted. Where a bound on rounding says that
those are enough, float64 on the CPU decides among them as it does among its own candidates; else the CPU looks the
sample up itself. Of forests the device gives leaves, which are whole numbers.
"""

from __future__ import annotations

import numpy as np

from wattstep.labeling.arrays import Bools, Floats, Ints
from wattstep.labeling.heuristics import Heuristic
from wattstep.labeling.lookup import Found, Index, Near, nearest_of, neighbours, rounding, squares
from wattstep.opencl.device import Opened
from wattstep.opencl.lookup import LookupTables, Trees, limits_of, order_of

SPARE = 6  # nodes that a device keeps beside those that are wanted


class OpenclProcessor:
    """A device that looks samples up.

    Args:
        name: What it is called.
        opened: The device in use.

    Attributes:
        name: As given.
        device: The driver's name of it.
    """

    def __init__(self, name: str, opened: Opened) -> None:
        self.name, self.device = name, opened.device.name
        self._opened = opened
        self._index: Index | None = None
        self._tables: LookupTables | None = None

    def hold(self, index: Index) -> None:
        """Copies what samples are looked up in to the device.

        Raises:
            DeviceFaultError: The device has no room for it, or does not build a kernel.
        """
        if self._tables is not None:
            self._tables.release()
        wanted = ((len(index.nodes), index.near + SPARE), (index.labeled, 1 + SPARE))
        self._tables = LookupTables(self._opened, index.nodes, wanted, _trees(index.forests))
        self._index = index

    def look_up(self, space: Floats, standard: Floats) -> Found:
        """See `lookup.Lookup`.

        Raises:
            DeviceFaultError: The driver refused.
        """
        index, tables = self._index, self._tables
        assert index is not None
        assert tables is not None
        lists, ends = tables.look_up(space, order_of(standard.astype(np.float32)))
        slack = rounding(space, squares(index.nodes))
        near, unsure = _chosen(index, space, *lists[0], slack, index.near)
        labeled, also = _chosen(index, space, *lists[1], slack, 1)
        again = np.flatnonzero(unsure | also)
        if len(again):
            for found, sure in zip((near, labeled), neighbours(index, space[again]), strict=True):
                found.nodes[again], found.squares[again] = sure
        return Found(near=near, labeled=labeled, leaves=_of_each(index.forests, ends))


def _chosen(
    index: Index, space: Floats, nodes: Ints, ranked: Floats, slack: Floats, k: int
) -> tuple[Near, Bools]:
    """The k nearest among those that the device kept, and where others may be nearer."""
    k = min(k, int(np.isfinite(ranked[0]).sum()))
    limit = (ranked[:, k - 1] + slack)[:, None]
    candidates = np.where((ranked <= limit) & np.isfinite(ranked), nodes, len(index.nodes))
    return nearest_of(index, space, candidates, k), ranked[:, -1] <= limit[:, 0]


def _trees(forests: tuple[Heuristic, ...]) -> Trees | None:
    """All trees of the forests over one array of nodes."""
    if not forests:
        return None
    nodes, roots, depths = [], [], []
    first = 0
    for each in forests:
        arrays = each.arrays
        nodes.append(
            np.stack(
                [
                    each.features[arrays["feature"].astype(np.int64)],
                    limits_of(arrays["limit"].astype(np.float64)),
                    first + arrays["left"],
                    first + arrays["right"],
                ],
                axis=1,
            )
        )
        roots.append(first + arrays["roots"])
        depths.append(np.full(len(arrays["roots"]), arrays["depth"][0]))
        first += len(arrays["feature"])
    return Trees(
        nodes=np.concatenate(nodes).astype(np.int32),
        roots=np.concatenate(roots).astype(np.int32),
        depths=np.concatenate(depths).astype(np.int32),
    )


def _of_each(forests: tuple[Heuristic, ...], ends: Ints) -> tuple[Ints, ...]:
    """Leaves of each forest as its own nodes, of those over all nodes, shape (n, trees) each."""
    told = []
    first = tree = 0
    for each in forests:
        trees = len(each.arrays["roots"])
        told.append(ends[:, tree : tree + trees].astype(np.int64) - first)
        first, tree = first + len(each.arrays["feature"]), tree + trees
    return tuple(told)
