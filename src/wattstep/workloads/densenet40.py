"""DenseNet40-12 on small images: many small layers, each of which reads all before it."""

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

GROWTH = 12
BLOCKS = 3
# Depth 40: the first convolution, two transitions, the classifier, and three blocks of twelve.
LAYERS_PER_BLOCK = 12
# Half the paper's: there is no slow start to a run of a few steps.
RATE = 0.05


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


def _dense_block(channels: int) -> nn.Sequential:
    return nn.Sequential(*(DenseLayer(channels + GROWTH * n) for n in range(LAYERS_PER_BLOCK)))


def _transition(channels: int) -> nn.Sequential:
    """Halves the image; the channels stay, for there is no compression without bottlenecks."""
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.AvgPool2d(2),
    )


class DenseNet40(nn.Module):
    """DenseNet of depth 40 and growth 12, without bottlenecks or dropout.

    Source: Huang et al., arXiv 1608.06993, section 4.2 and table 2 (1.0 M parameters).
    """

    def __init__(self, *, classes: int = 10) -> None:
        super().__init__()
        channels = 16
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.blocks = nn.Sequential()
        for block in range(BLOCKS):
            if block:
                self.blocks.add_module(f"transition{block}", _transition(channels))
            self.blocks.add_module(f"block{block + 1}", _dense_block(channels))
            channels += GROWTH * LAYERS_PER_BLOCK
        self.head = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, classes),
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, 32, 32)."""
        scores: Tensor = self.head(self.blocks(self.stem(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """As the paper does, after He et al., arXiv 1502.01852."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight)
    elif isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


class DenseNet40Workload:
    """DenseNet40-12 with stochastic gradient descent."""

    facts = WorkloadFacts(
        name="densenet40",
        title="DenseNet40-12",
        domain="computer vision",
        task="image classification, 10 classes",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="Huang et al., Densely connected convolutional networks, arXiv 1608.06993",
    )

    def prepare(self, *, batch_size: int, seed: int, data_dir: Path | None) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        check_batch_size(batch_size, workload=self.facts.name)
        torch.manual_seed(seed)
        model = DenseNet40()
        return SupervisedTraining(
            samples=read_images(data_dir),
            model=model,
            optimizer=torch.optim.SGD(
                model.parameters(),
                lr=scale_rate(RATE, at_batch=64, batch_size=batch_size),
                momentum=0.9,
                weight_decay=1e-4,
                nesterov=True,
            ),
            encode=scale_pixels(mean=MEAN, deviation=DEVIATION),
            batch_size=batch_size,
            seed=seed,
        )


WORKLOAD = DenseNet40Workload()
