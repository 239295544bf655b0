"""Which layer and phase the operations of a traced step carry, and what tracing leaves behind."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import torch
from tests.tracing.nets import NETS, RECURRENT, Residual
from torch import nn
from torch.autograd import profiler as autograd_profiler
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from wattstep.engines.torch.layers import OUTSIDE


def layers(rows: list[dict[str, Any]], name: str) -> Counter[str | None]:
    """Calls of an operation by layer; what runs inside an operation is no call."""
    return Counter(row["layer"] for row in rows if row["name"] == name and row["outermost"])


def whole_step(model: Any, x: Any, optimizer: Any) -> Any:
    def step() -> None:
        nn.functional.mse_loss(model(x), torch.zeros(x.shape)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pytest.fixture
def residual() -> Any:
    """Layers of one shape, traced in their second step (momentum is there by then)."""
    model = Residual()
    step = whole_step(
        model, torch.randn(4, 16), torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=False)
    )  # fmt: skip
    step()
    return model, step


def test_operations_carry_the_path_of_the_module_they_run_in(traced: Any, residual: Any) -> None:
    model, step = residual
    rows = traced(model)(step)
    once = ["first", "second", "blocks.0", "blocks.2"]
    assert layers(rows, "aten::linear") == Counter({**dict.fromkeys(once, 1), "shared": 2})
    assert layers(rows, "aten::relu") == {"blocks.1": 1}


def test_a_functional_call_carries_the_module_whose_forward_makes_it(
    traced: Any, residual: Any
) -> None:
    model, step = residual
    rows = traced(model)(step)
    assert layers(rows, "aten::tanh") == {"Residual": 1}
    assert layers(rows, "aten::mse_loss") == {OUTSIDE: 1}


def test_backward_operations_carry_the_layer_of_their_forward_operation(
    traced: Any, residual: Any
) -> None:
    model, step = residual
    rows = traced(model)(step)
    once = ["first", "second", "blocks.0", "blocks.2"]
    assert layers(rows, "AddmmBackward0") == Counter({**dict.fromkeys(once, 1), "shared": 2})
    assert layers(rows, "ReluBackward0") == {"blocks.1": 1}
    assert layers(rows, "TanhBackward0") == {"Residual": 1}
    assert layers(rows, "MseLossBackward0") == {OUTSIDE: 1}


def test_backward_operations_are_of_the_kind_of_their_forward_operation(
    traced: Any, residual: Any
) -> None:
    model, step = residual
    kinds = {row["name"]: row["kind"] for row in traced(model)(step)}
    assert kinds["aten::addmm"] == kinds["AddmmBackward0"] == "matrix product"
    assert kinds["aten::relu"] == kinds["ReluBackward0"] == "activation"


def test_backward_runs_through_the_layers_in_the_order_of_the_forward_reversed(
    traced: Any, residual: Any
) -> None:
    model, step = residual
    rows = traced(model)(step)
    order = [row["layer"] for row in rows if row["name"] == "AddmmBackward0" and row["outermost"]]
    assert order == ["blocks.2", "blocks.0", "shared", "shared", "second", "first"]


def test_operations_inside_a_backward_node_carry_its_layer(traced: Any, residual: Any) -> None:
    model, step = residual
    rows = traced(model)(step)
    for row in rows:
        if row["phase"] == "backward" and row["parent"] >= 0:
            assert row["layer"] == rows[row["parent"]]["layer"]


def test_the_accumulation_of_a_gradient_belongs_to_the_layer_of_its_parameter(
    traced: Any, residual: Any
) -> None:
    model, step = residual
    rows = traced(model)(step)
    expected = dict.fromkeys(["first", "second", "shared", "blocks.0", "blocks.2"], 2)
    assert layers(rows, "AccumulateGrad") == expected  # weight and bias; a shared one once


@pytest.mark.parametrize("name", [*NETS, *RECURRENT])
def test_in_every_net_backward_counts_as_many_products_a_layer_as_gradients_need(
    traced: Any, name: str
) -> None:
    """A layer's backward costs its forward again for the weights, and for the input where wanted."""
    make = {**NETS, **RECURRENT}[name]
    model, x = make()
    x.requires_grad_(True)
    rows = traced(model)(lambda: model(x).sum().backward())
    flops: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["flops"] > 0:
            key = (row["layer"], row["phase"])
            flops[key] = flops.get(key, 0) + row["flops"]
    for layer in {layer for layer, _ in flops}:
        assert flops[layer, "backward"] == 2 * flops[layer, "forward"]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, foreach=False),
        lambda p: torch.optim.Adam(p, foreach=False, fused=False),
    ],
    ids=["momentum", "Adam"],
)
def test_optimizer_operations_carry_the_layer_of_their_parameter(traced: Any, make: Any) -> None:
    model = Residual()
    step = whole_step(model, torch.randn(4, 16), make(model.parameters()))
    step()
    rows = [
        row
        for row in traced(model)(step)
        if row["phase"] == "optimizer" and row["outermost"] and row["kind"] != "scope"
    ]
    found = Counter(row["layer"] for row in rows if row["name"] != "aten::zero_")
    names = {"first", "second", "shared", "blocks.0", "blocks.2"}
    assert names <= set(found)
    assert len({found[name] for name in names}) == 1  # two parameters of the same shape each
    assert sum(found[name] for name in names) >= 0.9 * len(rows)


