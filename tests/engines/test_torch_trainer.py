"""A step on torch: its phases, turns, precisions, and what is refused."""

from __future__ import annotations

import torch
from tests.refusals import refused

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import find


def engine(name: str = "lenet", precision: str = "fp32", **preparation: int) -> TorchTrainer:
    wanted = Preparation(**{"batch_size": 2, **preparation})
    return TorchTrainer(find(name), wanted, precision=precision)


def test_a_step_has_its_phases_in_order() -> None:
    phases: list[str] = []
    engine().step(phases.append)
    assert phases == ["data", "forward", "backward", "optimizer"]


def test_an_accumulated_step_repeats_all_but_the_optimizer() -> None:
    phases: list[str] = []
    engine(accumulate=3).step(phases.append)
    assert phases == [*["data", "forward", "backward"] * 3, "optimizer"]


def test_adversaries_take_turns_within_a_step() -> None:
    phases: list[str] = []
    engine("dcgan").step(phases.append)
    assert phases == ["data", "forward", "backward", "optimizer"] * 2


def test_a_game_is_played_once_a_step_however_many_batches() -> None:
    phases: list[str] = []
    engine("dqn", accumulate=3).step(phases.append)
    assert phases.count("game") == 1
    assert phases.count("backward") == 3


def test_samples_of_a_step_are_those_of_all_its_batches() -> None:
    assert engine(accumulate=3).samples_per_step == 6


def test_bf16_narrows_weights_gradients_and_state_and_amp_none_of_them() -> None:
    for precision, dtype in (("bf16", torch.bfloat16), ("amp", torch.float32)):
        one = engine(precision=precision)
        one.step()
        (update,) = one.training.updates
        state = [v for each in update.optimizer.state.values() for v in each.values()]
        assert {value.dtype for value in state} == {dtype}
        assert one.memory()["parameters"] == 61_706 * dtype.itemsize
        assert one.memory()["optimizer_state"] == 61_706 * dtype.itemsize


def test_autocast_multiplies_in_bfloat16() -> None:
    kept: list[torch.dtype] = []
    one = engine(precision="amp")
    one.training.model.register_forward_hook(lambda *_: kept.append(_[-1].dtype))
    one.step()
    assert kept == [torch.bfloat16]


def test_an_evaluation_leaves_the_model_as_it_was() -> None:
    one = engine("squeezenet")
    model = one.training.model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.features[0].eval()
    found = one.evaluate()
    assert 0 <= found["accuracy"] <= 1
    assert found["loss"] > 0
    assert model.training
    assert not model.features[0].training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_gpu_that_is_not_there_and_a_processor_that_nobody_knows_are_refused() -> None:
    wanted = Preparation(batch_size=2)
    with refused("unknown-processor", "--processor tpu", "cpu, cuda"):
        TorchTrainer(find("lenet"), wanted, processor="tpu")
    if not torch.cuda.is_available():
        with refused("no-gpu", "--processor cuda", "torch"):
            TorchTrainer(find("lenet"), wanted, processor="cuda")


def test_precisions_that_nobody_knows_are_refused() -> None:
    with refused("unknown-precision", "fp32, tf32, bf16, amp, amp-fp16"):
        engine(precision="fp8")
