"""`benchmarks/gpu_truth.py` on a played GPU: torch trains on the CPU, and each step asks for a kernel of the GPU.

Arguments: those of the benchmark.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tests.gpu.nvml.pynvml import UUIDS
from tests.gpu.played import Cuda, Gpu
from tests.gpu.real_time import RealHost

from wattstep.engines.torch.device_memory import GpuMemory
from wattstep.engines.torch.device_queue import find_queue
from wattstep.engines.torch.engine import TorchEngine
from wattstep.schema.device_queue import DeviceQueue
from wattstep.schema.engine import Trainer
from wattstep.schema.run_documents import GpuFacts

KERNEL_NS = 3_000_000


class PlayedTorch(TorchEngine):
    """torch's engine, on a machine whose GPU is played.

    Args:
        cuda: Of one GPU.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda

    def prepare(self, *given: Any, **named: Any) -> Trainer:
        trainer: Any = super().prepare(*given, **{**named, "processor": "cpu"})
        plain, gpu = trainer.step, self._cuda.gpus[0]
        gpu.allocate(64 * 2**20)

        def step() -> float:
            gpu.launch("kernel", KERNEL_NS)
            loss: float = plain()
            self._cuda.synchronize()
            return loss

        trainer.step = step
        made: Trainer = trainer
        return made

    def device_queue(self) -> DeviceQueue | None:
        return find_queue(self._cuda)

    def device_memory(self, processor: str) -> GpuMemory:
        return GpuMemory(self._cuda, 0)

    def device_facts(self, processor: str) -> GpuFacts:
        return {"uuid": UUIDS[1][4:]}


def main() -> int:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    import gpu_truth

    gpu = Gpu(RealHost(0), name="Played GPU", uuid=UUIDS[1][4:], bus=2)
    cuda = Cuda(gpu)
    machine = gpu_truth.Machine(
        processor="cuda", device=torch.device("cpu"), engine=PlayedTorch(cuda), cuda=cuda,
        batch=1, warmup=3, block=3,
    )  # fmt: skip
    torch.set_num_threads(1)
    status: int = gpu_truth.main(sys.argv[1:], machine)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
