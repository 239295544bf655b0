"""Training scripts as users write them, and a way to run them all under `wattstep profile`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from wattstep.run import Run, load

HEAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(32, 64)
        self.second = torch.nn.Linear(64, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def loader(samples, batch=8, **options):
    data = TensorDataset(torch.randn(samples, 32), torch.randint(0, 4, (samples,)))
    return DataLoader(data, batch_size=batch, **options)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)
"""

LOOP = """
def train(net, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        loss_of(net, x, y).backward()
        optimizer.step()
"""

SCRIPTS = {
    # 60 steps of 8 samples and one of 5; what it prints shows that it is run as Python runs it.
    "plain": """
import sys
print("arguments", sys.argv[1:])
print("name", __name__)
print("file", __file__)
print("main", sys.modules["__main__"].Net is Net)
net = Net()
train(net, loader(60 * 8 + 5), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
print("weights", sum(p.sum().item() for p in net.parameters()))
""",
    "raises": """
net = Net()
def careless():
    raise ZeroDivisionError("the script's own mistake")
train(net, loader(20 * 8), torch.optim.SGD(net.parameters(), lr=0.1))
careless()
""",
    "exits": """
import atexit, sys
atexit.register(print, "registered")
net = Net()
train(net, loader(10 * 8), torch.optim.SGD(net.parameters(), lr=0.1))
sys.exit(7)
""",
    # Two epochs of 15 steps of 8, an evaluation of 4 batches of 16 after each, 50 ms of sleep in it.
    "evaluates": """
import time
net = Net()
optimizer = torch.optim.Adam(net.parameters())
held_out = loader(64, batch=16)
for epoch in range(2):
    net.train()
    train(net, loader(15 * 8), optimizer)
    net.eval()
    with torch.no_grad():
        for x, y in held_out:
            net(x)
        time.sleep(0.05)
""",
    # The discriminator's step comes first: 25 steps, not 50.
    "gan": """
maker, judge = torch.nn.Linear(8, 32), Net()
judging = torch.optim.Adam(judge.parameters())
making = torch.optim.Adam(maker.parameters())
for x, y in loader(25 * 8):
    made = maker(torch.randn(8, 8))
    judging.zero_grad()
    (judge(x).mean() - judge(made.detach()).mean()).backward()
    judging.step()
    making.zero_grad()
    judge(made).mean().backward()
    making.step()
""",
    # Four batches of 8 make one step of 32: 12 steps.
    "accumulates": """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for number, (x, y) in enumerate(loader(48 * 8), 1):
    (loss_of(net, x, y) / 4).backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    # A closure goes forward and backward several times in one step; a subclass calls its parent.
    "uses_closures": """
class Mine(torch.optim.LBFGS):
    def step(self, closure):
        return super().step(closure)

net = Net()
torch.optim.LBFGS(net.parameters())  # the parent class has been used before
optimizer = Mine(net.parameters(), max_iter=3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for x, y in loader(15 * 8):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(net, x, y)
        loss.backward()
        return loss
    optimizer.step(closure)
    schedule.step()
""",
    # The first thing that the model does is an evaluation, and one comes in the middle of an epoch.
    "evaluates_first": """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

@torch.inference_mode()
def evaluate():
    for x, y in loader(64, batch=16):
        net(x)

evaluate()
for number, (x, y) in enumerate(loader(24 * 8)):
    optimizer.zero_grad()
    loss_of(net, x, y).backward()
    optimizer.step()
    if number % 8 == 7:
        evaluate()
""",
    "marked_by_backward": """
net = Net()
for x, y in loader(30 * 8):
    loss_of(net, x, y).backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            p.grad = None
""",
    "marked_by_call": """
import helpers
net = Net()
for x, y in loader(30 * 8):
    loss_of(net, x, y).backward()
    helpers.update(net)
""",
    # The script's own profiler comes in the middle, and must find its own events.
    "profiles_itself": """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train(net, loader(20 * 8), optimizer)
with torch.profiler.profile() as profiler:
    train(net, loader(20 * 8), optimizer)
print("steps seen", sum("Optimizer.step" in e.name for e in profiler.events()))
train(net, loader(10 * 8), optimizer)
""",
    "loads_in_workers": """
if __name__ == "__main__":
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    train(net, loader(20 * 8, num_workers=1, multiprocessing_context="fork"), optimizer)
    train(net, loader(20 * 8, num_workers=1, multiprocessing_context="spawn"), optimizer)
""",
    "spawns_a_trainer": """
import torch.multiprocessing

def child(rank):
    net = Net()
    train(net, loader(50 * 8), torch.optim.SGD(net.parameters(), lr=0.1))
    print("child trained", flush=True)

if __name__ == "__main__":
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    train(net, loader(10 * 8), optimizer)
    torch.multiprocessing.spawn(child, nprocs=1)
    train(net, loader(10 * 8), optimizer)
""",
    "no_optimizer": """
net = Net()
with torch.no_grad():
    for x, y in loader(10 * 8):
        net(x)
print("no torch.optim here")
""",
    "no_loader": """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 32), torch.randint(0, 4, (8,))
train(net, [(x, y)] * 30, optimizer)
""",
}
OPTIONS = {
    "plain": ("--power-model", "vcpu"),
    "marked_by_backward": ("--step-marker", "backward"),
    "marked_by_call": ("--step-marker", "call:helpers:update"),
}
ARGUMENTS = {"plain": ("--epochs", "3", "-h")}
HELPERS = """
import torch

def update(net):
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            p.grad = None
"""


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What a script did under `wattstep profile`."""

    code: int
    stdout: str
    stderr: str
    path: Path
    script: Path

    @property
    def run(self) -> Run:
        return load(self.path)


def wattstep(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "wattstep", *arguments]


def write_scripts(folder: Path) -> None:
    """All scripts, and the module that one of them marks its steps by."""
    for name, text in SCRIPTS.items():
        (folder / f"{name}.py").write_text(HEAD + LOOP + text)
    (folder / "helpers.py").write_text(HELPERS)


def profile(name: str, folder: Path) -> Profiled:
    """Runs one script, from its own folder."""
    done = subprocess.run(
        [
            *wattstep(
                "profile", "--quiet", "--out", "runs", "--name", name, *OPTIONS.get(name, ())
            ),
            f"{name}.py",
            *ARGUMENTS.get(name, ()),
        ],
        cwd=folder,
        env=dict(os.environ),  # pytest changes its own meanwhile: see ARCHITECTURE.md
        capture_output=True,
        text=True,
        timeout=600,  # many of them side by side, on a machine that may do other things
        check=False,
    )
    return Profiled(
        code=done.returncode,
        stdout=done.stdout,
        stderr=done.stderr,
        path=folder / "runs" / name,
        script=folder / f"{name}.py",
    )


class AllProfiled:
    """Every script, two at a time in the background: a test waits for its own only."""

    def __init__(self, folder: Path) -> None:
        write_scripts(folder)
        self._pool = ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1))
        self._runs: dict[str, Future[Profiled]] = {
            name: self._pool.submit(profile, name, folder) for name in SCRIPTS
        }

    def __call__(self, name: str) -> Profiled:
        return self._runs[name].result()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def document(run: Run) -> dict[str, object]:
    """As a reader of the JSON gets it."""
    result: dict[str, object] = json.loads(json.dumps(run.document()))
    return result
