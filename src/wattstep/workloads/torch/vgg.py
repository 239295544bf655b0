"""VGG of 16 and 19 layers: plain stacks of convolutions before a very large classifier."""

from __future__ import annotations

from torch import Tensor, nn

from wattstep.workloads.torch.blocks import draw_weights

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
        # For convolutions the paper first trained a shallower network instead.
        draw_weights(self, linear=0.01)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores
