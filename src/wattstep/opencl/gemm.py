"""The product of two matrices on an OpenCL device, by one of several kernels and a configuration of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.opencl.device import FLOAT, Device, Opened, faults
from wattstep.opencl.program import kernel
from wattstep.schema.extras import require

FILE: Final = "gemm"
NAIVE: Final = "naive"  # one item an element
TILED: Final = "tiled"  # tiles in local memory
BLOCKED: Final = "blocked"  # tiles in local memory, and blocks in registers
REGISTERS: Final = "registers"  # blocks in registers, straight from global memory
PACKED: Final = "packed"  # blocks in registers, from panels that a kernel puts in order before
KINDS: Final = (NAIVE, TILED, BLOCKED, REGISTERS, PACKED)
WIDTHS: Final = (1, 2, 4, 8, 16)
LARGEST: Final = 2**31 - 1  # indices of kernels are int
MOST: Final = 4096  # of any number of a configuration


@dataclass(frozen=True, kw_only=True)
class Config:
    """A kernel with its constants.

    Attributes:
        kind: Of `KINDS`.
        x: Work items of a group along columns; of packed panels along rows.
        y: Along rows; of packed panels along columns.
        rows: Of C in the registers of an item.
        vectors: Vectors beside each other in each of these rows.
        width: Floats in a vector.
        depth: Steps along k that a tile holds, or that a loop does at a time.
    """

    kind: str = NAIVE
    x: int = 1
    y: int = 1
    rows: int = 1
    vectors: int = 1
    width: int = 1
    depth: int = 1

    def __post_init__(self) -> None:
        numbers = [getattr(self, field.name) for field in fields(self)[1:]]
        if (
            self.kind not in KINDS
            or not all(type(number) is int and 1 <= number <= MOST for number in numbers)
            or self.width not in WIDTHS
            or (self.kind == TILED and not self.x == self.y == self.depth)
        ):
            raise InvalidValueError(f"no configuration of a product: {self}", id="opencl-config")

    @property
    def columns(self) -> int:
        """Of C in the registers of an item."""
        return self.vectors * self.width

    @property
    def local_memory(self) -> int:
        """Bytes of local memory that a group takes."""
        if self.kind == TILED:
            return 2 * FLOAT * self.depth**2
        if self.kind == BLOCKED:
            return FLOAT * self.depth * (self.y * self.rows + self.x * self.columns)
        return 0

    def check(self, device: Device) -> None:
        """Refuses what a device cannot run.

        Raises:
            InvalidValueError: The work group, or its local memory, is larger than the device's.
        """
        sizes = (*device.group_sizes, 1, 1)
        if self.x * self.y > device.largest_group or self.x > sizes[0] or self.y > sizes[1]:
            raise InvalidValueError(
                f"a work group of {self.x} x {self.y} items: {device.name} takes at most "
                f"{device.largest_group}, {' x '.join(map(str, device.group_sizes))}",
                id="opencl-work-group",
            )
        if self.local_memory > device.local_memory:
            raise InvalidValueError(
                f"tiles of {self.local_memory} bytes: {device.name} has {device.local_memory} "
                "bytes of local memory",
                id="opencl-local-memory",
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Any) -> Config:
        """The inverse of `to_dict`.

        Raises:
            InvalidValueError: It is something else.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(document, Mapping) or set(document) != names:
            raise InvalidValueError("no configuration of a product", id="opencl-config")
        return cls(**document)

    def __str__(self) -> str:
        if self.kind == NAIVE:
            return NAIVE
        group = f"{self.kind} {self.x}x{self.y}"
        if self.kind == TILED:
            return group
        return f"{group}, {self.rows}x{self.vectors}x{self.width}, {self.depth} deep"


