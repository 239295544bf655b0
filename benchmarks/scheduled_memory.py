"""What a bound of memory does to plans of several workers: simulated steps and peaks with it and without.

    python benchmarks/scheduled_memory.py [--only dcgan,...] [--batches 4,16,64] [--threads 2] [--rounds 3]

Operations are measured anew in each round, as `wattstep run --policy` does, and planned with the bound and without.
Told are medians over rounds: how long the step is with the bound beside without, as simulated, and what plans hold
beside the framework's own order. Nothing of it is carried out: plans are, by `scheduled_makespan.py`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median
from typing import Final

from scheduled_makespan import first_update, load
from wattstep.engines.torch.scheduled.planning import here
from wattstep.schedule import policies
from wattstep.schedule.memory import peak_bytes
from wattstep.schedule.simulate import simulate

WORKLOADS: Final = "dcgan,inceptionv1,char-cnn,resnet50"
POLICIES: Final = ("co-run", "critical-path")
HEAD: Final = (
    "| workload | batch | policy | step with the bound, of without | holds with it | without |\n"
    "|---|---:|---|---:|---:|---:|"
)


def main() -> None:
    """Prints a line a workload, batch size and policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=WORKLOADS)
    parser.add_argument("--batches", default="4,16,64")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"load before: {load()}\n{HEAD}", flush=True)
    for name in given.only.split(","):
        for batch in map(int, given.batches.split(",")):
            for line in lines(name, batch, given.threads, given.rounds):
                print(line, flush=True)


def lines(name: str, batch: int, threads: int, rounds: int) -> list[str]:
    """Rows of the table, one a policy."""
    found: dict[str, list[tuple[float, ...]]] = {policy: [] for policy in POLICIES}
    update, machine = first_update(name, batch, threads), here(threads)
    graph = update.captured.graph
    count = len(graph.tasks)
    alone = peak_bytes(graph, range(count), range(1, count + 1))
    for _ in range(rounds):
        times, _ = update.learned(machine)
        for policy in POLICIES:
            bound, free = (
                simulate(graph, policies.find(policy)(graph, times, way), times, way)
                for way in (machine, replace(machine, most_memory=None))
            )
            holds = (each.peak_bytes / alone for each in (bound, free))
            found[policy].append((bound.makespan_s / free.makespan_s, *holds))
    return [
        f"| {name} | {batch} | {policy} | "
        + " | ".join(
            f"{median(column):.1%}".replace("%", " %") for column in zip(*rows, strict=True)
        )
        + " |"
        for policy, rows in found.items()
    ]


if __name__ == "__main__":
    main()
