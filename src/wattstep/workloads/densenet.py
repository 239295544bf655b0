"""DenseNets for small images: many small layers, each of which reads all before it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.images import classify_images

GROWTH = 12
BLOCKS = 3
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
        self.head = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, classes),
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.blocks(self.stem(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """As the paper does, after He et al., arXiv 1502.01852."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight)
    elif isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


@dataclass(frozen=True, kw_only=True)
class DenseNetWorkload:
    """A DenseNet with stochastic gradient descent."""

    facts: WorkloadFacts
    depth: int

    def build(self, *, classes: int | None, image_size: int | None) -> DenseNet:
        """As `Workload.build`; the same for every image size."""
        return DenseNet(depth=self.depth, classes=classes or 10)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        return classify_images(
            self,
            preparation,
            lambda model: torch.optim.SGD(
                model.parameters(),
                lr=preparation.rate(RATE, at_batch=64),
                momentum=0.9,
                weight_decay=1e-4,
                nesterov=True,
            ),
        )


def _facts(depth: int) -> WorkloadFacts:
    return WorkloadFacts(
        name=f"densenet{depth}",
        title=f"DenseNet{depth}-{GROWTH}",
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="Huang et al., Densely connected convolutional networks, arXiv 1608.06993",
        published=Published(classes=10, image_size=32),
        classes=10,
        image_size=32,
        # Halved twice, there are 2×2 pixels to normalise in a batch of one.
        least_image_size=8,
    )


DENSENET40 = DenseNetWorkload(facts=_facts(40), depth=40)
DENSENET100 = DenseNetWorkload(facts=_facts(100), depth=100)
