"""Categories of networks small enough to be counted by hand."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from wattstep.engines.torch.memory import MemoryTracker, StepMemory, bytes_of_tensors

B, I, H, O = 64, 100, 200, 10  # noqa: E741 - batch, inputs, hidden, outputs
WEIGHTS = I * H + H * H + H * O
FP32 = 4
LOSS = FP32  # one number, which is still there when the backward pass runs

Phase = Callable[[str], None]


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(I, H, bias=False), nn.ReLU(),
        nn.Linear(H, H, bias=False), nn.Tanh(),
        nn.Linear(H, O, bias=False),
    )  # fmt: skip


class Step:
    """Forward, backward and optimizer as the engine marks them."""

    def __init__(self, model: nn.Module, optimizer: Any = None, *, batches: int = 1) -> None:
        self.model = model
        trainable = [each for each in model.parameters() if each.requires_grad]
        self.optimizer = optimizer or torch.optim.Adam(trainable, foreach=False)
        self.batches = batches
        self.data = torch.randn(1000, I)
        self.forward: Callable[[Tensor], Tensor] = model

    def __call__(self, phase: Phase) -> None:
        for _ in range(self.batches):
            phase("data")
            batch = self.data[:B] * 2
            phase("forward")
            loss = (self.forward(batch) ** 2).mean()
            phase("backward")
            loss.backward()
        phase("optimizer")
        self.optimizer.step()
        self.optimizer.zero_grad()

    def followed(self, meter: Any = None) -> StepMemory:
        """The second step: the optimizer has its state by then."""
        self(lambda name: None)
        gc.collect()  # else what other tests left behind is held at first, and given back in the step
        tracker = MemoryTracker(self.model, [self.optimizer], meter)
        with tracker:
            self(tracker.phase)
        return tracker.result()


@pytest.fixture
def adam() -> StepMemory:
    return Step(perceptron()).followed()


def test_parameters_gradients_and_adams_two_moments_are_counted(adam: StepMemory) -> None:
    assert adam.highest["parameters"] == FP32 * WEIGHTS
    assert adam.highest["gradients"] == FP32 * WEIGHTS
    # Two moments a weight, and the number of steps for each of the three tensors.
    assert adam.highest["optimizer_state"] == FP32 * (2 * WEIGHTS + 3)
    assert adam.highest["buffers"] == 0


def test_the_input_is_the_batch_as_the_model_takes_it(adam: StepMemory) -> None:
    assert adam.highest["input"] == FP32 * B * I


def test_the_data_set_is_a_tensor_held(adam: StepMemory) -> None:
    assert adam.highest["held_tensors"] >= FP32 * 1000 * I  # and what other tests hold


def test_feature_maps_are_what_the_backward_pass_needs(adam: StepMemory) -> None:
    """ReLU and tanh keep their results; the square keeps the scores. Inputs of them are gone."""
    kept = FP32 * (B * H + B * H + B * O)
    assert adam.highest["feature_maps"] == kept + LOSS


def test_twice_the_batch_needs_twice_the_feature_maps_and_the_same_parameters() -> None:
    small, large = Step(perceptron()), Step(perceptron())
    large.data = torch.randn(2 * B, I)
    small.data = large.data[:B].clone()
    large.forward = lambda batch: large.model(torch.cat((batch, batch)))
    one, two = small.followed().highest, large.followed().highest
    # The doubled batch is made in the forward pass, and the first layer keeps it.
    doubled = 2 * FP32 * B * I
    assert two["feature_maps"] - LOSS == 2 * (one["feature_maps"] - LOSS) + doubled
    assert two["parameters"] == one["parameters"]


def test_the_peak_of_adam_is_in_its_own_temporaries(adam: StepMemory) -> None:
    assert adam.phase == "optimizer"
    assert adam.categories["gradients"] == FP32 * WEIGHTS
    assert adam.categories["feature_maps"] == LOSS
    # The root of the second moment and the quotient, of the largest weight; and those of the
    # weight before, which Python still holds.
    assert adam.categories["workspace"] == FP32 * (2 * H * H + I * H)


def test_plain_descent_has_no_state_and_peaks_in_the_backward_pass() -> None:
    model = perceptron()
    found = Step(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)).followed()
    assert found.highest["optimizer_state"] == 0
    assert found.phase == "backward"
    assert found.layer is not None


def test_the_layer_of_the_peak_is_named_backward_too() -> None:
    """The widest moment: the first layer's weights get gradients of the wide hidden layer."""
    wide = nn.Sequential(nn.Linear(I, 5000, bias=False), nn.Linear(5000, 2, bias=False))
    found = Step(wide, torch.optim.SGD(wide.parameters(), lr=0.1, foreach=False)).followed()
    assert (found.phase, found.operation, found.layer) == ("backward", "aten.mm.default", "0")
    # The gradient of the hidden layer, and that of the loss, from which all begins.
    assert found.categories["workspace"] == FP32 * (B * 5000 + 1)


