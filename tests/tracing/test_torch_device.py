"""Memory of a GPU from an allocator and a driver that the tests play: no machine here has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from wattstep.engines.torch.device_memory import GpuMemory, ask_driver


class Cuda:
    """As much of `torch.cuda` as is asked for, with an allocator that keeps what was freed."""

    def __init__(self) -> None:
        self.begun = False
        self.now = self.most = self.had = self.most_had = 0

    def init(self) -> None:
        self.begun = True

    def take(self, size: int) -> None:
        """An operation takes (or frees) that many bytes."""
        self.now += size
        self.had = max(self.had, self.now)
        self.most, self.most_had = max(self.most, self.now), max(self.most_had, self.had)

    def memory_allocated(self, number: int | None = None) -> int:
        return self.now

    def max_memory_allocated(self, number: int | None = None) -> int:
        return self.most

    def memory_reserved(self, number: int | None = None) -> int:
        return self.had

    def max_memory_reserved(self, number: int | None = None) -> int:
        return self.most_had

    def reset_peak_memory_stats(self, number: int | None = None) -> None:
        self.most, self.most_had = self.now, self.had

    def empty_cache(self) -> None:
        self.had = self.now


def test_the_gpu_is_begun_before_anything_is_asked_of_it() -> None:
    cuda = Cuda()
    GpuMemory(cuda)
    assert cuda.begun


def test_an_operation_is_measured_from_what_is_there_to_the_most_that_it_takes() -> None:
    cuda = Cuda()
    device = GpuMemory(cuda)
    cuda.take(1000)
    cuda.take(-400)
    assert device.begin() == 600
    cuda.take(300)  # a tensor of 100, and scratch space of 200
    cuda.take(-200)
    assert device.end() == 900
    assert (device.allocated, device.reserved, device.peak_reserved) == (700, 1000, 1000)


def test_what_the_allocator_holds_free_is_given_back_when_asked() -> None:
    cuda = Cuda()
    device = GpuMemory(cuda)
    cuda.take(1000)
    cuda.take(-400)
    device.trim()
    device.reset()
    assert (device.reserved, device.peak_reserved, device.peak_allocated) == (600, 600, 600)


def test_what_is_no_tensor_between_steps_is_what_kernels_keep() -> None:
    cuda = Cuda()
    device = GpuMemory(cuda)
    cuda.take(8_000_000)  # no tensor of this process is on a GPU
    assert device.at_rest() == 8_000_000


@dataclass
class Running:
    pid: int
    usedGpuMemory: int | None


class Driver:
    """As much of NVML as is asked for."""

    class NVMLError(Exception):
        pass

    def __init__(self, running: Sequence[Running], *, broken: bool = False) -> None:
        self._running = running
        self._broken = broken

    def nvmlInit(self) -> None:
        if self._broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, name: str) -> object:
        assert name == "GPU-1234"
        return SimpleNamespace()

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[Running]:
        return self._running


def test_the_driver_is_asked_for_this_process_alone() -> None:
    driver = Driver([Running(1, 5_000), Running(7, 600_000_000)])
    assert ask_driver(driver, "GPU-1234", 7) == (600_000_000, None)


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (Driver([Running(1, 5_000)]), "not name this"),
        (Driver([Running(7, None)]), "not name this"),
        (Driver([], broken=True), "Driver Not Loaded"),
    ],
)
def test_what_the_driver_does_not_say_is_missing_with_a_reason(driver: Driver, said: str) -> None:
    used, reason = ask_driver(driver, "GPU-1234", 7)
    assert used is None
    assert said in (reason or "")
