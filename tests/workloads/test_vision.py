"""What the image networks promise: the published counts and shapes, and that they learn."""

import contextlib
import math

import pytest
import torch
from tests.refusals import refused

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import find
from wattstep.workloads.torch.googlenet import ResponseNorm

# Szegedy et al., arXiv 1409.4842, table 1, worked out by hand: k²·in·out + out of each
# convolution, e.g. inception 3a on 192 channels: 193·64 + 193·96 + 865·128 + 193·16 + 401·32 +
# 193·32 = 163,696. Netscope has the same sum for Caffe's bvlc_googlenet.
INCEPTIONS = 163_696 + 388_736 + 376_176 + 449_160 + 510_104 + 605_376 + 868_352
INCEPTIONS += 1_043_456 + 1_444_080
# 7×7 from 3 to 64, 1×1 from 64 to 64, 3×3 from 64 to 192; 1,025 for each class.
GOOGLENET = 9_472 + 4_160 + 110_784 + INCEPTIONS

# Generators and discriminators of DCGAN: 16 weights a pair of channels, two a normalised channel.
DCGAN_64 = 16 * (100 * 512 + 512 * 256 + 256 * 128 + 128 * 64 + 64 * 3) + 2 * (512 + 256 + 128 + 64)
DCGAN_64 += 16 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 512 + 512) + 2 * (128 + 256 + 512)
DCGAN_32 = 16 * (100 * 256 + 256 * 128 + 128 * 64 + 64 * 3) + 2 * (256 + 128 + 64)
DCGAN_32 += 16 * (3 * 64 + 64 * 128 + 128 * 256 + 256) + 2 * (128 + 256)

# Name, published classes, published image size, parameters, and who says so.
# As they train by default: 990 classes less, and what else differs on small images.
BY_DEFAULT = [
    # 110 weights and norms for each channel that one of 12 filters reads. Layer n of all reads
    # 16 + 12n, n < 96: 110 · (96·16 + 12·4560); transitions 400² + 800, 784² + 1568; last norm
    # 2 · 1168; classifier 1168·10 + 10.
    ("densenet100", 432 + 6_188_160 + 160_800 + 616_224 + 2_336 + 11_690),
    # The same with n < 36: 110 · (36·16 + 12·630), transitions of 160 and 304, last norm of 448.
    ("densenet40", 432 + 894_960 + 25_920 + 93_024 + 896 + 4_490),
    ("alexnet", 61_100_840 - 990 * 4097),
    ("alexnet-224", 61_100_840 - 990 * 4097),
    ("dcgan", DCGAN_32),
    ("googlenet", GOOGLENET + 10 * 1025),
    ("inceptionv1", GOOGLENET + 10 * 1025),
    # https://github.com/kuangliu/pytorch-cifar; a stem of 3×3 for one of 7×7: 64·3·(49 - 9) less.
    ("resnet50", 23_520_842),
    ("resnet101", 42_512_970),
    ("resnet152", 58_156_618),
    ("squeezenet", 1_248_424 - 990 * 513),
    # The TX2 paper, table II: 134M
    ("vgg16", 134_301_514),
    ("vgg19", 143_667_240 - 990 * 4097),
    ("xception", 22_855_952 - 990 * 2049),
]

# Name, image size, the part before the classifier, and what it hands on: at large sizes from the
# tables of the papers, at 32 from halving by hand.
FEATURES = [
    ("alexnet-224", 224, "features", (256, 6, 6)),
    ("alexnet", 32, "features", (256, 2, 2)),
    ("densenet40", 32, "blocks", (448, 8, 8)),
    ("densenet100", 32, "blocks", (1168, 8, 8)),
    ("googlenet", 224, "inceptions", (1024, 7, 7)),
    ("inceptionv1", 32, "inceptions", (1024, 1, 1)),
    ("resnet50", 224, "stages", (2048, 7, 7)),
    ("resnet50", 32, "stages", (2048, 4, 4)),
    ("resnet101", 32, "stages", (2048, 4, 4)),
    ("resnet152", 32, "stages", (2048, 4, 4)),
    ("squeezenet-224", 224, "features", (512, 13, 13)),
    ("squeezenet", 32, "features", (512, 1, 1)),
    ("vgg16", 224, "features", (512, 7, 7)),
    ("vgg19", 32, "features", (512, 1, 1)),
    ("xception", 299, "exit", (2048, 10, 10)),
    ("xception", 32, "exit", (2048, 2, 2)),
]

