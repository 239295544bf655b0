"""What the plan of the framework's own order costs beside plain torch: CPU time and wall time of a step.

    python benchmarks/scheduled_overhead.py [--only lenet,...] [--batch 4] [--seconds 20] [--threads 1]

All trainings live in one process and take turns, a block of steps each, in an order that alternates, so that
whatever else the machine does meets all. Told is the median over rounds of the ratio, with an interval of 95 %
by resampling the rounds; CPU time is that of the process. The same calls by torch's interpreter of FX graphs stand
beside.
"""

from __future__ import annotations

import argparse
import operator
import time
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import torch
from torch import fx

from wattstep import workloads
from wattstep.engines.torch.memory import tensors_in
from wattstep.engines.torch.scheduled.calls import Call, Slot
from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.program import below_autograd
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch.workload import TorchWorkload

BLOCK_S: Final = 0.1
HEAD: Final = (
    "| workload | torch, CPU ms | CPU, plan / torch | wall, plan / torch | CPU, plan / FX | rounds |\n"
    "|---|---:|---|---|---|---:|"
)
FIRST: Final = 10  # steps before anything is timed
WORKLOADS: Final = "lenet,autoencoder,ds-cnn,resnet8,char-cnn,dcgan,squeezenet"


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
    print(HEAD)
    for name in arguments.only.split(","):
        print(line(name, arguments.batch, arguments.seconds, arguments.threads), flush=True)


def line(name: str, batch: int, seconds: float, threads: int) -> str:
    """A row of the table."""
    workload, preparation = TorchWorkload(workloads.find(name)), Preparation(batch_size=batch)
    trainers: list[Any] = [
        TorchTrainer(workload, preparation, threads=threads),
        ScheduledTrainer(workload, preparation, threads=threads),
        ScheduledTrainer(workload, preparation, threads=threads),
    ]
    for trainer in trainers:
        for _ in range(FIRST):
            trainer.step()
    trainers[2] = Interpreted(trainers[2])
    begin = time.perf_counter()
    trainers[0].step()
    steps = max(1, round(BLOCK_S / (time.perf_counter() - begin)))
    rounds: list[Any] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 5:
        order = (0, 1, 2) if len(rounds) % 2 == 0 else (2, 1, 0)
        took = {which: block(trainers[which], steps) for which in order}
        rounds.append([took[which] for which in range(3)])
    table = np.array(rounds)  # (rounds, trainer, CPU or wall)
    cpu_ms = float(np.median(table[:, 0, 0])) / steps * 1e3
    ratios = [
        told(table[:, 1, which] / table[:, other, which])
        for other, which in ((0, 0), (0, 1), (2, 0))
    ]
    return f"| {name} | {cpu_ms:.3f} | {' | '.join(ratios)} | {len(rounds)} |"


class Interpreted:
    """The updates of a trainer that was captured, their calls carried out by torch's FX interpreter.

    Args:
        trainer: Whose batches it draws, and whose tensors it trains.
    """

    def __init__(self, trainer: ScheduledTrainer) -> None:
        self._updates = trainer.updates
        self._runs = [interpreter(each.captured) for each in trainer.executors]

    def step(self) -> float:
        """One training step."""
        losses = []
        for update, run in zip(self._updates, self._runs, strict=True):
            batch = tensors_in(update.next_batch(lambda name: nullcontext()))
            with below_autograd(), torch.enable_grad():  # recurrent kernels keep what is needed
                losses += run.run(*batch)
        return sum(float(each.item()) for each in losses)


def interpreter(captured: Captured) -> fx.Interpreter:
    """The calls of an update as an FX graph."""
    root, graph = torch.nn.Module(), fx.Graph()
    nodes: dict[int, fx.Node] = {}
    for place, slot in enumerate(captured.given):
        nodes[slot] = graph.placeholder(f"b{place}")
    for slot, tensor in captured.outside.items():
        setattr(root, f"p{slot}", tensor.detach())
        nodes[slot] = graph.get_attr(f"p{slot}")

    def node(value: Any) -> Any:
        if isinstance(value, Slot):
            if value.number not in nodes:
                add(captured.views[value.number])
            return nodes[value.number]
        return [node(each) for each in value] if isinstance(value, (list, tuple)) else value

    def add(call: Call) -> None:
        kwargs = {name: node(value) for name, value in call.kwargs.items()}
        made = graph.call_function(call.func, tuple(map(node, call.args)), kwargs)
        for place, slot in enumerate(call.made):
            if slot is not None and slot not in nodes:
                several = (operator.getitem, (made, place))
                nodes[slot] = graph.call_function(*several) if call.several else made

    for call in captured.calls:
        if call is not None:
            add(call)
        else:
            gradients = [None if each is None else node(Slot(each)) for each in captured.gradients]
            graph.call_function(captured.optimize, tuple(gradients))
    graph.output([node(Slot(slot)) for slot in captured.losses])
    return fx.Interpreter(fx.GraphModule(root, graph))


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
