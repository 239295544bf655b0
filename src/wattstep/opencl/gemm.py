"""The product of two matrices on an OpenCL device, by one of several kernels and a configuration of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.opencl.config import KINDS, NAIVE, PACKED, Config
from wattstep.opencl.device import FLOAT, Opened, faults
from wattstep.opencl.program import kernel
from wattstep.opencl.remembered import recall
from wattstep.schema.extras import require

FILE: Final = "gemm"
LARGEST: Final = 2**31 - 1  # indices of kernels are int


class Gemm:
    """C[m,n] = op(A)[m,k] op(B)[k,n], row-major float32 in buffers.

    It holds kernels, and the panels of `PACKED`: it is made once, called often, and not from two
    queues at once.

    Args:
        opened: Device in use.
        m: Rows of op(A) and C.
        n: Columns of op(B) and C.
        k: Columns of op(A), rows of op(B); with 0 the product is 0.
        trans_a: A is stored with shape (k, m).
        trans_b: B is stored with shape (n, k).
        config: Kernel; None: what tuning found for the shape on this device, or one like it, or else a
            default.

    Attributes:
        config: Its kernel.
        flops: Floating-point operations of a call, 2 m n k.

    Raises:
        InvalidValueError: A size below 1, or beyond what kernels can count; a work group that is too
            large for the device.
        BuildError: The driver does not build the kernel.
        DeviceFaultError: The device has no memory for the panels.
    """

    def __init__(
        self,
        opened: Opened,
        m: int,
        n: int,
        k: int,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        config: Config | None = None,
    ) -> None:
        check_shape(m, n, k)
        self.config = config or recall(opened.device, (m, n, k), trans_a, trans_b)
        self.config.check(opened.device)
        self.shape = (m, n, k)
        self.flops = 2 * m * n * k
        self._opened = opened
        self._defines = {
            "KIND": KINDS.index(self.config.kind),
            "TRANS_A": int(trans_a), "TRANS_B": int(trans_b),
            "GX": self.config.x, "GY": self.config.y, "ROWS": self.config.rows,
            "VECTORS": self.config.vectors, "WIDTH": self.config.width, "DEPTH": self.config.depth,
        }  # fmt: skip
        self._kernel = self._load(f"gemm_{self.config.kind}")
        self._global, self._local = self._items()
        self._panels: list[tuple[Any, Any, int]] = []  # kernel, buffer, panels
        if self.config.kind == PACKED:
            self._pack("gemm_pack_a", -(-m // self.config.rows), self.config.rows)
            self._pack("gemm_pack_b", -(-n // self.config.columns), self.config.columns)

    def release(self) -> None:
        """Gives back what it holds on the device; it cannot be called any more."""
        for _, panel, _ in self._panels:
            self._opened.release(panel)

    def _load(self, name: str) -> Any:
        loaded = kernel(self._opened, FILE, name, self._defines)
        for number, size in enumerate(self.shape):
            loaded.set_arg(number, np.int32(size))
        return loaded

    def _items(self) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """Global and local size."""
        m, n, _ = self.shape
        config = self.config
        if config.kind == NAIVE:
            return (n, m), None
        across, down = -(-n // config.columns), -(-m // config.rows)
        if config.kind == PACKED:
            across, down = down, across
        group = (config.x, config.y)
        return (-(-across // config.x) * config.x, -(-down // config.y) * config.y), group

    def _pack(self, name: str, panels: int, width: int) -> None:
        size = panels * width * self.shape[2]
        if size > LARGEST:
            raise InvalidValueError(f"packed panels of {size} numbers: too many", id="out-of-range")
        self._panels.append((self._load(name), self._opened.allocate(size * FLOAT), panels))

    def __call__(
        self,
        queue: Any,
        a: Any,
        b: Any,
        c: Any,
        *,
        offsets: tuple[int, int, int] = (0, 0, 0),
        wait_for: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Puts the product into a queue.

        Args:
            queue: Of the device.
            a: Buffer of A.
            b: Buffer of B.
            c: Buffer of C, neither of the others.
            offsets: Where A, B, C begin in their buffers, in elements.
            wait_for: Events that must have ended before.

        Returns:
            Events of its kernels, in order; all is done when the last has ended.

        Raises:
            DeviceFaultError: The driver refused.
        """
        cl = require("pyopencl")
        at_a, at_b, at_c = (np.int32(offset) for offset in offsets)
        events = list(wait_for or ())
        before = len(events)
        with faults(self._opened.device):
            for packing, panel, count in self._panels:
                _set(packing, 3, a, at_a, b, at_b, panel)
                events.append(
                    cl.enqueue_nd_range_kernel(
                        queue, packing, (count,), None, wait_for=events[:before]
                    )
                )
            operands = [panel for _, panel, _ in self._panels] or [a, at_a, b, at_b]
            _set(self._kernel, 3, *operands, c, at_c)
            events.append(
                cl.enqueue_nd_range_kernel(
                    queue, self._kernel, self._global, self._local, wait_for=events
                )
            )
        return events[before:]


def check_shape(m: int, n: int, k: int) -> None:
    """Refuses sizes that no kernel computes.

    Raises:
        InvalidValueError: One is below 1 (k: below 0), or a matrix has more elements than an int counts.
    """
    if m < 1 or n < 1 or k < 0 or max(m * k, k * n, m * n) > LARGEST:
        raise InvalidValueError(
            f"a product of {m} x {k} and {k} x {n}: sizes are from 1 on, and a matrix has at most "
            f"{LARGEST} elements",
            id="out-of-range",
        )


def _set(kernel: Any, first: int, *values: Any) -> None:
    for number, value in enumerate(values, first):
        kernel.set_arg(number, value)
