"""Processor time of predictions: whole commands, the capture, a further batch size and a further device.

    python benchmarks/predict_speed.py [WORKLOAD ...] [--cpu DEVICE] [--rounds N]

Of each workload: `wattstep predict` with an empty cache (a step is captured) and again (the step is kept, no torch
is loaded), beside `import torch` alone; then, within one process, a capture once torch has loaded what it needs,
and predictions at further batch sizes and on a further board. DEVICE is a CPU that was calibrated, by name, file or
`this`: the same is told of it, where malloc is replayed. Times are of the processor (user and system), the least of
the rounds, so that other processes count little; on a shared machine they still take up to a quarter more.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from wattstep import devices, engines, workloads
from wattstep.predict import predictor_for
from wattstep.schema.step_graph import StepFamily
from wattstep.schema.workload import Preparation
from wattstep.store import this_device

WORKLOADS = ("resnet50", "mobilenetv2", "bert")
BOARD, FURTHER = "jetson-orin-nano", "jetson-agx-orin"
BATCH = 16
FURTHER_BATCHES = range(17, 22)


def main() -> None:
    """Prints all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--cpu", metavar="DEVICE", help="a CPU that was calibrated")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    alone = [command("-c", "import torch") for _ in range(arguments.rounds)]
    print(f"import torch alone: {min(alone):.2f} s")
    places = [BOARD, *filter(None, [arguments.cpu])]
    for name in arguments.workloads:
        family = captured(name, arguments.rounds)
        for place in places:
            commands(name, place, arguments.rounds)
            predictions(name, place, family)


def command(*arguments: str, cache: str = "") -> float:
    """Processor time of a Python in s."""
    environment = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}
    # Modules of an installed package are compiled once, not by each command.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def commands(name: str, place: str, rounds: int) -> None:
    """A whole command, first and again."""
    asked = ("-m", "wattstep", "predict", name, "--on", this_device.find(place), "--quiet")
    first, again = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            arguments = (*asked, "--batch", str(BATCH))
            first.append(command(*arguments, cache=cache))
            again.append(command(*arguments, cache=cache))
    print(f"{name} on {place}: the command {min(first):.2f} s, again {min(again):.2f} s")


def captured(name: str, rounds: int) -> StepFamily:
    """A workload's step; the time of its capture, the first aside."""
    from wattstep.engines.torch.capture import capture
    from wattstep.workloads.torch import TorchWorkload

    engines.find("torch").load()
    workload = TorchWorkload(workloads.find(name))
    preparation = Preparation(batch_size=BATCH)
    capture(workload, preparation)
    families: list[StepFamily] = []
    took = [timed(lambda: families.append(capture(workload, preparation))) for _ in range(rounds)]
    small = families[0].small
    print(f"{name}: {small.count:,} operations captured at three batch sizes in {min(took):.2f} s")
    return families[0]


def predictions(name: str, place: str, family: StepFamily) -> None:
    """Predictions beyond the first one."""
    where = devices.find(this_device.find(place))
    predictor = predictor_for(family, where)
    predictor.at(BATCH)
    took = [timed(lambda size=size: predictor.at(size)) for size in FURTHER_BATCHES]  # type: ignore[misc]
    search = timed(lambda: (predictor.largest(0.98), predictor.largest(0.5)))
    text = f"  further batch size {1000 * min(took):.0f} ms, the largest batches {1000 * search:.0f} ms"
    if place == BOARD:
        further = devices.find(FURTHER)
        more = min(timed(lambda: predictor_for(family, further).at(BATCH)) for _ in took)
        text += f", further device {1000 * more:.0f} ms"
    print(text)


def timed(call: Callable[[], object]) -> float:
    """Processor time of a call in s."""
    began = time.process_time()
    call()
    return time.process_time() - began


if __name__ == "__main__":
    main()
