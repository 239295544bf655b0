"""Kernels of torch's optimizers: taken where they move the weights as the formula says, refused where they do not."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from wattstep import engines, workloads
from wattstep.engines.torch.tuned import choose_kernel
from wattstep.errors import WattstepError
from wattstep.train.settings import TrainingSettings

DTYPES = ["float64", "float32", "bfloat16", "float16"]


def sgd(dtype: torch.dtype, *, fused: bool) -> tuple[torch.optim.SGD, torch.nn.Parameter]:
    parameter = torch.nn.Parameter(torch.zeros(100, dtype=dtype))
    return torch.optim.SGD([parameter], lr=0.5, momentum=0.9, fused=fused), parameter


def is_right(dtype: torch.dtype) -> bool:
    """Whether torch's fused SGD goes where the formula does: two gradients of 1, by -0.5 · (1 + 1.9)."""
    optimizer, parameter = sgd(dtype, fused=True)
    for _ in range(2):
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    return torch.allclose(parameter.detach().float(), torch.full((100,), -1.45), rtol=0.01)


@pytest.mark.parametrize("name", DTYPES)
def test_a_kernel_is_taken_only_where_it_moves_weights_as_the_formula_says(name: str) -> None:
    dtype = getattr(torch, name)
    optimizer, parameter = sgd(dtype, fused=False)
    if is_right(dtype):
        choose_kernel(optimizer, "fused")
        assert optimizer.param_groups[0]["fused"]
    else:  # torch 2.12 and 2.13 on CPUs: pytorch/pytorch issue 191763
        assert name in ("bfloat16", "float16")
        with refused("wrong-training", "--optimizer-kernel fused", "SGD", name, torch.__version__):
            choose_kernel(optimizer, "fused")
        assert not optimizer.param_groups[0]["fused"]
    assert not parameter.detach().any()  # which was only looked at
    assert not optimizer.state


OPTIMIZERS = [
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adagrad,
    torch.optim.NAdam,
    torch.optim.ASGD,
]


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", DTYPES)
def test_kernels_that_round_otherwise_are_taken(
    kind: type[torch.optim.Optimizer], name: str
) -> None:
    parameter = torch.nn.Parameter(torch.ones(3, dtype=getattr(torch, name)))
    optimizer = kind([parameter])  # type: ignore[call-arg]
    for kernel in ("fused", "foreach"):
        if kernel in optimizer.defaults:
            choose_kernel(optimizer, kernel)
            assert optimizer.param_groups[0][kernel]


def test_a_training_asks_after_its_weights_have_their_type() -> None:
    settings = TrainingSettings(workload="lenet", optimizer_kernel="fused", precision="bf16")
    workload = workloads.find("lenet")

    def prepare() -> None:
        engines.find("torch").prepare(
            workload, settings.preparation, threads=1, processor="cpu", precision="bf16"
        )

    if is_right(torch.bfloat16):
        prepare()
    else:
        with pytest.raises(WattstepError, match="bfloat16"):
            prepare()
