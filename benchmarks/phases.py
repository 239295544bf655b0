"""Phases under `wattstep profile` against the script's own clock, on trainings of many habits.

Each script notes with `time.perf_counter_ns` where its forward passes (the loss with them), gradients and
optimizer's steps begin and end. The same clean steps are then looked at by both: what the script's notes
say of them, and the phases of the run's document. Both see the same noise, so that other work on the
machine moves neither from the other.

    python benchmarks/phases.py [--steps 300] [--only NAME] [--cost]

`--cost` measures instead what the hooks take: LeNet-5 with and without them, in turn, by CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from wattstep.run import Run, load

LIMIT = 0.03  # of the step, by which a phase may differ
HEAD = """
import json, sys, time, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
STEPS, NOTES = int(sys.argv[1]), sys.argv[2]
notes = []
def note(name):
    notes.append((time.perf_counter_ns(), name))
def net(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
bce = nn.BCEWithLogitsLoss()
X, Y = torch.randn(1024, 784), torch.randint(0, 10, (1024,))
"""
TAIL = """
note("loop")
json.dump(notes, open(NOTES, "w"))
"""
WEIGHTS = """
weights = [torch.randn(784, 256) / 28, torch.zeros(256), torch.randn(256, 10) / 16, torch.zeros(10)]
for weight in weights:
    weight.requires_grad_()
def of(x, y):
    a, b, c, d = weights
    return nn.functional.cross_entropy(nn.functional.relu(x @ a + b) @ c + d, y)
"""
MARKERS = {"no module, updates by hand": "backward"}  # of scripts without an optimizer
SCRIPTS = {
    "plain, no DataLoader": """
model = net(784, 256, 256, 10)
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; x, y = X[at : at + 64], Y[at : at + 64]
    note("optimizer"); optimizer.zero_grad()
    note("forward"); loss = nn.functional.cross_entropy(model(x), y)
    note("backward"); loss.backward()
    note("clipping"); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    note("optimizer"); optimizer.step()
""",
    "gradients cleared last, own batches": """
model = net(128, 512, 512, 10)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
for i in range(STEPS):
    note("loop"); busy(0.002); x, y = torch.randn(64, 128), torch.randint(0, 10, (64,))
    note("forward"); loss = nn.functional.cross_entropy(model(x), y)
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step(); optimizer.zero_grad()
    note("loop"); loss.item(); busy(0.001)
""",
    "gradients cleared first, own batches": """
model = net(128, 512, 512, 10)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for i in range(STEPS):
    note("optimizer"); optimizer.zero_grad()
    note("loop"); x, y = torch.randn(64, 128), torch.randint(0, 10, (64,))
    x = torch.stack([one.roll(7) for one in x])
    note("forward"); loss = nn.functional.cross_entropy(model(x), y)
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step(); note("loop")
""",
    "gradients cleared before a batch is prepared": """
from torch.utils.data import DataLoader, TensorDataset
model = net(784, 256, 256, 10)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def batches():
    while True:
        yield from DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True)
note("data")
for i, (x, y) in enumerate(batches()):
    note("optimizer"); optimizer.zero_grad()
    note("data"); x = torch.stack([one.roll(7) for one in x])
    note("forward"); loss = nn.functional.cross_entropy(model(x), y)
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step()
    if i == STEPS - 1:
        break
    note("data")
""",
    "GAN": """
G, D = net(64, 256, 784), net(784, 256, 1)
of_g = torch.optim.Adam(G.parameters(), foreach=False)
of_d = torch.optim.Adam(D.parameters(), foreach=False)
one, zero = torch.ones(64, 1), torch.zeros(64, 1)
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; x = X[at : at + 64]
    note("optimizer"); of_d.zero_grad()
    note("loop"); noise = torch.randn(64, 64)
    note("forward"); made = G(noise)
    loss = bce(D(x), one) + bce(D(made.detach()), zero)
    note("backward"); loss.backward()
    note("optimizer"); of_d.step(); of_g.zero_grad()
    note("forward"); loss = bce(D(made), one)
    note("backward"); loss.backward()
    note("optimizer"); of_g.step()
""",
    "WGAN-GP": """
G, D = net(64, 256, 784), net(784, 256, 1)
of_g = torch.optim.Adam(G.parameters(), betas=(0.0, 0.9), foreach=False)
of_d = torch.optim.Adam(D.parameters(), betas=(0.0, 0.9), foreach=False)
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; x = X[at : at + 64]; noise = torch.randn(64, 64)
    note("forward")
    with torch.no_grad():
        made = G(noise)
    share = torch.rand(64, 1)
    mixed = (share * x + (1 - share) * made).requires_grad_()
    judged = D(mixed)
    note("backward"); slope, = torch.autograd.grad(judged.sum(), mixed, create_graph=True)
    note("forward"); loss = D(made).mean() - D(x).mean() + 10 * ((slope.norm(2, 1) - 1) ** 2).mean()
    note("optimizer"); of_d.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); of_d.step()
    note("loop"); noise = torch.randn(64, 64)
    note("forward"); loss = -D(G(noise)).mean()
    note("optimizer"); of_g.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); of_g.step()
