"""SqueezeNet 1.0: few parameters, large intermediate data."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Fire(nn.Module):
    """A narrow 1×1 convolution, then 1×1 and 3×3 ones side by side, each `expand` wide."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, 2 · expand, H, W)."""
        narrow = self.relu(self.squeeze(features))
        return torch.cat(
            (self.relu(self.expand1x1(narrow)), self.relu(self.expand3x3(narrow))), dim=1
        )


def _halve() -> nn.MaxPool2d:
    # Rounding up keeps a pixel where rounding down would leave none of a small image.
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.0. An image of 32×32 is 13, 6, 3 and 1 pixels wide on its way.

    Source: Iandola et al., arXiv 1602.07360, table 1.
    """

    def __init__(self, *, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, 7, stride=2),
            nn.ReLU(inplace=True),
            _halve(),
            Fire(96, 16, 64),
            Fire(128, 16, 64),
            Fire(128, 32, 128),
            _halve(),
            Fire(256, 32, 128),
            Fire(256, 48, 192),
            Fire(384, 48, 192),
            Fire(384, 64, 256),
            _halve(),
            Fire(512, 64, 256),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Conv2d(512, classes, 1),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.features(images))
        return scores


def _initialise(module: nn.Module) -> None:
    """There is no normalisation that would make up for a poor start."""
    if isinstance(module, nn.Conv2d) and module.bias is not None:
        nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
        nn.init.zeros_(module.bias)
