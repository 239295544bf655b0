"""Simulated beside executed: what a plan of a step's operations was to take by measured times, and what it took.

    python benchmarks/scheduled_makespan.py [--only lenet,...] [--batch 4] [--threads 2] [--rounds 12]
        [--policies "default;..."] [--write docs/scheduling.md]

A round measures the operations of a step anew, as `wattstep run --policy` does in its first steps, plans by each
policy, simulates the plan by these times, and carries it out for some steps, the policies in an order that turns;
so whatever else the machine does meets both. A plan of one worker and one thread is timed by the CPU time of that
thread, which leaves out what other programs took; others by the clock. Told is the median over rounds of simulated over executed, with an
interval of 95 % by resampling the rounds, and what each plan took beside the default's in the same round.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from typing import Final, NamedTuple

import numpy as np
import torch

from scheduled_equal import in_order
from wattstep import workloads
from wattstep.engines.torch.memory import tensors_in
from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.learning import Learned, learn
from wattstep.engines.torch.scheduled.planning import here, unpinned
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.schedule import policies
from wattstep.schedule.interference import at_random
from wattstep.schedule.machine import Machine
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.placing import Costs
from wattstep.schedule.policies import FIRST_STEPS
from wattstep.schedule.simulate import simulate
from wattstep.schedule.times import MachineTimes
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch.workload import TorchWorkload

WORKLOADS: Final = "lenet,autoencoder,ds-cnn,resnet8,char-cnn,dcgan,squeezenet,inceptionv1"
AT_RANDOM: Final = (
    "two workers, at random"  # no policy: it is there for what workers do to each other
)
POLICIES: Final = f"default;per-kind;co-run;critical-path;{AT_RANDOM}"
BLOCK_S: Final = 0.3  # of steps by one plan in a round
LEAST_STEPS: Final = 5
BEGIN, END = "<!-- makespan -->", "<!-- /makespan -->"
HEAD: Final = (
    "| workload | policy | workers | executed, ms | simulated / executed | of default, simulated | of default, executed |\n"
    "|---|---|---:|---:|---|---:|---|"
)


class Outcome(NamedTuple):
    """A plan in one round: workers, seconds of an update as simulated and as executed (median)."""

    workers: int
    simulated_s: float
    executed_s: float


def main() -> None:
    """Prints, and writes, a line a workload and policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=WORKLOADS)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    names = arguments.policies.split(";")
    lines = [HEAD]
    print(f"load before: {load()}\n{HEAD}")
    before, ratios = load(), []
    for workload in arguments.only.split(","):
        rounds = compared(workload, arguments.batch, arguments.threads, names, arguments.rounds)
        for name in names:
            lines.append(line(workload, name, rounds))
            ratios.append(
                float(
                    np.median([each[name].simulated_s / each[name].executed_s for each in rounds])
                )
            )
            print(lines[-1], flush=True)  # fmt: skip
    off = np.abs(np.array(ratios) - 1)
    words = (
        f"Off by {np.mean(off):.1%} on average, {np.max(off):.1%} at most; within 10 % {int((off <= 0.1).sum())} of "
        f"{len(off)}. Batch {arguments.batch}, {arguments.threads} threads, {arguments.rounds} rounds, torch "
        f"{torch.__version__}; load of the machine {before} before, {load()} after, on {os.cpu_count()} cores."
    ).replace("%", " %").replace("  %", " %")  # fmt: skip
    print(words)
    if arguments.write is not None:
        text = arguments.write.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        table = "\n".join(lines)
        arguments.write.write_text(
            f"{head}{BEGIN}\n{table}\n\n{words}\n{END}{tail}", encoding="utf-8"
        )


def load() -> str:
    """Load averages of 1 and 5 minutes."""
    one, five, _ = os.getloadavg()
    return f"{one:.1f}, {five:.1f}"


