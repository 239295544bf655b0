"""Plans on two cores of which one is made slow: another process of the same priority takes half of it.

    python benchmarks/scheduled_unequal.py [--workload resnet8] [--batch 32] [--cores 0,1] [--steps 20] [--without]

The operations are measured on each core, and planned by `heterogeneous`. Told are what each core has of the plan,
and the medians of steps by it and by torch's own order on both cores, in turns. `--without` leaves out the load.
Operations shorter than a slice of the scheduler, some 3 ms, mostly run between two slices of the load: a step has
to last longer than that for the core to be slow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter

SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile os.getppid() == int(sys.argv[2]): pass"


def main() -> None:
    """Prints the plan's shares, and the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workload", default="resnet8")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--cores", default="0,1", help="two; the second is the slow one")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--without", action="store_true")
    arguments = parser.parse_args()
    _, slow = map(int, arguments.cores.split(","))
    load = None
    if not arguments.without:
        load = subprocess.Popen([sys.executable, "-c", SPIN, str(slow), str(os.getpid())])
    try:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            compare(arguments.workload, arguments.batch, arguments.cores, arguments.steps)
    finally:
        if load is not None:
            load.kill()
            load.wait()


def compare(workload: str, batch: int, cores: str, steps: int) -> None:
    """Trains by both policies in turns.

    Args:
        workload: Its name.
        batch: Samples.
        cores: As of `--cores`.
        steps: Of each that count.
    """
    from wattstep import workloads
    from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
    from wattstep.schedule.policies import FIRST_STEPS
    from wattstep.schema.cores import parse_clusters
    from wattstep.schema.workload import Preparation
    from wattstep.workloads.torch.workload import TorchWorkload

    clusters = parse_clusters(cores)
    os.sched_setaffinity(0, {core for each in clusters for core in each})
    trainers = [
        ScheduledTrainer(
            TorchWorkload(workloads.find(workload)),
            Preparation(batch_size=batch, policy=policy, clusters=clusters),
            threads=2,
        )
        for policy in ("default", "heterogeneous")
    ]
    for trainer in trainers:
        for _ in range(FIRST_STEPS + 1):
            trainer.step()
    took: list[list[float]] = [[], []]
    for _ in range(steps):
        for trainer, own in zip(trainers, took, strict=True):
            begin = perf_counter()
            trainer.step()
            own.append(perf_counter() - begin)
    facts = trainers[1].scheduling() or {}
    for each in facts["clusters"]:
        print(
            f"core {each['cores']}: {each['tasks']} operations, {1e3 * each['tasks_s']:.1f} ms a step"
        )
    predicted, default = facts["predicted"]["value"], facts["default"]["value"]
    print(f"plan of {facts['updates'][0]['policy']}, {facts['updates'][0]['workers']} workers")
    print(f"predicted {1e3 * predicted:.1f} ms, torch's order on both cores {1e3 * default:.1f} ms")
    print(f"took {1e3 * median(took[1]):.1f} ms, and {1e3 * median(took[0]):.1f} ms")


if __name__ == "__main__":
    main()
