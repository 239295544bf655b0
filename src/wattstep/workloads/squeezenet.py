"""SqueezeNet 1.0 on small images: few parameters, large intermediate data."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from wattstep.records.workload import Training, WorkloadFacts
from wattstep.workloads.data.cifar10 import DEVIATION, MEAN, read_images
from wattstep.workloads.supervised import (
    SupervisedTraining,
    check_batch_size,
    scale_pixels,
    scale_rate,
)

# As in the paper; thirty times that, and the last ReLU goes silent for good.
RATE = 0.04


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

    def __init__(self, *, classes: int = 10) -> None:
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
        """Scores (B, classes) of images (B, 3, H, W), H and W from 32 on."""
        scores: Tensor = self.classifier(self.features(images))
        return scores


def _initialise(module: nn.Module) -> None:
    """There is no normalisation that would make up for a poor start."""
    if isinstance(module, nn.Conv2d) and module.bias is not None:
        nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
        nn.init.zeros_(module.bias)


class SqueezeNetWorkload:
    """SqueezeNet 1.0 with stochastic gradient descent."""

    facts = WorkloadFacts(
        name="squeezenet",
        title="SqueezeNet 1.0",
        domain="computer vision",
        task="image classification, 10 classes",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, "
        "arXiv 1602.07360",
    )

    def prepare(self, *, batch_size: int, seed: int, data_dir: Path | None) -> Training:
        """As `Workload.prepare`; seeds torch's own generator, of which dropout draws, too."""
        check_batch_size(batch_size, workload=self.facts.name)
        torch.manual_seed(seed)
        model = SqueezeNet()
        return SupervisedTraining(
            samples=read_images(data_dir),
            model=model,
            optimizer=torch.optim.SGD(
                model.parameters(),
                lr=scale_rate(RATE, at_batch=512, batch_size=batch_size),
                momentum=0.9,
                weight_decay=2e-4,
            ),
            encode=scale_pixels(mean=MEAN, deviation=DEVIATION),
            batch_size=batch_size,
            seed=seed,
        )


WORKLOAD = SqueezeNetWorkload()
