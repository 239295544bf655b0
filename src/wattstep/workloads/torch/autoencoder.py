"""Fully connected autoencoder on the sound of machines: anomaly detection of MLPerf Tiny."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from wattstep.workloads.data.toyadmos import VALUES

HIDDEN = (*(128,) * 4, 8, *(128,) * 4)


class Norm(nn.BatchNorm1d):
    """Batch normalisation that can train on a single sample: then with the running statistics.

    One value has no spread to divide by.
    """

    def forward(self, values: Tensor) -> Tensor:
        """(B, features), normalised over the batch."""
        if len(values) > 1 or not self.training:
            return super().forward(values)
        return functional.batch_norm(
            values, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class Autoencoder(nn.Module):
    """640 values through nine hidden layers, the middle one 8 wide, and back to 640.

    Source: Koizumi et al., DCASE 2020 task 2, arXiv 2006.05822, baseline system; the same in
    Banbury et al., MLPerf Tiny benchmark, arXiv 2106.07597, section 4.1.4.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential()
        width = VALUES
        for outputs in HIDDEN:
            self.layers.append(
                nn.Sequential(nn.Linear(width, outputs), Norm(outputs), nn.ReLU(inplace=True))
            )
            width = outputs
        self.last = nn.Linear(width, VALUES)

    def forward(self, values: Tensor) -> Tensor:
        """(B, 640) to (B, 640), which should be the same."""
        again: Tensor = self.last(self.layers(values))
        return again
