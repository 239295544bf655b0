"""A machine whose GPU is played, for whole commands and scripts: torch trains on the CPU, and steps ask the GPU for work.

Every Python that finds this folder on its path (`sitecustomize`) has it: `--processor cuda` is there,
and a script takes memory and asks for kernels by `GPU`. With `PLAYED_RAN` in the environment each
process writes what ran on its GPU into a file of that folder.
"""

from __future__ import annotations

import atexit
import json
import os
from pathlib import Path
from typing import Any

from tests.gpu.nvml.pynvml import UUIDS
from tests.gpu.played import Cuda, Gpu
from tests.gpu.real_time import RealHost

MB, MS = 2**20, 1_000_000
MODEL, STEP = 64 * MB, 32 * MB  # bytes on the GPU: always, and within a step
KERNEL_NS = 8 * MS
GPU = Gpu(RealHost(0), name="Played GPU", uuid=UUIDS[1][4:], bus=2, allocated=0, reserved=0)
CUDA = Cuda(GPU)
SHARES_MEMORY = "PLAYED_SHARES_MEMORY"  # in the environment: the GPU has no memory of its own
ROOM = "PLAYED_ROOM"  # likewise: bytes that the GPU has
LOST = "PLAYED_LOST"  # likewise: after so many kernels the GPU is off the bus


def work() -> None:
    """A step of a training on the GPU, which the host waits for."""
    GPU.allocate(STEP)
    if len(GPU.ran) >= int(os.environ.get(LOST, 10**9)):
        GPU.lost = "CUDA error: unspecified launch failure"
    GPU.launch("kernel", KERNEL_NS)
    CUDA.synchronize()
    GPU.allocate(-STEP)


def install() -> None:
    """Plays the GPU behind torch's engine; no framework is loaded by it."""
    from wattstep.engines.torch.engine import TorchEngine

    GPU.integrated = SHARES_MEMORY in os.environ
    GPU.total = int(os.environ.get(ROOM, GPU.total))
    plain = TorchEngine.prepare

    def prepare(engine: Any, *given: Any, **named: Any) -> Any:
        trainer: Any = plain(engine, *given, **{**named, "processor": "cpu"})
        if named.get("processor", "cpu") == "cpu":
            return trainer
        GPU.allocate(MODEL)
        own = trainer.step

        def step(*marks: Any) -> float:
            work()
            loss: float = own(*marks)
            return loss

        trainer.step = step
        return trainer

    played: dict[str, Any] = {
        "prepare": prepare,
        "lacking": lambda engine, processor: None,
        "device_queue": lambda engine: _queue(),
        "device_memory": lambda engine, processor: None if processor == "cpu" else _memory(),
        "memory_account": lambda engine, processor: (
            "" if processor == "cpu" else _memory().account()
        ),
        "device_facts": lambda engine, processor: {} if processor == "cpu" else _facts(),
    }
    for name, method in played.items():
        setattr(TorchEngine, name, method)
    if "PLAYED_RAN" in os.environ:
        atexit.register(_write_down)


def _queue() -> Any:
    from wattstep.engines.torch.device_queue import find_queue

    return find_queue(CUDA)


def _memory() -> Any:
    from wattstep.engines.torch.device_memory import GpuMemory

    memory = GpuMemory(CUDA, 0)
    memory.kind = "cpu"  # where the tensors really are
    return memory


def _facts() -> Any:
    from wattstep.engines.torch.gpu import facts

    return facts(CUDA, "cuda:0")


def _write_down() -> None:
    if GPU.ran:
        times = [(one.start_ns, one.end_ns) for one in GPU.ran]
        path = Path(os.environ["PLAYED_RAN"], f"{os.getpid()}.json")
        path.write_text(json.dumps(times), encoding="utf-8")
