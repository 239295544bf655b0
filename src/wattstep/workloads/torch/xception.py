"""Xception: convolutions of each channel by itself, and 1×1 ones across channels."""

from __future__ import annotations

from torch import Tensor, nn

WIDTH = 728
MIDDLE_BLOCKS = 8
# Images up to this wide go in at full size: halved five times, 32×32 would leave a single pixel,
# and batch normalisation nothing to normalise in a batch of one.
SMALL = 64


class Separable(nn.Sequential):
    """A 3×3 convolution of each channel, a 1×1 one across them, and a norm; no ReLU between."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )


class Shrinking(nn.Module):
    """Two separable convolutions and a pooling, with a shortcut; halves the image.

    Args:
        inputs: Channels that come in.
        middle: Channels between the two convolutions.
        outputs: Channels that go out.
        first: Whether the inputs have gone through a ReLU already.
    """

    def __init__(self, inputs: int, middle: int, outputs: int, *, first: bool = False) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            # Not in place: the shortcut reads the same inputs.
            nn.Identity() if first else nn.ReLU(),
            Separable(inputs, middle),
            nn.ReLU(inplace=True),
            Separable(middle, outputs),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.shortcut = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride=2, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / 2, W / 2), rounded up."""
        out: Tensor = self.residual(features) + self.shortcut(features)
        return out


class Middle(nn.Module):
    """Three separable convolutions with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.residual = nn.Sequential()
        for _ in range(3):
            # The first must not change what the shortcut reads.
            self.residual.append(nn.ReLU())
            self.residual.append(Separable(WIDTH, WIDTH))

    def forward(self, features: Tensor) -> Tensor:
        """(B, 728, H, W), in and out."""
        out: Tensor = self.residual(features) + features
        return out


def _stem(*, small: bool) -> nn.Sequential:
    """Two convolutions, of which the first halves the image where it is large."""
    stride, padding = (1, 1) if small else (2, 0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, 3, padding=padding, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
    )


class Xception(nn.Module):
    """Entry, middle and exit flow. A 32×32 image is 16, 8, 4 and 2 pixels wide on its way.

    Source: Chollet, arXiv 1610.02357, figure 5.

    Args:
        classes: Scores to give.
        image_size: Height and width; small images must not shrink at once.
    """

    def __init__(self, *, classes: int, image_size: int) -> None:
        super().__init__()
        self.entry = nn.Sequential(
            _stem(small=image_size <= SMALL),
            Shrinking(64, 128, 128, first=True),
            Shrinking(128, 256, 256),
            Shrinking(256, WIDTH, WIDTH),
        )
        self.middle = nn.Sequential(*(Middle() for _ in range(MIDDLE_BLOCKS)))
        self.exit = nn.Sequential(
            Shrinking(WIDTH, WIDTH, 1024),
            Separable(1024, 1536),
            nn.ReLU(inplace=True),
            Separable(1536, 2048),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(2048, classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.exit(self.middle(self.entry(images))))
        return scores
