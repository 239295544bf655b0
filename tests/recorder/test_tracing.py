"""A recorder with torch: traced steps, layers, and steps that are given up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wattstep.record.recorder import Recorder
from wattstep.run import load

torch = pytest.importorskip("torch")


class Training:
    """A tiny network that trains under a recorder."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, recorder: Recorder, fails: bool = False) -> None:
        with recorder.step(samples=4):
            recorder.phase("forward")
            loss = self.model(torch.ones(4, 8)).square().mean()
            if fails:
                raise MemoryError
            recorder.phase("backward")
            self.optimizer.zero_grad()
            loss.backward()
            recorder.phase("optimizer")
            self.optimizer.step()


def table(run: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run / f"{name}.parquet").to_pylist()
    return rows


def test_traced_steps_have_operations_in_their_layers_and_phases(tmp_path: Path) -> None:
    training = Training()
    with Recorder(tmp_path / "run", trace="every:3", warmup=1, model=training.model) as recorder:
        for _ in range(9):
            training.step(recorder)
    steps = table(tmp_path / "run", "steps")
    traced = [row["index"] for row in steps if row["traced"]]
    assert traced == [4, 8]
    operations = table(tmp_path / "run", "operations")
    assert {row["step"] for row in operations} == {4, 8}
    matmuls = {(row["layer"], row["phase"]) for row in operations if row["name"] == "aten::addmm"}
    assert matmuls == {("0", "forward"), ("2", "forward")}
    bounds = {row["index"]: (row["start_ns"], row["end_ns"]) for row in steps}
    for row in operations:
        start, end = bounds[row["step"]]
        assert start - 10**6 <= row["start_ns"] <= row["end_ns"] <= end + 10**6
        assert 0 <= row["self_ns"] <= row["end_ns"] - row["start_ns"]
    windows = [row for row in table(tmp_path / "run", "spans") if row["kind"] == "window"]
    for (start, end), window in zip((bounds[i] for i in traced), windows, strict=True):
        assert window["start_ns"] <= start <= end <= window["end_ns"]


def test_a_traced_step_that_is_given_up_leaves_no_operations(tmp_path: Path) -> None:
    training = Training()
    with Recorder(tmp_path / "run", trace="every:3", warmup=1) as recorder:
        for index in range(10):
            if index == 4:
                with pytest.raises(MemoryError):
                    training.step(recorder, fails=True)
            training.step(recorder)
    steps = table(tmp_path / "run", "steps")
    assert [row["index"] for row in steps] == list(range(10))
    traced = [row["index"] for row in steps if row["traced"]]
    assert traced == [5, 9]  # the window comes with the next step but one
    assert {row["step"] for row in table(tmp_path / "run", "operations")} == set(traced)


def test_a_training_that_raises_in_a_traced_step_ends_the_tracing(tmp_path: Path) -> None:
    training = Training()
    recorder = Recorder(tmp_path / "run", trace="every:1", warmup=0)

    def train() -> None:
        with recorder:
            for index in range(4):
                training.step(recorder, fails=index == 3)

    with pytest.raises(MemoryError):
        train()
    assert not torch.autograd._profiler_enabled()
    assert [row["traced"] for row in table(tmp_path / "run", "steps")] == [False] * 3


def test_the_marks_of_layers_go_with_the_recorder(tmp_path: Path) -> None:
    training = Training()
    with Recorder(tmp_path / "run", trace="auto", model=training.model) as recorder:
        recorder._steps.layers_every = 1
        for _ in range(3):
            training.step(recorder)
    rows = table(tmp_path / "run", "steps")
    assert {"0", "1", "2"} <= set(rows[1]["mark_name"])
    assert not any(module._forward_hooks for module in training.model.modules())
    assert not any(module._forward_pre_hooks for module in training.model.modules())


def test_two_networks_in_turn_are_two_kinds_of_steps(tmp_path: Path) -> None:
    """Each has an optimizer of its own: at equal gaps, traced steps showed one and never the other.

    On a busy machine fewer steps are traced, down to one in seven of 100 seen: eight would follow a
    turn by chance too often for it to be told.
    """
    first, second = (
        torch.nn.Linear(8, 8),
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()),
    )
    adam = torch.optim.Adam(first.parameters(), foreach=False)
    sgd = torch.optim.SGD(second.parameters(), lr=0.1, foreach=False)
    with Recorder(tmp_path / "run", trace="every:3", warmup=1) as recorder:
        for index in range(300):
            with recorder.step(samples=4):
                network, optimizer = ((first, adam), (second, sgd))[index % 2]
                optimizer.zero_grad()
                network(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
    document = load(tmp_path / "run").document()
    assert [kind["kind"] for kind in document["step_kinds"]] == ["A", "B"]
    assert all(
        kind["share"]["value"] == pytest.approx(0.5, abs=0.1) for kind in document["step_kinds"]
    )
    calls = {row["name"]: row["calls"]["value"] for row in document["operations"]}
    assert calls["aten::tanh"] == pytest.approx(0.5, abs=0.1)
    assert calls["aten::addcdiv_"] == pytest.approx(1.0, abs=0.2)  # Adam's, of weight and bias
    assert any("take turns (" in note for note in document["status_notes"])


def test_end_of_a_forked_child(tmp_path: Path) -> None:
    """Its code is the script's own and its output whole, after traced steps as without."""
    script = """
import ctypes, os, signal, sys, torch, wattstep
weight = torch.ones(8, requires_grad=True)
with wattstep.Recorder(sys.argv[1], trace="every:1", warmup=0) as recorder:
    for _ in range(4):
        with recorder.step():
            weight.square().sum().backward()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        ctypes.CDLL(None).printf(b"of C\\n")
        print("of Python")
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["of C", "of Python"]
    assert pq.read_table(tmp_path / "run" / "operations.parquet").num_rows > 0
