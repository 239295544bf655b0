"""AlexNet in one tower: few convolutions, and nearly all parameters in its classifier."""

from __future__ import annotations

from torch import Tensor, nn

from wattstep.workloads.torch.blocks import draw_weights

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
        image_size: Height and width; small images must shrink gently.
    """

    def __init__(self, *, classes: int, image_size: int) -> None:
        super().__init__()
        small = image_size <= SMALL
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
        # For convolutions the paper's narrow weights need many epochs to grow.
        draw_weights(self, linear=0.01)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores
