"""MobileNetV3-Small on images: what runs in phones, trained there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from wattstep.workloads.torch import blocks


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row of the paper's tables.

    Attributes:
        kernel: Of the depthwise convolution.
        wide: Channels in the middle.
        out: Channels at the end.
        squeezed: With squeeze-and-excite.
        hard: With hard-swish, not ReLU.
        stride: Of the depthwise convolution.
    """

    kernel: int
    wide: int
    out: int
    squeezed: bool
    hard: bool
    stride: int


def _row(kernel: int, wide: int, out: int, kind: str, stride: int) -> Row:
    """A row in short; `kind` is "SE", a hyphen or nothing, and "HS" or "RE", as in the paper."""
    return Row(
        kernel=kernel,
        wide=wide,
        out=out,
        squeezed="SE" in kind,
        hard="HS" in kind,
        stride=stride,
    )


# Table 2 of the paper.
SMALL = (
    _row(3, 16, 16, "SE-RE", 2),
    _row(3, 72, 24, "RE", 2),
    _row(3, 88, 24, "RE", 1),
    _row(5, 96, 40, "SE-HS", 2),
    _row(5, 240, 40, "SE-HS", 1),
    _row(5, 240, 40, "SE-HS", 1),
    _row(5, 120, 48, "SE-HS", 1),
    _row(5, 144, 48, "SE-HS", 1),
    _row(5, 288, 96, "SE-HS", 2),
    _row(5, 576, 96, "SE-HS", 1),
    _row(5, 576, 96, "SE-HS", 1),
)
# Table 1, with half the channels from the last stride on: for detection (section 6.3).
LARGE_FOR_DETECTION = (
    _row(3, 16, 16, "RE", 1),
    _row(3, 64, 24, "RE", 2),
    _row(3, 72, 24, "RE", 1),
    _row(5, 72, 40, "SE-RE", 2),
    _row(5, 120, 40, "SE-RE", 1),
    _row(5, 120, 40, "SE-RE", 1),
    _row(3, 240, 80, "HS", 2),
    _row(3, 200, 80, "HS", 1),
    _row(3, 184, 80, "HS", 1),
    _row(3, 184, 80, "HS", 1),
    _row(3, 480, 112, "SE-HS", 1),
    _row(3, 672, 112, "SE-HS", 1),
    _row(5, 672, 80, "SE-HS", 2),
    _row(5, 480, 80, "SE-HS", 1),
    _row(5, 480, 80, "SE-HS", 1),
)
STEM = 16
conv_norm = partial(
    blocks.conv_norm, norm=partial(nn.BatchNorm2d, eps=1e-3), activation=nn.Identity
)


class SqueezeExcite(nn.Module):
    """Weighs each channel by what all of them look like on average."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = round_to_eight(channels / 4)
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, narrow, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(narrow, channels, 1),
            nn.Hardsigmoid(inplace=True),
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, channels, H, W) to the same shape."""
        out: Tensor = features * self.weigh(features)
        return out


def round_to_eight(channels: float) -> int:
    """The nearest multiple of 8 that is at least 8 and not below nine tenths."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


class Bottleneck(nn.Module):
    """Widens (`expand`); filters, weighs and narrows (`shrink`); with a shortcut where it fits."""

    def __init__(self, inputs: int, row: Row) -> None:
        super().__init__()
        activation = nn.Hardswish if row.hard else nn.ReLU
        self.expand: nn.Module = (
            nn.Identity()
            if row.wide == inputs
            else conv_norm(inputs, row.wide, 1, activation=activation)
        )
        self.shrink = nn.Sequential(
            conv_norm(
                row.wide,
                row.wide,
                row.kernel,
                stride=row.stride,
                groups=row.wide,
                activation=activation,
            ),
            SqueezeExcite(row.wide) if row.squeezed else nn.Identity(),
            conv_norm(row.wide, row.out, 1),
        )
        self.has_shortcut = row.stride == 1 and inputs == row.out

    def forward(self, features: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, out, H / stride, W / stride)."""
        out: Tensor = self.shrink(self.expand(features))
        return features + out if self.has_shortcut else out


def stack(rows: tuple[Row, ...]) -> nn.Sequential:
    """The features: first convolution, a bottleneck for each row, last convolution."""
    channels = STEM
    layers = nn.Sequential(conv_norm(3, channels, 3, stride=2, activation=nn.Hardswish))
    for row in rows:
        layers.append(Bottleneck(channels, row))
        channels = row.out
    layers.append(conv_norm(channels, 6 * channels, 1, activation=nn.Hardswish))
    return layers


class MobileNetV3Small(nn.Module):
    """MobileNetV3-Small.

    Source: Howard et al., arXiv 1905.02244, table 2.
    """

    def __init__(self, *, classes: int = 10) -> None:
        super().__init__()
        self.features = stack(SMALL)
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(6 * SMALL[-1].out, 1024),
            nn.Hardswish(inplace=True),
            nn.Dropout(0.2),
            nn.Linear(1024, classes),
        )
        blocks.draw_weights(self, mode="fan_out", linear=0.01)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.features(images))
        return scores
