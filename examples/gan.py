"""Two networks and two optimizers in one step: python examples/gan.py [FOLDER]."""

import sys

import torch
from torch import nn

import wattstep

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/gan"
generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
critic = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
loss = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)

with wattstep.Recorder(folder, power_model="vcpu") as recorder:
    for _ in range(200):
        with recorder.step(samples=64):
            real = torch.randn(64, 2) + 2
            made = generator(torch.randn(64, 16))
            of_critic.zero_grad()
            (loss(critic(real), ones) + loss(critic(made.detach()), zeros)).backward()
            of_critic.step()
            of_generator.zero_grad()
            loss(critic(made), ones).backward()
            of_generator.step()

run = wattstep.load(folder)
print(f"a step   {run.metrics['step_time']}")
for row in run.report().phases:
    print(f"{row.phase:8} {row.time}")