def test_frozen_layers_have_neither_gradients_nor_feature_maps_before_them() -> None:
    model = perceptron()
    for parameter in (*model[0].parameters(), *model[2].parameters()):
        parameter.requires_grad_(False)
    found = Step(model).followed()
    assert found.highest["gradients"] == FP32 * H * O
    # The last layer needs its input; the square needs the scores. The rest is freed as it goes.
    assert found.highest["feature_maps"] == FP32 * (B * H + B * O) + LOSS


def test_batches_that_are_accumulated_share_their_gradients() -> None:
    once, thrice = Step(perceptron()).followed(), Step(perceptron(), batches=3).followed()
    assert thrice.highest["gradients"] == once.highest["gradients"] == FP32 * WEIGHTS
    assert thrice.highest["feature_maps"] <= once.highest["feature_maps"] + LOSS


def test_tied_parameters_count_once() -> None:
    first, second = nn.Linear(I, I, bias=False), nn.Linear(I, I, bias=False)
    second.weight = first.weight
    found = Step(nn.Sequential(first, nn.ReLU(), second)).followed()
    assert found.highest["parameters"] == found.highest["gradients"] == FP32 * I * I


def test_views_and_operations_in_place_make_nothing() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(I, H, bias=False)

        def forward(self, batch: Tensor) -> Tensor:
            hidden: Tensor = self.linear(batch).relu_()
            return hidden.view(-1).reshape(B, H)[:, :]

    found = Step(Views()).followed()
    # ReLU's result in the place of its input, which the square keeps as well.
    assert found.highest["feature_maps"] == FP32 * B * H + LOSS


def test_buffers_of_batch_normalisation_are_told_from_parameters() -> None:
    model = nn.Sequential(nn.Linear(I, H, bias=False), nn.BatchNorm1d(H))
    found = Step(model).followed()
    assert found.highest["buffers"] == FP32 * 2 * H + 8  # mean, variance, a counter of 8 bytes
    assert found.highest["parameters"] == FP32 * (I * H + 2 * H)


def test_bfloat16_needs_half() -> None:
    step = Step(perceptron().to(torch.bfloat16))
    step.data = step.data.to(torch.bfloat16)
    found = step.followed().highest
    assert found["parameters"] == found["gradients"] == 2 * WEIGHTS
    assert found["input"] == 2 * B * I
    assert found["feature_maps"] == 2 * (2 * B * H + B * O) + 2


