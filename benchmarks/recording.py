"""What recording costs of a training: its parts switched on and off within one process.

    python benchmarks/recording.py [--parts calls,marks,sampler,both,hooks,default,control] [--seconds 45]
                                   [--workload lenet] [--threads N] [--interval 10ms] [--json]

60 steps at a time in the order on, off, off, on, so that what drifts falls out; the cost is the median
over quadruples with a 95 % bootstrap interval: by the clock, by the CPU time of the training's thread
(which other programs on the machine move less), and by that of its quiet steps (the lower quartile: most
steps carry no marks of phases, and nothing came between). The parts:

calls     begin and end of a plain step alone, by readings of the clock around them, in turns with
          readings around nothing: median over steps, with a 95 % interval over blocks of 30. Other
          programs hardly move it; what else a mark moves (caches, phases, layers) is not in it
marks     steps and phases marked, or not; the sampler works all the while
sampler   the sampler at work, or stopped (SIGSTOP, SIGCONT); steps are marked all the while
both      marks and sampler
hooks     `wattstep profile`'s hooks in torch and the marks that they make, or neither
default   marks, sampler and tracing as by default, after the first minute; means, since windows are rare
control   nothing against nothing: what the noise of the machine would show
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim import optimizer as torch_optimizer

from pairs import abandon
from wattstep import workloads
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.record.recorder import Recorder
from wattstep.schema.engine import Mark, ignore_phase
from wattstep.schema.workload import Preparation
from wattstep.train.listener import ScriptListener
from wattstep.workloads.torch import TorchWorkload

STEPS = 60  # at a time
CALLS = 30  # likewise, of the part of that name
CALLS_SETTLE = 600  # steps until it is known how long one takes
BATCH = 4
PARTS = ("calls", "marks", "sampler", "both", "hooks", "default", "control")
WAYS = ("clock", "CPU time", "quiet steps")
FIRST_S = 60.0  # of the default, before it is measured
Step = Callable[[], object]


class Recorded:
    """A workload's steps under a recorder whose parts can be switched.

    Args:
        options: Of the command.
        trace: As `Recorder` takes it.
    """

    def __init__(self, options: argparse.Namespace, trace: str = "none") -> None:
        self.engine = TorchTrainer(
            TorchWorkload(workloads.find(options.workload)),
            Preparation(batch_size=BATCH),
            threads=options.threads,
        )
        self.folder = Path(tempfile.mkdtemp())
        model = self.engine.training.model
        self.recorder = Recorder(
            self.folder / "run", interval=options.interval, trace=trace, model=model
        ).start()
        self.steps = self.recorder.steps
        self.steps.samples = float(BATCH)

    def plain(self) -> None:
        self.engine.step()

    def marked(self) -> None:
        """As `wattstep run` does it (`train/loop.py`)."""
        steps = self.steps
        begin = steps.begin
        begun = begin()
        try:
            loss = self.engine.step(steps.mark)
        except BaseException:
            steps.abandon()
            raise
        steps.end(begun, loss)

    def calls(self, marked: bool) -> tuple[int, int]:
        """A step; what begin and end took in ns, or what nothing in their place did, and all of it."""
        steps, now = self.steps, time.perf_counter_ns
        mark: Mark = ignore_phase
        before, begun = now(), 0
        if marked:
            begin = steps.begin
            begun = begin()
            mark = steps.mark
        first = now()
        loss = self.engine.step(mark)
        last = now()
        if marked:
            steps.end(begun, loss)
        after = now()
        return first - before + after - last, after - before

    def sample(self, on: bool) -> None:
        """Stops the sampler and its collector, or has them go on."""
        sampling = self.recorder._sampling
        for pid in (sampling._sampler.pid, *sampling._collector.pids):
            os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP)

    def close(self) -> None:
        self.sample(True)
        abandon(self.recorder)
        shutil.rmtree(self.folder)


class Hooked:
    """A plain loop of torch with the hooks of `wattstep profile`, which can be taken out.

    Hooks of a script last for its process: what they replaced is put back here, and back again.
    """

    def __init__(self, recorded: Recorded) -> None:
        from wattstep.engines.torch.hooks import TorchHooks

        self.model = recorded.engine.training.model
        self.loss = torch.nn.CrossEntropyLoss()
        self.inputs, self.targets = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))
        self.places = [
            (torch.autograd, "backward"),
            (torch_optimizer.Optimizer, "zero_grad"),
            (torch.optim.Adam, "step"),
        ]
        bare = torch.optim.Adam.step
        torch.optim.Adam(
            self.model.parameters()
        )  # torch wraps the step of the class with its first
        without = [getattr(*place) for place in self.places]
        TorchHooks(ScriptListener(recorded.recorder)).install()
        hooked: Any = torch_optimizer.Optimizer.profile_hook_step(bare)
        hooked.hooked = True
        torch.optim.Adam.step = hooked
        self.attributes = {False: without, True: [getattr(*place) for place in self.places]}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.own: list[tuple[dict[Any, Any], dict[Any, Any]]] = []

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.model(self.inputs), self.targets).backward()
        self.optimizer.step()

    def switch(self, on: bool) -> None:
        for (owner, name), value in zip(self.places, self.attributes[on], strict=True):
            setattr(owner, name, value)
        if on:
            for place, hooks in self.own:
                place.update(hooks)
            self.own = []
        else:
            modules = list(self.model.modules())
            for place in [x for m in modules for x in (m._forward_pre_hooks, m._forward_hooks)]:
                self.own.append((place, dict(place)))
                place.clear()


def quadruples(step: dict[bool, Step], switch: Callable[[bool], object], seconds: float) -> Any:
    """Seconds a step by `WAYS`, on and off, shape (quadruples, 2, 3)."""
    taken = []
    gc.collect()
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        sums = {True: np.zeros(3), False: np.zeros(3)}
        for on in (True, False, False, True):
            switch(on)
            one = step[on]
            one()  # what a switch itself takes is no cost of the steps
            clock, worked = time.perf_counter_ns(), [time.thread_time_ns()]
            for _ in range(STEPS):
                one()
                worked.append(time.thread_time_ns())
            clock = time.perf_counter_ns() - clock
            each = np.diff(worked)
            sums[on] += np.array([clock / STEPS, each.mean(), np.percentile(each, 25)]) * 0.5e-9
        taken.append([sums[True], sums[False]])
    return np.array(taken)


def interval(values: Any, mean: bool) -> tuple[float, float, float]:
    """Middle of the quadruples with a 95 % bootstrap interval."""
    middle = np.mean if mean else np.median
    draws = np.random.default_rng(0).integers(0, len(values), (4000, len(values)))
    low, high = np.percentile(middle(values[draws], axis=1), [2.5, 97.5])
    return float(middle(values)), float(low), float(high)


def measure_calls(options: argparse.Namespace) -> dict[str, Any]:
    """What begin and end of a step take by themselves."""
    recorded = Recorded(options)
    for _ in range(CALLS_SETTLE):
        recorded.marked()
    taken: dict[bool, list[Any]] = {True: [], False: []}
    gc.collect()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for marked in (True, False):
            recorded.calls(marked)
            taken[marked].append([recorded.calls(marked) for _ in range(CALLS)])
    recorded.close()
    on, off = (np.array(taken[marked]) for marked in (True, False))
    step = float(np.percentile(off[..., 1], 25)) * 1e-9
    cost = interval((np.median(on, axis=1) - np.median(off, axis=1))[:, 0] * 1e-9, False)
    us = [x * 1e6 for x in cost]
    calls = {"step_us": step * 1e6, "share": [x / step for x in cost], "us": us}
    return {"blocks": len(on), "clock": calls}


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """The cost of one part."""
    if part == "calls":
        return measure_calls(options)
    recorded = Recorded(options, "auto" if part == "default" else "none")
    off: Step = recorded.marked if part == "sampler" else recorded.plain
    on: Step = recorded.plain if part == "control" else recorded.marked
    switch: Callable[[bool], object] = lambda _: None  # noqa: E731
    if part in ("sampler", "both", "default"):
        switch = recorded.sample
    elif part == "hooks":
        hooked = Hooked(recorded)
        on = off = hooked.step
        switch = hooked.switch
    begin = time.monotonic()
    while time.monotonic() - begin < (FIRST_S if part == "default" else 2.0):
        on()
    taken = quadruples({True: on, False: off}, switch, options.seconds)
    windows = recorded.recorder.steps.traced_steps
    switch(False)
    recorded.close()
    mean = part == "default"
    result: dict[str, Any] = {"quadruples": len(taken), "windows": windows}
    for number, name in enumerate(WAYS):
        a, b = taken[:, 0, number], taken[:, 1, number]
        result[name] = {
            "step_us": float(np.median(b)) * 1e6,
            "share": [math.expm1(x) for x in interval(np.log(a / b), mean)],
            "us": [x * 1e6 for x in interval(a - b, mean)],
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--workload", default="lenet")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--interval", default="10ms")
    parser.add_argument("--seconds", type=float, default=45.0, help="of a part")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(f"{options.workload}, batch {BATCH}, {options.threads} threads, {options.interval}")
    results = {}
    for part in options.parts.split(","):
        print(f"{part} ...", file=sys.stderr)
        results[part] = found = measure(part, options)
        for name in [way for way in WAYS if way in found]:
            one = found[name]
            share = "{:+.2%} ({:+.2%} to {:+.2%})".format(*one["share"])
            cost = "{:+.1f} µs ({:+.1f} to {:+.1f})".format(*one["us"])
            print(
                f"{part:8} by {name:12} {share:28} {cost:30} of {one['step_us']:.0f} µs", flush=True
            )
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
