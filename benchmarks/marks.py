"""What the marks of a step take around a small training that empties the caches, on a machine that others use, too.

    python benchmarks/marks.py [--seconds 40] [--json] [--device] [--behind MS]

With `--device` each mark has an event beside it, as on a GPU. The events are a stand-in's, whose calls
do nothing: what the driver takes for them comes on top (`gpu_truth.py` measures it where there is one).
With `--behind` the device comes to them so much later, as where it is never idle: they wait to be read,
and its clock is told once a second by an event in a stream beside.

Steps with marks and without take turns, each compared with the two beside it, by the CPU time of their
thread: the median of thousands of such differences is sure to a tenth of a microsecond where whole
blocks of steps (`recording.py`) cannot tell tens of them apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from pairs import abandon
from wattstep.engines.torch.device_queue import find_queue
from wattstep.record.device_timeline import DeviceTimeline
from wattstep.record.recorder import Recorder
from wattstep.schema.engine import ignore_phase

SETTLE = 2000  # steps until it is known how long one takes
Step = Callable[[], object]


class StandIn:
    """The parts of `torch.cuda` that are called.

    Args:
        behind_ms: So much later the device comes to events; those in a stream beside it comes to at once.
    """

    def __init__(self, behind_ms: float) -> None:
        self.behind_ms = behind_ms
        self._stream = StandIn.Stream(behind_ms=behind_ms)

    class Event:
        """An event that the device comes to."""

        def __init__(self, enable_timing: bool = True) -> None:
            self.at_ms = 0.0

        def record(self, stream: StandIn.Stream) -> None:
            self.at_ms = time.perf_counter_ns() * 1e-6 + stream.behind_ms

        def query(self) -> bool:
            return time.perf_counter_ns() * 1e-6 >= self.at_ms

        def elapsed_time(self, other: StandIn.Event) -> float:
            return other.at_ms - self.at_ms

    class Stream:
        def __init__(self, number: int = 0, priority: int = 0, behind_ms: float = 0.0) -> None:
            self.cuda_stream, self.behind_ms = priority, behind_ms

    def device_count(self) -> int:
        return 1

    def memory_allocated(self, number: int) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def current_stream(self, number: int) -> Stream:
        return self._stream

    def is_current_stream_capturing(self) -> bool:
        return False


class Training:
    """A step of about 0.16 ms: copies of more than the inner caches hold, and all phases of a small network."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        layers = torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.Linear(8, 4)
        self.net = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-6, 0.9, foreach=False)
        self.loss = torch.nn.CrossEntropyLoss()
        self.inputs, self.targets = torch.randn(4, 8), torch.arange(4)
        self.here, self.there = np.ones(100_000), np.ones(100_000)

    def step(self, mark: Callable[[str], None] = ignore_phase) -> float:
        mark("data")
        np.copyto(self.there, self.here)
        np.copyto(self.here, self.there)
        mark("forward")
        loss = self.loss(self.net(self.inputs), self.targets)
        mark("backward")
        loss.backward()
        mark("optimizer")
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.item())


def differences(steps: dict[str, Step], plain: Step, seconds: float) -> dict[str, list[float]]:
    """CPU time of each kind of step less that of the plain ones beside it, in µs."""

    def taken(step: Step) -> float:
        before = time.thread_time_ns()
        step()
        return (time.thread_time_ns() - before) * 1e-3

    found: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    gc.freeze()
    draw, before, end = random.Random(1), taken(plain), time.monotonic() + seconds
    while time.monotonic() < end:
        for name in draw.sample(list(steps), len(steps)):
            one, after = taken(steps[name]), taken(plain)
            found[name].append(one - (before + after) / 2)
            before = after
    return found


def anchors_us(device: DeviceTimeline, count: int = 200) -> list[float]:
    """CPU time of what tells the clock once a second, in µs: in the training's stream, or beside it."""
    found = []
    for _ in range(count):
        before = time.thread_time_ns()
        device.anchor()
        found.append((time.thread_time_ns() - before) * 1e-3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", action="store_true", help="an event beside each mark")
    parser.add_argument("--behind", type=float, default=0.0, metavar="MS")
    options = parser.parse_args()
    training = Training()
    folder = Path(tempfile.mkdtemp())
    recorder = Recorder(folder / "run", trace="none").start()
    steps = recorder.steps
    if options.device:
        queue = find_queue(StandIn(options.behind))
        assert queue is not None
        steps.follow_device(DeviceTimeline(queue, steps))

    steps.samples = 4.0

    def run() -> None:
        begin = steps.begin
        begun = begin()
        steps.end(begun, training.step(steps.mark))

    def script() -> None:
        with recorder.step(samples=4) as step:
            step.loss = training.step(recorder.phase)

    for _ in range(SETTLE):
        run()
    every = steps._phase_every
    kinds: dict[str, Step] = {
        "nothing": lambda: training.step(),
        "as `wattstep run` marks it": run,
        "a with statement and `phase`": script,
    }
    found = differences(kinds, training.step, options.seconds / 2)
    steps._phase_every, steps._check_at = 1, 1 << 62  # marks of phases in each step
    steps.plan_anew()
    with_phases = differences(
        {name: kinds[name] for name in kinds}, training.step, options.seconds / 2
    )
    anchors = anchors_us(steps.device) if steps.device is not None else []
    abandon(recorder)
    shutil.rmtree(folder)
    medians = {
        name: [float(np.median(of[name]) - np.median(of["nothing"])) for of in (found, with_phases)]
        for name in list(kinds)[1:]
    }
    if options.json:
        found_cost = {"anchor_us": float(np.median(anchors))} if anchors else {}
        document = {"steps_with_phases_every": every, "us": medians, **found_cost}
        print(json.dumps(document, indent=1))
        return
    print("CPU time of a step's marks, median in µs (plain step, step with marks of phases)")
    for name, (plain, phases) in medians.items():
        print(f"  {name:32} {plain:6.2f} {phases:6.2f}")
    if anchors:
        print(f"what tells the device's clock, once a second: {np.median(anchors):.1f} µs")


if __name__ == "__main__":
    main()
