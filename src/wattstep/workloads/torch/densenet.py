"""DenseNets for small images: many small layers, each of which reads all before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wattstep.workloads.torch.blocks import draw_weights

GROWTH = 12
BLOCKS = 3


class DenseLayer(nn.Module):
    """Norm, ReLU, 3×3 convolution; hands on what it read and what it made of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(channels, GROWTH, 3, padding=1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C + 12, H, W)."""
        return torch.cat((features, self.conv(self.relu(self.norm(features)))), dim=1)


def _dense_block(channels: int, *, layers: int) -> nn.Sequential:
    return nn.Sequential(*(DenseLayer(channels + GROWTH * n) for n in range(layers)))


def _transition(channels: int) -> nn.Sequential:
    """Halves the image; the channels stay, for there is no compression without bottlenecks."""
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.AvgPool2d(2),
    )


class DenseNet(nn.Module):
    """DenseNet of growth 12, without bottlenecks, compression or dropout.

    Source: Huang et al., arXiv 1608.06993, section 4.2 and table 2 (k = 12: 1.0 M parameters at
    depth 40, 7.0 M at depth 100).

    Args:
        depth: The first convolution, two transitions, the classifier, and three blocks of layers.
        classes: Scores to give.
    """

    def __init__(self, *, depth: int, classes: int) -> None:
        super().__init__()
        layers = (depth - BLOCKS - 1) // BLOCKS
        channels = 16
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.blocks = nn.Sequential()
        for block in range(BLOCKS):
            if block:
                self.blocks.add_module(f"transition{block}", _transition(channels))
            self.blocks.add_module(f"block{block + 1}", _dense_block(channels, layers=layers))
            channels += GROWTH * layers
        last = nn.Linear(channels, classes)
        self.head = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            last,
        )
        draw_weights(self)
        nn.init.zeros_(last.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.blocks(self.stem(images)))
        return scores
