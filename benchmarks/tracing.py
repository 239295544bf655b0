"""What the default recording costs in steady state, traced steps included, beside always-on Kineto; and how well the cost of tracing is taken out.

    python benchmarks/tracing.py [--json]

First part: the smallest workload, A (plain) against B (default recording, after its first ten
windows) in the order A B B A, and against C (torch.profiler left on). Second part: for each
workload the residual of the correction: fitted on odd windows, predicting clean steps beside even
ones.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

from pairs import Blocks, abandon, interval, shown
from wattstep import load
from wattstep.record.recorder import Recorder
from wattstep.record.tracing.schedule import WANTED
from wattstep.train.child.local import train_in_child
from wattstep.train.settings import TrainingSettings

SECONDS = 2.0  # of a recorded block, at least


class SteadyState(Blocks):
    """Long blocks: a window comes every few hundred steps."""

    def recorded_by_default(self) -> float:
        folder = Path(tempfile.mkdtemp())
        recorder = Recorder(folder / "run", model=self.engine.training.model)
        recorder.start()
        step = self.engine.step

        def one_step() -> None:
            with recorder.step(samples=4) as one:
                one.loss = step(recorder.phase)

        while recorder.steps.traced_steps < WANTED:
            one_step()
        count = 0
        begin = time.perf_counter()
        ended = recorder.steps.traced_steps
        # A block ends as it begins, right after a window: whole periods are counted.
        while time.perf_counter() - begin < SECONDS or recorder.steps.traced_steps == ended:
            ended = recorder.steps.traced_steps
            one_step()
            count += 1
        taken = (time.perf_counter() - begin) / count
        abandon(recorder)
        shutil.rmtree(folder)
        return taken

    def always_on(self) -> float:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            return self.plain()


# One of each kind that a small device trains.
WORKLOADS = ("char-cnn", "densenet40", "dqn", "lenet", "resnet50", "squeezenet")


def steady_state(name: str, quadruples: int) -> dict[str, tuple[float, float, float]]:
    blocks = SteadyState(name, 1, 1.0)
    default, kineto, control = [], [], []
    for number in range(quadruples):
        print(f"steady state: {number + 1} of {quadruples}", file=sys.stderr)
        a1, b1, b2, a2 = (
            blocks.plain(), blocks.recorded_by_default(), blocks.recorded_by_default(), blocks.plain(),
        )  # fmt: skip
        default.append(math.log((b1 + b2) / (a1 + a2)))
        a3, c1, c2, a4 = blocks.plain(), blocks.always_on(), blocks.always_on(), blocks.plain()
        kineto.append(math.log((c1 + c2) / (a3 + a4)))
        control.append(math.log((a1 + a4) / (a2 + a3)))
    print(f"{name}, default recording in steady state: {shown(default)}")
    print(f"{name}, Kineto always on:                  {shown(kineto)}")
    print(f"{name}, plain against plain:               {shown(control)}", flush=True)
    return {
        "default": interval(default), "always_on": interval(kineto), "control": interval(control),
    }  # fmt: skip


def residuals(seconds: float, names: list[str]) -> dict[str, dict[str, float]]:
    results = {}
    print("\nworkload      residual   traced/clean   windows   clean step")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            settings = TrainingSettings(
                workload=name, seconds=seconds, threads=1, out=f"{folder}/{name}"
            )
            metrics = load(train_in_child(settings, lambda _: None, print)).metrics()
            residual, inflation = metrics["correction_residual"], metrics["trace_inflation"]
            step = metrics["step_time"].value
            results[name] = {
                "residual": residual.value, "inflation": inflation.value, "windows": residual.n,
                "step_s": step,
            }  # fmt: skip
            print(
                f"{name:12} {residual.value:+8.2%}   {inflation.value:8.2f}      {residual.n:6}   "
                f"{step * 1e3:8.2f} ms",
                flush=True,
            )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quadruples", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a run for the residual")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--part", choices=["steady", "residual", "both"], default="both")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, object] = {}
    if options.part != "residual":
        results["steady_state"] = steady_state("lenet", options.quadruples)
    if options.part != "steady":
        results["residuals"] = residuals(options.seconds, options.workloads.split(","))
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
