"""How a model is judged: on samples that are spread over all that are held out, and how many."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wattstep.schema.workload import Preparation
from wattstep.train.daily.settings import DailySettings
from wattstep.train.daily.split import split
from wattstep.workloads.data.samples import Array, describe
from wattstep.workloads.torch.supervised import SupervisedTraining, spread


class AlwaysFirst(nn.Module):
    """Scores 1 for the first of two classes and 0 for the second, for each number that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        scores = torch.stack((torch.ones_like(inputs), torch.zeros_like(inputs)), dim=1)
        return scores + self.weight


def judged_on(targets: Array, **settings: int) -> SupervisedTraining:
    inputs = np.zeros(targets.shape, np.float32)
    model = AlwaysFirst()
    return SupervisedTraining(
        samples=describe(
            name="made", inputs=inputs[:40], targets=targets[:40], held_out=(inputs, targets)
        ),
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        encode=Tensor.float,
        preparation=Preparation(batch_size=4),
        **settings,
    )


@pytest.fixture
def ordered() -> Array:
    """A thousand samples, of the first class all before those of the second."""
    return np.repeat(np.array([0, 1], np.uint8), 500)


def test_samples_that_lie_in_order_are_judged_from_both_ends(ordered: Array) -> None:
    # The first 512 would have given 500 / 512.
    figures = judged_on(ordered).evaluate()
    assert figures["accuracy"] == 0.5
    assert figures["judged"] == 512
    # -log of e / (e + 1) where it is right, of 1 / (e + 1) where it is wrong.
    assert figures["loss"] == pytest.approx(math.log(1 + math.e) - 0.5)
    assert "positions" not in figures


def test_an_evaluation_looks_at_all_where_there_are_few(ordered: Array) -> None:
    assert judged_on(ordered, evaluated=2000).evaluate()["judged"] == 1000
    assert judged_on(ordered[:0]).evaluate() == {}


def test_positions_of_a_sample_are_counted_apart_and_ignored_ones_not_at_all() -> None:
    targets = np.array([[0, 1, -100], [0, 0, 1]] * 20, np.int16)
    figures = judged_on(targets).evaluate()
    assert (figures["judged"], figures["positions"]) == (40, 100)
    assert figures["accuracy"] == pytest.approx(3 / 5)


def test_daily_training_is_judged_on_as_many_as_it_asks_for(ordered: Array) -> None:
    training = judged_on(ordered)
    assert training.samples == (40, 1000)
    parts = split(
        DailySettings(workload="lenet", days=1, images_per_day=4, judged=900), *training.samples
    )
    right = training.right_on(parts.held_out, held_out=True)
    assert len(right) == 900
    assert right == [index < 500 for index in parts.held_out]


@pytest.mark.parametrize(
    ("count", "most", "wanted"),
    [(3, 5, [0, 1, 2]), (11, 3, [0, 5, 10]), (0, 3, []), (4, 4, [0, 1, 2, 3])],
)
def test_indices_are_spread_from_the_first_to_the_last(
    count: int, most: int, wanted: list[int]
) -> None:
    assert spread(count, most).tolist() == wanted


def test_no_sample_is_judged_twice() -> None:
    for count in (513, 700, 1023, 10_000):
        assert len(set(spread(count, 512).tolist())) == 512
