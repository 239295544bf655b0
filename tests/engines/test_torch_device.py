"""Whether all of a training goes over to another device, and does there what it does on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.engines.far import FAR, FarTensor, far_device
from torch import Tensor, nn

from wattstep.engines.torch import trainer as trainers
from wattstep.engines.torch.processor import move, place
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads import names
from wattstep.workloads.torch import find
from wattstep.workloads.torch.ssdlite import encode_boxes, make_anchors

# One of each kind of layer and of training; the others take longer, BERT minutes.
FEW = {
    "autoencoder", "dcgan", "dqn", "ds-cnn", "lenet", "resnet8",
}  # fmt: skip
EACH = [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in names()]
NO_OP = "ignore:for .*copying from a non-meta"  # what torch takes the name of the device for


class Batch(NamedTuple):
    images: Tensor
    lengths: list[int]


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """--processor cuda is the device that is not there."""

    def found(processor: str, precision: str) -> torch.device:
        return FAR if processor == "cuda" else torch.device("cpu")

    monkeypatch.setattr(trainers, "find_device", found)
    with far_device():
        yield


def train(name: str, processor: str, **more: Any) -> TorchTrainer:
    workload = find(name)
    size = workload.facts.image_size
    if size is not None and size > 96:
        more["image_size"] = max(96, workload.facts.least_image_size)
    precision = more.pop("precision", "fp32")
    wanted = Preparation(batch_size=2, **more)
    trainer = TorchTrainer(workload, wanted, processor=processor, precision=precision)
    if hasattr(trainer.training, "_judged"):
        trainer.training._judged = trainer.training._judged[:8]
    return trainer


def losses(trainer: TorchTrainer) -> list[float]:
    """Of two steps, with what is drawn in them (dropout) drawn anew."""
    torch.manual_seed(5)
    return [trainer.step() for _ in range(2)]


def values(trainer: TorchTrainer) -> dict[str, Tensor]:
    state = trainer.model.state_dict()
    return {key: each.cpu().clone() for key, each in state.items()}


def test_tensors_of_a_batch_go_over_and_all_else_stays() -> None:
    moved = move(Batch(torch.zeros(2), [1, 2]), FAR)
    assert isinstance(moved, Batch)
    assert moved.images.device == FAR
    assert moved.lengths == [1, 2]


def test_what_enters_a_model_goes_over_with_it() -> None:
    model = nn.Linear(3, 2)
    place(model, FAR)
    assert model(torch.zeros(4, 3)).device == FAR
    assert model(input=torch.zeros(4, 3)).device == FAR


def test_the_device_that_is_not_there_meets_no_tensor_of_the_cpu() -> None:
    with far_device():
        there = torch.ones(3).to(FAR)
        assert (there + 1).cpu().tolist() == [2, 2, 2]
        with pytest.raises(RuntimeError, match="two devices"):
            there + torch.ones(3)


@pytest.mark.parametrize("name", EACH)
def test_a_training_there_has_the_losses_weights_and_evaluation_of_one_on_the_cpu(
    name: str, far: None
) -> None:
    """The device computes with the CPU's own kernels, some of them in another order."""
    there, here = train(name, "cuda"), train(name, "cpu")
    assert all(isinstance(each, FarTensor) for each in there.model.parameters())
    assert losses(there) == pytest.approx(losses(here), rel=1e-5)
    assert there.evaluate() == pytest.approx(here.evaluate(), rel=1e-4)
    for key, each in values(here).items():
        torch.testing.assert_close(values(there)[key], each, msg=key)


@pytest.mark.parametrize("how", [{"accumulate": 2}, {"precision": "bf16"}, {"channels_last": True}])
@pytest.mark.parametrize("name", ["lenet", "dcgan"])
def test_so_has_one_of_several_batches_in_bfloat16_or_with_channels_last(
    name: str, how: dict[str, Any], far: None
) -> None:
    there, here = train(name, "cuda", **how), train(name, "cpu", **how)
    assert losses(there) == pytest.approx(losses(here), rel=1e-5)


@pytest.mark.filterwarnings(NO_OP)
def test_a_day_of_training_there_is_judged_and_hashed_as_one_on_the_cpu(
    far: None, tmp_path: Path
) -> None:
    there, here = train("lenet", "cuda"), train("lenet", "cpu")
    one, other = there.classifier, here.classifier
    assert one is not None
    assert other is not None
    assert one.samples == other.samples
    for each in (one, other):
        each.restrict(range(8), seed=3)
    assert there.step() == here.step()
    assert one.hash_weights() == other.hash_weights()
    assert one.right_on(range(70), held_out=True) == other.right_on(range(70), held_out=True)
    assert one.right_on(range(40)) == other.right_on(range(40))

    fresh = train("lenet", "cuda", seed=1)
    assert fresh.classifier is not None
    assert fresh.classifier.hash_weights() != one.hash_weights()
    here.save(tmp_path / "weights.pt")
    fresh.classifier.load_weights(tmp_path / "weights.pt")
    assert fresh.classifier.hash_weights() == one.hash_weights()
    assert all(isinstance(each, FarTensor) for each in fresh.model.parameters())


@pytest.mark.filterwarnings(NO_OP)
@pytest.mark.parametrize(("saved", "loaded"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_a_checkpoint_goes_on_on_either_device(
    saved: str, loaded: str, far: None, tmp_path: Path
) -> None:
    one = train("lenet", saved)
    one.step()
    assert one.save(tmp_path / "one.pt") > 61_706 * 4
    other = train("lenet", loaded)
    other.step()  # so that both draw the same samples next
    other.load(tmp_path / "one.pt")
    device = FAR if loaded == "cuda" else torch.device("cpu")
    (update,) = other.training.updates
    momenta = [state["momentum_buffer"] for state in update.optimizer.state.values()]
    assert {each.device for each in [*other.model.parameters(), *momenta]} == {device}
    assert other.step() == one.step()


def test_boxes_are_encoded_where_they_are() -> None:
    boxes, anchors = torch.ones(2, 6, 4), torch.ones(6, 4)
    assert encode_boxes(boxes.to(FAR), anchors.to(FAR)).device == FAR
    assert make_anchors(64).device == torch.device("cpu")  # the loss takes them over
