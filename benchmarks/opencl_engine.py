"""The OpenCL engine's three modes beside torch on the same cores: time of a step, and what of it is copies.

    python benchmarks/opencl_engine.py [--nets mlp-16,lenet] [--batch 32] [--rounds 15] [--device 0]
        [--threads 1] [--by cpu] [--output opencl-engine.md]

Each net is exported once, which holds the engine against torch in float64. Then torch and the three
modes take blocks of steps in turn, in one process: a step is the median over all blocks. What of a
step is copies, computing and neither is told by the events of some steps between them. With PoCL
host and device share their memory: a copy there is plumbing, which the page says.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wattstep import engines, workloads
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.opencl.trainer import OpenClTrainer
from wattstep.opencl.clock import stamps
from wattstep.opencl.device import Device, choose
from wattstep.schema.opencl import MODES
from wattstep.schema.workload import Preparation

TORCH: Final = "torch"
BLOCK_S: Final = 0.15  # of steps of one kind, one after the other
CLOCKS: Final = {"wall": time.perf_counter, "cpu": time.process_time}
TRACED: Final = 8  # steps whose events are read
WARM: Final = 12  # first steps, ten of which are held against torch's losses


@dataclass
class Timed:
    """Steps of one kind.

    Attributes:
        seconds: Median step of each block.
        copies: Share of a step's time in which only copies ran, of each traced step.
        computing: Likewise kernels.
    """

    seconds: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)
    computing: list[float] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        """Median over blocks."""
        return statistics.median(self.seconds)


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nets", default="mlp-16,mlp-16-deep,mlp-256,mlp,lenet")
    parser.add_argument("--batch", default="32")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device")
    parser.add_argument(
        "--by", choices=("wall", "cpu"), default="wall",
        help="cpu: CPU time of the process, for machines with other work, where all run on the CPU",
    )  # fmt: skip
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of torch, and of PoCL"
    )
    arguments = parser.parse_args()
    os.environ["POCL_MAX_PTHREAD_COUNT"] = str(arguments.threads)  # read when PoCL is loaded
    engines.find("opencl").load()
    device = choose(arguments.device)
    lines = [
        f"By {arguments.by} time. {device.name} ({device.platform} {device.driver}), {device.units} compute units; torch on "
        f"{arguments.threads} threads; batch {arguments.batch}"
        + ("; host and device share memory: copies are plumbing here" if device.unified else ""),
        "",
        "| net | batch | torch | "
        + " | ".join(MODES)
        + " | copies: "
        + ", ".join(MODES)
        + " | computing: "
        + ", ".join(MODES)
        + " | resident/fused | fused/torch |",
        "|---|---:|" + "---:|" * (len(MODES) + 1) + "---|---|---:|---:|",
    ]
    for net in arguments.nets.split(","):
        for batch in map(int, arguments.batch.split(",")):
            lines.append(row(net, batch, measured(net, batch, device, arguments)))
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text, encoding="utf-8")


def measured(
    net: str, batch: int, device: Device, arguments: argparse.Namespace
) -> dict[str, Timed]:
    """Blocks of steps of torch and of each mode, in turn."""
    workload, preparation = workloads.find(net), Preparation(batch_size=batch)
    timed = {name: Timed() for name in (TORCH, *MODES)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "export"
        engine = engines.find("opencl")
        engine.export(workload, preparation, folder)
        trainers = {
            mode: OpenClTrainer(engine, ExportedFolder(folder), device, mode) for mode in MODES
        }
        plain = engines.find(TORCH).prepare(workload, preparation, threads=arguments.threads)
        steps: dict[str, Callable[[], float]] = {TORCH: plain.step}
        steps |= {mode: trainer.step for mode, trainer in trainers.items()}
        for step in steps.values():
            for _ in range(WARM):
                step()
        for _ in range(arguments.rounds):
            for name, step in steps.items():
                timed[name].seconds.append(block(step, CLOCKS[arguments.by]))
        for mode, trainer in trainers.items():
            for _ in range(TRACED):
                computing, copies = traced(trainer)
                timed[mode].computing.append(computing)
                timed[mode].copies.append(copies)
    return timed


def block(step: Callable[[], float], clock: Callable[[], float]) -> float:
    """Median step in s of a block, by a clock."""
    until = time.perf_counter() + BLOCK_S
    took = []
    while time.perf_counter() < until or not took:
        begin = clock()
        step()
        took.append(clock() - begin)
    return statistics.median(took)


def traced(trainer: OpenClTrainer) -> tuple[float, float]:
    """Shares of a step in which kernels ran, and in which copies alone did."""
    execution = trainer.execution
    execution.ran = []
    begin = time.perf_counter_ns()
    trainer.step()
    whole = time.perf_counter_ns() - begin
    ran, execution.ran = execution.ran, None
    execution.finish()
    times = [(stamps(each.event), bool(each.kernel)) for each in ran]
    kernels = covered([(at.started, at.ended) for at, kernel in times if kernel])
    anything = covered([(at.started, at.ended) for at, _ in times])
    return min(kernels / whole, 1.0), min((anything - kernels) / whole, 1.0)


def covered(spans: list[tuple[int, int]]) -> int:
    """Length of what spans cover together."""
    total, reached = 0, 0
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total


def row(net: str, batch: int, timed: dict[str, Timed]) -> str:
    """A line of the table."""

    def shares(of: Callable[[Timed], list[float]]) -> str:
        return ", ".join(f"{100 * statistics.median(of(timed[mode])):.1f} %" for mode in MODES)

    times = [f"{1e3 * timed[name].step_s:.3f} ms" for name in (TORCH, *MODES)]
    ratios = (
        timed["resident"].step_s / timed["fused"].step_s,
        timed["fused"].step_s / timed[TORCH].step_s,
    )
    cells = [
        net, str(batch), *times, shares(lambda each: each.copies), shares(lambda each: each.computing),
        *(f"{ratio:.2f}" for ratio in ratios),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
