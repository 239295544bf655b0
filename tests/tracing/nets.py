"""Networks made of what the workloads are made of, each with an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Attention(nn.Module):
    """Products of batches of matrices, from a functional call outside of any child."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(12, 12)
        self.key = nn.Linear(12, 12)

    def forward(self, x: Any) -> Any:
        scores = torch.bmm(self.query(x), self.key(x).transpose(1, 2))
        return torch.baddbmm(x, scores.softmax(-1), x)


class Recurrent(nn.Module):
    def __init__(self, layers: int = 1, bidirectional: bool = False) -> None:
        super().__init__()
        self.lstm = nn.LSTM(10, 16, num_layers=layers, bidirectional=bidirectional)
        self.head = nn.Linear(16 * (1 + bidirectional), 5)
        # Learnt: a fused LSTM computes their gradients in any case.
        self.first_states = nn.Parameter(torch.zeros(2, layers * (1 + bidirectional), 3, 16))

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x, tuple(self.first_states))[0])


class Residual(nn.Module):
    """The same shapes twice, and a module that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)
        self.shared = nn.Linear(16, 16)
        self.blocks = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.second(torch.sigmoid(self.first(x))))
        return self.blocks(self.shared(self.shared(x)))


Make = Callable[[], tuple[nn.Module, torch.Tensor]]
NETS: dict[str, Make] = {
    "linear": lambda: (
        nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 7)),
        torch.randn(4, 20),
    ),
    "linear of a sequence": lambda: (nn.Linear(20, 30), torch.randn(4, 9, 20)),
    "linear without bias": lambda: (nn.Linear(20, 30, bias=False), torch.randn(4, 20)),
    "convolution": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 5)),
        torch.randn(2, 3, 16, 16),
    ),
    "strided": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.Conv2d(8, 8, 3, stride=(1, 2))),
        torch.randn(2, 3, 17, 17),
    ),
    "dilated": lambda: (nn.Conv2d(3, 8, 3, dilation=2, padding=2), torch.randn(2, 3, 16, 16)),
    "pointwise": lambda: (nn.Conv2d(6, 8, 1), torch.randn(2, 6, 8, 8)),
    "one dimension": lambda: (nn.Conv1d(5, 8, 7, stride=3), torch.randn(2, 5, 40)),
    "three dimensions": lambda: (nn.Conv3d(2, 4, 3), torch.randn(1, 2, 6, 6, 6)),
    "transposed": lambda: (
        nn.Sequential(nn.Conv2d(3, 6, 3), nn.ConvTranspose2d(6, 3, 3, stride=2)),
        torch.randn(2, 3, 9, 9),
    ),
    "same padding": lambda: (nn.Conv2d(3, 6, 3, padding="same"), torch.randn(2, 3, 9, 9)),
    "batched products": lambda: (Attention(), torch.randn(3, 6, 12)),
}
GROUPED: dict[str, Make] = {
    "grouped": lambda: (nn.Conv2d(8, 12, 3, groups=4), torch.randn(2, 8, 9, 9)),
    "depthwise": lambda: (nn.Conv2d(8, 8, 3, groups=8, padding=1), torch.randn(2, 8, 9, 9)),
    "grouped transposed": lambda: (
        nn.ConvTranspose2d(8, 12, 3, groups=4, stride=2),
        torch.randn(2, 8, 5, 5),
    ),
}
RECURRENT: dict[str, Make] = {
    "one layer": lambda: (Recurrent(), torch.randn(7, 3, 10)),
    "two layers": lambda: (Recurrent(layers=2), torch.randn(7, 3, 10)),
    "both ways": lambda: (Recurrent(bidirectional=True), torch.randn(7, 3, 10)),
}
