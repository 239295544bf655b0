"""What measuring changes is as before, bit for bit, and takes no copy in memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.engines.scheduled.made import Made, Words, trained

from wattstep.engines.torch.scheduled.put_back import put_back
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.schema.workload import Preparation


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def strange() -> list[torch.Tensor]:
    """A parameter, a part of it, another layout, other types, a NaN, nothing at all."""
    weight = torch.nn.Parameter(torch.arange(24.0).reshape(2, 3, 2, 2))
    image = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    odd = torch.tensor([float("nan"), -0.0, 1e-45])
    return [weight, weight.detach()[1], image, odd, torch.ones(3).bfloat16(), torch.tensor(7), torch.empty(0)]  # fmt: skip


def bits(tensors: list[torch.Tensor]) -> list[bytes]:
    return [bytes(each.untyped_storage().tolist()) for each in tensors]


@pytest.mark.parametrize("most", [None, 0, 100])  # bytes of a file
def test_tensors_are_put_back_bit_for_bit(most: int | None) -> None:
    tensors = strange()
    before, at = bits(tensors), [each.data_ptr() for each in tensors]
    with files_of_at_most(1 << 30 if most is None else most), put_back(tensors) as problem:
        assert bool(problem) == (most is not None)
        with torch.no_grad():
            for each in tensors:
                each.add_(1)
        assert bits(tensors) != before
    assert bits(tensors) == before
    assert [each.data_ptr() for each in tensors] == at


def resident() -> int:
    line = next(
        x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmRSS")
    )
    return int(line.split()[1]) * 1024


def test_nothing_is_copied_in_memory() -> None:
    weights = torch.full((64 << 20,), 1.5)  # 256 MiB
    before = resident()
    with put_back([weights, weights[1:]]):
        assert resident() - before < 32 << 20
        weights.zero_()
    assert bool((weights == 1.5).all())


def test_a_training_goes_on_and_says_so_where_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    batches = [torch.tensor([1, 2, 3])] * 4
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3, policy="per-kind"))
    with files_of_at_most(0):
        trained(trainer, 4)
    assert any("copied in memory" in each for each in trainer.remarks())
