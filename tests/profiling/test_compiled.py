"""A compiled model is compiled as without wattstep: no warning, no graph break, no recompilation more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wattstep

# Backend aot_eager compiles without a compiler of C++; TORCH_LOGS tells on standard error what
# breaks a graph and what is compiled again, the counters of torch how often.
SCRIPT = """
import json, sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)]
model = torch.compile(torch.nn.Sequential(*layers), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(240, 8), torch.randint(0, 2, (240,)))

def train(recorder):
    for inputs, targets in torch.utils.data.DataLoader(data, batch_size=4):
        if recorder is None:
            step(inputs, targets)
        else:
            with recorder.step(samples=len(inputs)):
                step(inputs, targets)

def step(inputs, targets):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()

if sys.argv[1:] == ["recorder"]:
    import wattstep
    with wattstep.Recorder("runs/by-hand", trace="every:8") as recorder:
        train(recorder)
else:
    train(None)
from torch._dynamo.utils import counters
told = {name: sum(each.values()) for name, each in counters.items() if name in ("graph_break", "recompiles")}
print("COUNTED", json.dumps({**told, "graphs": counters["stats"]["unique_graphs"]}))
"""
NETWORK = """
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, inputs):
        return self.layers(inputs)

model = Network()
"""
IN_PLACE = NETWORK + 'model.compile(backend="aot_eager")'
# In a step without hooks, and in one that is traced.
LATE = """
calls = 0

def call(inputs):
    global calls, called
    if calls == {at}:
        called = {made}
    calls += 1
    return called(inputs)

called = model
"""
COMPILED = {
    "network": 'torch.compile(model, backend="aot_eager", fullgraph=True)',
    "layers": 'torch.compile(model.layers, backend="aot_eager", fullgraph=True)',
    "function": 'torch.compile(lambda inputs: model(inputs), backend="aot_eager", fullgraph=True)',
}
PROFILE = ("-m", "wattstep", "profile", "-q", "--trace", "every:8")
TELLING = ("warning", "graph break", "graph_break", "recompil")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "train.py").write_text(SCRIPT)
    lines = SCRIPT.split("\n")
    (made,) = [line for line in lines if line.startswith("model = ")]
    (folder / "in_place.py").write_text(SCRIPT.replace(made, IN_PLACE))
    return folder


def trained(folder: Path, *command: str) -> tuple[dict[str, Any], list[str]]:
    """What torch counted of a training, and the lines that it logged or warned."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False,
        timeout=300, env={**os.environ, "TORCH_LOGS": "graph_breaks,recompiles"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (counted,) = [line for line in done.stdout.splitlines() if line.startswith("COUNTED ")]
    lines = (done.stdout + done.stderr).splitlines()
    telling = [line for line in lines if any(word in line.lower() for word in TELLING)]
    return json.loads(counted.removeprefix("COUNTED ")), [
        line for line in telling if not line.startswith(("COUNTED", "wattstep: warning: other"))
    ]


@pytest.fixture(scope="module")
def alone(folder: Path) -> tuple[dict[str, Any], list[str]]:
    counted, lines = trained(folder, "train.py")
    assert counted["graphs"] >= 1  # it was compiled, indeed
    return counted, lines


@pytest.mark.parametrize(
    ("command", "run"),
    [
        (("-m", "wattstep", "profile", "-q", "--name", "profiled", "--trace", "every:8", "train.py"), "profiled"),
        (("train.py", "recorder"), "by-hand"),
    ],
    ids=["profile", "Recorder"],
)  # fmt: skip
def test_hooks_do_not_make_torch_compile_warn_or_compile_again(
    command: tuple[str, ...], run: str, folder: Path, alone: tuple[dict[str, Any], list[str]]
) -> None:
    assert trained(folder, *command) == alone
    report = wattstep.load(folder / "runs" / run).report()
    assert report.steps.recorded == 60
    assert report.steps.traced  # traced steps hook most


def test_a_model_compiled_in_place_is_compiled_as_without_us(folder: Path) -> None:
    alone = trained(folder, "in_place.py")
    assert alone[0]["graphs"] >= 1
    assert trained(folder, *PROFILE, "--name", "in-place", "in_place.py") == alone
    report = wattstep.load(folder / "runs" / "in-place").report()
    assert report.steps.recorded == 60
    assert report.steps.traced
    assert {row.phase for row in report.phases} >= {"forward", "backward", "optimizer"}
    assert any(row.layer == "Network" for row in report.layers)


@pytest.mark.parametrize(
    ("made", "at"), [("network", 5), ("network", 16), ("layers", 16), ("function", 16)]
)
def test_what_is_compiled_after_the_first_steps_is_compiled_as_without_us(
    folder: Path, made: str, at: int
) -> None:
    """Its network was called before, and has hooks; one graph without a break is asked for."""
    name = f"late-{made}-{at}"
    (before,) = [line for line in SCRIPT.split("\n") if line.startswith("model = ")]
    text = SCRIPT.replace("(model(inputs),", "(call(inputs),")
    text = text.replace(before, NETWORK + LATE.format(at=at, made=COMPILED[made]))
    (folder / f"{name}.py").write_text(text)
    alone = trained(folder, f"{name}.py")
    assert alone[0] == {"graphs": 1}
    assert trained(folder, *PROFILE, "--name", name, f"{name}.py") == alone
    report = wattstep.load(folder / "runs" / name).report()
    assert report.steps.recorded == 60
    assert report.steps.traced
    assert {row.phase for row in report.phases} >= {"forward", "backward", "optimizer"}
