"""ResNets of 50, 101 and 152 layers: the yardstick of vision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.images import classify_images

# How much wider the end of a block is than its middle.
EXPANSION = 4
# Images up to this wide go in at full size: the stem for large ones would leave a single pixel
# of 32×32 to the last stage, and batch normalisation nothing to normalise in a batch of one.
SMALL = 64


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


def _stem(*, small: bool) -> nn.Sequential:
    """Quarters the image; the one for small images, as in pytorch-cifar, leaves it its size."""
    if small:
        return nn.Sequential(*_conv_norm(3, 64, 3), nn.ReLU(inplace=True))
    return nn.Sequential(
        *_conv_norm(3, 64, 7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


class ResNet(nn.Module):
    """Four stages of blocks with bottlenecks.

    Source: He et al., arXiv 1512.03385, table 1; the stem for small images is that of
    https://github.com/kuangliu/pytorch-cifar.

    Args:
        blocks: Of each of the four stages.
        classes: Scores to give.
        small: Whether the images are small, so that they must not shrink at once.
    """

    def __init__(self, *, blocks: tuple[int, int, int, int], classes: int, small: bool) -> None:
        super().__init__()
        self.stem = _stem(small=small)
        self.stages = nn.Sequential()
        channels = 64
        for number, count in enumerate(blocks):
            middle = 64 * 2**number
            stage = _stage(channels, middle, blocks=count, stride=2 if number else 1)
            self.stages.add_module(f"stage{number + 1}", stage)
            channels = EXPANSION * middle
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
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


@dataclass(frozen=True, kw_only=True)
class ResNetWorkload:
    """A ResNet with stochastic gradient descent."""

    facts: WorkloadFacts
    blocks: tuple[int, int, int, int]

    def build(self, *, classes: int | None, image_size: int | None) -> ResNet:
        """As `Workload.build`; the image size decides on the stem."""
        return ResNet(blocks=self.blocks, classes=classes or 10, small=(image_size or 32) <= SMALL)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        return classify_images(
            self,
            preparation,
            lambda model: torch.optim.SGD(
                model.parameters(),
                lr=preparation.rate(0.1, at_batch=256),
                momentum=0.9,
                weight_decay=1e-4,
            ),
        )


def _facts(depth: int) -> WorkloadFacts:
    return WorkloadFacts(
        name=f"resnet{depth}",
        title=f"ResNet{depth}",
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="He et al., Deep residual learning for image recognition, arXiv 1512.03385",
        published=Published(classes=1000, image_size=224),
        classes=10,
        image_size=32,
        # Halved three times, rounded up, there are 2×2 pixels to normalise in a batch of one.
        least_image_size=9,
    )


RESNET50 = ResNetWorkload(facts=_facts(50), blocks=(3, 4, 6, 3))
RESNET101 = ResNetWorkload(facts=_facts(101), blocks=(3, 4, 23, 3))
RESNET152 = ResNetWorkload(facts=_facts(152), blocks=(3, 8, 36, 3))
