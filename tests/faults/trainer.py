"""A training script that the tests disturb: steps of a few ms, each told on standard output.

Arguments: folder of the run, most steps, "torch" or "sleep", interval, target of the sensors; "below:ROOT": of
this machine, as if its files lay there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import wattstep
from wattstep.record import recorder as recorder_module
from wattstep.record.hosts import LocalHost


def a_step(kind: str) -> Callable[[], None]:
    if kind == "sleep":
        return lambda: time.sleep(0.005)
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 32)).square().mean().backward()
        optimizer.step()
        time.sleep(0.002)

    return train


def main() -> None:
    path, steps, kind, interval, target = sys.argv[1:]
    train = a_step(kind)
    if target.startswith("below:"):
        root, target = Path(target.removeprefix("below:")), "local"
        recorder_module.open_host = lambda _, pid, folder: LocalHost(pid, root)
    with wattstep.Recorder(path, interval=interval, target=target) as recorder:
        for index in range(int(steps)):
            with recorder.step(samples=4):
                recorder.phase("forward")
                train()
            print(index, time.perf_counter_ns(), flush=True)
    print("done", recorder.problem, flush=True)


if __name__ == "__main__":
    main()