""",
    "two networks in turn": """
both = [net(784, 128, 10), net(784, 512, 10)]
optimizers = [torch.optim.SGD(one.parameters(), lr=0.01, momentum=0.9, foreach=False) for one in both]
for i in range(2 * STEPS):
    note("loop"); at = i * 64 % 960; x, y = X[at : at + 64], Y[at : at + 64]
    model, optimizer = both[i % 2], optimizers[i % 2]
    note("forward"); loss = nn.functional.cross_entropy(model(x), y)
    note("optimizer"); optimizer.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step()
""",
    "gradient accumulation": """
from torch.utils.data import DataLoader, TensorDataset
model = net(784, 256, 256, 10)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def batches():
    while True:
        yield from DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True)
note("data")
for i, (x, y) in enumerate(batches()):
    note("forward"); loss = nn.functional.cross_entropy(model(x), y) / 4
    note("backward"); loss.backward()
    if i % 4 == 3:
        note("optimizer"); optimizer.step(); optimizer.zero_grad()
    if i == 4 * STEPS - 1:
        break
    note("data")
""",
    "gradient accumulation, clipped": """
model = net(784, 256, 256, 10)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for i in range(4 * STEPS):
    note("loop"); at = i * 32 % 960; x, y = X[at : at + 32], Y[at : at + 32]
    note("forward"); loss = nn.functional.cross_entropy(model(x), y) / 4
    note("backward"); loss.backward()
    if i % 4 == 3:
        note("clipping"); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        note("optimizer"); optimizer.step(); optimizer.zero_grad()
""",
    "no module, gradients cleared before backward": WEIGHTS
    + """
optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9, foreach=False)
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; y = Y[at : at + 64]
    x = torch.stack([one.roll(7) for one in X[at : at + 64]])
    note("forward"); loss = of(x, y)
    note("optimizer"); optimizer.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step()
""",
    "no module, gradients cleared first": WEIGHTS
    + """
optimizer = torch.optim.Adam(weights, foreach=False)
for i in range(STEPS):
    note("optimizer"); optimizer.zero_grad()
    note("loop"); at = i * 64 % 960; y = Y[at : at + 64]
    x = torch.stack([one.roll(7) for one in X[at : at + 64]])
    note("forward"); loss = of(x, y)
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step()
""",
    "no module, updates by hand": WEIGHTS
    + """
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; y = Y[at : at + 64]
    x = torch.stack([one.roll(7) for one in X[at : at + 64]])
    note("forward"); loss = of(x, y)
    note("backward"); loss.backward()
    note("optimizer")
    with torch.no_grad():
        for weight in weights:
            weight -= 0.01 * weight.grad
            weight.grad = None
""",
    "actor-critic": """
actor, critic = net(32, 256, 256, 8), net(32, 256, 256, 1)
of_actor = torch.optim.Adam(actor.parameters(), foreach=False)
of_critic = torch.optim.Adam(critic.parameters(), foreach=False)
state = torch.randn(256, 32)
for i in range(STEPS):
    note("loop"); reward = state.sum(1).sin(); following = (state + 0.1).cos()
    note("forward"); value = critic(state).squeeze(1)
    with torch.no_grad():
        target = reward + 0.99 * critic(following).squeeze(1)
    loss = (value - target).pow(2).mean()
    note("optimizer"); of_critic.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); of_critic.step()
    note("forward"); choice = torch.distributions.Categorical(logits=actor(state))
    loss = -(choice.log_prob(choice.sample()) * (target - value.detach())).mean()
    note("optimizer"); of_actor.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); of_actor.step()
    note("loop"); state = following
""",
    "teacher and student": """
