"""Any training loop as a run: python examples/own_loop.py [FOLDER]."""

import sys

import torch
from torch import nn

import wattstep

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/own-loop"
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = torch.randn(32, 64), torch.randint(10, (32,))

with wattstep.Recorder(folder, power_model="vcpu") as recorder:
    for _ in range(200):
        with recorder.step(samples=len(inputs)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()

run = wattstep.load(folder)
for name in ("step_time", "throughput", "energy_per_step", "peak_memory"):
    print(f"{name:16} {run.metrics[name]}")
