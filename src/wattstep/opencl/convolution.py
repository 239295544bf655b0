"""Convolutions on an OpenCL device: direct, as a product of patches, and Winograd's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.opencl.config import Config
from wattstep.opencl.device import FLOAT, Opened, faults
from wattstep.opencl.gemm import LARGEST, Gemm
from wattstep.opencl.program import kernel
from wattstep.schema.extras import require

FILE: Final = "conv"
DIRECT: Final = "direct"  # one item an output
BLOCKED: Final = "direct, blocked"  # one item a pixel of several output channels
PATCHES: Final = "im2col and product"
WINOGRAD: Final = "Winograd F(2x2, 3x3)"
WAYS: Final = (DIRECT, BLOCKED, PATCHES, WINOGRAD)
BLOCK: Final = 8  # output channels of an item of `BLOCKED`
SPREAD: Final = 16  # numbers that Winograd makes of a tile


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Images and filters of a convolution, NCHW; filters are square.

    Attributes:
        batch: Images.
        channels: Of an image.
        height: Of an image.
        width: Of an image.
        filters: Channels of the output.
        size: Side of a filter.
        stride: Between patches.
        padding: Zeros around an image.
    """

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    size: int = 3
    stride: int = 1
    padding: int = 1

    def __post_init__(self) -> None:
        least = min(self.batch, self.channels, self.height, self.width, self.filters, self.size)
        if (
            min(least, self.stride) < 1
            or self.padding < 0
            or min(self.out_height, self.out_width) < 1
        ):
            raise InvalidValueError(f"no convolution: {self}", id="out-of-range")
        if max(self.images, self.outputs, self.patches, self.weights) > LARGEST:
            raise InvalidValueError(f"more elements than kernels count: {self}", id="out-of-range")

    @property
    def out_height(self) -> int:
        """Rows of the output."""
        return (self.height + 2 * self.padding - self.size) // self.stride + 1

    @property
    def out_width(self) -> int:
        """Columns of the output."""
        return (self.width + 2 * self.padding - self.size) // self.stride + 1

    @property
    def images(self) -> int:
        """Numbers in all images."""
        return self.batch * self.channels * self.height * self.width

    @property
    def weights(self) -> int:
        """Numbers in all filters."""
        return self.filters * self.channels * self.size**2

    @property
    def outputs(self) -> int:
        """Numbers in the output."""
        return self.batch * self.filters * self.out_height * self.out_width

    @property
    def patches(self) -> int:
        """Numbers in the patches of one image."""
        return self.channels * self.size**2 * self.out_height * self.out_width

    @property
    def tiles(self) -> int:
        """Tiles of 2 x 2 outputs in an image."""
        return -(-self.out_height // 2) * -(-self.out_width // 2)

    @property
    def flops(self) -> int:
        """Floating-point operations of a direct convolution, whatever computes it."""
        return 2 * self.outputs * self.channels * self.size**2

    def arguments(self) -> list[np.int32]:
        """As kernels take it."""
        return [
            np.int32(number)
            for number in (
                self.channels, self.height, self.width, self.filters, self.out_height,
                self.out_width, self.size, self.stride, self.padding,
            )
        ]  # fmt: skip


class Convolution:
    """A convolution without bias; holds kernels and what it needs between them, like `Gemm`.

    Args:
        opened: Device in use.
        geometry: Images and filters.
        way: Of `WAYS`; Winograd's is of filters of 3 x 3 with stride 1 alone.
        config: Of its products; None: as `Gemm` chooses.

    Attributes:
        flops: Of a direct convolution, whatever the way.

    Raises:
        InvalidValueError: The way is unknown, or not one for this geometry.
        BuildError: The driver does not build a kernel.
        DeviceFaultError: The device has no memory for what lies between kernels.
    """

    def __init__(
        self, opened: Opened, geometry: Geometry, way: str = PATCHES, config: Config | None = None
    ) -> None:
        if way not in WAYS:
            raise InvalidValueError(f"{way!r}: ways are {', '.join(WAYS)}", id="opencl-config")
        if way == WINOGRAD and (geometry.size, geometry.stride) != (3, 1):
            raise InvalidValueError(
                "Winograd's F(2x2, 3x3) is of filters of 3 x 3 with stride 1", id="opencl-config"
            )
        self.way, self.geometry, self.flops = way, geometry, geometry.flops
        self._opened = opened
        self._buffers: list[Any] = []
        channels = BLOCK if way == BLOCKED else 1
        names = {
            PATCHES: ("im2col",),
            WINOGRAD: ("winograd_weights", "winograd_images", "winograd_out"),
        }.get(way, ("direct",))
        self._channels = channels
        self._kernels = [
            kernel(opened, FILE, f"conv_{name}", {"CHANNELS": channels}) for name in names
        ]
        for each in self._kernels:
            for number, argument in enumerate(geometry.arguments()):
                each.set_arg(number, argument)
        self._first = len(geometry.arguments())
        self._gemm = self._product(config)

    def _product(self, config: Config | None) -> Gemm | None:
        """What multiplies, and the buffers around it."""
        g = self.geometry
        pixels = g.out_height * g.out_width
        if self.way == PATCHES:
            self._buffers = [self._opened.allocate(g.patches * FLOAT)]
            return Gemm(self._opened, g.filters, pixels, g.channels * g.size**2, config=config)
        if self.way == WINOGRAD:
            tiles = g.batch * g.tiles
            sizes = (g.filters * g.channels, g.channels * tiles, g.filters * tiles)
            if SPREAD * max(sizes) > LARGEST:
                raise InvalidValueError(f"more elements than kernels count: {g}", id="out-of-range")
            self._buffers = [self._opened.allocate(SPREAD * size * FLOAT) for size in sizes]
            return Gemm(self._opened, g.filters, tiles, g.channels, config=config)
        return None

    def release(self) -> None:
        """Gives back what it holds on the device; it cannot be called any more."""
        for buffer in self._buffers:
            self._opened.release(buffer)
        if self._gemm is not None:
            self._gemm.release()

    def __call__(
        self, queue: Any, images: Any, weights: Any, out: Any, wait_for: Sequence[Any] | None = None
    ) -> list[Any]:
        """Puts the convolution into a queue in order.

        Args:
            queue: Of the device, in order.
            images: Buffer of shape (batch, channels, height, width).
            weights: Buffer of shape (filters, channels, size, size).
            out: Buffer of shape (batch, filters, out_height, out_width).
            wait_for: Events that must have ended before.

        Returns:
            Events of its kernels, in order.

        Raises:
            DeviceFaultError: The driver refused.
        """
        enqueue = {PATCHES: self._by_patches, WINOGRAD: self._by_winograd}.get(
            self.way, self._directly
        )
        with faults(self._opened.device):
            return enqueue(queue, images, weights, out, list(wait_for or ()))

    def _directly(
        self, queue: Any, images: Any, weights: Any, out: Any, before: list[Any]
    ) -> list[Any]:
        g = self.geometry
        blocks = g.batch * -(-g.filters // self._channels)
        items = (g.out_width, g.out_height, blocks)
        return [self._launch(queue, 0, items, (images, weights, out), before)]

    def _by_patches(
        self, queue: Any, images: Any, weights: Any, out: Any, before: list[Any]
    ) -> list[Any]:
        """Image by image, so that the patches of one stay in a cache."""
        assert self._gemm is not None
        g, events = self.geometry, []
        (patches,) = self._buffers
        pixels = g.out_height * g.out_width
        items = (g.out_width, g.out_height, g.channels * g.size**2)
        for image in range(g.batch):
            arguments = (images, np.int32(image), patches)
            events.append(self._launch(queue, 0, items, arguments, before))
            at = (0, 0, image * g.filters * pixels)
            events += self._gemm(queue, weights, patches, out, offsets=at)
        return events

    def _by_winograd(
        self, queue: Any, images: Any, weights: Any, out: Any, before: list[Any]
    ) -> list[Any]:
        assert self._gemm is not None
        g = self.geometry
        left, right, products = self._buffers
        of_images = (g.tiles, g.channels, g.batch)
        events = [
            self._launch(queue, 0, (g.channels, g.filters), (weights, left), before),
            self._launch(queue, 1, of_images, (images, right), before),
        ]
        tiles = g.batch * g.tiles
        for number in range(SPREAD):
            at = (g.filters * g.channels, g.channels * tiles, g.filters * tiles)
            offsets = (at[0] * number, at[1] * number, at[2] * number)
            events += self._gemm(queue, left, right, products, offsets=offsets)
        items = (g.tiles, g.filters, g.batch)
        return [*events, self._launch(queue, 2, items, (products, out), [])]

    def _launch(
        self,
        queue: Any,
        number: int,
        items: tuple[int, ...],
        arguments: Sequence[Any],
        before: Sequence[Any],
    ) -> Any:
        cl = require("pyopencl")
        which = self._kernels[number]
        for place, argument in enumerate(arguments, self._first):
            which.set_arg(place, argument)
        return cl.enqueue_nd_range_kernel(queue, which, items, None, wait_for=before)
