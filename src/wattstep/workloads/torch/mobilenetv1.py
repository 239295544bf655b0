"""MobileNetV1, a quarter as wide, on small pictures with or without a person: MLPerf Tiny."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from wattstep.workloads.torch.blocks import RELU, conv_norm, draw_weights

# By which the numbers of channels are multiplied.
WIDTH = 0.25
# Output channels and stride of each pair of depthwise and pointwise convolution, at width 1.
PAIRS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
# Convolutions keep their biases before the normalisation, as in the reference.
biased_conv_norm = partial(conv_norm, bias=True, activation=RELU)


class MobileNetV1(nn.Module):
    """MobileNet of depthwise separable convolutions.

    Source: Howard et al., arXiv 1704.04861, table 1; at width 0.25 and with biases as in
    Banbury et al., MLPerf Tiny benchmark, arXiv 2106.07597, section 4.1.1.
    """

    def __init__(self, *, classes: int = 2) -> None:
        super().__init__()
        channels = int(32 * WIDTH)
        self.stem = biased_conv_norm(3, channels, 3, stride=2)
        self.pairs = nn.Sequential()
        for wide, stride in PAIRS:
            outputs = int(wide * WIDTH)
            depthwise = biased_conv_norm(channels, channels, 3, stride=stride, groups=channels)
            self.pairs.append(nn.Sequential(depthwise, biased_conv_norm(channels, outputs, 1)))
            channels = outputs
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
        draw_weights(self, mode="fan_out")

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W)."""
        scores: Tensor = self.head(self.pairs(self.stem(images)))
        return scores
