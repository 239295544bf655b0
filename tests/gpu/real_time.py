"""A played GPU on the machine's own clock, and the framework that trains on it."""

from __future__ import annotations

import time
from typing import Any

from tests.gpu.played import Cuda, Host

from wattstep.engines.torch.device_queue import find_queue
from wattstep.schema.device_queue import DeviceQueue
from wattstep.schema.engine import Engine


class RealHost(Host):
    """The machine's own clock; a host that works or waits sleeps."""

    @property
    def now_ns(self) -> int:  # type: ignore[override]
        return time.perf_counter_ns()

    @now_ns.setter
    def now_ns(self, value: int) -> None:
        time.sleep(max(value - time.perf_counter_ns(), 0) * 1e-9)


class PlayedEngine(Engine):
    """A framework that trains on a played GPU."""

    name = "played"

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda

    def prepare(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def version(self) -> str:
        return "played 1.0"

    def device_queue(self) -> DeviceQueue | None:
        return find_queue(self._cuda)
