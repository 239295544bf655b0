"""ResNet50 on small images: the yardstick of vision, with the stem it has for large ones."""

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

# Blocks of each of the four stages, and how much wider the end of a block is than its middle.
STAGES = (3, 4, 6, 3)
EXPANSION = 4
# A quarter of the paper's: the last stage normalises over no more values than the batch has.
RATE = 0.025


def _conv_norm(inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with a shortcut around them.

    The 3×3 one takes the stride, as is usual today; the paper gave it to the first 1×1.
    """

    def __init__(self, inputs: int, middle: int, *, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * middle
        self.reduce = _conv_norm(inputs, middle, 1)
        self.conv = _conv_norm(middle, middle, 3, stride=stride)
        self.expand = nn.Conv2d(middle, outputs, 1, bias=False)
        self.last_norm = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity() if inputs == outputs else _conv_norm(inputs, outputs, 1, stride=stride)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, 4 · middle, H / stride, W / stride)."""
        residual = self.relu(self.conv(self.relu(self.reduce(features))))
        out: Tensor = self.relu(self.last_norm(self.expand(residual)) + self.shortcut(features))
        return out


def _stage(inputs: int, middle: int, *, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, middle, stride=stride)
    rest = (Bottleneck(EXPANSION * middle, middle, stride=1) for _ in range(blocks - 1))
    return nn.Sequential(first, *rest)


class ResNet50(nn.Module):
    """ResNet of 50 layers with bottlenecks.

    Source: He et al., arXiv 1512.03385, table 1.
    """

    def __init__(self, *, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = nn.Sequential()
        channels = 64
        for number, blocks in enumerate(STAGES):
            middle = 64 * 2**number
            stage = _stage(channels, middle, blocks=blocks, stride=2 if number else 1)
            self.stages.add_module(f"stage{number + 1}", stage)
            channels = EXPANSION * middle
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W), H and W from 32 on."""
        scores: Tensor = self.head(self.stages(self.stem(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """After He et al., arXiv 1502.01852; each block starts as its shortcut alone.

    The latter is from Goyal et al., arXiv 1706.02677, section 5.1: without it small batches
    diverge.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, Bottleneck):
        nn.init.zeros_(module.last_norm.weight)


class ResNet50Workload:
    """ResNet50 with stochastic gradient descent."""

    facts = WorkloadFacts(
        name="resnet50",
        title="ResNet50",
        domain="computer vision",
        task="image classification, 10 classes",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="He et al., Deep residual learning for image recognition, arXiv 1512.03385",
    )

    def prepare(self, *, batch_size: int, seed: int, data_dir: Path | None) -> Training:
        """As `Workload.prepare`; seeds torch's own generator.

        Raises:
            InvalidValueError: The data there cannot be read, or the batch is 1.
        """
        check_batch_size(
            batch_size,
            workload=self.facts.name,
            least=2,
            reason="its last stage sees one pixel of an image of 32×32, and batch normalisation "
            "needs more than one value",
        )
        torch.manual_seed(seed)
        model = ResNet50()
        return SupervisedTraining(
            samples=read_images(data_dir),
            model=model,
            optimizer=torch.optim.SGD(
                model.parameters(),
                lr=scale_rate(RATE, at_batch=256, batch_size=batch_size),
                momentum=0.9,
                weight_decay=1e-4,
            ),
            encode=scale_pixels(mean=MEAN, deviation=DEVIATION),
            batch_size=batch_size,
            seed=seed,
        )


WORKLOAD = ResNet50Workload()