def test_a_temporary_of_one_optimizer_is_never_given_to_the_layer_that_got_its_memory_later(
    traced: Any,
) -> None:
    """Gradients of the second network lie where the first one's optimizer had its temporaries."""
    both = [nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 256)) for _ in range(2)]
    optimizers = [torch.optim.Adam(one.parameters(), foreach=False) for one in both]

    def step() -> None:
        for model, optimizer in zip(both, optimizers, strict=True):
            optimizer.zero_grad()
            model(torch.randn(8, 64)).square().mean().backward()
            optimizer.step()

    step()
    tracing = traced(both[0])
    tracing.tracer.learn(both[1])
    for _ in range(6):
        rows = tracing(step)
        found = layers([row for row in rows if row["phase"] == "optimizer"], "aten::div")
        # A division for each parameter's update: weight and bias of each layer.
        assert found == dict.fromkeys(["0", "1", "Sequential.0", "Sequential.1"], 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, foreach=True),
        lambda p: torch.optim.Adam(p, fused=True),
    ],
    ids=["foreach", "fused"],
)
def test_operations_over_all_parameters_belong_to_no_single_layer(traced: Any, make: Any) -> None:
    model = Residual()
    step = whole_step(model, torch.randn(4, 16), make(model.parameters()))
    step()
    rows = [
        row
        for row in traced(model)(step)
        if row["name"].startswith(("aten::_foreach", "aten::_fused")) and row["outermost"]
    ]
    assert rows
    assert {row["layer"] for row in rows} == {None}
    assert {row["phase"] for row in rows} == {"optimizer"}


def test_every_operation_has_a_phase_and_the_phases_are_those_of_training(
    traced: Any, residual: Any
) -> None:
    model, step = residual
    phases = {row["phase"] for row in traced(model)(step)}
    assert phases == {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("name", [*NETS, *RECURRENT])
def test_every_operation_lies_inside_its_parent_and_inside_the_step(traced: Any, name: str) -> None:
    model, x = {**NETS, **RECURRENT}[name]()
    tracing = traced(model)
    for _ in range(2):
        rows = tracing(lambda: model(x).sum().backward())
        begin, end = tracing.marks
        slack = tracing.last.clock_uncertainty_ns
        for position, row in enumerate(rows):
            assert begin - slack <= row["start_ns"] <= row["end_ns"] <= end + slack
            assert row["parent"] < position
            if row["parent"] >= 0:
                parent = rows[row["parent"]]
                assert parent["start_ns"] <= row["start_ns"]
                assert row["end_ns"] <= parent["end_ns"]
                assert row["thread"] == parent["thread"]


def test_operations_inside_others_are_not_counted_as_calls(traced: Any) -> None:
    model, x = NETS["linear"]()
    rows = traced(model)(lambda: model(x).sum().backward())
    for row in rows:
        above = row["parent"]
        while above >= 0 and not rows[above]["outermost"]:
            above = rows[above]["parent"]
        if row["outermost"]:
            assert above < 0
            assert row["kind"] != "scope"
        elif row["kind"] != "scope":
            assert above >= 0


def test_shapes_and_bytes_are_those_of_the_arguments(traced: Any) -> None:
    model, x = nn.Linear(20, 30), torch.randn(4, 20)
    row = next(r for r in traced(model)(lambda: model(x)) if r["name"] == "aten::addmm")
    assert row["shapes"] == "30;4x20;20x30"
    assert row["bytes"] == 4 * (30 + 4 * 20 + 20 * 30)


def test_a_step_s_allocations_are_its_own_tensors(traced: Any) -> None:
    kept = []
    rows = traced()(lambda: kept.append(torch.ones(1000, dtype=torch.float64)))
    assert sum(row["allocated"] for row in rows) == 8000


def test_a_second_model_is_told_apart(traced: Any) -> None:
    first, second = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4))
    x = torch.randn(2, 4)
    rows = traced(first)(lambda: second(first(x)))
    assert layers(rows, "aten::linear") == {"0": 1, "Sequential.0": 1}


# --- what is left behind -----------------------------------------------------------------------


def hooks(model: Any) -> list[int]:
    return [
        len(torch_module._global_forward_pre_hooks),
        len(torch_module._global_forward_hooks),
        len(torch_module._global_forward_hooks_always_called),
        len(torch_optimizer._global_optimizer_post_hooks),
        len(torch_optimizer._global_optimizer_pre_hooks),
        *(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()),
    ]


def test_a_window_leaves_no_hook_and_no_profiler_behind(traced: Any, residual: Any) -> None:
    model, step = residual
    before = hooks(model)
    tracing = traced(model)
    assert hooks(model) == before
    tracing(step)
    assert hooks(model) == before
    assert not autograd_profiler._is_profiler_enabled


def test_a_window_that_is_given_up_leaves_nothing_behind(traced: Any) -> None:
    model, x = NETS["linear"]()
    before = hooks(model)
    tracing = traced(model)
    tracing.tracer.start()
    model(x)
    tracing.tracer.cancel()
    assert hooks(model) == before
    assert not tracing.tracer.active
    assert not autograd_profiler._is_profiler_enabled
    assert tracing(lambda: model(x))  # and the next one works


def test_a_module_that_raises_in_a_window_leaves_the_next_windows_right(traced: Any) -> None:
    class Careless(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError

    model = nn.Sequential(nn.Linear(4, 4), Careless())
    tracing = traced(model)

    def step() -> None:
        with pytest.raises(ZeroDivisionError):
            model(torch.randn(2, 4))

    for _ in range(2):
        assert layers(tracing(step), "aten::linear") == {"0": 1}
    assert not any(hooks(model))


PRINTING = """
import sys, torch
from wattstep.engines.torch.tracer import TorchTracer
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
codes = {}
tracer = TorchTracer(lambda table, text: codes.setdefault((table, text), len(codes)))
kept = []
for step in range(30):
    if step % 3 == 2:
        tracer.start()
    kept = [torch.randn(4, 8) for _ in range(5)]  # frees what was made before the window
    model(kept[0]).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 2:
        tracer.finish()
        assert tracer.rows(step, step, []).operations > 10
"""


def test_windows_print_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTING], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
