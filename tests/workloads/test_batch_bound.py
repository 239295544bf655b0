"""A batch whose inputs alone are larger than the memory is refused before it is drawn."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from wattstep import workloads
from wattstep.train.batch_bound import check_batch

LENET, RESNET = (workloads.find(name).facts for name in ("lenet", "resnet50"))
DIGIT = 28 * 28 * 2  # bytes of a sample in bfloat16


def test_the_bound_is_where_the_inputs_fill_the_memory() -> None:
    check_batch(LENET, 1000, memory=1000 * DIGIT)
    with refused("batch-beyond-memory", "--batch 1001", "lenet"):
        check_batch(LENET, 1001, memory=1000 * DIGIT)


def test_images_of_another_size_count_as_they_are() -> None:
    pixels = 3 * 16 * 16 * 2
    check_batch(RESNET, 10, 16, memory=10 * pixels)
    with refused("batch-beyond-memory"):
        check_batch(RESNET, 11, 16, memory=10 * pixels)


@pytest.mark.parametrize("name", workloads.names())
def test_batches_that_people_train_pass_and_absurd_ones_do_not(name: str) -> None:
    facts = workloads.find(name).facts
    check_batch(facts, 256)
    with refused("batch-beyond-memory", "GiB"):
        check_batch(facts, 10**400)
