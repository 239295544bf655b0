"""LeNet-5 on handwritten digits: small enough for any device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.data.mnist import DEVIATION, MEAN, read_digits
from wattstep.workloads.supervised import SupervisedTraining, build_on, encode_images


class LeNet(nn.Module):
    """LeNet-5 with every feature map connected to every one before, and average pooling.

    Source: LeCun et al. 1998, section II.B; its 32×32 input is 28×28 and a margin here.
    """

    def __init__(self, *, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 120),
            nn.Tanh(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 1, 28, 28)."""
        scores: Tensor = self.classifier(self.features(images))
        return scores


class LeNetWorkload:
    """LeNet-5 with stochastic gradient descent."""

    facts = WorkloadFacts(
        name="lenet",
        title="LeNet-5",
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="MNIST",
        input_shape=(1, 28, 28),
        source="LeCun et al., Gradient-based learning applied to document recognition, 1998",
        published=Published(classes=10, image_size=None),
        classes=10,
    )

    def build(self, *, classes: int | None, image_size: int | None) -> LeNet:
        """As `Workload.build`; its images are 28×28 always."""
        return LeNet(classes=classes or 10)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        model = build_on(self, preparation)
        return SupervisedTraining(
            samples=read_digits(preparation.data_dir),
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
            encode=encode_images(mean=MEAN, deviation=DEVIATION),
            preparation=preparation,
        )


WORKLOAD = LeNetWorkload()
