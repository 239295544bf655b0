"""MobileNetV3-Small on images: what runs in phones, trained there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.images import classify_images

RATE = 0.064


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the paper's tables.

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


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] = nn.Identity,
) -> nn.Sequential:
    """Convolution without bias, batch normalisation, activation."""
    return nn.Sequential(
        nn.Conv2d(
            inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        ),
        nn.BatchNorm2d(outputs, eps=1e-3),
        activation(),
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
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.classifier(self.features(images))
        return scores


def _initialise(module: nn.Module) -> None:
    """After He et al., arXiv 1502.01852."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
        nn.init.zeros_(module.bias)


class MobileNetV3Workload:
    """MobileNetV3-Small with RMSProp, as in the paper; CIFAR-10's images are enlarged."""

    facts = WorkloadFacts(
        name="mobilenetv3-small",
        title="MobileNetV3-Small",
        domain="computer vision",
        task="image classification",
        dominant_layer="conv",
        dataset="CIFAR-10",
        input_shape=(3, 224, 224),
        source="Howard et al., Searching for MobileNetV3, arXiv 1905.02244",
        published=Published(classes=1000, image_size=224),
        classes=10,
        image_size=224,
        # The last feature map, a 32th, must have more than one pixel to normalise over.
        least_image_size=33,
    )

    def build(self, *, classes: int | None, image_size: int | None) -> MobileNetV3Small:
        """As `Workload.build`; the images' size changes no parameter."""
        return MobileNetV3Small(classes=classes or 10)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator, of which dropout draws, too."""
        return classify_images(
            self,
            preparation,
            lambda model: torch.optim.RMSprop(
                model.parameters(),
                lr=preparation.rate(RATE, at_batch=1024),
                alpha=0.9,
                eps=0.0316,
                momentum=0.9,
                weight_decay=1e-5,
            ),
        )


WORKLOAD = MobileNetV3Workload()
