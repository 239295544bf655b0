"""LeNet-5 on handwritten digits: small enough for any device."""

from __future__ import annotations

from torch import Tensor, nn


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
