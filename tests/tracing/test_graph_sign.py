"""The sign of a graph's begin: told once, whatever the script does with saved tensors, and nothing changed for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from wattstep.engines.torch.graph_sign import GraphSign


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def sign(told: list[str]) -> Iterator[GraphSign]:
    found = GraphSign(lambda: told.append("graph"))
    yield found
    found.remove()
    assert top() is None


def top() -> Any:
    return torch._C._autograd._top_saved_tensors_default_hooks(False)


@pytest.fixture
def weights() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 4, requires_grad=True)


def go_back(loss: Any) -> None:
    loss.backward()


X = torch.arange(8.0).reshape(2, 4)


def test_the_first_operation_with_gradients_is_told_and_no_other(
    sign: GraphSign, told: list[str], weights: torch.Tensor
) -> None:
    sign.look()
    with torch.no_grad():
        X @ weights
    torch.roll(X, 1)
    assert not told
    loss = (X @ weights).exp().mul(weights.sum()).sum()
    assert told == ["graph"]
    assert top() is None
    go_back(loss)
    assert told == ["graph"]


@pytest.mark.parametrize("of", [lambda w: (X @ w).sum(), lambda w: w.exp().sum()])
def test_gradients_are_those_of_before_second_ones_too(
    sign: GraphSign, weights: torch.Tensor, of: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def second() -> torch.Tensor:
        (slope,) = torch.autograd.grad(of(weights).square(), weights, create_graph=True)
        (curve,) = torch.autograd.grad(slope.square().sum(), weights)
        return curve

    expected = second()
    sign.look()
    assert torch.equal(second(), expected)


def test_a_value_that_was_overwritten_is_still_refused(
    sign: GraphSign, weights: torch.Tensor
) -> None:
    sign.look()
    x = X.clone()
    loss = (x @ weights).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="inplace operation"):
        go_back(loss)
    sign.look()
    root = weights.exp()
    root.add_(1)
    with pytest.raises(RuntimeError, match="inplace operation"):
        go_back(root.sum())


def test_hooks_of_the_script_s_own_come_first(
    sign: GraphSign, told: list[str], weights: torch.Tensor
) -> None:
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        sign.look()  # theirs lie there: none is put above
        go_back((X @ weights).sum())
    assert len(packed) == 1
    assert not told
    sign.look()
    with save_on_cpu():  # above ours
        go_back((X @ weights).sum())
        sign.look_away()
    assert not told
    go_back((X @ weights).sum())
    assert told == ["graph"]


def test_what_forbids_hooks_works_all_the_same(
    sign: GraphSign, told: list[str], weights: torch.Tensor
) -> None:
    sign.look()
    slope = torch.func.grad(lambda w: (X @ w).sum())(weights)
    assert torch.equal(slope, X.sum(0)[:, None].expand(4, 4))
    assert not told


def test_checkpoints_compiled_and_vectorized_functions_run(
    sign: GraphSign, weights: torch.Tensor
) -> None:
    expected = torch.autograd.grad((X @ weights).exp().sum(), weights)[0]
    slopes = []
    for forward in (
        lambda w: checkpoint(lambda v: (X @ v).exp().sum(), w, use_reentrant=False),
        lambda w: checkpoint(lambda v: (X @ v).exp().sum(), w, use_reentrant=True),
        torch.compile(lambda w: (X @ w).exp().sum(), backend="aot_eager"),
        lambda w: torch.vmap(lambda row: (row @ w).exp().sum())(X).sum(),
    ):
        sign.look()
        go_back(forward(weights))
        sign.look_away()
        slopes.append(weights.grad)
        weights.grad = None
    for slope in slopes:
        torch.testing.assert_close(slope, expected)


def test_it_leaves_torch_as_it_was(weights: torch.Tensor) -> None:
    before = torch._C._autograd._saved_tensors_hooks_disable
    sign = GraphSign(lambda: None)
    sign.look()
    assert top() is not None
    sign.remove()
    assert top() is None
    assert torch._C._autograd._saved_tensors_hooks_disable is before