# Name, batch size, rule, steps, and the share of the first loss that is left at most.
BY_HEART = [
    ("alexnet", 8, "linear", 10, 0.7),
    ("inceptionv1", 4, "fixed", 24, 0.5),
    ("lenet", 8, "linear", 60, 0.3),
    ("squeezenet", 8, "linear", 80, 0.5),
]

CLASSIFIERS = [row[0] for row in BY_DEFAULT if row[0] != "dcgan"]


def unmarked(_):
    return contextlib.nullcontext()


def build(name, *, classes, image_size):
    """Without weights, which would take hundreds of megabytes."""
    with torch.device("meta"):
        return find(name).build(classes=classes, image_size=image_size)


def count(model):
    return sum(each.numel() for each in model.parameters())


def see(model, *, image_size, batch_size=1):
    return model(torch.zeros(batch_size, 3, image_size, image_size, device="meta"))


def take(update, *, steps=1):
    losses = []
    for _ in range(steps):
        update.optimizer.zero_grad()
        loss = update.loss(update.next_batch(unmarked))
        loss.backward()
        update.optimizer.step()
        losses.append(loss.item())
    return losses


def test_counts_worked_out_by_hand_are_those_of_the_literature():
    assert GOOGLENET + 1000 * 1025 == 6_998_552
    assert DCGAN_64 == 3_576_704 + 2_765_568


@pytest.mark.parametrize(("name", "parameters"), BY_DEFAULT)
def test_by_default_there_are_ten_classes_and_no_other_difference(name, parameters):
    facts = find(name).facts
    model = build(name, classes=facts.classes, image_size=facts.image_size)
    assert count(model) == parameters


@pytest.mark.parametrize(("name", "image_size", "part", "shape"), FEATURES)
def test_feature_maps_are_as_large_as_in_the_paper(name, image_size, part, shape):
    model = build(name, classes=7, image_size=image_size)
    seen = []
    getattr(model, part).register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape)))
    assert see(model, image_size=image_size, batch_size=2).shape == (2, 7)
    assert seen == [(2, *shape)]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_batch_of_one_goes_through_from_the_least_size_on_and_no_smaller_one(name):
    least = find(name).facts.least_image_size
    for size in (least, 64, 65, 224):
        assert see(build(name, classes=7, image_size=size), image_size=size).shape == (1, 7)
    if least > 1:
        with pytest.raises((RuntimeError, ValueError)):
            see(build(name, classes=7, image_size=least - 1), image_size=least - 1)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_facts_say_what_the_network_sees(name):
    facts = find(name).facts
    assert facts.input_shape == (3, facts.image_size, facts.image_size)
    assert facts.image_size == (224 if name == "googlenet" or name.endswith("-224") else 32)


def test_a_larger_image_size_is_made_of_the_same_samples():
    training = find("squeezenet").prepare(Preparation(batch_size=2, image_size=64))
    inputs, targets = training.next_batch(unmarked)
    assert inputs.shape == (2, 3, 64, 64)
    small, same = find("squeezenet").prepare(Preparation(batch_size=2)).next_batch(unmarked)
    assert torch.equal(targets, same)
    assert inputs.mean().item() == pytest.approx(small.mean().item(), abs=1e-4)


