"""Products on a device as candidates of a search: checked against float64, and timed by the device's events."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from wattstep.errors import DeviceFaultError
from wattstep.opencl.clock import stamps
from wattstep.opencl.config import Config
from wattstep.opencl.device import Opened, faults
from wattstep.opencl.gemm import Gemm, check_shape
from wattstep.schema.arrays import FloatArray

ROUNDING: Final = 2.0**-24  # of float32, relative
LEAST_S: Final = 0.003  # that one timing takes
MOST_CALLS: Final = 200


class GemmBench:
    """Products of one shape and layout with random matrices.

    Args:
        opened: Device in use.
        shape: m, n, k.
        trans_a: As `Gemm` takes it.
        trans_b: As `Gemm` takes it.

    Raises:
        InvalidValueError: As `Gemm`.
        DeviceFaultError: The device has no memory for the matrices.
    """

    def __init__(
        self, opened: Opened, shape: tuple[int, int, int], trans_a: bool, trans_b: bool
    ) -> None:
        check_shape(*shape)
        self._opened, self._shape, self._trans = opened, shape, (trans_a, trans_b)
        m, n, k = shape
        numbers = np.random.default_rng(0)
        self._left = numbers.standard_normal((m, k), np.float32)
        self._right = numbers.standard_normal((k, n), np.float32)
        self._a = opened.upload(self._left.T if trans_a else self._left)
        self._b = opened.upload(self._right.T if trans_b else self._right)
        self._c = opened.allocate(4 * m * n)
        self._truth: tuple[FloatArray, FloatArray] | None = None
        self._open: dict[Config, Gemm] = {}
        self._first: dict[Config, float] = {}  # time of a product, where it was checked just now
        self._calls: dict[Config, int] = {}

    def check(self, config: Config) -> None:
        """As `tuner.Bench`: no element is off by more than rounding may make of it (Higham 2002, 3.5)."""
        # NaN wherever a kernel writes nothing.
        self._opened.upload_into(self._c, np.full(self._shape[:2], np.nan, np.float32))
        self._first[config] = self.run(config, 1)
        computed = self._opened.download(self._c, self._shape[:2])
        product, bound = self._reference()
        wrong = ~(np.abs(computed - product) <= bound)  # NaN is wrong as well
        if wrong.any():
            raise DeviceFaultError(
                f"{config} computes {int(wrong.sum())} of {wrong.size} elements wrong",
                id="opencl-wrong",
            )

    def seconds(self, config: Config) -> float:
        """As `tuner.Bench`: by the device's clock, from the first kernel's start to the last one's end."""
        once = self._first.pop(config, None)
        if once is not None and once > LEAST_S:
            return once  # what took so long while it was checked was timed as well as any
        if config not in self._calls:
            once = self.run(config, 1)
            self._calls[config] = min(max(math.ceil(LEAST_S / max(once, 1e-9)), 1), MOST_CALLS)
        calls = self._calls[config]
        return self.run(config, calls) / calls

    def close(self, config: Config) -> None:
        """As `tuner.Bench`."""
        if config in self._open:
            self._open.pop(config).release()

    def release(self) -> None:
        """Gives the matrices back."""
        for config in list(self._open):
            self.close(config)
        for buffer in (self._a, self._b, self._c):
            self._opened.release(buffer)

    def numpy(self) -> Callable[[], Any]:
        """The same product by NumPy."""
        out = np.empty(self._shape[:2], np.float32)
        trans_a, trans_b = self._trans
        # As they are stored, so that both read the same layouts.
        left = np.ascontiguousarray(self._left.T).T if trans_a else self._left
        right = np.ascontiguousarray(self._right.T).T if trans_b else self._right
        return lambda: np.matmul(left, right, out=out)

    def run(self, config: Config, calls: int) -> float:
        """Seconds of so many products, by the device's clock."""
        gemm = self._open.get(config)
        if gemm is None:
            trans_a, trans_b = self._trans
            gemm = Gemm(self._opened, *self._shape, trans_a=trans_a, trans_b=trans_b, config=config)
            self._open[config] = gemm
        queue = self._opened.queue
        with faults(self._opened.device):
            first = last = gemm(queue, self._a, self._b, self._c)
            for _ in range(calls - 1):
                last = gemm(queue, self._a, self._b, self._c)
            queue.finish()
            return (stamps(last[-1]).ended - stamps(first[0]).started) * 1e-9

    def _reference(self) -> tuple[FloatArray, FloatArray]:
        """The product in float64, and what rounding may make of each element."""
        if self._truth is None:
            left, right = self._left.astype(np.float64), self._right.astype(np.float64)
            roundings = self._shape[2] * ROUNDING
            share = roundings / (1 - roundings)
            self._truth = (left @ right, share * (np.abs(left) @ np.abs(right)))
        return self._truth
