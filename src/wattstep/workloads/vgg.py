"""VGG of 16 and 19 layers: plain stacks of convolutions before a very large classifier."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.images import classify_images

# Channels of the five stages, each of which ends with half the image.
WIDTHS = (64, 128, 256, 512, 512)
# The classifier reads this many pixels in height and width.
GRID = 7


def _stage(inputs: int, outputs: int, *, convolutions: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for number in range(convolutions):
        channels = outputs if number else inputs
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.MaxPool2d(2))


class Vgg(nn.Module):
    """Five stages of 3×3 convolutions and three fully connected layers.

    Other sizes than 224×224 are averaged, or repeated, to the 7×7 pixels that the classifier
    reads, so that it has all its parameters: a 32×32 image ends as one pixel, repeated 49 times.

    Source: Simonyan and Zisserman, arXiv 1409.1556, table 1, columns D and E.

    Args:
        convolutions: Of each stage.
        classes: Scores to give.
    """

    def __init__(self, *, convolutions: tuple[int, int, int, int, int], classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential()
        channels = 3
        for number, (width, count) in enumerate(zip(WIDTHS, convolutions, strict=True), 1):
            self.features.add_module(f"stage{number}", _stage(channels, width, convolutions=count))
            channels = width
        self.pool = nn.AdaptiveAvgPool2d(GRID)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * GRID * GRID, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, classes),
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """Convolutions after He et al., arXiv 1502.01852, the classifier as in the paper.

    For convolutions the paper first trained a shallower network instead.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
    if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
        nn.init.zeros_(module.bias)


@dataclass(frozen=True, kw_only=True)
class VggWorkload:
    """A VGG network with stochastic gradient descent."""

    facts: WorkloadFacts
    convolutions: tuple[int, int, int, int, int]

    def build(self, *, classes: int | None, image_size: int | None) -> Vgg:
        """As `Workload.build`; the same for every image size."""
        return Vgg(convolutions=self.convolutions, classes=classes or 10)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator, of which dropout draws, too."""
        return classify_images(
            self,
            preparation,
            lambda model: torch.optim.SGD(
                model.parameters(),
                lr=preparation.rate(0.01, at_batch=256),
                momentum=0.9,
                weight_decay=5e-4,
            ),
        )


def _facts(depth: int) -> WorkloadFacts:
    return WorkloadFacts(
        name=f"vgg{depth}",
        title=f"VGG{depth}",
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 32, 32),
        source="Simonyan and Zisserman, Very deep convolutional networks for large-scale image "
        "recognition, arXiv 1409.1556",
        published=Published(classes=1000, image_size=224),
        classes=10,
        image_size=32,
        # Halved five times.
        least_image_size=32,
    )


VGG16 = VggWorkload(facts=_facts(16), convolutions=(2, 2, 3, 3, 3))
VGG19 = VggWorkload(facts=_facts(19), convolutions=(2, 2, 4, 4, 4))
