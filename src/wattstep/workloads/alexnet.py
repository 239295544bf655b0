"""AlexNet in one tower: few convolutions, and nearly all parameters in its classifier."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.images import classify_images

# Images up to this wide shrink more gently: of 32×32, large steps would leave nothing to pool.
SMALL = 64
# The classifier reads this many pixels in height and width.
GRID = 6


def _first(*, small: bool) -> nn.Conv2d:
    """The 11×11 convolution: every fourth pixel, or every second with a margin all around."""
    if small:
        return nn.Conv2d(3, 64, 11, stride=2, padding=5)
    return nn.Conv2d(3, 64, 11, stride=4, padding=2)


def _halve(*, small: bool) -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, padding=1 if small else 0)


class AlexNet(nn.Module):
    """Five convolutions and three fully connected layers.

    All kernels are those of the paper at every image size, and so are the parameters. A small
    image (32×32) is 16, 8, 4 and 2 pixels wide on its way; the classifier then reads 6×6 pixels
    that repeat the last 2×2.

    Source: Krizhevsky, arXiv 1404.5997 (one tower, without response normalisation), of Krizhevsky
    et al. 2012.

    Args:
        classes: Scores to give.
        small: Whether the images are small, so that they must shrink gently.
    """

    def __init__(self, *, classes: int, small: bool) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _first(small=small),
            nn.ReLU(inplace=True),
            _halve(small=small),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            _halve(small=small),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            _halve(small=small),
        )
        self.pool = nn.AdaptiveAvgPool2d(GRID)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(256 * GRID * GRID, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, classes),
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """Convolutions after He et al., arXiv 1502.01852, the classifier as in the paper.

    For convolutions the paper's narrow weights need many epochs to grow.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
    if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
        nn.init.zeros_(module.bias)


@dataclass(frozen=True, kw_only=True)
class AlexNetWorkload:
    """AlexNet with stochastic gradient descent."""

    facts: WorkloadFacts

    def build(self, *, classes: int | None, image_size: int | None) -> AlexNet:
        """As `Workload.build`; the image size decides on the strides."""
        return AlexNet(classes=classes or 10, small=(image_size or 32) <= SMALL)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator, of which dropout draws, too."""
        return classify_images(
            self,
            preparation,
            lambda model: torch.optim.SGD(
                model.parameters(),
                lr=preparation.rate(0.01, at_batch=128),
                momentum=0.9,
                weight_decay=5e-4,
            ),
        )


def _facts(name: str, *, title: str, image_size: int) -> WorkloadFacts:
    return WorkloadFacts(
        name=name,
        title=title,
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, image_size, image_size),
        source="Krizhevsky, One weird trick for parallelizing convolutional neural networks, "
        "arXiv 1404.5997",
        published=Published(classes=1000, image_size=224),
        classes=10,
        image_size=image_size,
    )


ALEXNET = AlexNetWorkload(facts=_facts("alexnet", title="AlexNet", image_size=32))
# The shape of Cai et al. 2021; what they ran had 30 M parameters, half of the paper's.
ALEXNET_224 = AlexNetWorkload(
    facts=_facts("alexnet-224", title="AlexNet at 224×224", image_size=224)
)
