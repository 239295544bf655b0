"""Configurations of a matrix product: which kernel, with which tiles, vectors, registers and work groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.opencl.device import FLOAT, Device

NAIVE: Final = "naive"  # one item an element
TILED: Final = "tiled"  # tiles in local memory
BLOCKED: Final = "blocked"  # tiles in local memory, and blocks in registers
REGISTERS: Final = "registers"  # blocks in registers, straight from global memory
PACKED: Final = "packed"  # blocks in registers, from panels that a kernel puts in order before
KINDS: Final = (NAIVE, TILED, BLOCKED, REGISTERS, PACKED)
WIDTHS: Final = (1, 2, 4, 8, 16)
LARGE: Final = 256**2  # elements of C from which on a CPU packs panels
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
    """A configuration that does well where none was tuned: registers of a CPU, or tiles of a GPU.

    Of a CPU as many sums as its registers hold (32 of 16 floats, 16 of 8), and panels where putting
    them in order pays: measured with PoCL on a core of AVX-512.
    """
    if device.kind != "cpu":
        config = Config(kind=BLOCKED, x=16, y=8, rows=4, vectors=1, width=4, depth=16)
        fits = (
            config.x * config.y <= device.largest_group
            and config.local_memory <= device.local_memory
        )
        return config if fits else Config(kind=REGISTERS, rows=2, width=4)
    width = min(device.vector_width, 16)
    rows = 12 if width == 16 else 6
    while width > 1 and width > n:
        width //= 2
    vectors = 2 if n >= 2 * width else 1
    if m * n >= LARGE:
        return Config(kind=PACKED, rows=min(rows, m), vectors=vectors, width=width)
    return Config(kind=REGISTERS, rows=min(rows * 2 // 3, m), vectors=vectors, width=width)