@pytest.mark.parametrize(("name", "batch_size", "rule", "steps", "left"), BY_HEART)
def test_a_small_batch_is_learnt_by_heart(name, batch_size, rule, steps, left):
    training = find(name).prepare(Preparation(batch_size=batch_size, rate_rule=rule))
    batch = training.next_batch(unmarked)
    training.next_batch = lambda _: batch
    losses = take(training, steps=steps)
    # Dropout makes single losses jump.
    assert sum(losses[-3:]) / 3 < left * losses[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp"])
def test_googlenet_stays_finite(precision):
    engine = TorchTrainer(
        find("inceptionv1"), Preparation(batch_size=4, rate_rule="fixed"), precision=precision
    )
    assert all(math.isfinite(engine.step()) for _ in range(10))
    assert all(bool(each.isfinite().all()) for each in engine.training.model.parameters())


def test_response_norm_divides_by_the_strength_of_five_channels():
    features = torch.full((1, 9, 1, 1), 100.0)
    # Krizhevsky et al. 2012: (2 + 10⁻⁴ · sum of squares) ** 0.75; three channels at the edge.
    normed = ResponseNorm()(features).flatten().tolist()
    assert normed[4] == pytest.approx(100 / (2 + 1e-4 * 5 * 100**2) ** 0.75)
    assert normed[0] == pytest.approx(100 / (2 + 1e-4 * 3 * 100**2) ** 0.75)


def test_a_residual_block_starts_as_its_shortcut():
    block = find("resnet50").build(classes=10, image_size=32).stages[0][1]
    features = torch.rand(2, 256, 4, 4)
    assert torch.equal(block(features), features)


# DCGAN


def dcgan(*, batch_size=2, **settings):
    return find("dcgan").prepare(Preparation(batch_size=batch_size, **settings))


def copies(module):
    return [each.detach().clone() for each in module.parameters()]


def moved(module, before):
    return [not torch.equal(a, b) for a, b in zip(module.parameters(), before, strict=True)]


def test_each_turn_of_dcgan_moves_its_own_network_and_not_the_other():
    training = dcgan()
    networks = (training.model.discriminator, training.model.generator)
    for update, own, other in zip(training.updates, networks, networks[::-1], strict=True):
        before, untouched = copies(own), copies(other)
        take(update)
        assert all(moved(own, before))
        assert not any(moved(other, untouched))


def test_a_discriminator_that_knows_nothing_loses_one_bit_an_image():
    training = dcgan()
    for each in training.model.discriminator.parameters():
        torch.nn.init.zeros_(each)
    losses = [update.loss(update.next_batch(unmarked)).item() for update in training.updates]
    # A real and a made image, then a made one.
    assert losses == pytest.approx([2 * math.log(2), math.log(2)])


def test_a_discriminator_learns_to_tell_real_images_from_made_ones():
    losses = take(dcgan(batch_size=8, rate_rule="fixed").updates[0], steps=12)
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("image_size", [32, 64, 128])
def test_dcgan_makes_images_of_the_size_that_it_judges(image_size):
    model = build("dcgan", classes=None, image_size=image_size)
    noise = torch.zeros(2, 100, 1, 1, device="meta")
    assert model.generator(noise).shape == (2, 3, image_size, image_size)
    assert model(noise).shape == (2, 1, 1, 1)


def test_real_images_lie_between_the_same_bounds_as_made_ones():
    training = dcgan(batch_size=16, image_size=64)
    images, noise = training.updates[0].next_batch(unmarked)
    assert images.shape == (16, 3, 64, 64)
    assert -1 <= images.min() < -0.5 < 0.5 < images.max() <= 1
    made = training.model.generator(noise)
    assert -1 <= made.min() < made.max() <= 1


@pytest.mark.parametrize(
    ("image_size", "id"),
    [(16, "image-too-small"), *((size, "unfit-image-size") for size in (33, 48, 96))],
)
def test_dcgan_refuses_a_size_that_doubling_does_not_reach(image_size, id):
    with refused(id, f"--image-size {image_size}", "dcgan"):
        dcgan(image_size=image_size)


def test_dcgan_has_no_measure_of_its_images():
    assert dcgan().evaluate() == {}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp"])
def test_dcgan_trains_in_every_precision_and_in_parts(precision):
    engine = TorchTrainer(
        find("dcgan"), Preparation(batch_size=2, accumulate=2), precision=precision
    )
    assert all(math.isfinite(engine.step()) for _ in range(2))
