"""Whether all of a training goes over to another device: torch's "meta" stands in for a GPU.

It holds no values, and refuses operations whose tensors lie on two devices as a GPU does.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from wattstep.engines.torch.processor import move, place
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import find
from wattstep.workloads.torch.ssdlite import encode_boxes, make_anchors

META = torch.device("meta")


class Batch(NamedTuple):
    images: Tensor
    lengths: list[int]


def test_tensors_of_a_batch_go_over_and_all_else_stays() -> None:
    moved = move(Batch(torch.zeros(2), [1, 2]), META)
    assert isinstance(moved, Batch)
    assert moved.images.device == META
    assert moved.lengths == [1, 2]


def test_what_enters_a_model_goes_over_with_it() -> None:
    model = nn.Linear(3, 2)
    place(model, META)
    assert model(torch.zeros(4, 3)).device == META
    assert model(input=torch.zeros(4, 3)).device == META


@pytest.mark.parametrize(
    "name", ["lenet", "dcgan", "autoencoder", "gpt", "char-cnn", "vit-tiny", "mobilenetv3-small"]
)
def test_no_part_of_a_step_stays_behind(name: str) -> None:
    training = find(name).prepare(Preparation(batch_size=2))
    place(training.model, META)
    for turn in training.turns:
        loss = turn.loss(move(turn.next_batch(lambda name: nullcontext()), META))
        assert loss.device == META
        loss.backward()


def test_an_evaluation_comes_as_far_as_its_first_number() -> None:
    training = find("lenet").prepare(Preparation(batch_size=2))
    place(training.model, META)
    with pytest.raises(RuntimeError, match="item"):  # which "meta" does not have
        training.evaluate()


def test_boxes_are_encoded_where_they_are() -> None:
    boxes, anchors = torch.ones(2, 6, 4), torch.ones(6, 4)
    assert encode_boxes(boxes.to(META), anchors.to(META)).device == META
    assert make_anchors(64).device == torch.device("cpu")  # the loss takes them over
