"""Which workloads train by a plan of their operations as torch trains them, bit for bit, and why the others do not.

    python benchmarks/scheduled_equal.py [--only lenet,...] [--batch 2] [--steps 20] [--write docs/scheduling.md]

Each workload in a process of its own, on one thread: losses of all steps, and all weights after them, of

- plain torch;
- the plan of one worker in torch's order;
- a plan of two workers that run tasks in an order drawn at random among those which the dependencies allow:
  a dependency that was missed changes what is learnt.

Peaks are bytes of tensors within a step, counted at each operation.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wattstep import workloads
from wattstep.errors import WattstepError
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schema.workload import Preparation

SECONDS: Final = 1800.0
BEGIN, END = "<!-- equal -->", "<!-- /equal -->"
HEAD: Final = (
    "| workload | tasks | one worker, torch's order | two workers, any order | peak of tensors against torch |\n"
    "|---|---:|---|---|---:|"
)


def main() -> None:
    """Prints a line a workload; writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=",".join(workloads.names()))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(compared(arguments.only, arguments.batch, arguments.steps)))
        return
    print(HEAD)
    for name in arguments.only.split(","):
        told = line_of(name, outcome(name, arguments.batch, arguments.steps))
        print(told, flush=True)
        if arguments.write is not None:
            write(arguments.write, name, told)


def write(path: Path, name: str, told: str) -> None:
    """Puts a workload's line into the table of a page, in the place of an earlier one."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {row.split("|")[1].strip(): row for row in table.strip().splitlines()[2:]}
    rows[name] = told
    lines = "\n".join([HEAD, *(rows[key] for key in sorted(rows))])
    path.write_text(f"{before}{BEGIN}\n{lines}\n{END}{after}", encoding="utf-8")


def outcome(name: str, batch: int, steps: int) -> dict[str, Any]:
    """Of a workload, from a process of its own."""
    command = [
        sys.executable, __file__, "--child", "--only", name, "--batch", str(batch), "--steps", str(steps)
    ]  # fmt: skip
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"refused": f"took more than {SECONDS:g} s"}
    if child.returncode:
        return {"refused": (child.stderr.strip().splitlines() or ["no reason"])[-1]}
    document: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return document


def line_of(name: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    if "refused" in row:
        return f"| {name} | | no: {row['refused']} | | |"
    peak = f"{100 * row['peak_ratio'] - 100:+.1f} %"
    return f"| {name} | {row['tasks']} | {row['order']} | {row['shuffled']} | {peak} |"


def compared(name: str, batch: int, steps: int) -> dict[str, Any]:
    """Losses and weights of the three trainings of a workload."""
    import torch

    from wattstep.engines.torch.memory import MemoryTracker
    from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
    from wattstep.engines.torch.trainer import TorchTrainer
    from wattstep.workloads.torch.workload import TorchWorkload

    workload, preparation = TorchWorkload(workloads.find(name)), Preparation(batch_size=batch)

    def trained(make: Callable[[], Any]) -> tuple[Any, list[float], list[Any], int]:
        trainer = make()
        losses = [trainer.step() for _ in range(steps)]
        weights = [each.detach().clone() for each in trainer.model.state_dict().values()]
        tracker = MemoryTracker(trainer.model, [each.optimizer for each in trainer.updates])
        with tracker:
            trainer.step(tracker.phase)
        memory = tracker.result()
        return trainer, losses, weights, sum(memory.categories.values()) - memory.before

    def planned(plan: Callable[[TaskGraph], Schedule]) -> Callable[[], Any]:
        return lambda: ScheduledTrainer(workload, preparation, threads=1, plan=plan)

    try:
        _, losses, weights, peak = trained(lambda: TorchTrainer(workload, preparation, threads=1))
        row: dict[str, Any] = {}
        for what, plan in (("order", in_order), ("shuffled", shuffled)):
            trainer, its_losses, its_weights, its_peak = trained(planned(plan))
            different = sum(
                not torch.equal(one, other) for one, other in zip(weights, its_weights, strict=True)
            )
            same = losses == its_losses and not different
            row[what] = "equal" if same else f"{different} of {len(weights)} tensors differ"
            if what == "order":
                row["tasks"] = sum(len(each.captured.graph.tasks) for each in trainer.executors)
                row["peak_ratio"] = its_peak / peak
    except WattstepError as error:
        return {"refused": str(error).partition("cannot be scheduled: ")[2] or str(error)}
    return row


def in_order(graph: TaskGraph, threads: int = 1) -> Schedule:
    """The framework's own plan: one worker, its order, and its number of threads."""
    placed = [Placed(task=task, worker=0, threads=threads) for task in range(len(graph.tasks))]
    return Schedule(workers=1, placed=tuple(placed))


def shuffled(graph: TaskGraph) -> Schedule:
    """Two workers that run tasks in an order drawn among those that are allowed; always the same for a graph."""
    draw = random.Random(0)
    later, left = graph.before(), [len(each) for each in graph.after]
    ready = [task for task, count in enumerate(left) if not count]
    placed = []
    while ready:
        task = ready.pop(draw.randrange(len(ready)))
        placed.append(Placed(task=task, worker=draw.randrange(2), threads=1))
        for other in later[task]:
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    return Schedule(workers=2, placed=tuple(placed))


if __name__ == "__main__":
    main()