teacher, model = net(784, 512, 512, 10).eval(), net(784, 128, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; x = X[at : at + 64]
    note("forward")
    with torch.no_grad():
        told = teacher(x).softmax(1)
    loss = nn.functional.cross_entropy(model(x), told)
    note("optimizer"); optimizer.zero_grad()
    note("backward"); loss.backward()
    note("optimizer"); optimizer.step()
""",
    "a closure": """
model = net(784, 128, 10)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
for i in range(STEPS):
    note("loop"); at = i * 64 % 960; x, y = X[at : at + 64], Y[at : at + 64]
    def closure():
        optimizer.zero_grad()
        note("forward"); loss = nn.functional.cross_entropy(model(x), y)
        note("backward"); loss.backward()
        note("optimizer")
        return loss
    note("optimizer"); optimizer.step(closure)
""",
}
LENET = """
import json, sys, time, torch
from torch import nn
from wattstep.engines.step_phases import PhaseTeller
from wattstep.engines.torch.phase_hooks import PhaseHooks
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(),
    nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(),
    nn.Linear(84, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 1, 28, 28), torch.randint(0, 10, (4,))
def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
def block(listener=None, steps=5):
    begin = time.process_time_ns()
    for _ in range(steps):
        if listener is not None:
            listener.phases.begin()
        step()
        if listener is not None:
            listener.phases.end()
    return (time.process_time_ns() - begin) / steps
import tempfile
from wattstep.record.recorder import Recorder
found = {"without": [], "unmarked steps": [], "marked steps": []}
with Recorder(tempfile.mkdtemp() + "/run", trace="none") as recorder:
    recorder.steps.begin_step()
    listener = PhaseTeller(recorder.steps)
    block(steps=50)
    for _ in range(int(sys.argv[1])):
        found["without"].append(block())
        hooks = PhaseHooks(listener, lambda module: None)
        hooks.install(); hooks.watch_optimizers(); block(listener, 1); hooks.discover(False)
        for name, on in (("unmarked steps", False), ("marked steps", True)):
            recorder.steps.phases_on = on
            hooks.hook_ends(on)
            found[name].append(block(listener))
        hooks.remove()
print(json.dumps(found))
"""


def profiled(
    text: str, steps: int, folder: Path, marker: str = "optimizer"
) -> tuple[Run, list[tuple[int, str]]]:
    """The run of a script, and what it noted."""
    script, notes, out = folder / "script.py", folder / "notes.json", folder / "runs"
    script.write_text(HEAD + text + TAIL)
    subprocess.run(
        [sys.executable, "-m", "wattstep", "profile", "--quiet", "--out", str(out), "--name", "run",
         "--step-marker", marker, str(script), str(steps), str(notes)],
        check=True, timeout=600,
    )  # fmt: skip
    return load(out / "run"), [tuple(each) for each in json.loads(notes.read_text())]


def noted(run: Run, notes: list[tuple[int, str]]) -> dict[str, float]:
    """Share of each phase in the clean steps that carry marks, by the script's own notes."""
    t_ns = np.array([at for at, _ in notes])
    steps, marks = run.series.steps, run.tables.marks
    shares: Counter[str] = Counter()
    for row in np.intersect1d(np.flatnonzero(steps.clean), marks.step):
        begin, end = int(steps.start_ns[row]), int(steps.end_ns[row])
        first, last = np.searchsorted(t_ns, [begin, end])
        edges = [begin, *t_ns[first:last].tolist(), end]
        names = [name for _, name in notes[max(first - 1, 0) : last]]
        for name, a, b in zip(names, edges, edges[1:], strict=False):
            shares[name] += b - a
    whole = sum(shares.values())
    return {name: value / whole for name, value in shares.items()}


def told(run: Run) -> dict[str, float]:
    """Share of each phase as the document has it: from its begin to its end, all updates together."""
    shares: Counter[str] = Counter()
    for row in run.document()["updates"]:
        shares[row["phase"]] += row["share"]["value"]
    return dict(shares)


def compare(steps: int, only: str | None) -> int:
    """Prints each script's phases by both; 1 where one differs by more than the limit."""
    worst = 0.0
    for name, text in SCRIPTS.items():
        if only is not None and only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run, notes = profiled(text, steps, Path(folder), MARKERS.get(name, "optimizer"))
            truth, found = noted(run, notes), told(run)
        cells = []
        for phase in ("data", "forward", "backward", "clipping", "optimizer", "loop"):
            if phase in truth or phase in found:
                a, b = truth.get(phase, 0.0), found.get(phase, 0.0)
                worst = max(worst, abs(a - b))
                cells.append(f"{phase} {a:6.1%} told {b:6.1%}")
        print(f"{name:44} {'  '.join(cells)}", flush=True)
    print(f"largest difference {worst:.1%} of a step (limit {LIMIT:.0%})")
    return int(worst > LIMIT)


def cost(blocks: int) -> int:
    """Prints what the hooks take of a step of LeNet-5, by CPU time, blocks of steps in turn."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LENET, str(blocks)], check=True, capture_output=True, text=True,
        env=dict(os.environ),
    )  # fmt: skip
    found = json.loads(done.stdout)
    plain = found["without"]
    print(
        f"LeNet-5, batch 4: {statistics.median(plain) / 1e3:.0f} µs of CPU time a step without hooks"
    )
    for name in ("unmarked steps", "marked steps"):
        more = [b - a for a, b in zip(plain, found[name], strict=True)]
        spread = 1.57 * np.subtract(*np.percentile(more, [75, 25])) / len(more) ** 0.5
        print(f"{name}: {statistics.median(more) / 1e3:+.1f} µs (±{spread / 1e3:.1f})")
    print(f"{blocks} blocks of 5 steps each in {time.monotonic() - begin:.0f} s")
    return 0


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--only")
    parser.add_argument("--cost", type=int, nargs="?", const=1000, metavar="BLOCKS")
    options = parser.parse_args()
    return cost(options.cost) if options.cost else compare(options.steps, options.only)


if __name__ == "__main__":
    sys.exit(main())
