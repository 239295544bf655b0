"""MobileNetV1, a quarter as wide, on small pictures with or without a person: MLPerf Tiny."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wattstep.records.workload import Preparation, Published, Training, WorkloadFacts
from wattstep.workloads.data.visual_wake_words import DEVIATION, MEAN, read_pictures
from wattstep.workloads.supervised import SupervisedTraining, build_on, encode_images

# By which the numbers of channels are multiplied.
WIDTH = 0.25
# Output channels and stride of each pair of depthwise and pointwise convolution, at width 1.
PAIRS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
RATE = 1e-3


def _conv_norm(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolutions keep their biases before the normalisation, as in the reference."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class MobileNetV1(nn.Module):
    """MobileNet of depthwise separable convolutions.

    Source: Howard et al., arXiv 1704.04861, table 1; at width 0.25 and with biases as in
    Banbury et al., MLPerf Tiny benchmark, arXiv 2106.07597, section 4.1.1.
    """

    def __init__(self, *, classes: int = 2) -> None:
        super().__init__()
        channels = int(32 * WIDTH)
        self.stem = _conv_norm(3, channels, 3, stride=2)
        self.pairs = nn.Sequential()
        for wide, stride in PAIRS:
            outputs = int(wide * WIDTH)
            depthwise = _conv_norm(channels, channels, 3, stride=stride, groups=channels)
            self.pairs.append(nn.Sequential(depthwise, _conv_norm(channels, outputs, 1)))
            channels = outputs
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.pairs(self.stem(images)))
        return scores


def _initialise(module: nn.Module) -> None:
    """After He et al., arXiv 1502.01852."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class MobileNetV1Workload:
    """MobileNetV1 at width 0.25 with Adam, as in the reference."""

    facts = WorkloadFacts(
        name="mobilenetv1-vww",
        title="MobileNetV1 0.25",
        domain="computer vision",
        task="image classification: is a person in the picture?",
        dominant_layer="conv",
        dataset="Visual Wake Words",
        input_shape=(3, 96, 96),
        source="Banbury et al., MLPerf Tiny benchmark, arXiv 2106.07597",
        published=Published(classes=2, image_size=96),
        classes=2,
        image_size=96,
        # The last feature map, a 32th, must have more than one pixel to normalise over.
        least_image_size=33,
    )

    def build(self, *, classes: int | None, image_size: int | None) -> MobileNetV1:
        """As `Workload.build`; the images' size changes no parameter."""
        return MobileNetV1(classes=classes or 2)

    def prepare(self, preparation: Preparation) -> Training:
        """As `Workload.prepare`; seeds torch's own generator."""
        model = build_on(self, preparation)
        size = preparation.image_size_for(self.facts)
        return SupervisedTraining(
            samples=read_pictures(preparation.data_dir),
            model=model,
            optimizer=torch.optim.Adam(model.parameters(), lr=preparation.rate(RATE, at_batch=32)),
            encode=encode_images(mean=MEAN, deviation=DEVIATION, size=size),
            preparation=preparation,
        )


WORKLOAD = MobileNetV1Workload()
