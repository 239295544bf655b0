"""A training script on played GPUs that tests run beside others, fork and kill.

Arguments: folder of the run, steps, number of the played GPU that it sees. The second of two GPUs is
the faster, so that torch has it first, as CUDA does.
"""

from __future__ import annotations

import gc
import os
import sys

from tests.gpu.nvml.pynvml import INSTANCES, UUIDS
from tests.gpu.played import Cuda, Event, Gpu
from tests.gpu.real_time import PlayedEngine, RealHost

from wattstep.record.recorder import Recorder

MS = 1_000_000


def gpus(host: RealHost) -> list[Gpu]:
    """Those that `CUDA_VISIBLE_DEVICES` leaves, as torch numbers them: the fastest first."""
    faster, slower = (
        Gpu(host, name=f"Played GPU {at}", uuid=UUIDS[at][4:], bus=at + 1, allocated=0)
        for at in (1, 0)
    )
    both, found = [faster, slower], []
    if os.environ.get("PLAYED_NVML") == "mig":
        faster.name, faster.uuid = "Played GPU 1 MIG 1g.2gb", INSTANCES[1][4:]
    for each in os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(","):
        named = [gpu for gpu in both if each[4:] and gpu.uuid.startswith(each[4:])]
        found += named or ([both[int(each)]] if each.isdigit() else [])
    return found


def forked(recorder: Recorder) -> bool:
    """True if a worker of a data loader can do what it likes without touching the parent's events."""
    before = sum(type(each) is Event for each in gc.get_objects())
    worker = os.fork()
    if not worker:
        with recorder.step():
            recorder.phase("forward")
        recorder.close()
        gc.collect()
        left = sum(type(each) is Event for each in gc.get_objects())
        os._exit(0 if left == before else 1)
    return os.waitpid(worker, 0)[1] == 0


def main() -> None:
    path, steps, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seen = gpus(RealHost(0))
    gpu, cuda = seen[number], Cuda(*seen)
    gpu.allocate(64 * 2**20)
    with Recorder(path, trace="none", engine=PlayedEngine(cuda)) as recorder:
        for index in range(steps):
            with recorder.step(samples=4):
                recorder.phase("forward")
                gpu.launch("kernel", 10 * MS)
                cuda.synchronize(number)
            if index == 20 and "FORKS" in os.environ:
                print("forked", forked(recorder), flush=True)
            print(index, flush=True)


if __name__ == "__main__":
    main()
