"""What the allocator of a GPU keeps free, and what of it cannot serve: by hand, and in runs on a played GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tests.gpu.played import Cuda, Gpu, played
from tests.gpu.recording import PlayedRecording, played_time
from tests.wording import assert_says
from torch import nn

from wattstep.engines.torch.device_memory import GpuMemory, cache_of
from wattstep.engines.torch.memory import MemoryTracker
from wattstep.schema.figure import Status
from wattstep.schema.step_memory import CACHE_AT_PEAK, DEVICE, AllocatorCache

MB, MS = 2**20, 1_000_000
# 30 MB in use among 8 and 2 MB free; 20 MB that nothing lies in; 4 MB in use, and 6 MB free.
BLOCKS = [
    [(20 * MB, True), (8 * MB, False), (10 * MB, True), (2 * MB, False)],
    [(20 * MB, False)],
    [(4 * MB, True), (6 * MB, False)],
]
CACHE = AllocatorCache(free=36 * MB, fragments=16 * MB, largest=20 * MB, unusable=16 * MB)


def test_what_is_free_beside_memory_in_use_is_a_fragment() -> None:
    cuda = Cuda(Gpu(played()[0], blocks=BLOCKS))
    assert cache_of(cuda.memory_snapshot()) == CACHE
    # A block of 20 MB is in use, and one as large is free: that one serves, the 16 MB beside do not.
    assert cache_of([]) == AllocatorCache(free=0, fragments=0, largest=0, unusable=0)


def test_what_is_freed_and_still_used_by_a_stream_is_not_free() -> None:
    blocks = [{"size": 5, "state": "active_pending_free"}, {"size": 3, "state": "inactive"}]
    assert cache_of([{"blocks": blocks}]) == AllocatorCache(
        free=3, fragments=3, largest=3, unusable=3
    )


def test_of_two_gpus_each_has_its_own_and_a_release_without_snapshots_none() -> None:
    host = played()[0]
    cuda = Cuda(Gpu(host, blocks=[[(MB, False)]]), Gpu(host, blocks=BLOCKS))
    assert GpuMemory(cuda, 1).cache() == CACHE
    first = GpuMemory(cuda).cache()
    assert first is not None
    assert first.free == MB
    old: Any = Old(Gpu(host))
    assert GpuMemory(old).cache() is None
    assert GpuMemory(old).flushes() is None


def test_an_allocator_that_tells_no_blocks_costs_its_free_memory_alone(tmp_path: Path) -> None:
    """CUDA's own refuses a snapshot: what else is known stays, and the steps lie on the device."""
    host, gpu, cuda = played()
    cuda.memory_snapshot = refused  # type: ignore[method-assign]
    with played_time(host):
        recording = PlayedRecording(tmp_path / "run", cuda)
        gpu.allocate(30 * MB)
        for _ in range(10):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            gpu.launch("kernel", 5 * MS)
            recording.steps.end(begun, 0.5)
        run = recording.close()
    assert run.series.steps.device == "gpu0"
    assert run.metrics["device_peak_memory"].value == 30 * MB + 1
    free = run.metrics["allocator_cache"]["free"]
    assert free.missing
    assert "cudaMallocAsync" in free.reason


def refused() -> Any:
    raise RuntimeError("cudaMallocAsync does not yet support snapshot")


class Old:
    """torch before snapshots."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def init(self) -> None:
        pass

    def current_device(self) -> int:
        return 0


def test_the_account_of_memory_that_ran_out_says_why_free_memory_does_not_serve() -> None:
    gpu = Gpu(played()[0], blocks=BLOCKS)
    assert_says(
        GpuMemory(Cuda(gpu), 0).account(),
        "0.04 GiB",
        "largest block has 0.02 GiB",
        "0.02 GiB lie beside",
    )


class Growing(GpuMemory):
    """An allocator whose free memory is another after each operation; most is in use after the third."""

    kind = "cpu"  # where the tensors of this test are

    def __init__(self) -> None:
        super().__init__(Cuda(Gpu(played()[0])), 0)
        self.operations = 0

    def begin(self) -> int:
        self.operations += 1
        return 100 * MB

    def end(self) -> int:
        return (200 if self.operations == 3 else 150) * MB

    def cache(self) -> AllocatorCache:
        size = self.operations
        return AllocatorCache(free=size, fragments=size, largest=size, unusable=size)


def test_a_followed_step_has_the_free_memory_of_its_peak_and_not_of_its_end() -> None:
    model, device = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), Growing()
    tracker = MemoryTracker(model, [], device)
    with tracker:
        model(torch.zeros(2, 4)).sum().backward()
    cache = tracker.result().cache
    assert cache is not None
    assert cache.free == 3
    assert device.operations > 6


def run_of(path: Path, followed: bool) -> Any:
    host, gpu, cuda = played(blocks=BLOCKS, flushes=2)
    with played_time(host):
        recording = PlayedRecording(path, cuda)
        gpu.allocate(30 * MB)
        for _ in range(20):
            recording.steps.samples = 4.0
            begun = recording.steps.begin()
            gpu.allocate(50 * MB)
            gpu.launch("kernel", 5 * MS)
            cuda.synchronize()
            gpu.allocate(-50 * MB)
            recording.steps.end(begun, 0.5)
        if followed:
            assert recording.steps.device is not None
            recording.steps.device.note_memory()
            recording.memory(f"{DEVICE}{CACHE_AT_PEAK}free", 7 * MB)
            for name in ("fragments", "largest", "unusable"):
                recording.memory(f"{DEVICE}{CACHE_AT_PEAK}{name}", 3 * MB)
            cuda.reset_peak_memory_stats()  # as at each operation of a step that is followed
        return recording.close()


def test_a_run_says_what_the_allocator_kept_between_steps(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", followed=False)
    cache = run.metrics["allocator_cache"]
    assert {name: each.value / MB for name, each in cache.items()} == {
        "free": 36, "fragments": 16, "largest_free_block": 20, "unusable": 16, "most_fragments": 50,
    }  # fmt: skip
    assert cache["free"].status is Status.MEASURED
    assert "between steps" in cache["free"].method
    assert run.metrics["allocator_flushes"].value == 2
    document = run.document()
    assert document["failures"] == []
    assert document["metrics"]["allocator_cache"]["unusable"]["unit"] == "B"


def test_following_a_step_leaves_the_peak_of_the_training_alone(tmp_path: Path) -> None:
    """Peaks are reset at each operation that is followed; the training's were noted before."""
    run = run_of(tmp_path / "run", followed=True)
    assert run.metrics["device_peak_memory"].value == 80 * MB + 1
    cache = run.metrics["allocator_cache"]
    assert cache["free"].value == 7 * MB
    assert "most was in" in cache["free"].method
