"""What ends a training on a GPU is told as what it is: no memory, or a GPU that failed."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says
from torch import nn

from wattstep.engines.torch.device_memory import GpuMemory
from wattstep.engines.torch.memory import bytes_by_category
from wattstep.errors import RecordingError
from wattstep.schema.device_faults import meaning_of
from wattstep.schema.oom_messages import says_ran_out
from wattstep.train.child import local
from wattstep.train.child.child import Ending
from wattstep.train.child.limits import Cage
from wattstep.train.child.verdict import judge
from wattstep.train.failing import news_of
from wattstep.train.settings import TrainingSettings

ACCOUNT = "0.20 GiB of the GPU's 7.44 GiB are free"
OUT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.44 GiB"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(OUT),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("NvMapMemAllocInternalTagged: 1075072515 error 12"),
    ],
)
def test_no_memory_on_the_gpu_is_told_with_the_allocators_account(error: Exception) -> None:
    news = news_of(error, lambda: ACCOUNT)
    assert news is not None
    assert news["error"].startswith("memory ran out: ")
    assert news["error"].endswith(f"({ACCOUNT})")
    assert "kind" not in news
    ending = Ending(code=2, steps=4, error=news["error"])
    status, reason, evidence = judge(ending, Cage(limit=None, folder=None), "", began_s=0.0)
    assert status == "out of memory"
    assert_says(reason, "allocation failed", "4 steps")
    assert ACCOUNT in str(evidence.said)


def test_no_memory_on_the_cpu_has_no_account() -> None:
    (error,) = news_of(MemoryError(), lambda: "").values()
    assert_says(error, "memory ran out")


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("CUDA error: unspecified launch failure\nCUDA kernel errors", "on it crashed"),
        ("CUDA error: an illegal memory access was encountered", "on it crashed"),
        ("CUDA error: the launch timed out and was terminated", "or was stopped"),
        ("CUDA error: device-side assert triggered", "in a kernel failed"),
        ("CUDA error: uncorrectable ECC error encountered", "memory has an"),
        ("CUDA error: uncorrectable NVLink error detected", "CUDA gave it up"),
        ("NVML: GPU is lost", "it is gone"),
        ("Unable to determine the device handle: GPU has fallen off the bus", "it is gone"),
        ("CUDA error: no CUDA-capable device is detected", "it is gone"),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "CUDA gave it up"),
    ],
)
def test_a_gpu_that_failed_is_an_error_of_its_own_name_in_one_line(said: str, meaning: str) -> None:
    assert not says_ran_out(said)
    news = news_of(RuntimeError(said), lambda: ACCOUNT)
    assert news is not None
    assert news["kind"] == "DeviceFaultError"
    assert news["error"].startswith("the GPU failed: ")
    assert meaning in news["error"]
    assert "\n" not in news["error"]
    ending = Ending(code=2, steps=9, error=news["error"], kind=news["kind"])
    status, reason, _ = judge(ending, Cage(limit=None, folder=None), "", began_s=0.0)
    assert (status, reason) == ("crashed", news["error"])


@pytest.mark.parametrize(
    "said",
    [
        "mat1 and mat2 shapes cannot be multiplied (4x3 and 5x6)",
        "Expected all tensors to be on the same device, but found cuda:0 and cpu!",
        "CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`",
    ],
)
def test_a_mistake_is_neither(said: str) -> None:
    assert meaning_of(said) is None
    assert news_of(RuntimeError(said), lambda: ACCOUNT) is None


def test_a_full_disk_is_what_it_was() -> None:
    news = news_of(OSError(28, "No space left on device"), lambda: "")
    assert news is not None
    assert news["kind"] == RecordingError.__name__


def test_a_gpu_that_fails_in_a_run_says_so_and_keeps_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    ending = Ending(code=2, error="the GPU failed: it is gone", kind="DeviceFaultError")
    child = SimpleNamespace(process=None, follow=lambda hear: ending)
    monkeypatch.setattr(local, "start_training", lambda *_, **__: child)
    monkeypatch.setattr(local, "passing_on", lambda process: nullcontext())
    settings = TrainingSettings(workload="lenet", out=str(run))
    with refused("device-fault", "it is gone", f"{run})"):
        local.train_in_child(settings, lambda _: None, lambda _: None)


class Cuda:
    """An allocator of 6 GiB that handed out 5, on a GPU with 0.2 of 7.5 GiB left."""

    def __getattr__(self, name: str) -> Any:
        sizes = {
            "memory_allocated": 5 * 1024**3, "memory_reserved": 6 * 1024**3,
            "max_memory_allocated": 5.5 * 1024**3,
        }  # fmt: skip
        return lambda *_: sizes.get(name)

    def memory_snapshot(self) -> object:
        raise RuntimeError("cudaMallocAsync does not yet support getting memory snapshot")

    def mem_get_info(self, number: int | None = None) -> Sequence[int]:
        return round(0.2 * 1024**3), round(7.5 * 1024**3)


def test_the_account_has_what_allocator_and_driver_say() -> None:
    account = GpuMemory(Cuda()).account()
    assert_says(account, "0.20 GiB of the GPU's 7.50 GiB", "torch has 6.00 GiB")
    assert_says(account, "5.00 GiB are handed out", "at most 5.50 GiB")
    for part in ("weights", "gradients", "optimizer state", "other tensors"):
        assert_says(account, f"0.00 GiB {part}")
    assert_says(account, "5.00 GiB beside tensors", "6.20 GiB are left", "wattstep fits")


def test_the_account_tells_what_memory_is_for() -> None:
    """A layer of 1000 x 500 and 500 numbers: weights, gradients and the two moments of Adam."""
    gc.collect()
    before = bytes_by_category("cpu")
    layer = nn.Linear(1000, 500)
    adam = torch.optim.Adam(layer.parameters())
    batch = torch.zeros(64, 1000)
    made = layer(batch)
    made.sum().backward()
    adam.step()
    size = 500 * 1001 * 4
    more = {name: size - before[name] for name, size in bytes_by_category("cpu").items()}
    assert more == {
        "weights": size,
        "gradients": size,
        "optimizer state": 2 * size + 2 * 4,  # a count of steps for each
        "other tensors": 64 * (1000 + 500) * 4,
    }
