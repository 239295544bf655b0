"""One thread: the machine is shared, and the buffers of threads would blur what is measured."""

from __future__ import annotations

import gc
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
    """Without collections meanwhile: what other tests of this process left would be given back."""
    gc.collect()
    gc.disable()
    memory = ResidentMemory()
    try:
        yield memory
    finally:
        gc.enable()
        memory.close()