class FirstUpdate(NamedTuple):
    """The first update of a workload's step, captured: its batch, and its optimizer."""

    captured: Captured
    drawn: list[torch.Tensor]
    optimizer: torch.optim.Optimizer

    def learned(self, machine: Machine) -> tuple[TaskTimes, Learned]:
        """Its operations, measured anew."""
        model = TaskTimes("here", (machine.count,), prior=MachineTimes(machine))
        return model, learn(self.captured, self.drawn, machine, self.optimizer, model)


def first_update(name: str, batch: int, threads: int) -> FirstUpdate:
    """Of a workload that has trained for some steps."""
    trainer = ScheduledTrainer(
        TorchWorkload(workloads.find(name)),
        Preparation(batch_size=batch),
        threads=threads,
        plan=lambda graph: in_order(graph, threads),
    )
    for _ in range(FIRST_STEPS + 1):
        trainer.step()
    update = trainer.updates[0]
    drawn = tensors_in([update.next_batch(trainer._phase)])
    return FirstUpdate(trainer.executors[0].captured, drawn, update.optimizer)


def compared(
    name: str, batch: int, threads: int, names: Sequence[str], rounds: int
) -> list[dict[str, Outcome]]:
    """Outcomes by policy of each round."""
    update = first_update(name, batch, threads)
    captured, drawn, machine = update.captured, update.drawn, here(threads)
    outcomes = []
    for number in range(rounds):
        model, learned = update.learned(machine)
        turned = [names[(number + place) % len(names)] for place in range(len(names))]
        told = {}
        for policy in turned:
            if policy == AT_RANDOM:
                plan = at_random(Costs(captured.graph, model, machine), Random(number))
            else:
                plan = policies.find(policy)(captured.graph, model, machine)
            timeline = simulate(captured.graph, plan, model, machine)
            with closing(TorchThreads(captured, unpinned(plan))) as executor:
                took = executed(executor, drawn)
            told[policy] = Outcome(plan.workers, timeline.makespan_s + learned.outside_s, took)
        outcomes.append(told)
    return outcomes


def executed(executor: TorchThreads, batch: Sequence[torch.Tensor]) -> float:
    """Median time of an update in s: of steps in which none of its threads had to give way, where there are any."""
    quiet: list[float] = []
    every: list[float] = []
    placed = executor.schedule.placed
    alone = executor.schedule.workers == 1 and all(one.threads == 1 for one in placed)
    clock = time.thread_time if alone else time.perf_counter
    executor.step(batch)
    end = time.perf_counter() + BLOCK_S
    while len(every) < LEAST_STEPS or time.perf_counter() < end:
        before, begin = getrusage(RUSAGE_SELF).ru_nivcsw, clock()
        executor.step(batch)
        every.append(clock() - begin)
        if getrusage(RUSAGE_SELF).ru_nivcsw == before:
            quiet.append(every[-1])
    return float(np.median(quiet if len(quiet) >= LEAST_STEPS else every))


def line(workload: str, policy: str, rounds: Sequence[dict[str, Outcome]]) -> str:
    """A row of the table."""
    own = [each[policy] for each in rounds]
    took = float(np.median([each.executed_s for each in own])) * 1e3
    ratio = told([each.simulated_s / each.executed_s for each in own])
    workers = "/".join(str(count) for count in sorted({each.workers for each in own}))
    beside = ["", ""]
    if policy != "default" and "default" in rounds[0]:
        bases = [each["default"] for each in rounds]
        pairs = list(zip(own, bases, strict=True))
        simulated = np.median([one.simulated_s / base.simulated_s for one, base in pairs])
        beside = [
            f"{simulated:.3f}",
            told([one.executed_s / base.executed_s for one, base in pairs]),
        ]
    return (
        f"| {workload} | {policy} | {workers} | {took:.3f} | {ratio} | {beside[0]} | {beside[1]} |"
    )


def told(ratios: Sequence[float]) -> str:
    """A median with its interval."""
    draw = np.random.default_rng(0)
    medians = np.median(draw.choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return f"{np.median(ratios):.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