def default_config(device: Device, m: int, n: int) -> Config:
    """A configuration that does well where none was tuned: registers of a CPU, or tiles of a GPU."""
    width = min(device.vector_width, 16) if device.kind == "cpu" else 4
    if device.kind != "cpu":
        config = Config(kind=BLOCKED, x=16, y=8, rows=4, vectors=1, width=4, depth=16)
        fits = (
            config.x * config.y <= device.largest_group
            and config.local_memory <= device.local_memory
        )
        return config if fits else Config(kind=REGISTERS, rows=2, width=4)
    while width > 1 and width > n:
        width //= 2
    vectors = 2 if n >= 2 * width else 1
    if m * n >= 128 * 128:
        return Config(kind=PACKED, rows=min(8, m), vectors=vectors, width=width, depth=1)
    return Config(kind=REGISTERS, rows=min(4, m), vectors=vectors, width=width, depth=1)


class Gemm:
    """C[m,n] = act(alpha op(A)[m,k] op(B)[k,n] + beta C + bias), row-major float32 in buffers.

    It holds kernels, and the panels of `PACKED`: it is made once, called often, and not from two
    queues at once.

    Args:
        opened: Device in use.
        m: Rows of op(A) and C.
        n: Columns of op(B) and C.
        k: Columns of op(A), rows of op(B); with 0 the product is 0.
        trans_a: A is stored with shape (k, m).
        trans_b: B is stored with shape (n, k).
        bias: A vector of shape (n,) is added to each row.
        relu: What is negative becomes 0, last of all.
        config: Kernel; None: `default_config`.

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
        bias: bool = False,
        relu: bool = False,
        config: Config | None = None,
    ) -> None:
        check_shape(m, n, k)
        self.config = config or default_config(opened.device, m, n)
        self.config.check(opened.device)
        self.shape = (m, n, k)
        self.flops = 2 * m * n * k
        self._opened = opened
        self._bias = bias
        self._defines = {
            "TRANS_A": int(trans_a), "TRANS_B": int(trans_b), "BIAS": int(bias), "RELU": int(relu),
            "GX": self.config.x, "GY": self.config.y, "ROWS": self.config.rows,
            "VECTORS": self.config.vectors, "WIDTH": self.config.width, "DEPTH": self.config.depth,
        }  # fmt: skip
        self._kernel = self._load(f"gemm_{self.config.kind}")
        self._global, self._local = self._items()
        self._panels: list[tuple[Any, Any, int]] = []  # kernel, buffer, panels
        if self.config.kind == PACKED:
            self._pack("gemm_pack_a", -(-m // self.config.rows), self.config.rows)
            self._pack("gemm_pack_b", -(-n // self.config.columns), self.config.columns)
        # Set once: what stays the same from call to call.
        self._none = opened.allocate(FLOAT)

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
        alpha: float = 1.0,
        beta: float = 0.0,
        bias: Any = None,
        offsets: tuple[int, int, int] = (0, 0, 0),
        wait_for: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Puts the product into a queue.

        Args:
            queue: Of the device.
            a: Buffer of A.
            b: Buffer of B.
            c: Buffer of C, neither of the others.
            alpha: Factor of the product.
            beta: Factor of what C holds, which is not read for 0.
            bias: Buffer of the bias, if there is one.
            offsets: Where A, B, C begin in their buffers, in elements.
            wait_for: Events that must have ended before.

        Returns:
            Events of its kernels, in order; all is done when the last has ended.

        Raises:
            InvalidValueError: A bias is missing, or is there and was not announced.
            DeviceFaultError: The driver refused.
        """
        cl = require("pyopencl")
        if (bias is not None) != self._bias:
            raise InvalidValueError("a product with bias needs one, others take none")
        at_a, at_b, at_c = (np.int32(offset) for offset in offsets)
        events = list(wait_for or ())
        before = len(events)
        with faults(self._opened.device):
            for packing, panel, count in self._panels:
                _set(packing, 3, a, at_a, b, at_b, panel)
                events.append(
                    cl.enqueue_nd_range_kernel(queue, packing, (count,), None, wait_for=events[:before])
                )
            operands = [panel for _, panel, _ in self._panels] or [a, at_a, b, at_b]
            rest = (c, at_c, self._none if bias is None else bias)
            _set(self._kernel, 3, *operands, *rest, np.float32(alpha), np.float32(beta))
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
