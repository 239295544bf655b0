"""Scripts that copy and save whole models while they are recorded; what they saved is loaded without wattstep."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.profiling.scripts import HEAD, wattstep

from wattstep.engines.torch.layers import TopLevelMarks
from wattstep.engines.torch.own_hooks import OwnHook
from wattstep.engines.torch.shaping import lay_channels_last
from wattstep.run import Run, load

# The average of the weights begins as a copy of the model within the first step's hooks, is saved
# and loaded in the middle, and trains on as what was loaded.
COPYING = """
import copy, io, pickle

def averaging(average, net):
    with torch.no_grad():
        for mean, new in zip(average.parameters(), net.parameters()):
            mean.lerp_(new, 0.1)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 20)
average = None
for number, (x, y) in enumerate(loader(40 * 8)):
    optimizer.zero_grad()
    loss_of(net, x, y).backward()
    optimizer.step()
    schedule.step()
    if average is None or number == 10:
        average = copy.deepcopy(net)
    averaging(average, net)
    if number % 7 == 6:
        file = io.BytesIO()
        torch.save(average, file)
        file.seek(0)
        average = torch.load(file, weights_only=False)
        copies = copy.deepcopy((net, optimizer, schedule)), pickle.loads(pickle.dumps((net, optimizer)))
        shallow = copy.copy(net)
        with torch.no_grad():
            made = [each(x).sum().item() for each in (net, shallow, copies[0][0], copies[1][0])]
        assert made == [made[0]] * 4, made
# The copy trains.
own = torch.optim.SGD(average.parameters(), lr=0.1)
loss_of(average, x, y).backward()
own.step()
torch.save((net, average, optimizer), "saved.pt")
print("weights", [sum(p.sum().item() for p in each.parameters()) for each in (net, average)])
"""
LOADING = """
import sys, torch
torch.set_num_threads(1)
sys.modules["wattstep"] = None  # as where it is not installed
from copying import Net
import __main__
__main__.Net = Net
net, average, optimizer = torch.load("saved.pt", weights_only=False)
average(torch.ones(8, 32)).sum().backward()
print("weights", [sum(p.sum().item() for p in each.parameters()) for each in (net, average)])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(HEAD + COPYING)
    (tmp_path / "copying.py").write_text(HEAD)
    (tmp_path / "loading.py").write_text(LOADING)
    return tmp_path


def output(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def profiled(folder: Path, trace: str) -> tuple[str, Run]:
    command = wattstep("profile", "--quiet", "--trace", trace, "--out", "runs", "--name", trace[:4])
    return output(folder, *command, "script.py"), load(folder / "runs" / trace[:4])


@pytest.mark.parametrize("trace", ["none", "every:3"])
def test_copies_within_a_training(folder: Path, trace: str) -> None:
    alone = output(folder, sys.executable, "script.py")
    told, run = profiled(folder, trace)
    assert told == alone
    assert list(run.series.steps.samples) == [8.0] * 40
    assert not any("wattstep" in note.lower() and "fail" in note.lower() for note in run.info.notes)
    saved = (folder / "saved.pt").read_bytes()
    assert b"wattstep" not in saved
    assert output(folder, sys.executable, "loading.py") == alone


def test_layers_of_copies_within_a_window() -> None:
    told: list[int] = []
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    numbers = {module: number for number, module in enumerate(model)}
    marks = TopLevelMarks(model, numbers.__getitem__, told.append, told.append)
    marks.attach()
    inputs = torch.ones(1, 2)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    copies.append(torch.nn.Sequential(*(copy.copy(module) for module in model)))
    for each in copies:
        each(inputs).sum().backward()
    assert told == []
    expected = model(inputs)
    assert told == [0, 0, 1, 1, 2, 2]
    marks.detach()
    assert all(torch.equal(each(inputs), expected) for each in copies)


def test_hooks_keep_no_module() -> None:
    module = torch.nn.Linear(2, 2)
    hook = OwnHook(module, lambda *_: 1, 2)
    assert hook(module, ()) == 1
    del module
    assert hook(torch.nn.Linear(2, 2), ()) is None
    assert pickle.loads(pickle.dumps(hook))(None, ()) is None


def test_layout_of_copies() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))
    given: list[torch.Tensor] = []
    lay_channels_last(model, "a test")
    inputs = torch.randn(2, 3, 5, 5)
    kept, saved = copy.deepcopy(model), pickle.dumps(model)
    assert b"wattstep" not in saved
    loaded = pickle.loads(saved)
    for each in (model, kept, loaded):
        each.register_forward_hook(lambda _module, arguments, _output: given.append(arguments[0]))
        assert torch.allclose(each(inputs), model(inputs), atol=1e-6)
    laid = [each.is_contiguous(memory_format=torch.channels_last) for each in given]
    assert laid == [True] * 4 + [False, True]
    compiled = torch.nn.Sequential(model[0])
    lay_channels_last(compiled, "a test")
    compiled.compile(backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(inputs), loaded(inputs), atol=1e-6)
