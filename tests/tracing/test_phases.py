"""Which phase and layer operations of a traced step have: by order and nesting, never by a clock read late."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer

from wattstep.engines import marked_tracer
from wattstep.engines.torch.layers import NetworkNames
from wattstep.engines.torch.phase_hooks import PhaseHooks
from wattstep.record.recorder import Recorder
from wattstep.run import Run, load
from wattstep.train.listener import ScriptListener


class LateClock:
    """Every second reading comes late, as on a thread that is stopped before it reads."""

    def __init__(self, late_s: float) -> None:
        self._late_s = late_s
        self._reads = 0

    def perf_counter_ns(self) -> int:
        self._reads += 1
        if self._reads % 2 == 0:
            time.sleep(self._late_s)
        return time.perf_counter_ns()


def recorded(path: Path, step: Callable[[Recorder], Any], model: Any = None) -> Run:
    with Recorder(path, trace="every:3", warmup=0, model=model) as recorder:
        for _ in range(12):
            with recorder.step():
                step(recorder)
    return load(path)


def test_an_operation_stays_in_its_phase_however_late_the_clocks_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marked_tracer, "time", LateClock(0.002))
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
    x = torch.randn(2, 4)

    def step(recorder: Recorder) -> None:
        recorder.phase("data")
        batch = torch.cat([x, x])
        recorder.phase("forward")
        loss = model(batch).exp().sum()
        recorder.phase("backward")
        loss.backward()
        recorder.phase("optimizer")
        torch.nn.utils.get_total_norm([p.grad for p in model.parameters()], foreach=False)
        optimizer.step()

    run = recorded(tmp_path / "run", step, model)
    assert set(calls(run, "aten::cat")) == {("(outside modules)", "data")}
    assert set(calls(run, "aten::linear")) == {("0", "forward")}
    assert set(calls(run, "aten::exp")) == {("(outside modules)", "forward")}
    assert set(calls(run, "AddmmBackward0")) == {("0", "backward")}
    assert {phase for _, phase in calls(run, "aten::linalg_vector_norm")} == {"optimizer"}
    compensated, phase = run.breakdown.compensated, run.breakdown.label("phase")
    for row, position in enumerate(compensated.phase.tolist()):  # and lies where its name says
        assert phase.of(row) == compensated.traced.names[position]


# --- scripts -----------------------------------------------------------------------------------


def profiled(path: Path, step: Callable[[], Any], steps: int = 14) -> Run:
    """A training as `wattstep profile` sees it, one call a step."""
    recorder = Recorder(path, trace="every:3", warmup=0).start()
    script = ScriptListener(recorder)
    hooks = PhaseHooks(script, script.model_found)
    hooks.install()
    hooks.watch_optimizers()
    try:
        for _ in range(steps):
            step()
            script.step_ends()
            hooks.step_begins()
    finally:
        hooks.remove()
        script.close()
    return load(path)


def gan() -> Callable[[], None]:
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
    judge = nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 1))
    making = torch.optim.SGD(maker.parameters(), 0.1, foreach=False)
    judging = torch.optim.SGD(judge.parameters(), 0.1, foreach=False)
    real = torch.randn(3, 6)

    def step() -> None:
        made = maker(torch.randn(3, 4))
        judging.zero_grad()
        (judge(real).mean() - judge(made.detach()).mean()).backward()
        judging.step()
        making.zero_grad()
        judge(made).mean().backward()
        making.step()

    return step


def calls(run: Run, name: str) -> dict[tuple[str, str], float]:
    """Calls of an operation in a step by layer and phase."""
    return {
        (row["layer"], row["phase"]): row["calls"].value
        for row in run.operations()
        if row["name"] == name
    }


def test_a_gan_s_operations_are_forward_backward_and_optimizer_of_their_own_network(
    tmp_path: Path,
) -> None:
    """The judge sees the real, the made, and the made again: 3 passes; the maker one."""
    run = profiled(tmp_path / "run", gan())
    maker, judge = "Sequential", "Sequential 2"
    assert calls(run, "aten::linear") == {
        **{(f"{maker}.{n}", "forward"): pytest.approx(1) for n in (0, 2)},
        **{(f"{judge}.{n}", "forward"): pytest.approx(3) for n in (0, 2)},
    }
    assert calls(run, "AddmmBackward0") == {
        **{(f"{maker}.{n}", "backward"): pytest.approx(1) for n in (0, 2)},
        **{(f"{judge}.{n}", "backward"): pytest.approx(3) for n in (0, 2)},
    }
    assert calls(run, "aten::add_") == {
        (f"{net}.{n}", "optimizer"): pytest.approx(2) for net in (maker, judge) for n in (0, 2)
    }


def test_each_update_has_phases_of_its_own_and_plain_phases_are_their_sums(tmp_path: Path) -> None:
    run = profiled(tmp_path / "run", gan())
    document = run.document()
    rows = document["updates"]
    updates = list(dict.fromkeys(row["update"] for row in rows))
    assert updates == ["Sequential 2", "Sequential"]
    for update in updates:
        phases = {row["phase"] for row in rows if row["update"] == update}
        assert {"forward", "backward", "optimizer"} <= phases
    assert {row["count"]["value"] for row in rows} == {1.0}
    whole = document["metrics"]["step_time"]["value"]
    assert sum(row["span"]["value"] for row in rows) == pytest.approx(whole, rel=1e-9)
    for phase in document["phases"]:
        parts = [row["span"]["value"] for row in rows if row["phase"] == phase["phase"]]
        assert phase["span"]["value"] == pytest.approx(sum(parts), rel=1e-9)
        assert phase["span"]["status"] == "measured"


def test_every_operation_lies_in_the_phase_that_it_is_said_to_be_of(tmp_path: Path) -> None:
    run = profiled(tmp_path / "run", gan())
    breakdown = run.breakdown
    names, phase = breakdown.compensated.traced.names, breakdown.label("phase")
    assert len(breakdown.rows.parent) > 100
    for row, position in enumerate(breakdown.compensated.phase.tolist()):
        assert phase.of(row) == names[position]


def test_a_penalty_on_gradients_is_backward_of_the_layers_that_it_goes_through(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    judge = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(judge.parameters(), 0.1, foreach=False)

    def step() -> None:
        x = torch.randn(3, 6, requires_grad=True)
        (slope,) = torch.autograd.grad(judge(x).sum(), x, create_graph=True)
        optimizer.zero_grad()
        (slope.norm() - 1).square().backward()
        optimizer.step()

    run = profiled(tmp_path / "run", step)
    # Once for the penalty, once more for the part of the graph that both share.
    assert calls(run, "TanhBackward0") == {("1", "backward"): pytest.approx(2)}
    assert set(calls(run, "TanhBackwardBackward0")) == {("1", "backward")}
    assert {phase for _, phase in calls(run, "aten::linalg_vector_norm")} == {"forward"}


def test_a_teacher_without_gradients_is_a_part_of_the_step(tmp_path: Path) -> None:
    teacher, student = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    teacher.eval()
    optimizer = torch.optim.SGD(student.parameters(), 0.1, foreach=False)
    x = torch.randn(2, 4)

    def step() -> None:
        with torch.no_grad():
            told = teacher(x)
        optimizer.zero_grad()
        (student(x) - told).square().mean().backward()
        optimizer.step()

    run = profiled(tmp_path / "run", step)
    assert "evaluation" not in run.series.steps.rest_ns
    assert sum(calls(run, "aten::linear").values()) == pytest.approx(2)
    assert {phase for _, phase in calls(run, "aten::linear")} == {"forward"}


def test_a_closure_s_forward_pass_is_not_the_optimizer_s(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)
    x = torch.randn(2, 4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(x).exp().sum()
        loss.backward()
        return loss

    run = profiled(tmp_path / "run", lambda: optimizer.step(closure))
    assert {phase for _, phase in calls(run, "aten::linear")} == {"forward"}
    assert {phase for _, phase in calls(run, "aten::exp")} == {"forward"}
    assert {phase for _, phase in calls(run, "AddmmBackward0")} == {"backward"}


def functional(cleared_late: bool) -> Callable[[], None]:
    """A training without a module: the batch is made of 3 rolls, the graph of products."""
    torch.manual_seed(0)
    first = torch.randn(6, 8, requires_grad=True)
    second = torch.randn(8, 1, requires_grad=True)
    optimizer = torch.optim.SGD([first, second], 0.01, foreach=False)
    x = torch.randn(3, 6)

    def step() -> None:
        batch = torch.stack([row.roll(1) for row in x])
        if not cleared_late:
            optimizer.zero_grad()
        loss = nn.functional.linear(batch, first.t()).tanh().mm(second).sum()
        if cleared_late:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("cleared_late", [False, True])
def test_without_a_module_forward_is_what_builds_the_graph(
    tmp_path: Path, cleared_late: bool
) -> None:
    """In traced steps each operation, the one that began the graph too; in clean ones the marks."""
    run = profiled(tmp_path / "run", functional(cleared_late), steps=20)
    plain = ("roll", "stack", "linear", "tanh", "mm", "sum", "add_")
    phases = {name: {phase for _, phase in calls(run, f"aten::{name}")} for name in plain}
    phases["TanhBackward0"] = {phase for _, phase in calls(run, "TanhBackward0")}
    assert phases["roll"] == phases["stack"] == {"loop"}
    assert phases["linear"] == phases["tanh"] == phases["mm"] == phases["sum"] == {"forward"}
    assert phases["TanhBackward0"] == {"backward"}
    assert phases["add_"] == {"optimizer"}
    breakdown = run.breakdown
    names, phase = breakdown.compensated.traced.names, breakdown.label("phase")
    for row, position in enumerate(breakdown.compensated.phase.tolist()):
        assert phase.of(row) == names[position]
    marks, steps = run.tables.marks, run.series.steps
    later = np.arange(2, len(steps.clean))  # the first tells that no network is called
    marked, _ = marks.phases(steps, later, None)
    late = ("loop", "forward", "optimizer", "forward", "backward", "optimizer")
    early = ("loop", "optimizer", "loop", "forward", "backward", "optimizer")
    assert marked.names == (late if cleared_late else early)


def test_an_update_by_hand_is_the_optimizer_s_until_gradients_are_on_again(tmp_path: Path) -> None:
    weights = torch.randn(4, 1, requires_grad=True)
    x = torch.randn(3, 4)

    def step() -> None:  # as with --step-marker backward
        if weights.grad is not None:
            with torch.no_grad():
                weights.sub_(weights.grad)
                weights.grad.zero_()
        batch = x.roll(1)
        (batch @ weights).exp().sum().backward()

    run = profiled(tmp_path / "run", step)
    for name, phase in (("sub_", "optimizer"), ("zero_", "optimizer"), ("roll", "loop"),
                        ("matmul", "forward"), ("exp", "forward")):  # fmt: skip
        assert {found for _, found in calls(run, f"aten::{name}")} == {phase}, name
    assert torch.no_grad.__exit__.__module__ == "torch.autograd.grad_mode"
    assert not hasattr(torch.no_grad.__exit__, "__wrapped__")


def test_gradients_are_clipped_in_a_phase_of_their_own(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
    x = torch.randn(2, 4)

    def step() -> None:
        for _ in range(2):  # accumulated
            model(x).exp().sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.5, foreach=False)
        optimizer.step()
        optimizer.zero_grad()

    run = profiled(tmp_path / "run", step)
    assert {phase for _, phase in calls(run, "aten::linalg_vector_norm")} == {"clipping"}
    assert {phase for _, phase in calls(run, "aten::clamp_")} == {"clipping"}
    assert {phase for _, phase in calls(run, "aten::add_")} >= {"optimizer"}
    assert "clipping" in {row["phase"] for row in run.document()["phases"]}


def test_hooks_leave_torch_as_it_was() -> None:
    clippers = torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_
    before = (torch.autograd.backward, torch.autograd.grad, torch.optim.Optimizer.zero_grad)
    model = nn.Linear(2, 2)
    found: list[Any] = []
    hooks = PhaseHooks(Silent(), found.append)
    hooks.install()
    hooks.watch_optimizers()
    model(torch.ones(1, 2))
    assert found == [model]
    hooks.remove()
    assert (torch.autograd.backward, torch.autograd.grad, torch.optim.Optimizer.zero_grad) == before
    assert (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_) == clippers
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not torch_optimizer._global_optimizer_pre_hooks


class Silent:
    """Is told, and does nothing."""

    phases = SimpleNamespace(on=True)

    def forward_begins(self, module: Any, gradients: bool) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


# --- names -------------------------------------------------------------------------------------


def named(*networks: tuple[str, list[str]]) -> list[str]:
    names = NetworkNames()
    for class_name, paths in networks:
        number = names.add(class_name)
        for path in paths:
            names.place(number, path)
    return list(names.all())


def test_layers_of_one_network_keep_their_paths_beside_a_loss() -> None:
    found = named(("Net", ["", "first", "second"]), ("CrossEntropyLoss", [""]))
    assert found == ["Net", "first", "second", "CrossEntropyLoss"]


def test_layers_of_two_networks_that_share_a_path_are_told_apart() -> None:
    found = named(("Generator", ["", "0", "1"]), ("Discriminator", ["", "0"]))
    assert found == ["Generator", "Generator.0", "Generator.1", "Discriminator", "Discriminator.0"]


def test_layers_of_three_networks_of_one_class_are_told_apart() -> None:
    found = named(*[("Net", ["", "0"])] * 3)
    assert found == ["Net", "Net.0", "Net 2", "Net 2.0", "Net 3", "Net 3.0"]


def test_a_name_that_was_given_stays() -> None:
    names = NetworkNames()
    names.place(names.add("Net"), "0")
    assert names.all() == ["0"]
    names.place(names.add("Net"), "0")
    assert names.all() == ["0", "Net.0"]
