"""MobileNetV2 on images: trained in full, in its last layer alone, or in its biases alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from wattstep.workloads.data.samples import Samples
from wattstep.workloads.torch.blocks import RELU6, conv_norm, draw_weights

# Expansion, output channels, blocks and stride of the first block (table 2 of the paper).
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

LAST = 1280
# Images whose statistics a frozen backbone normalises by.
SETTLED_ON = 8

Tuned = Literal["everything", "biases", "last layer"]


class InvertedResidual(nn.Module):
    """Widens, filters each channel by itself, and narrows without an activation at the end."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        wide = expansion * inputs
        self.expand = (
            conv_norm(inputs, wide, 1, activation=RELU6) if expansion > 1 else nn.Identity()
        )
        self.depthwise = conv_norm(wide, wide, 3, stride=stride, groups=wide, activation=RELU6)
        self.project = conv_norm(wide, outputs, 1)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        out: Tensor = self.project(self.depthwise(self.expand(features)))
        return features + out if self.has_shortcut else out


class MobileNetV2(nn.Module):
    """MobileNet of inverted residuals.

    Source: Sandler et al., arXiv 1801.04381, table 2.

    Args:
        classes: That it tells apart.
        tuned: What trains. Anything else is frozen, and its batch normalisation keeps its
            statistics even in training mode. The biases are those of the batch normalisations
            (no convolution has any), and the last layer trains with them, as in TinyTL (Cai et
            al., arXiv 2007.11622). TinyTL also saves the memory of what only frozen weights
            need; torch keeps the inputs of frozen convolutions all the same (Bhatia and Dangel,
            arXiv 2404.12406).
    """

    def __init__(self, *, classes: int = 10, tuned: Tuned = "everything") -> None:
        super().__init__()
        channels = 32
        self.features = nn.Sequential(conv_norm(3, channels, 3, stride=2, activation=RELU6))
        for expansion, outputs, blocks, stride in STAGES:
            for number in range(blocks):
                self.features.append(
                    InvertedResidual(
                        channels, outputs, stride=1 if number else stride, expansion=expansion
                    )
                )
                channels = outputs
        self.features.append(conv_norm(channels, LAST, 1, activation=RELU6))
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(LAST, classes)
        )
        draw_weights(self, mode="fan_out", linear=0.01)
        self._frozen = tuned != "everything"
        if self._frozen:
            _freeze(self.features, but_biases=tuned == "biases")

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.features(images))
        return scores

    def train(self, mode: bool = True) -> MobileNetV2:
        """Training mode, of which frozen features know nothing."""
        super().train(mode)
        if self._frozen:
            self.features.eval()
        return self

    def settle_on(self, encode: Callable[[Tensor], Tensor], samples: Samples) -> None:
        """Settles features that are frozen on a few samples, see `settle`.

        Args:
            encode: Turns images as they lie on disk into what the model takes.
            samples: Of which the statistics are.
        """
        if self._frozen:
            step = max(1, len(samples.inputs) // SETTLED_ON)
            self.settle(encode(torch.from_numpy(samples.inputs[::step][:SETTLED_ON].copy())))

    def settle(self, images: Tensor) -> None:
        """Takes the statistics of the batch normalisations from images (B, 3, H, W).

        Weights that were learnt would bring theirs along; random ones have none, and would
        let the signal fade from layer to layer.
        """
        norms = [each for each in self.features.modules() if isinstance(each, nn.BatchNorm2d)]
        momenta = [each.momentum for each in norms]
        for each in norms:
            each.momentum = 1.0
        with torch.no_grad():
            self.features.train()(images)
        for each, momentum in zip(norms, momenta, strict=True):
            each.momentum = momentum
        self.train(self.training)


def _freeze(features: nn.Module, *, but_biases: bool) -> None:
    features.requires_grad_(False)
    if but_biases:
        for name, parameter in features.named_parameters():
            parameter.requires_grad_(name.endswith("bias"))
