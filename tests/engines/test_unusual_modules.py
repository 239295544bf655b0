"""Modules unlike those of the suite are captured with the memory and the FLOPs of the step that runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.test_torch_capture import of_user, peaks, ran
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from wattstep.engines.torch.capture import SPARSE, capture
from wattstep.engines.torch.lstm_workspace import lstm_workspace
from wattstep.engines.torch.uncompiled import COMPILED
from wattstep.schema.workload import Preparation

BATCH = 4


class Tied(nn.Module):
    """Scores by the words' own embedding: (B, T) to (B, 50, T); 2 · 6 · 50 FLOPs a word."""

    flops = 5 * 2 * 6 * 50
    shape = (5,)

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.words, self.scores = nn.Embedding(50, 6, **options), nn.Linear(6, 50, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, words: Tensor) -> Any:
        return self.scores(self.words(words)).transpose(1, 2)


class Bag(nn.Module):
    """Sparse gradients."""

    flops = 2 * 6 * 50
    shape = (5,)

    def __init__(self) -> None:
        super().__init__()
        self.words, self.scores = nn.EmbeddingBag(50, 6, sparse=True), nn.Linear(6, 50)

    def forward(self, words: Tensor) -> Any:
        return self.scores(self.words(words))


class Einsum(nn.Module):
    """Attention of two heads: three products of weights, scores, their means, one product more, and scores."""

    flops = 9 * 4 * 2 * 8 * 8 + 2 * 2 * 9 * 9 * 8 + 2 * 8 * 3
    shape = (9, 8)

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(8, 8)) for _ in range(4))
        self.scores = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        query, key, value = (
            torch.einsum("btd,de->bte", x, each).unflatten(2, (2, 4)) for each in self.weights[:3]
        )
        shares = torch.einsum("bihc,bjhc->bhij", query, key).softmax(-1)
        made = torch.einsum("bhij,bjhc->bihc", shares, value).flatten(2) @ self.weights[3]
        return self.scores((x + made).mean(1))


class Depthwise(nn.Module):
    """Each of 8 channels by a kernel of 5 of its own, weights by their norm, at 20 places; then both ways of norms."""

    flops = 20 * 2 * 8 * 5 + 2 * 8 * 3
    shape = (8, 20)

    def __init__(self) -> None:
        super().__init__()
        own = nn.Conv1d(8, 8, 5, padding=2, groups=8)
        self.own = parametrizations.weight_norm(own)
        self.scores = parametrizations.weight_norm(nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Any:
        return self.scores(self.own(x).mean(2))


class Complex(nn.Module):
    """8 of 12 by complex weights: four real products each."""

    flops = 4 * 2 * 8 * 12 + 2 * 12 * 3
    shape = (14,)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 12, dtype=torch.cfloat))
        self.scores = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Any:
        return self.scores((torch.fft.rfft(x) @ self.weight).real.contiguous())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * given[0]


class InPlace(nn.Module):
    """A function of its own, changes in place, and a large buffer."""

    flops = 2 * 6 * 40 + 2 * 40 * 3
    shape = (6,)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("large", torch.zeros(100_000))
        self.first, self.scores = nn.Linear(6, 40), nn.Linear(40, 3)

    def forward(self, x: Tensor) -> Any:
        made: Tensor = Square.apply(self.first(x))  # type: ignore[no-untyped-call]
        return self.scores(made.add_(1).mul_(0.5).clamp_(0, 6) + self.large[:40])  # type: ignore[index]


class Again(nn.Module):
    """Each block computed again in the backward pass: the forward pass is what is counted here."""

    flops = 3 * 2 * 6 * 6 + 2 * 6 * 3
    shape = (6,)

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3))
        self.scores, self.reentrant = nn.Linear(6, 3), reentrant

    def forward(self, x: Tensor) -> Any:
        x = x.requires_grad_()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.scores(x)


class Lazy(nn.Module):
    """Shapes that it learns from what it is given."""

    flops = 2 * 6 * 9 + 2 * 9 * 3
    shape = (6,)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.scores = (
            nn.LazyLinear(9),
            nn.LazyBatchNorm1d(),
            nn.LazyLinear(3),
        )

    def forward(self, x: Tensor) -> Any:
        return self.scores(self.norm(self.first(x)))


MODULES = {
    "tied": Tied,
    "sparse": Bag,
    "einsum": Einsum,
    "depthwise": Depthwise,
    "complex": Complex,
    "in place": InPlace,
    "reentrant": lambda: Again(True),
    "checkpoint": lambda: Again(False),
    "lazy": Lazy,
}


@pytest.mark.parametrize("name", MODULES)
def test_memory_and_flops_of(name: str) -> None:
    make: Any = MODULES[name]
    of = make()
    integers = name in ("tied", "sparse")
    workload = of_user(make, of.shape, integers=integers, classes=50 if integers else None)
    preparation = Preparation(batch_size=BATCH)
    graph = capture(workload, preparation).at(BATCH)
    captured, real = peaks(graph), ran(workload, preparation, "fp32")
    captured.pop(
        "held_tensors", None
    )  # of networks that other tests left, as `ran` leaves them out
    if name == "sparse":
        assert sum(captured.values()) == pytest.approx(sum(real.values()), rel=0.02)
    else:
        assert captured == real
    assert graph.flops[np.array(graph.phases) == "forward"].sum() == BATCH * of.flops
    assert (SPARSE in graph.notes) == (name == "sparse")


@pytest.mark.parametrize("way", ["function", "method", "before"])
def test_what_is_compiled_is_captured_as_it_is(way: str) -> None:
    def make() -> nn.Module:
        plain = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3))
        if way == "method":
            plain.compile()
            return plain
        return nn.Sequential(compile_(plain))

    compile_: Any = torch.compile if way == "before" else lambda plain: torch.compile(plain)
    graph = capture(of_user(make, (6,)), Preparation(batch_size=BATCH)).at(BATCH)
    plain = of_user(lambda: nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)), (6,))
    assert peaks(graph) == peaks(capture(plain, Preparation(batch_size=BATCH)).at(BATCH))
    assert graph.notes == (COMPILED,)


class FewUnits(nn.Module):
    """An LSTM both ways, of which oneDNN keeps some pages of 4 KiB a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.LSTM(32, 64, bidirectional=True, batch_first=True)
        self.scores = nn.Linear(128, 5)

    def forward(self, x: Tensor) -> Any:
        return self.scores(self.steps(x)[0].mean(1))


def test_batches_of_a_small_lstm_follow_from_two() -> None:
    workload = of_user(FewUnits, (25, 32))
    family = capture(workload, Preparation(batch_size=64))
    assert family.capture is None
    for batch in (1, 20, 200):
        mine = sum(size for name, size in peaks(family.at(batch)).items() if name != "held_tensors")
        real = sum(ran(workload, Preparation(batch_size=batch), "fp32").values())
        assert mine == pytest.approx(real, rel=0.01)


@pytest.mark.parametrize("samples", [100, 200, 512])
def test_what_an_lstm_keeps_of_many_samples_is_what_a_real_one_keeps(samples: int) -> None:
    units, zeros = 24, torch.zeros
    shapes = [(3, samples, units), *[(4 * units, units)] * 2, *[(4 * units,)] * 2, *[(samples, units)] * 2]  # fmt: skip
    args = [*map(zeros, shapes), False, [], 2, units, 1, True, False, True, True]
    layer = torch.ops.aten.mkldnn_rnn_layer.default
    assert lstm_workspace(layer, args) == pytest.approx(layer(*args)[3].nbytes, rel=0.01)
