"""ResNet-8 on small images: image classification of MLPerf Tiny."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.images import classify_images

RATE = 1e-3


def _conv_norm(inputs: int, outputs: int, *, stride: int = 1) -> nn.Sequential:
    """Convolutions keep their biases before the normalisation, as in the reference."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), nn.BatchNorm2d(outputs)
    )


class Block(nn.Module):
    """Two 3×3 convolutions with a shortcut around them, which is not normalised."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.first = _conv_norm(inputs, outputs, stride=stride)
        self.second = _conv_norm(outputs, outputs)
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
        self.stem = nn.Sequential(*_conv_norm(3, 16), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(
            Block(16, 16, stride=1), Block(16, 32, stride=2), Block(32, 64, stride=2)
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.blocks(self.stem(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """After He et al., arXiv 1502.01852."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class ResNet8Workload:
    """ResNet-8 with Adam, as in the reference."""

    facts = WorkloadFacts(
        name="resnet8",
        title="ResNet-8",
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="Banbury et al., MLPerf Tiny benchmark, arXiv 2106.07597",
        published=Published(classes=10, image_size=32),
        classes=10,
        image_size=32,
        # The last stage must see more than one pixel to normalise over, whatever the batch.
        least_image_size=5,
    )

    def build(self, *, classes: int | None, image_size: int | None) -> ResNet8:
        """As `Workload.build`; the images' size changes no parameter."""
        return ResNet8(classes=classes or 10)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        return classify_images(
            self,
            preparation,
            lambda model: torch.optim.Adam(
                model.parameters(), lr=preparation.rate(RATE, at_batch=32), weight_decay=1e-4
            ),
        )


WORKLOAD = ResNet8Workload()
