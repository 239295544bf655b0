"""What the plan of the framework's own order costs beside plain torch: CPU time and wall time of a step.

    python benchmarks/scheduled_overhead.py [--only lenet,...] [--batch 4] [--seconds 20] [--threads 1]

Both trainings live in one process and take turns, a block of steps each, in an order that alternates, so that
whatever else the machine does meets both. Told is the median over pairs of blocks of the ratio, with an interval
of 95 % by resampling the pairs; CPU time is that of the process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

import numpy as np

from wattstep import workloads
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch.workload import TorchWorkload

BLOCK_S: Final = 0.1
FIRST: Final = 10  # steps before anything is timed
WORKLOADS: Final = (
    "autoencoder,lenet,ds-cnn,resnet8,char-cnn,dcgan,mobilenetv1-vww,squeezenet,resnet18"
)


def main() -> None:
    """Prints a line a workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=WORKLOADS)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    print(
        "| workload | torch, CPU ms | CPU, plan / torch | wall, plan / torch | pairs |\n|---|---:|---|---|---:|"
    )
    for name in arguments.only.split(","):
        print(line(name, arguments.batch, arguments.seconds, arguments.threads), flush=True)


def line(name: str, batch: int, seconds: float, threads: int) -> str:
    """A row of the table."""
    workload, preparation = TorchWorkload(workloads.find(name)), Preparation(batch_size=batch)
    trainers = [
        TorchTrainer(workload, preparation, threads=threads),
        ScheduledTrainer(workload, preparation, threads=threads),
    ]
    for trainer in trainers:
        for _ in range(FIRST):
            trainer.step()
    begin = time.perf_counter()
    trainers[0].step()
    steps = max(1, round(BLOCK_S / (time.perf_counter() - begin)))
    pairs: list[Any] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(pairs) < 5:
        order = (0, 1) if len(pairs) % 2 == 0 else (1, 0)
        took = {which: block(trainers[which], steps) for which in order}
        pairs.append((took[0], took[1]))
    table = np.array(pairs)  # (pairs, trainer, CPU or wall)
    cpu_ms = float(np.median(table[:, 0, 0])) / steps * 1e3
    ratios = [told(table[:, 1, which] / table[:, 0, which]) for which in (0, 1)]
    return f"| {name} | {cpu_ms:.3f} | {ratios[0]} | {ratios[1]} | {len(pairs)} |"


def block(trainer: Any, steps: int) -> tuple[float, float]:
    """Seconds of CPU and of the clock that some steps take."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        trainer.step()
    return time.process_time() - cpu, time.perf_counter() - wall


def told(ratios: Any) -> str:
    """A median with its interval."""
    draw = np.random.default_rng(0)
    medians = np.median(draw.choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return f"{np.median(ratios):.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
