"""A trace of torch.profiler as a run: python examples/import_trace.py [FOLDER] [TEGRASTATS-LOG].

The trace is made here; on a Jetson, let tegrastats write a log beside the training, and give it.
"""

import subprocess
import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/imported")
folder.parent.mkdir(parents=True, exist_ok=True)
trace = folder.with_suffix(".trace.json")
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# Steps are marked in the trace where the profiler has a schedule. Clocks that dates bring together are
# good to 100 ms: joules of a trace that is shorter than five times that are missing.
every_step = schedule(wait=0, warmup=2, active=58, repeat=1)
with profile(activities=[ProfilerActivity.CPU], schedule=every_step) as profiler:
    for _ in range(60):
        optimizer.zero_grad()
        model(torch.randn(512, 1024)).square().mean().backward()
        optimizer.step()
        profiler.step()
profiler.export_chrome_trace(str(trace))

log = ["--telemetry", sys.argv[2]] if len(sys.argv) > 2 else []
command = ["wattstep", "import", "--trace", str(trace), *log]
place = ["--out", str(folder.parent), "--name", folder.name]
subprocess.run([sys.executable, "-m", *command, *place], check=True)
