"""Memory of a GPU, as torch's allocator and the driver count it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from wattstep.engines.torch.memory import bytes_by_category, bytes_of_tensors
from wattstep.schema.step_memory import AllocatorCache


class GpuMemory:
    """`DeviceMemory` of a GPU; also a `Meter` of what torch's allocator has handed out.

    Scratch space of kernels (cuDNN, cuBLAS) comes from that allocator too, so it shows there. The
    allocator counts on the CPU and at once: no operation need have ended.

    Args:
        cuda: As `torch.cuda`; it is begun here.
        number: Of the GPU; torch's current one where it is not given.

    Attributes:
        kind: As torch names the kind of device.
    """

    kind = "cuda"

    def __init__(self, cuda: Any = torch.cuda, number: int | None = None) -> None:
        self._cuda, self._number = cuda, number
        cuda.init()

    @property
    def allocated(self) -> int:
        """Bytes handed out now."""
        return int(self._cuda.memory_allocated(self._number))

    @property
    def reserved(self) -> int:
        """Bytes that the allocator has from the driver now, handed out or free."""
        return int(self._cuda.memory_reserved(self._number))

    @property
    def peak_allocated(self) -> int:
        """The most bytes handed out since `reset`."""
        return int(self._cuda.max_memory_allocated(self._number))

    @property
    def peak_reserved(self) -> int:
        """The most bytes that the allocator had since `reset`."""
        return int(self._cuda.max_memory_reserved(self._number))

    def reset(self) -> None:
        """Both peaks become what there is now."""
        self._cuda.reset_peak_memory_stats(self._number)

    def trim(self) -> None:
        """Gives back to the driver what the allocator holds free."""
        self._cuda.empty_cache()

    def begin(self) -> int:
        """As `Meter.begin`; what the allocator holds free is no part of it, and stays."""
        self.reset()
        return self.allocated

    def end(self) -> int:
        """As `Meter.end`."""
        return self.peak_allocated

    def absent(self, address: int, size: int) -> int:
        """As `Meter.absent`: memory of a GPU is there once it is allocated."""
        return 0

    def cache(self) -> AllocatorCache | None:
        """As `Meter.cache`; CUDA's own allocator (cudaMallocAsync) and old releases tell no blocks."""
        if not hasattr(self._cuda, "memory_snapshot"):
            return None
        number = self._cuda.current_device() if self._number is None else self._number
        try:
            segments = self._cuda.memory_snapshot()
        except (
            RuntimeError
        ):  # of an allocator that has none; a GPU that is gone says so at each call
            return None
        return cache_of(each for each in segments if each["device"] == number)

    def most_fragments(self) -> int | None:
        """The most of `AllocatorCache.fragments` since the peaks were reset; None: not told."""
        return self._statistic("inactive_split_bytes.all.peak")

    def flushes(self) -> int | None:
        """How often an allocation had to wait until all free memory had gone back to the driver."""
        return self._statistic("num_alloc_retries")

    def _statistic(self, name: str) -> int | None:
        if not hasattr(self._cuda, "memory_stats"):
            return None
        value = self._cuda.memory_stats(self._number).get(name)
        return None if value is None else int(value)

    def at_rest(self) -> int:
        """Bytes handed out that belong to no tensor: what kernels keep, and rounding."""
        return self.allocated - bytes_of_tensors(self.kind)

    def name(self) -> str:
        """As the driver calls the device."""
        return str(self._cuda.get_device_name(self._number))

    def account(self) -> str:
        """What the allocator and the driver say of the memory, what it is for, and what is left for batches."""
        free, whole = self._cuda.mem_get_info(self._number)
        sizes = bytes_by_category(self.kind)
        stays = sizes["weights"] + sizes["gradients"] + sizes["optimizer state"]
        held = [f"{_gib(size)} {category}" for category, size in sizes.items()]
        held.append(
            f"{_gib(max(self.allocated - sum(sizes.values()), 0))} beside tensors of Python"
        )
        return (
            f"{_gib(free)} of the GPU's {_gib(whole)} are free; torch has {_gib(self.reserved)}, of "
            f"which {_gib(self.allocated)} are handed out, at most {_gib(self.peak_allocated)} were: "
            f"{', '.join(held)}; {self._cached()}beside the weights, gradients and optimizer state that were there "
            f"{_gib(max(free + self.reserved - stays, 0))} are left for what grows with the batch: "
            "wattstep fits finds the largest that fits"
        )

    def _cached(self) -> str:
        """Why memory that torch has free does not serve, in words."""
        cache = self.cache()
        if cache is None or not cache.free:
            return ""
        return (
            f"of the {_gib(cache.free)} that it keeps free the largest block has "
            f"{_gib(cache.largest)}, and {_gib(cache.fragments)} lie beside memory in use, so that "
            "they cannot go back to the driver; "
        )

    def used_by_process(self) -> tuple[int | None, str | None]:
        """Memory in bytes that the driver counts as this process's, or None and why it does not."""
        try:
            nvml = importlib.import_module("pynvml")
        except ModuleNotFoundError:
            return None, "the driver is asked through nvidia-ml-py, which is not installed"
        uuid = getattr(self._cuda.get_device_properties(self._number), "uuid", None)
        if uuid is None:
            return None, "this version of torch does not say which device of the driver's it uses"
        used, reason = ask_driver(nvml, f"GPU-{uuid}", os.getpid())
        if used is None:  # of an instance of a GPU that is cut (MIG)
            used, _ = ask_driver(nvml, f"MIG-{uuid}", os.getpid())
        return used, None if used is not None else reason


def cache_of(segments: Iterable[Mapping[str, Any]]) -> AllocatorCache:
    """Free memory of an allocator.

    Args:
        segments: Of one device, as `torch.cuda.memory_snapshot` gives them. What is freed and still
            used by another stream counts as in use.
    """
    free: list[int] = []
    fragments = largest_in_use = 0
    for segment in segments:
        own = [each["size"] for each in segment["blocks"] if each["state"] == "inactive"]
        used = [each["size"] for each in segment["blocks"] if each["state"] != "inactive"]
        free += own
        fragments += sum(own) if used else 0
        largest_in_use = max(largest_in_use, *used, 0)
    return AllocatorCache(
        free=sum(free),
        fragments=fragments,
        largest=max(free, default=0),
        unusable=sum(size for size in free if size < largest_in_use),
    )


def _gib(size: int) -> str:
    return f"{size / 1024**3:.2f} GiB"


def ask_driver(nvml: Any, device: str, process: int) -> tuple[int | None, str | None]:
    """Memory in bytes that a process takes of a device, or None and why that is not known.

    Args:
        nvml: As the module `pynvml` of nvidia-ml-py.
        device: By the driver's own name, e.g. "GPU-8f6e...".
        process: Its number.
    """
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(device)
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        nvml.nvmlShutdown()
    except (nvml.NVMLError, AttributeError) as error:  # bindings of another driver lack calls
        return None, f"the driver does not say: {error}"
    for each in running:
        if each.pid == process and each.usedGpuMemory is not None:
            return int(each.usedGpuMemory), None
    return None, "the driver does not name this process (in a container it may number them anew)"
