"""What a convolution does on a CPU, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.predict.cpu.time import work_of
from wattstep.schema.step_graph import Convolution, StepGraph

# LeNet's second convolution at batch 4: 6 channels of 14x14 pixels to 16 of 10x10.
ONEDNN = Convolution(
    images=4, inputs=6, outputs=16, kernel=(5, 5), stride=(1, 1), groups=1, input_size=(14, 14), output_size=(10, 10),
)  # fmt: skip
# So few images of a 1x1 kernel take torch's own.
OWN = Convolution(
    images=4, inputs=8, outputs=32, kernel=(1, 1), stride=(1, 1), groups=1, input_size=(10, 10), output_size=(10, 10),
)  # fmt: skip
READ, WRITTEN = 1000.0, 500.0


def step(one: Convolution, flops: float) -> StepGraph:
    """A step of one convolution."""
    return StepGraph(
        batch_size=4.0, names=("aten::convolution",), kinds=("convolution",), phases=("forward",), layers=("",),
        flops=np.array([flops]), read_bytes=np.array([READ]), written_bytes=np.array([WRITTEN]),
        sizes=np.array([1.0]), categories=("feature_maps",), made=np.array([1]), freed=np.array([2]), counts={},
        convolutions={0: one},
    )  # fmt: skip


@pytest.mark.parametrize("filled", [True, False])
def test_channels_that_fill_layouts_and_copies_of_weights(*, filled: bool) -> None:
    flops = 2 * 4 * 100 * 6 * 16 * 25
    [[_, computed, moved, _]] = work_of(step(ONEDNN, flops), cache=1e6, filled=filled).features
    # 6 channels fill 16; each copy is read and written.
    taken, weights, given = 4 * 196 * 16 * 4, 16 * 16 * 25 * 4, 4 * 100 * 16 * 4
    assert computed == pytest.approx(flops * 16 / 6 if filled else flops)
    assert moved == READ + WRITTEN + 2 * (taken + given + weights * filled)


@pytest.mark.parametrize("passes", [1, 2])
def test_weights_are_read_anew_for_each_image(passes: int) -> None:
    flops = passes * 2 * 4 * 100 * 8 * 32
    [[_, computed, moved, _]] = work_of(step(OWN, flops), cache=1e6).features
    assert computed == flops
    assert moved == READ + WRITTEN + passes * 3 * (8 * 32 * 4)
