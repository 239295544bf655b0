"""For each sample the rows of a matrix that are nearest to it, and where it ends in decision trees, on an OpenCL device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.opencl.device import FLOAT, ArrayOfFloat32, Opened, faults
from wattstep.opencl.gemm import Gemm
from wattstep.opencl.program import kernel
from wattstep.schema.extras import require

FILE: Final = "lookup"
GROUP: Final = (
    64  # work items: of any size that a driver chose itself, PoCL would compile another kernel
)
KEPT: Final = 16  # products that are held, each for another number of samples
ArrayOfInt32 = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Trees:
    """Decision trees over one array of nodes; a leaf is its own child.

    Attributes:
        nodes: Feature, limit, left and right child, limits as by `order_of`, shape (nodes, 4).
        roots: Shape (trees,).
        depths: Steps to any leaf, at most, shape (trees,).
    """

    nodes: ArrayOfInt32
    roots: ArrayOfInt32
    depths: ArrayOfInt32


def order_of(x: ArrayOfFloat32) -> ArrayOfInt32:
    """Integers in the order of floats, equal ones alike."""
    bits = (x + np.float32(0)).view(np.int32)  # of -0 and 0 both 0
    ordered: ArrayOfInt32 = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    return ordered


def limits_of(limits: npt.NDArray[np.float64]) -> ArrayOfInt32:
    """Of limits in float64 within the range of float32, so that x ≤ limit for every float32 x just where `order_of(x)` is at most this."""
    below = limits.astype(np.float32)
    return order_of(np.where(below > limits, np.nextafter(below, np.float32(-np.inf)), below))


class LookupTables:
    """Rows and trees in a device's memory, and what was asked of them last.

    Args:
        opened: Device in use.
        rows: Matrix, shape (N, d).
        wanted: For each list of nearest rows: among how many of the first rows, and how many are kept.
        trees: In which samples end; None: in none.

    Raises:
        BuildError: The driver does not build a kernel.
        DeviceFaultError: The device has no room.
    """

    def __init__(
        self,
        opened: Opened,
        rows: ArrayOfFloat32,
        wanted: Sequence[tuple[int, int]],
        trees: Trees | None,
    ) -> None:
        self._opened = opened
        self._size, self._wanted, self._trees = rows.shape, tuple(wanted), trees
        self._room: dict[str, Any] = {}
        self._gemms: dict[int, Gemm] = {}
        self._write("rows", rows)
        self._write("norms", np.einsum("ij,ij->i", rows, rows))
        self._nearest = [kernel(opened, FILE, "nearest", {"KEEP": keep}) for _, keep in wanted]
        if trees is not None:
            self._leaves = kernel(opened, FILE, "leaves")
            for name in ("nodes", "roots", "depths"):
                self._write(name, getattr(trees, name))

    def release(self) -> None:
        """Gives back what it holds on the device; it cannot be asked any more."""
        for gemm in self._gemms.values():
            gemm.release()
        for buffer in self._room.values():
            self._opened.release(buffer)
        self._gemms, self._room = {}, {}

    def look_up(
        self, x: ArrayOfFloat32, values: ArrayOfInt32
    ) -> tuple[list[tuple[ArrayOfInt32, ArrayOfFloat32]], ArrayOfInt32]:
        """Nearest rows and leaves of samples; waits until they are there.

        Args:
            x: In the space of the rows, shape (n, d).
            values: By which trees branch, as by `order_of`, shape (n, features).

        Returns:
            For each list that is wanted: rows, the nearest first, and |b|² - 2ab of each, shape (n, kept), infinite
            where there is none. Then the nodes at which samples end, shape (n, trees).

        Raises:
            DeviceFaultError: The driver refused.
        """
        count = len(x)
        queue = self._opened.queue
        self._write("x", x)
        products = self._buffer("products", count * self._size[0] * FLOAT)
        self._gemm(count)(queue, self._room["rows"], self._room["x"], products)
        for number, (among, keep) in enumerate(self._wanted):
            found = self._buffer(f"found {number}", count * keep * FLOAT)
            ranked = self._buffer(f"ranked {number}", count * keep * FLOAT)
            self._run(
                self._nearest[number], (count,), among, products, self._room["norms"], found, ranked
            )
        told = np.empty((count, 0), np.int32)
        if self._trees is not None:
            trees = len(self._trees.roots)
            self._write("values", values)
            ends = self._buffer("ends", count * trees * FLOAT)
            self._run(
                self._leaves, (count, trees), trees, values.shape[1],
                *(self._room[name] for name in ("values", "nodes", "roots", "depths")), ends,
            )  # fmt: skip
            told = self._read("ends", (count, trees), np.int32)
        return [
            (
                self._read(f"found {number}", (count, keep), np.int32),
                self._read(f"ranked {number}", (count, keep), np.float32),
            )
            for number, (_, keep) in enumerate(self._wanted)
        ], told

    def _gemm(self, count: int) -> Gemm:
        """The product of all rows with so many samples, a column a sample; the one not asked for longest makes room."""
        gemm = self._gemms.pop(count, None)
        if gemm is None:
            if len(self._gemms) == KEPT:  # each has the rows in an order of its own
                self._gemms.pop(next(iter(self._gemms))).release()
            rows, d = self._size
            gemm = Gemm(self._opened, rows, count, d, trans_b=True)
        self._gemms[count] = gemm
        return gemm

    def _run(self, one: Any, size: tuple[int, ...], *rest: Any) -> None:
        """Queues a kernel over samples, padded to whole groups, with the number of samples as first argument."""
        cl = require("pyopencl")
        group = min(GROUP, self._opened.device.largest_group)
        items = (-(-size[0] // group) * group, *size[1:])
        with faults(self._opened.device):
            for number, value in enumerate((size[0], *rest)):
                one.set_arg(number, np.int32(value) if isinstance(value, int) else value)
            cl.enqueue_nd_range_kernel(
                self._opened.queue, one, items, (group,) + (1,) * (len(size) - 1)
            )

    def _buffer(self, name: str, size: int) -> Any:
        """The buffer of a name, made anew where it is too small."""
        there = self._room.get(name)
        if there is None or there.size < size:
            if there is not None:
                self._opened.release(there)
            self._room[name] = self._opened.allocate(size)
        return self._room[name]

    def _write(self, name: str, array: npt.NDArray[Any]) -> None:
        cl = require("pyopencl")
        data = np.ascontiguousarray(array)
        with faults(self._opened.device):
            cl.enqueue_copy(self._opened.queue, self._buffer(name, data.nbytes), data)

    def _read(self, name: str, shape: tuple[int, ...], kind: Any) -> Any:
        cl = require("pyopencl")
        data = np.empty(shape, kind)
        with faults(self._opened.device):
            cl.enqueue_copy(self._opened.queue, data, self._room[name])
        return data
