"""One thread: the machine is shared, and the buffers of threads would blur what is measured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from wattstep.train.memory.resident import ResidentMemory


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def resident() -> Iterator[ResidentMemory]:
    memory = ResidentMemory()
    yield memory
    memory.close()
