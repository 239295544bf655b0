"""ResNets of 50, 101 and 152 layers: the yardstick of vision."""

from __future__ import annotations

from torch import Tensor, nn

from wattstep.workloads.torch.blocks import conv_norm, draw_weights

# How much wider the end of a block is than its middle.
EXPANSION = 4
# Images up to this wide go in at full size: the stem for large ones would leave a single pixel
# of 32×32 to the last stage, and batch normalisation nothing to normalise in a batch of one.
SMALL = 64


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with a shortcut around them.

    The 3×3 one takes the stride, as is usual today; the paper gave it to the first 1×1.
    """

    def __init__(self, inputs: int, middle: int, *, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * middle
        self.reduce = conv_norm(inputs, middle, 1)
        self.conv = conv_norm(middle, middle, 3, stride=stride)
        self.expand = nn.Conv2d(middle, outputs, 1, bias=False)
        self.last_norm = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity() if inputs == outputs else conv_norm(inputs, outputs, 1, stride=stride)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, 4 · middle, H / stride, W / stride)."""
        residual = self.relu(self.conv(self.relu(self.reduce(features))))
        out: Tensor = self.relu(self.last_norm(self.expand(residual)) + self.shortcut(features))
        return out


def _stage(inputs: int, middle: int, *, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, middle, stride=stride)
    others = (Bottleneck(EXPANSION * middle, middle, stride=1) for _ in range(blocks - 1))
    return nn.Sequential(first, *others)


def _stem(*, small: bool) -> nn.Sequential:
    """Quarters the image; the one for small images, as in pytorch-cifar, leaves it its size."""
    if small:
        return nn.Sequential(*conv_norm(3, 64, 3), nn.ReLU(inplace=True))
    return nn.Sequential(
        *conv_norm(3, 64, 7, stride=2),
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
        image_size: Height and width; small images must not shrink at once.
    """

    def __init__(self, *, blocks: tuple[int, int, int, int], classes: int, image_size: int) -> None:
        super().__init__()
        self.stem = _stem(small=image_size <= SMALL)
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
        draw_weights(self, mode="fan_out")
        for module in self.modules():
            # Each block starts as its shortcut alone (Goyal et al., arXiv 1706.02677, section 5.1):
            # without it small batches diverge.
            if isinstance(module, Bottleneck):
                nn.init.zeros_(module.last_norm.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.stages(self.stem(images)))
        return scores
