"""Short ways for fake tensors give what torch's own mode gives: shapes, strides, types and storages."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn import functional

from wattstep.engines.torch.fake import ShapeMode
from wattstep.engines.torch.memory import finding_tensors, tensors_in, tensors_there


def normalized(inputs: Tensor) -> list[Any]:
    module = torch.nn.BatchNorm2d(inputs.shape[1], dtype=inputs.dtype)
    made = module(inputs)
    made.sum().backward()
    twice = torch.nn.BatchNorm2d(inputs.shape[1], affine=False, dtype=inputs.dtype)(made)
    still = module.eval()(inputs)
    return [made, twice, still, inputs.grad, module.weight.grad, module.running_mean]


def convolved(inputs: Tensor) -> list[Any]:
    module = torch.nn.Conv2d(inputs.shape[1], 8, 3, stride=2, padding=1, dtype=inputs.dtype)
    made = functional.relu(module(inputs), inplace=True)
    for change in (
        functional.leaky_relu,
        functional.hardswish,
        functional.silu,
        functional.hardsigmoid,
    ):
        made = change(made + 1, inplace=True)
    (made + made).sum().backward()
    return [made, inputs.grad, module.weight.grad, made.detach()[:, 1:]]


def filtered(inputs: Tensor) -> list[Any]:
    made: list[Any] = []
    kind = {"dtype": inputs.dtype}
    modules = (
        torch.nn.Conv2d(3, 6, (3, 1), stride=(1, 2), padding=(2, 0), dilation=2, groups=3, bias=False, **kind),
        torch.nn.Conv2d(3, 4, 1, padding="valid", **kind), torch.nn.Conv2d(3, 2, 6, **kind),
        torch.nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1, **kind),
    )  # fmt: skip
    modules[1].weight.requires_grad_(False)
    one = torch.nn.Conv1d(6, 2, 3, padding=1, **kind)
    for module, of in (*((each, inputs) for each in modules), (one, inputs[:, 0])):
        out = module(of)
        (out * out).sum().backward()
        made += [
            out,
            inputs.grad,
            module.weight.grad,
            None if module.bias is None else module.bias.grad,
        ]
    frozen = modules[1](inputs.detach())
    (frozen * frozen).sum().backward()
    return [*made, frozen, modules[1].bias.grad]


def created(inputs: Tensor) -> list[Any]:
    scores = inputs.log_softmax(-1)
    (scores * scores).sum().backward()
    return [
        torch.zeros(2, 3), torch.ones((), dtype=torch.int64), torch.empty(0), torch.zeros(2, requires_grad=True),
        torch.empty(2, 3, 4, 5, memory_format=torch.channels_last), torch.ones(2, device="meta"),
        torch.zeros(2, 2, dtype=torch.complex64) + 1, scores, inputs.grad, inputs.detach().log_softmax(1),
        inputs.detach().log_softmax(1, dtype=torch.float64),
    ]  # fmt: skip


def updated(inputs: Tensor) -> list[Any]:
    module = torch.nn.Linear(inputs.shape[-1], 3, dtype=inputs.dtype)
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        module(inputs).sum().backward()
        optimizer.step()
    return [module.weight, *optimizer.state[module.weight].values()]


def mixed(inputs: Tensor) -> list[Any]:
    whole = torch.ones(3, dtype=torch.int64)
    counted = torch.tensor(0)
    counted.add_(1)
    return [
        inputs.new_zeros(4, 3, 6, 6).copy_(inputs), whole.copy_(inputs.detach().flatten()[:3]), whole.add_(2), whole + 1, whole + 1.5, inputs.detach().add_(1), inputs.detach().mul_(inputs.detach()),
        inputs.detach()[..., :1] + inputs.detach(), inputs.split(1, dim=-1), inputs.transpose(-1, -2).clone(),
        int(counted), inputs.expand(2, *inputs.shape), functional.dropout(inputs), inputs.unbind(0),
    ]  # fmt: skip


def reduced(inputs: Tensor) -> list[Any]:
    values, places = inputs.max(dim=1)
    chosen = torch.where(inputs > 0, inputs, inputs.new_zeros(1))
    scores = functional.log_softmax(inputs.flatten(1), dim=1)
    classes = torch.zeros(len(inputs), dtype=torch.int64)
    loss = functional.nll_loss(scores, classes) + chosen.mean() + values.sum()
    loss.backward()
    return [
        values, places, chosen, scores, loss, inputs.grad, inputs.sum((0, 2)), inputs.mean(-1, keepdim=True),
        torch.cat([inputs, inputs[:1]]), inputs.detach()[1:].argmax(-1), functional.gelu(inputs), inputs / 2,
        inputs.to(torch.float64) - inputs, functional.layer_norm(inputs, inputs.shape[-1:]), functional.layer_norm(inputs, inputs.shape[1:]),
    ]  # fmt: skip


def facts(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [facts(each) for each in value]
    if not isinstance(value, Tensor):
        return value
    storage = value.untyped_storage()
    return (
        tuple(value.shape), value.stride(), value.dtype, value.device, value.storage_offset(), storage.nbytes(),
        value.requires_grad, value.is_leaf,
    )  # fmt: skip


@pytest.mark.parametrize(
    "work", [normalized, convolved, filtered, created, updated, mixed, reduced]
)
@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor,
        lambda tensor: tensor.contiguous(memory_format=torch.channels_last),
        lambda tensor: tensor.to(torch.bfloat16),
        lambda tensor: tensor.transpose(2, 3),
    ],
)
def test_short_ways_give_what_torch_gives(
    work: Callable[[Tensor], list[Any]], change: Callable[[Tensor], Tensor]
) -> None:
    made = []
    for mode in (FakeTensorMode(allow_non_fake_inputs=True), ShapeMode(), ShapeMode()):
        with mode:
            for _ in range(2):  # the second time it is known
                inputs = change(torch.randn(4, 3, 6, 6)).detach().requires_grad_()
                made.append(facts(work(inputs)))
    assert all(each == made[0] for each in made)


def test_views_lie_in_the_storage_that_they_are_of() -> None:
    with ShapeMode():
        of = torch.randn(4, 3)
        again = of.detach()
        assert again.untyped_storage()._cdata == of.untyped_storage()._cdata
        assert (of + of).untyped_storage()._cdata != (of + of).untyped_storage()._cdata


def test_values_that_are_known_stay_known_and_others_are_refused() -> None:
    with ShapeMode():
        number = torch.tensor(2.0)
        number.add_(1)
        number.mul_(2)
        assert number.item() == 6
        with pytest.raises(DataDependentOutputException):
            torch.randn(1).add_(1).item()


def test_a_value_that_something_unknown_is_written_to_is_unknown() -> None:
    with ShapeMode():
        number = torch.tensor(2.0)
        again = number.detach()
        number.add_(torch.randn(()))
        with pytest.raises(DataDependentOutputException):
            again.item()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with ShapeMode(), pytest.raises(RuntimeError):
        torch.randn(3).add_(torch.randn(4))
    for channels, side in ((4, 6), (3, 2)):
        with ShapeMode(), pytest.raises(RuntimeError):
            torch.nn.Conv2d(3, 3, 3)(torch.randn(2, channels, side, side))


def test_tensors_are_found_in_sequences_and_mappings_in_their_order() -> None:
    one, two, three = (torch.zeros(1) for _ in range(3))
    found = tensors_in(((one, 7, None), {"a": [two], "b": "text"}, three))
    assert [id(each) for each in found] == [id(one), id(two), id(three)]


@pytest.mark.parametrize("set_aside", [False, True])
def test_tensors_are_found_wherever_garbage_collection_has_them(set_aside: bool) -> None:
    old = torch.zeros(1)
    if set_aside:
        gc.freeze()
    try:
        with finding_tensors() as there:
            gc.collect()
            new, gone = torch.zeros(2), torch.zeros(3)
            number = id(gone)
            found = {id(each) for each in there()}
            assert id(new) in found
            assert number in found
            assert set_aside or id(old) in found
            del gone
            assert sum(each.numel() == 3 for each in there()) == sum(
                each.numel() == 3 for each in tensors_there()
            )
    finally:
        gc.unfreeze()
    assert id(old) in {id(each) for each in tensors_there()}
