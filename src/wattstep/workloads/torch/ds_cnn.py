"""DS-CNN on spoken words: keyword spotting of MLPerf Tiny."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from wattstep.workloads.data.sound import speech_features
from wattstep.workloads.data.speech_commands import WORDS

FILTERS = 64
BLOCKS = 4


def _norm() -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(FILTERS), nn.ReLU(inplace=True)


def _separable() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(FILTERS, FILTERS, 3, padding=1, groups=FILTERS),
        *_norm(),
        nn.Conv2d(FILTERS, FILTERS, 1),
        *_norm(),
    )


class DsCnn(nn.Module):
    """Depthwise separable convolutions over 49 frames of 10 cepstral coefficients.

    Source: Zhang et al., Hello edge, arXiv 1711.07128, DS-CNN (small), in the form of Banbury
    et al., MLPerf Tiny benchmark, arXiv 2106.07597, section 4.1.2: with biases and dropout.
    """

    def __init__(self, *, classes: int = len(WORDS)) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, FILTERS, (10, 4), stride=2, padding=(5, 1)), *_norm(), nn.Dropout(0.2)
        )
        self.blocks = nn.Sequential(*(_separable() for _ in range(BLOCKS)))
        self.head = nn.Sequential(
            nn.Dropout(0.4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(FILTERS, classes)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Scores (B, classes) of features (B, 1, 49, 10)."""
        scores: Tensor = self.head(self.blocks(self.stem(features)))
        return scores


def encode_speech() -> Callable[[Tensor], Tensor]:
    """The function from waveforms (B, 16000) to features (B, 1, 49, 10).

    Features are made anew for each batch: a device that hears a word makes them once, and the
    waveforms may be varied between epochs.
    """
    compute = speech_features()

    def encode(waveforms: Tensor) -> Tensor:
        return torch.from_numpy(compute(waveforms.numpy()))[:, None]

    return encode
