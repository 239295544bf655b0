"""ResNet-8 on small images: image classification of MLPerf Tiny."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from wattstep.workloads.torch.blocks import conv_norm, draw_weights

# Convolutions keep their biases before the normalisation, as in the reference.
biased_conv_norm = partial(conv_norm, kernel=3, bias=True)


class Block(nn.Module):
    """Two 3×3 convolutions with a shortcut around them, which is not normalised."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.first = biased_conv_norm(inputs, outputs, stride=stride)
        self.second = biased_conv_norm(outputs, outputs)
        self.shortcut = (
            nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride=stride)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        residual = self.second(self.relu(self.first(features)))
        out: Tensor = self.relu(residual + self.shortcut(features))
        return out


class ResNet8(nn.Module):
    """Three blocks of 16, 32 and 64 channels: the ResNet of CIFAR-10 with one block a stage.

    Source: Banbury et al., MLPerf Tiny benchmark, arXiv 2106.07597, section 4.1.3, after
    He et al., arXiv 1512.03385, section 4.2.
    """

    def __init__(self, *, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(*biased_conv_norm(3, 16), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(
            Block(16, 16, stride=1), Block(16, 32, stride=2), Block(32, 64, stride=2)
        )
        last = nn.Linear(64, classes)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)
        draw_weights(self)
        nn.init.kaiming_normal_(last.weight, nonlinearity="relu")
        nn.init.zeros_(last.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.blocks(self.stem(images)))
        return scores
