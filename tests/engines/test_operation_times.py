"""Operations of real steps timed one by one, also where steps differ from each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from wattstep.engines.torch.operation_times import time_operations
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.errors import RecordingError
from wattstep.schema.workload import Phase, Preparation
from wattstep.workloads.torch import find

ABS = "aten::abs"


class Differing:
    """An update whose data take so many more operations in each of its steps.

    Args:
        update: What it is otherwise.
        more: Their number by that of the step, from 0 on.
    """

    def __init__(self, update: Any, more: Callable[[int], int]) -> None:
        self._update, self._more, self._steps = update, more, 0
        self.optimizer = update.optimizer
        self.loss = update.loss

    def next_batch(self, phase: Phase) -> Any:
        for _ in range(self._more(self._steps)):
            torch.ones(1).abs()
        self._steps += 1
        return self._update.next_batch(phase)


def timed(more: Callable[[int], int], name: str = "mlp") -> Mapping[str, int]:
    """How often each operation is in the steps that were timed."""
    trainer = TorchTrainer(find(name), Preparation(batch_size=2), threads=1)
    trainer.updates = tuple(Differing(each, more) for each in trainer.updates)
    times = time_operations(trainer)
    assert times.seconds.shape == (times.graph.count,)
    assert (times.seconds > 0).all()
    return {each: times.graph.names.count(each) for each in set(times.graph.names)}


def test_operations_of_steps_that_are_all_alike() -> None:
    assert ABS not in timed(lambda step: 0)


def test_three_kinds_of_steps_one_after_the_other_are_one_of_them_in_the_end() -> None:
    # No two of any three steps are alike, as where an epoch ends or a player moves at random.
    assert timed(lambda step: step % 3 + 1)[ABS] in (1, 2, 3)


def test_the_operations_that_most_steps_have_are_timed() -> None:
    # Every fourth step is of another kind; whichever step is the first, three of one kind come before two of it.
    assert timed(lambda step: 2 if step % 4 == 0 else 1)[ABS] == 1


def test_steps_of_which_no_two_are_alike_are_not_timed() -> None:
    with pytest.raises(RecordingError, match="16 steps"):
        timed(lambda step: step)


def test_a_player_that_moves_at_random_at_times_is_timed() -> None:
    assert timed(lambda step: 0, "dqn")["aten::convolution"] > 0