def test_mixed_precision_keeps_the_weights_narrow_copies_for_the_backward_pass() -> None:
    step = Step(perceptron())

    def forward(batch: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores: Tensor = step.model(batch)
        return scores

    step.forward = forward
    found = step.followed().highest
    assert found["parameters"] == found["gradients"] == FP32 * WEIGHTS
    # Copies in two bytes: of the weights but the first layer's, whose input needs no gradient, of
    # the batch, of the results of the activations, of the scores, and the loss.
    narrow = H * H + H * O + B * I + 2 * B * H + B * O + 1
    assert found["feature_maps"] == 2 * narrow


def test_checkpointing_trades_feature_maps_for_computing_them_again() -> None:
    layers = [nn.Sequential(nn.Linear(I, I, bias=False), nn.Tanh()) for _ in range(6)]
    whole, parts = nn.Sequential(*layers), nn.Sequential(*layers)
    plain = Step(whole).followed()
    step = Step(parts)

    def forward(batch: Tensor) -> Tensor:
        for layer in parts:
            batch = checkpoint(layer, batch, use_reentrant=False)
        return batch

    step.forward = forward
    again = step.followed()
    one = FP32 * B * I
    # Results of six layers either way, as inputs of the next; again, one more while it is redone.
    assert plain.highest["feature_maps"] == 6 * one + LOSS
    assert 6 * one + LOSS <= again.highest["feature_maps"] <= 8 * one + LOSS
    assert again.highest["gradients"] == FP32 * 6 * I * I


def test_what_is_computed_without_gradients_is_workspace() -> None:
    step = Step(perceptron())

    def forward(batch: Tensor) -> Tensor:
        with torch.no_grad():
            step.model(batch)
        scores: Tensor = step.model(batch)
        return scores

    step.forward = forward
    assert step.followed().highest["feature_maps"] == FP32 * (2 * B * H + B * O) + LOSS


def test_two_optimizers_and_their_turns_are_told_apart_from_nothing() -> None:
    one, two = perceptron(), perceptron()
    both = nn.ModuleList([one, two])
    first, second = Step(one), Step(two)

    def turns(phase: Phase) -> None:
        first(phase)
        second(phase)

    turns(lambda name: None)
    tracker = MemoryTracker(both, [first.optimizer, second.optimizer])
    with tracker:
        turns(tracker.phase)
    found = tracker.result().highest
    assert found["parameters"] == 2 * FP32 * WEIGHTS
    assert found["gradients"] == FP32 * WEIGHTS  # one turn's are gone when the other's are made
    assert found["optimizer_state"] == 2 * FP32 * (2 * WEIGHTS + 3)


def test_a_training_learns_the_same_while_it_is_followed() -> None:
    results = []
    for follow in (False, True):
        torch.manual_seed(3)
        step = Step(perceptron())
        step.data = torch.linspace(-1, 1, 1000 * I).reshape(1000, I)
        if follow:
            step.followed()
        else:
            step(lambda name: None)
            step(lambda name: None)
        results.append([parameter.detach().clone() for parameter in step.model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_an_error_in_a_step_leaves_nothing_behind() -> None:
    hooks = len(nn.modules.module._global_forward_pre_hooks)
    tracker = MemoryTracker(perceptron(), [])
    with pytest.raises(ZeroDivisionError), tracker:
        1 / 0  # noqa: B018
    assert len(nn.modules.module._global_forward_pre_hooks) == hooks


class Scripted:
    """A meter whose operations take scratch space of 100 bytes, the seventh 1,000."""

    def __init__(self) -> None:
        self.operations = 0

    def begin(self) -> int:
        self.operations += 1
        return 5_000_000

    def end(self) -> int:
        return 5_000_000 + (1000 if self.operations == 7 else 100)

    def absent(self, address: int, size: int) -> int:
        return 0

    def cache(self) -> None:
        pass


def test_scratch_space_is_what_an_operation_takes_beyond_its_tensors() -> None:
    meter = Scripted()
    model = nn.Linear(2, 2, bias=False)
    step = Step(model)
    step.data = torch.randn(B, 2)
    found = step.followed(meter)
    assert found.demand == 5_001_000
    assert found.operations == meter.operations
    assert found.scratch is not None
    assert 0 <= found.scratch <= 1000


def test_tensors_of_another_device_are_no_part_of_it() -> None:
    step = Step(perceptron())
    step(lambda name: None)
    tracker = MemoryTracker(step.model, [step.optimizer], Scripted(), "cuda")
    with tracker:
        step(tracker.phase)
    found = tracker.result()
    assert set(found.categories.values()) == set(found.highest.values()) == {0}
    assert found.scratch == 1000  # all of it: nothing that was made lies there


def test_bytes_of_tensors_count_shared_memory_once() -> None:
    before = bytes_of_tensors()
    tensor = torch.zeros(1000)
    views = [tensor[:10], tensor.view(10, 100)]
    assert bytes_of_tensors() - before == 4000
    del views, tensor
    assert bytes_of_tensors() == before


@pytest.mark.filterwarnings("ignore")  # the profiler's own
def test_the_peak_is_that_which_the_allocator_reports_of_itself() -> None:
    step = Step(perceptron())
    found = step.followed()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step(lambda name: None)
    events = profile.profiler.kineto_results.events()
    changes = [each for each in events if each.name() == "[memory]"]
    levels = list(accumulate(each.nbytes() for each in sorted(changes, key=_start)))
    assert sum(found.categories.values()) - found.before == pytest.approx(max(levels), rel=0.001)


def _start(event: Any) -> int:
    return int(event.start_ns())
