"""FLOPs of a traced step against torch's own counter, and against hand counts where that errs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.tracing.nets import GROUPED, NETS, RECURRENT, Make
from torch.utils.flop_counter import FlopCounterMode

from wattstep.engines.torch.flops import flops_of


def step_of(model: Any, x: Any, gradient: bool) -> Any:
    x.requires_grad_(gradient)

    def step() -> None:
        model(x).sum().backward()

    return step


def traced_flops(traced: Any, model: Any, step: Any) -> int:
    rows = traced(model)(step)
    return sum(row["flops"] for row in rows if row["flops"] >= 0)


def counted_flops(step: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("gradient", [False, True], ids=["input fixed", "input with gradient"])
def test_flops_of_a_step_are_those_of_torch_s_counter(
    traced: Any, name: str, gradient: bool
) -> None:
    step = step_of(*NETS[name](), gradient)
    step()
    assert traced_flops(traced, None, step) == counted_flops(step) > 0


@pytest.mark.parametrize("name", RECURRENT)
def test_flops_of_an_lstm_are_those_of_its_matrix_products(traced: Any, name: str) -> None:
    """The counter knows no fused LSTM: it counts the products that it is made of."""
    step = step_of(*RECURRENT[name](), True)
    torch._C._set_mkldnn_enabled(False)  # the public switch warns of GPUs that are not there
    try:
        counted = counted_flops(step)
        assert traced_flops(traced, None, step) == counted
    finally:
        torch._C._set_mkldnn_enabled(True)
    assert traced_flops(traced, None, step) == counted


def test_flops_of_fused_attention_are_those_of_its_products(traced: Any) -> None:
    """Forward: two products; backward: theirs, and the scores once more, which were not kept."""
    query, key, value = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (5, 7, 7))

    def step() -> None:
        torch.nn.functional.scaled_dot_product_attention(query, key, value).sum().backward()

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        counted = counted_flops(step)
    assert traced_flops(traced, None, step) == counted + 2 * 2 * 3 * 5 * 7 * 8


def one_convolution(make: Make) -> tuple[int, Any]:
    """FLOPs of a grouped convolution by hand: each output channel sees its group only."""
    model, x = make()
    out = model(x)
    channels, places = (
        (model.in_channels, x.shape[0] * x.shape[2] * x.shape[3])
        if isinstance(model, torch.nn.ConvTranspose2d)
        else (model.out_channels, out.shape[0] * out.shape[2] * out.shape[3])
    )
    assert model.weight.shape[0] == channels
    return 2 * places * channels * model.weight[0].numel(), step_of(model, x, True)


@pytest.mark.parametrize("name", GROUPED)
def test_a_grouped_convolution_costs_the_same_forward_and_for_each_gradient(
    traced: Any, name: str
) -> None:
    """torch's counter multiplies the gradient of the weights by the number of groups."""
    once, step = one_convolution(GROUPED[name])
    assert traced_flops(traced, None, step) == 3 * once


def test_flops_land_on_one_row_only_of_operations_inside_each_other(traced: Any) -> None:
    model, x = NETS["linear"]()
    rows = traced(model)(step_of(model, x, False))
    for row in rows:
        if row["flops"] >= 0:
            parent = row["parent"]
            while parent >= 0:
                assert rows[parent]["flops"] == -1
                parent = rows[parent]["parent"]


def test_what_is_no_product_has_unknown_flops_not_zero() -> None:
    assert flops_of("aten::relu", [(4, 4)], [None]) is None
    assert flops_of("aten::mm", [None, None], [None, None]) is None


def test_products_count_multiply_adds_as_two() -> None:
    assert flops_of("aten::mm", [(2, 3), (3, 5)], [None, None]) == 60
    assert flops_of("aten::addmm", [(5,), (2, 3), (3, 5)], [None] * 3) == 60
    assert flops_of("aten::bmm", [(7, 2, 3), (7, 3, 5)], [None, None]) == 420
