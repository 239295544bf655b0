"""Fully connected networks on handwritten digits: those of Das et al.'s study of phones' GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class Mlp(nn.Module):
    """Linear layers with rectifiers between them.

    Source: Das et al., arXiv 2202.10100: 784-256-128-16, 16-16, 16-16-16-16, 256-256.

    Args:
        widths: Of the input and of each hidden layer.
        classes: Of the output.
    """

    def __init__(self, *, widths: Sequence[int], classes: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten())
        for inputs, outputs in pairwise((*widths, classes)):
            if len(self.layers) > 1:
                self.layers.append(nn.ReLU())
            self.layers.append(nn.Linear(inputs, outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 1, side, side)."""
        scores: Tensor = self.layers(images)
        return scores
