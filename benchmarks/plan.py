"""How long a plan takes, and how a study of a million configurations shares its work among workers.

`python benchmarks/plan.py`: a plan over more than 1,000 configurations (target 60 s), captures included, then a
study on a Dask cluster here of one worker and of two, with one thread each (target: nearly twice as fast), in
turns, with the time that each worker's process computed. Ratios of one run only: what else runs takes cores, too.

`--quick` studies a sixteenth of it, `--study` that alone. The study goes into a folder, as `wattstep study plans` does it.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from wattstep import devices, engines, workloads
from wattstep.api import study_grid
from wattstep.plan import Budget, Estimator, Question, Session, StudyGrid, search
from wattstep.plan.grid import predicted
from wattstep.plan.study_folder import study_into
from wattstep.schema.workload import Preparation

PLANNED = ("resnet50", "jetson-xavier-nx")
# Of the study: 41 modes of seven boards in fp32, 39 in fp16, 14 each in TF32 and bfloat16.
NETS = (
    "alexnet", "autoencoder", "ds-cnn", "lenet", "mlp", "mobilenetv1-vww", "mobilenetv2", "resnet50", "resnet8",
    "squeezenet",
)  # fmt: skip
JETSONS = (
    "jetson-agx-orin", "jetson-agx-xavier", "jetson-nano", "jetson-orin-nano", "jetson-orin-nx", "jetson-tx2",
    "jetson-xavier-nx",
)  # fmt: skip
PRECISIONS = ("fp32", "tf32", "bf16", "amp-fp16")
ACCUMULATES = (1, 2, 4, 8)


def main() -> None:
    """Prints both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the study")
    parser.add_argument("--study", action="store_true", help="the study alone")
    parser.add_argument(
        "--rounds", type=int, default=1, help="of the study, one worker and two in turns"
    )
    parser.add_argument(
        "--sample", action="store_true", help="processor time of a part of it, without a cluster"
    )
    arguments = parser.parse_args()
    if arguments.sample:
        sample()
        return
    if not arguments.study:
        plan()
    shared(quick=arguments.quick, rounds=arguments.rounds)


def plan() -> None:
    """The time of one plan."""
    name, where = PLANNED
    engine, workload, device = engines.find("torch"), workloads.find(name), devices.find(where)
    session = Session(samples=1024)
    question = Question(
        device=device, engine=None, samples=1024, update=64, precision="fp32",
        precisions=workload.facts.precisions, allow=frozenset(["batch"]),
    )  # fmt: skip
    estimator = Estimator(
        lambda preparation, precision: engine.capture(workload, preparation, precision),
        Preparation(batch_size=1024), device, None, session,
    )  # fmt: skip
    began, cpu = time.perf_counter(), time.process_time()
    made = search(question, estimator, workload=name, budget=Budget.parse("30 min"))
    took, computed = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"plan of {name} on {where}: {len(made.estimates):,} configurations from {made.captures} captured and "
        f"{estimator.predictions:,} predicted steps: {took:.1f} s, {computed:.1f} s of CPU time (target 60 s)"
    )


def shared(*, quick: bool, rounds: int) -> None:
    """The time of a study on one worker and on two."""
    from distributed import Client, LocalCluster

    grid = studied(range(1, (16 if quick else 256) + 1))
    steps = 2 * grid.count // len(ACCUMULATES)
    print(
        f"study of {len(NETS)} workloads: {grid.count:,} configurations from {steps:,} predicted steps"
    )
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers in times:
            with (
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
                TemporaryDirectory() as folder,
            ):
                client.wait_for_workers(workers)
                client.run(warm)
                before = client.run(time.process_time)
                here = time.process_time()
                began = time.perf_counter()
                study_into(Path(folder), grid, client)
                took = time.perf_counter() - began
                after = client.run(time.process_time)
                computed = [after[each] - before[each] for each in after]
                times[workers].append(took)
                shares = ", ".join(f"{each:.1f}" for each in computed)
                print(
                    f"  {workers} worker{'s' * (workers > 1)}: {took:.1f} s; CPU time of each {shares} s "
                    f"({1e6 * sum(computed) / grid.count:.0f} ms a thousand), of this process "
                    f"{time.process_time() - here:.1f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
                    flush=True,
                )
    print(f"  two are {min(times[1]) / min(times[2]):.2f} times as fast as one (least of {rounds})")


def studied(batches: range) -> StudyGrid:
    """The study at these batch sizes; of 256 it has 1,085,440 configurations."""
    return study_grid(
        NETS,
        devices=JETSONS,
        batches=batches,
        accumulates=ACCUMULATES,
        checkpointing=(False,),
        engine=None,
        precisions=PRECISIONS,
    )


def sample() -> None:
    """Processor time of a sixteenth of the study, here: batch 113 to 128, by workload."""
    began = time.process_time()
    grid = studied(range(113, 129))
    print(f"captures: {time.process_time() - began:.1f} s")
    times: dict[str, list[float]] = {name: [] for name in NETS}
    began = time.process_time()
    for piece, _ in predicted(grid):
        now = time.process_time()
        times[piece.variant.workload].append(now - began)
        began = now
    count = grid.count // len(NETS)
    for name, each in times.items():
        print(f"  {name:16s} {1e6 * sum(each) / count:.0f} ms a thousand configurations")
    whole = sum(map(sum, times.values()))
    print(
        f"in all {whole:.1f} s for {grid.count:,}: {1e6 * whole / grid.count:.0f} ms a thousand, {16 * whole:.0f} s for "
        f"{16 * grid.count:,}"
    )


def warm() -> None:
    """Loads on a worker what predictions need, so that no study waits for it."""
    import wattstep.plan.grid  # noqa: F401


if __name__ == "__main__":
    main()
