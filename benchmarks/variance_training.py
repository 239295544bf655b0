"""A training whose third layer is slow in known steps, for a known reason; the truth is written beside the run.

python benchmarks/variance_training.py faults|burn|shapes|null RUN [--steps 260] [--share 0.25] [--seed 0]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from wattstep import Recorder

BYTES = 24 << 20  # that the third layer goes through
SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
while True:
    pass
"""
BURNERS = 3
MOST_S = 120  # that a burning process lives at most


class Buffer(torch.nn.Module):
    """Adds to a buffer of its own, whose pages can be given back to the system."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.values = torch.frombuffer(self.memory, dtype=torch.float32)

    def give_back(self) -> None:
        self.memory.madvise(mmap.MADV_DONTNEED)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.values.add_(1.0)
        return inputs + self.values[0]


class Heavy(torch.nn.Module):
    """A convolution that lasts long enough to lose its core to another process."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(16, 32, 5, padding=2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.convolution(inputs)


class Disturber:
    """Does one thing around the third layer in the chosen steps."""

    def __init__(self, kind: str, core: int) -> None:
        self.kind, self.chosen = kind, False
        command = [sys.executable, "-c", SPIN, str(core)]
        self._burners = [
            subprocess.Popen(command, stdout=subprocess.PIPE)
            for _ in range(BURNERS if kind == "burn" else 0)
        ]
        for burner in self._burners:
            burner.stdout.readline()
            burner.send_signal(signal.SIGSTOP)

    def before(self, module: torch.nn.Module, _: object) -> None:
        if not self.chosen:
            return
        if self.kind == "faults":
            module.give_back()
        self._signal(signal.SIGCONT)

    def after(self, *_: object) -> None:
        if self.chosen:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        for burner in self._burners:
            burner.send_signal(number)

    def close(self) -> None:
        for burner in self._burners:
            burner.kill()
            burner.wait()


def quietest_core() -> int:
    """The core with the most idle time in a third of a second, of those that may be used."""
    first = _idle()
    time.sleep(0.3)
    last = _idle()
    return max(os.sched_getaffinity(0), key=lambda core: last[core] - first[core])


def _idle() -> dict[int, int]:
    lines = Path("/proc/stat").read_text().splitlines()
    fields = [line.split() for line in lines if line.startswith("cpu") and line[3].isdigit()]
    return {int(each[0][3:]): int(each[4]) for each in fields}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("faults", "burn", "shapes", "null"))
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=260)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    core = quietest_core()
    if options.kind == "burn":
        # The sampler inherits the core, and has a priority of its own. What else runs on this
        # machine has less of the core than training and burners, where this is permitted.
        with contextlib.suppress(OSError):
            os.setsid()
            Path("/proc/self/autogroup").write_text("-10")
        os.sched_setaffinity(0, {core})
        signal.alarm(MOST_S)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    slow = random.Random(options.seed)
    third = Buffer() if options.kind == "faults" else Heavy()
    out = 16 if options.kind == "faults" else 32
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), third, torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(out, 10),
    )  # fmt: skip
    disturber = Disturber(options.kind, core)
    third.register_forward_pre_hook(disturber.before)
    third.register_forward_hook(disturber.after)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    chosen = []
    with (
        contextlib.closing(disturber),
        Recorder(options.run, trace="every:3", model=model) as recorder,
    ):
        for step in range(options.steps):
            disturber.chosen = slow.random() < options.share
            if disturber.chosen:
                chosen.append(step)
            wide = options.kind == "shapes" and disturber.chosen
            images = torch.randn(32 if wide else 8, 3, 48, 48)
            labels = torch.randint(0, 10, (len(images),))
            with recorder.step(samples=len(images)):
                recorder.phase("forward")
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                recorder.phase("backward")
                optimizer.zero_grad()
                loss.backward()
                recorder.phase("optimizer")
                optimizer.step()
    truth = {"kind": options.kind, "layer": "2", "steps": chosen}
    (options.run / "slowed.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
