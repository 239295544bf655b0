"""LeNet-5 on handwritten digits: small enough for any device."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from wattstep.records.workload import Training, WorkloadFacts
from wattstep.workloads.data.mnist import DEVIATION, MEAN, read_digits
from wattstep.workloads.supervised import SupervisedTraining, check_batch_size, scale_pixels


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
        task="image classification, 10 classes",
        dominant_layer="conv",
        dataset="MNIST",
        input_shape=(1, 28, 28),
        source="LeCun et al., Gradient-based learning applied to document recognition, 1998",
    )

    def prepare(self, *, batch_size: int, seed: int, data_dir: Path | None) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        check_batch_size(batch_size, workload=self.facts.name)
        torch.manual_seed(seed)
        model = LeNet()
        return SupervisedTraining(
            samples=read_digits(data_dir),
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
            encode=scale_pixels(mean=MEAN, deviation=DEVIATION),
            batch_size=batch_size,
            seed=seed,
        )


WORKLOAD = LeNetWorkload()
