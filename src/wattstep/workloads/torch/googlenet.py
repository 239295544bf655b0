"""GoogLeNet, also called Inception v1: branches of several kernels side by side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.workloads.torch.blocks import draw_weights


@dataclass(frozen=True, kw_only=True)
class Branches:
    """Channels within one inception module, in the words of the paper's table 1."""

    one: int
    three_reduce: int
    three: int
    five_reduce: int
    five: int
    pool: int

    @property
    def outputs(self) -> int:
        """Channels of the branches together."""
        return self.one + self.three + self.five + self.pool


def _branches(*channels: int) -> Branches:
    names = ("one", "three_reduce", "three", "five_reduce", "five", "pool")
    return Branches(**dict(zip(names, channels, strict=True)))


# #1×1, #3×3 reduce, #3×3, #5×5 reduce, #5×5 and pool proj of table 1, by the size of the feature maps.
STAGES = (
    {
        "inception3a": _branches(64, 96, 128, 16, 32, 32),
        "inception3b": _branches(128, 128, 192, 32, 96, 64),
    },
    {
        "inception4a": _branches(192, 96, 208, 16, 48, 64),
        "inception4b": _branches(160, 112, 224, 24, 64, 64),
        "inception4c": _branches(128, 128, 256, 24, 64, 64),
        "inception4d": _branches(112, 144, 288, 32, 64, 64),
        "inception4e": _branches(256, 160, 320, 32, 128, 128),
    },
    {
        "inception5a": _branches(256, 160, 320, 32, 128, 128),
        "inception5b": _branches(384, 192, 384, 48, 128, 128),
    },
)


def _conv(inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2),
        nn.ReLU(inplace=True),
    )


def _halve() -> nn.MaxPool2d:
    # Rounding up keeps a pixel where rounding down would leave none of a small image.
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


class ResponseNorm(nn.Module):
    """Divides by the strength of five neighbouring channels, as in the paper's figure 3.

    Source of the constants: Krizhevsky et al. 2012, section 3.3; their alpha is of the sum, torch's
    of the mean.
    """

    def forward(self, features: Tensor) -> Tensor:
        """(B, C, H, W), in and out."""
        # In fp32 always: torch has no such pooling in bfloat16 on the CPU.
        normed = functional.local_response_norm(
            features.float(), size=5, alpha=5e-4, beta=0.75, k=2.0
        )
        return normed.to(features.dtype)


class Inception(nn.Module):
    """1×1, 3×3 and 5×5 convolutions and a pooling, side by side."""

    def __init__(self, inputs: int, branches: Branches) -> None:
        super().__init__()
        self.one = _conv(inputs, branches.one, 1)
        self.three = nn.Sequential(
            _conv(inputs, branches.three_reduce, 1),
            _conv(branches.three_reduce, branches.three, 3),
        )
        self.five = nn.Sequential(
            _conv(inputs, branches.five_reduce, 1),
            _conv(branches.five_reduce, branches.five, 5),
        )
        self.pool = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1), _conv(inputs, branches.pool, 1)
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, sum of the branches, H, W)."""
        parts = (branch(features) for branch in (self.one, self.three, self.five, self.pool))
        return torch.cat(tuple(parts), dim=1)


class GoogLeNet(nn.Module):
    """Nine inception modules; no auxiliary classifiers, no batch normalisation.

    The strides are the same for small images: of 32×32, the modules see 4, 2 and 1 pixels, which
    makes the 30 million multiply-adds that the TX2 paper has for it.

    Source: Szegedy et al., arXiv 1409.4842, table 1 and figure 3.
    """

    def __init__(self, *, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(3, 64, 7, stride=2),
            _halve(),
            ResponseNorm(),
            _conv(64, 64, 1),
            _conv(64, 192, 3),
            ResponseNorm(),
        )
        self.inceptions = nn.Sequential()
        channels = 192
        for number, stage in enumerate(STAGES, 3):
            self.inceptions.add_module(f"pool{number - 1}", _halve())
            for name, branches in stage.items():
                self.inceptions.add_module(name, Inception(channels, branches))
                channels = branches.outputs
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(channels, classes)
        )
        # 22 layers without normalisation keep the scale of their inputs only so: with smaller weights
        # nothing arrives at the end, with larger ones the first steps overflow.
        draw_weights(self, linear=0.01)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.inceptions(self.stem(images)))
        return scores
