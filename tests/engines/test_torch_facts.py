"""Facts that are counted from a model: against what the literature and a pencil say."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from wattstep.engines.torch.facts import FlopCounter, count_published, describe
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import find


def test_operations_of_lenet_are_those_of_a_pencil() -> None:
    # Convolutions 6·25·28² and 16·150·10², then 400·120, 120·84, 84·10; two for a multiply-add.
    by_hand = 2 * (6 * 25 * 784 + 16 * 150 * 100 + 48_000 + 10_080 + 840)
    found = describe(find("lenet"), Preparation(batch_size=3))
    assert found["forward_flops_per_sample"] == by_hand


def test_a_network_of_the_literature_takes_the_operations_of_the_literature() -> None:
    # 4.09 G multiply-adds at 224×224: torchvision's table of ResNet50_Weights ("GFLOPS").
    with torch.device("meta"):
        model = find("resnet50").build(classes=1000, image_size=224)
        counter = FlopCounter()
        with counter, torch.no_grad():
            model(torch.empty(1, 3, 224, 224))
    assert counter.total == pytest.approx(2 * 4.09e9, rel=0.002)


def test_operations_of_attention_and_recurrence_are_counted_as_by_torch_itself() -> None:
    for module, inputs in (
        (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), torch.randn(2, 7, 32)),
        (nn.Conv1d(8, 16, 3), torch.randn(2, 8, 20)),
    ):
        mine, peer = FlopCounter(), FlopCounterMode(display=False)
        with mine, torch.no_grad():
            module(inputs)
        with peer, torch.no_grad():
            module(inputs)
        assert mine.total == peer.get_total_flops() > 0
    # torch's counter leaves the LSTM out: four gates of I + H products for each unit and step.
    counter = FlopCounter()
    with counter, torch.no_grad():
        nn.LSTM(5, 6, batch_first=True)(torch.randn(3, 4, 5))
    assert counter.total == 2 * 3 * 4 * 4 * 6 * (5 + 6)


def test_the_published_network_takes_no_memory_to_count() -> None:
    assert count_published(find("vgg19")) == {
        "classes": 1000,
        "image_size": 224,
        "parameters": 143_667_240,  # torchvision, VGG19_Weights.IMAGENET1K_V1
    }
