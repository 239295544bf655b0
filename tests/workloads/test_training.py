"""What every workload promises while it trains, whichever it is."""

import contextlib
import math

import pytest
import torch
from tests.refusals import refused

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads import names
from wattstep.workloads.torch import find
from wattstep.workloads.torch.supervised import Order

# Seconds a step, or more: what holds for all is tried once on these, the rest on the others.
HEAVY = {"bert", "lora", "resnet101", "resnet152", "vgg19", "whisper-tiny"}
LIGHT = [name for name in names() if name not in HEAVY]
SEEDED = ["char-cnn", "dcgan", "dqn", "lenet", "resnet8", "squeezenet"]


def unmarked(_):
    return contextlib.nullcontext()


LARGE = ("bert", "lora", "resnet152", "vgg19", "whisper-tiny")
EACH = [pytest.param(name, marks=pytest.mark.long) if name in LARGE else name for name in names()]


def engine_of(name, *, precision="fp32", whole=False, **preparation):
    """An engine; of images of their `whole` size, or smaller ones."""
    workload = find(name)
    size = workload.facts.image_size
    if not whole and size is not None and size > 128:
        # A smaller image has the same operations, and takes a tenth of the time.
        preparation["image_size"] = max(96, workload.facts.least_image_size)
    return TorchTrainer(workload, Preparation(**preparation), precision=precision)


@pytest.mark.parametrize("name", EACH)
def test_two_steps_of_two_samples_move_every_trainable_parameter_by_its_gradient(name):
    engine = engine_of(name, batch_size=2, whole=True)
    model = engine.training.model
    moving = {key: each for key, each in model.named_parameters() if each.requires_grad}
    before = {key: each.detach().clone() for key, each in moving.items()}
    reached = set()

    def note(key):
        # Weight decay alone moves parameters, too: a gradient must have come.
        return lambda each: reached.add(key) if each.grad.abs().sum() > 0 else None

    for key, each in moving.items():
        each.register_post_accumulate_grad_hook(note(key))
    losses = [engine.step() for _ in range(2)]
    assert all(math.isfinite(loss) for loss in losses)
    assert set(moving) - reached == set()
    assert [key for key, each in moving.items() if torch.equal(each, before[key])] == []


@pytest.mark.parametrize("precision", ["bf16", "amp"])
@pytest.mark.parametrize("name", EACH)
def test_a_step_in_less_precision_has_a_finite_loss(name, precision):
    if precision not in find(name).facts.precisions:
        with refused("precision-not-for-workload", precision, name):
            engine_of(name, batch_size=2, precision=precision)
        return
    engine = engine_of(name, batch_size=2, precision=precision)
    assert math.isfinite(engine.step())
    wanted = torch.bfloat16 if precision == "bf16" else torch.float32
    assert {each.dtype for each in engine.training.model.parameters()} == {wanted}


@pytest.mark.parametrize("name", LIGHT)
def test_gradients_of_several_batches_of_one_sample_add_up_to_one_step(name):
    engine = engine_of(name, batch_size=1, accumulate=2)
    phases = []
    assert math.isfinite(engine.step(phases.append))
    assert phases.count("optimizer") == len(engine.training.updates)
    assert phases.count("backward") == 2 * len(engine.training.updates)


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_repeats_the_losses_and_another_does_not(name):
    def losses(seed):
        engine = engine_of(name, batch_size=2, seed=seed)
        return [engine.step() for _ in range(2)]

    assert losses(7) == losses(7)
    assert losses(7) != losses(8)


@pytest.mark.parametrize("name", [name for name in LIGHT if find(name).facts.image_size])
def test_a_batch_of_images_has_the_shape_in_the_facts(name):
    training = engine_of(name, batch_size=3, whole=True).training
    batch = training.updates[0].next_batch(unmarked)
    images = batch[0] if isinstance(batch, tuple) else batch
    assert tuple(images.shape) == (3, *find(name).facts.input_shape)


@pytest.mark.parametrize("name", names())
def test_what_does_not_fit_a_workload_is_refused_by_name(name):
    facts = find(name).facts
    with refused("out-of-range", name, "batch", "1"):
        find(name).prepare(Preparation(batch_size=0))
    if facts.classes is None:
        with refused("no-classes", "--classes", name):
            find(name).prepare(Preparation(batch_size=1, classes=5))
    if facts.image_size is None:
        with refused("no-image-size", "--image-size", name):
            find(name).prepare(Preparation(batch_size=1, image_size=64))


def test_an_accumulated_step_equals_a_step_of_the_larger_batch():
    # LeNet normalises over nothing, so that four samples at once or in two halves are the same.
    def weights(**preparation):
        engine = engine_of("lenet", seed=3, **preparation)
        engine.step()
        return torch.cat([each.detach().flatten() for each in engine.training.model.parameters()])

    whole, halves = weights(batch_size=4), weights(batch_size=2, accumulate=2)
    torch.testing.assert_close(whole, halves, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "rate"), [("linear", 0.1 * 32 / 8), ("sqrt", 0.1 * 2), ("fixed", 0.1)]
)
def test_the_learning_rate_follows_the_samples_of_a_step_by_the_rule(rule, rate):
    preparation = Preparation(batch_size=16, accumulate=2, rate_rule=rule)
    assert preparation.rate(0.1, at_batch=8) == pytest.approx(rate)


def test_an_epoch_sees_every_sample_once_and_the_next_in_another_order():
    order = Order(samples=50, seed=3)
    drawn = torch.cat([order.draw(20) for _ in range(5)]).tolist()
    assert sorted(drawn[:50]) == list(range(50))
    assert sorted(drawn[50:]) == list(range(50))
    assert drawn[:50] != drawn[50:]


def test_a_batch_of_a_hundred_thousand_epochs_is_drawn_in_one_piece():
    whole, parts = Order(samples=3, seed=0), Order(samples=3, seed=0)
    drawn = whole.draw(300_000)  # 120 GB were copied where each epoch was added to all before
    assert torch.equal(drawn[:300], torch.cat([parts.draw(30) for _ in range(10)]))
    assert torch.bincount(drawn).tolist() == [100_000] * 3


def test_a_batch_may_be_larger_than_the_data():
    drawn = Order(samples=3, seed=0).draw(8)
    assert torch.bincount(drawn).tolist() in ([3, 3, 2], [3, 2, 3], [2, 3, 3])
