"""What people train on devices now: MobileNetV2 and V3, ViT-Tiny, a single-shot detector."""

import math

import numpy as np
import pytest
import torch
from tests.refusals import refused

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.data.detection import SIZES, enlarge, read_scenes, trim
from wattstep.workloads.torch import find
from wattstep.workloads.torch.mobilenetv3 import round_to_eight
from wattstep.workloads.torch.ssdlite import (
    DetectionLoss,
    Norm,
    encode_boxes,
    hardest,
    make_anchors,
    match,
    overlaps,
    to_centres,
)

# Name, parameters at the published configuration, and who says so.
# With ten classes, by default.
TRAINED = [
    # Patches 16·16·3·192 + 192; class token 192; 197 positions; 12 blocks of norms 4·192,
    # attention 192·576 + 576 + 192² + 192 and layers 192·768 + 768 + 768·192 + 192; norm 2·192;
    # classifier 192·10 + 10.
    ("vit-tiny", 147_648 + 192 + 37_824 + 12 * (768 + 148_224 + 295_872) + 384 + 1_930),
    # 990 of 1000 classes of 1280 weights and a bias are gone.
    ("mobilenetv2", 3_504_872 - 990 * 1_281),
    # Ten classes of 1280 weights and a bias.
    ("mobilenetv2-last-layer", 12_810),
    # A bias for each channel that is normalised: Keras counts 34,112 running means and
    # variances (keras.applications, MobileNetV2: 3,538,984 parameters, of them 3,504,872
    # trainable), so 17,056 channels; and the classifier.
    ("mobilenetv2-bias-only", 34_112 // 2 + 12_810),
    ("mobilenetv3-small", 2_542_856 - 990 * 1_025),
    # Of 91 scores (90 kinds and the background) 80 are gone, for each of six anchors on maps
    # of 672, 480, 512, 256, 256 and 128 channels, and their biases.
    ("ssdlite", 3_440_060 - 80 * 6 * (672 + 480 + 512 + 256 + 256 + 128 + 6)),
    ("vit-tiny", 5_717_416 - 990 * 193),
]


def build(name, **configuration):
    workload = find(name)
    with torch.device("meta"):
        return workload.build(**configuration)


def prepare(name, **preparation):
    return find(name).prepare(Preparation(**{"batch_size": 2, **preparation}))


def unmarked(_):
    raise AssertionError("these workloads have no phase of their own")


@pytest.mark.parametrize(("name", "count"), TRAINED)
def test_the_number_of_trainable_parameters_is_worked_out_by_hand(name, count):
    facts = find(name).facts
    model = build(name, classes=facts.classes, image_size=facts.image_size)
    assert sum(each.numel() for each in model.parameters() if each.requires_grad) == count


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mobilenetv2", (1280, 7, 7)), ("mobilenetv3-small", (576, 7, 7))],
)
def test_the_last_feature_map_is_a_32th_of_the_image(name, shape):
    features = build(name, classes=10, image_size=224).features
    assert features(torch.zeros(1, 3, 224, 224, device="meta")).shape == (1, *shape)


def test_images_are_enlarged_to_the_size_asked_for():
    for name in ("mobilenetv2", "mobilenetv3-small", "vit-tiny"):
        inputs, targets = prepare(name, image_size=64).updates[0].next_batch(unmarked)
        assert (tuple(inputs.shape), tuple(targets.shape)) == ((2, 3, 64, 64), (2,))
    with refused("image-too-small", "--image-size 32", "mobilenetv2", "33×33"):
        prepare("mobilenetv2", image_size=32)


# Frozen parts


def snapshot(model):
    return {key: each.detach().clone() for key, each in model.state_dict().items()}


def changed(model, before):
    return {key for key, each in model.state_dict().items() if not torch.equal(each, before[key])}


@pytest.mark.parametrize(
    ("name", "trains"),
    [
        ("mobilenetv2-last-layer", lambda key: key.startswith("classifier")),
        (
            "mobilenetv2-bias-only",
            lambda key: key.startswith("classifier") or key.endswith(".bias"),
        ),
    ],
)
def test_frozen_parts_and_their_statistics_stay_while_the_rest_trains(name, trains):
    engine = TorchTrainer(find(name), Preparation(batch_size=2, image_size=64))
    model = engine.training.model
    before = snapshot(model)
    moving = {key for key in before if trains(key)}
    for _ in range(2):
        assert math.isfinite(engine.step())
    assert changed(model, before) == moving
    assert {key for key, each in model.named_parameters() if each.requires_grad} == moving
    engine.evaluate()
    assert changed(model, before) == moving
    assert model.training
    assert model.classifier.training
    assert not any(each.training for each in model.features.modules())


def test_the_whole_network_moves_when_all_of_it_trains():
    engine = TorchTrainer(find("mobilenetv2"), Preparation(batch_size=2, image_size=64))
    before = snapshot(engine.training.model)
    engine.step()
    engine.step()
    assert changed(engine.training.model, before) == set(before)
    assert all(each.training for each in engine.training.model.modules())


def test_frozen_random_features_keep_the_signal_alive():
    training = prepare("mobilenetv2-last-layer", batch_size=8, image_size=64)
    images, _ = training.updates[0].next_batch(unmarked)
    with torch.no_grad():
        features = training.model.features(images).mean(dim=(2, 3))
    # ReLU6 of about unit spread, different from image to image.
    assert 0.05 < float(features.std(dim=0).mean()) < 3
    unsettled = find("mobilenetv2-last-layer").build(classes=10, image_size=64)
    with torch.no_grad():
        faded = unsettled.eval().features(images).mean(dim=(2, 3))
    assert float(faded.std(dim=0).mean()) < 0.1 * float(features.std(dim=0).mean())


@pytest.mark.parametrize(
    ("name", "rate_rule", "steps", "left"),
    [
        ("mobilenetv2", "fixed", 10, 0.6),
        ("mobilenetv2-last-layer", "fixed", 10, 0.5),
        ("mobilenetv2-bias-only", "fixed", 10, 0.5),
        ("mobilenetv3-small", "linear", 20, 0.7),
        ("vit-tiny", "fixed", 8, 0.5),
    ],
)
def test_a_small_batch_is_learnt_by_heart(name, rate_rule, steps, left):
    training = prepare(name, batch_size=8, image_size=64, rate_rule=rate_rule)
    update = training.updates[0]
    training.model.train()
    batch = update.next_batch(unmarked)
    losses = []
    for _ in range(steps):
        update.optimizer.zero_grad()
        loss = update.loss(batch)
        loss.backward()
        update.optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < left * losses[0]


# MobileNetV3 and ViT


def test_narrowed_channels_are_multiples_of_eight():
    # 16 / 4 is at least 8; 88 / 4 is 22, nearest 24; 72 / 4 = 18 becomes 16 by rounding, which
    # is less than nine tenths, so 24.
    assert [round_to_eight(n) for n in (4, 22, 18, 60, 144)] == [8, 24, 24, 64, 144]


def test_a_vision_transformer_needs_whole_patches():
    with refused("unfit-image-size", "100", "vit-tiny", "16×16"):
        prepare("vit-tiny", image_size=100)


def test_the_order_of_patches_matters_by_their_positions_alone():
    torch.manual_seed(0)
    model = find("vit-tiny").build(classes=10, image_size=32).eval()
    images = torch.randn(1, 3, 32, 32)
    swapped = torch.cat((images[..., 16:], images[..., :16]), dim=-1)
    with torch.no_grad():
        assert not torch.allclose(model(images), model(swapped), atol=1e-4)
        model.positions.zero_()
        assert torch.allclose(model(images), model(swapped), atol=1e-4)


# The detector


def test_the_anchors_are_those_of_the_paper():
    anchors = make_anchors(320)
    # Maps of 20, 10, 5, 3, 2 and 1 pixels, six at each place.
    assert anchors.shape == (6 * (400 + 100 + 25 + 9 + 4 + 1), 4)
    # The first place of the first map: 0.2, sqrt(0.2 · 0.35), and 0.2 · sqrt of 2 and 3.
    wanted = [
        (0.025, 0.025, 0.2, 0.2),
        (0.025, 0.025, 0.264575, 0.264575),
        (0.025, 0.025, 0.282843, 0.141421),
        (0.025, 0.025, 0.346410, 0.115470),
        (0.025, 0.025, 0.141421, 0.282843),
        (0.025, 0.025, 0.115470, 0.346410),
    ]
    np.testing.assert_allclose(anchors[:6].numpy(), wanted, atol=1e-6)
    # The second place lies to the right; the last map has one in the middle.
    assert anchors[6, :2].tolist() == pytest.approx([0.075, 0.025])
    assert anchors[-6].tolist() == pytest.approx([0.5, 0.5, 0.95, 0.95])


def test_the_network_answers_for_each_anchor():
    for size in (320, 100):
        outputs = build("ssdlite", classes=10, image_size=size)(
            torch.zeros(2, 3, size, size, device="meta")
        )
        assert outputs.shape == (2, len(make_anchors(size)), 4 + 1 + 10)


def test_the_maps_are_predicted_in_the_order_of_the_anchors():
    torch.manual_seed(0)
    model = find("ssdlite").build(classes=10, image_size=320).eval()
    images = torch.zeros(1, 3, 320, 320)
    with torch.no_grad():
        before = model(images)
        images[:, :, :16, 304:] = 9.0  # the upper right corner
        moved = (model(images) - before).abs().sum(dim=2)[0, :2400].reshape(20, 20, 6)
    nearest = moved.sum(dim=2).argmax().item()
    row, column = divmod(nearest, 20)
    assert row <= 2
    assert column >= 17


def test_overlap_is_intersection_over_union():
    boxes = to_centres(torch.tensor([[0.0, 0.0, 0.4, 0.4]]))
    anchors = to_centres(
        torch.tensor([[0.0, 0.0, 0.4, 0.4], [0.2, 0.0, 0.6, 0.4], [0.5, 0.5, 0.6, 0.6]])
    )
    # 0.08 of 0.16 + 0.16 - 0.08.
    assert overlaps(boxes, anchors)[0].tolist() == pytest.approx([1, 1 / 3, 0])


def test_boxes_are_learnt_as_ways_from_the_anchor():
    anchors = torch.tensor([[0.5, 0.5, 0.2, 0.4]])
    box = torch.tensor([[0.52, 0.42, 0.4, 0.4]])
    # 0.02 / 0.2 / 0.1, -0.08 / 0.4 / 0.1, ln(2) / 0.2, ln(1) / 0.2.
    assert encode_boxes(box, anchors)[0].tolist() == pytest.approx(
        [1.0, -2.0, math.log(2) / 0.2, 0.0], abs=1e-5
    )


def test_each_object_has_an_anchor_however_little_they_overlap():
    anchors = torch.tensor(
        [[0.25, 0.25, 0.5, 0.5], [0.3, 0.25, 0.5, 0.5], [0.8, 0.8, 0.4, 0.4], [0.8, 0.2, 0.1, 0.1]]
    )
    boxes = torch.tensor([[[0.25, 0.25, 0.5, 0.5], [0.9, 0.9, 0.1, 0.1]]])
    # The first is overlapped by two anchors (1 and 0.82); the second by a sixteenth of one.
    assert match(boxes, anchors)[0].tolist() == [0, 0, 1, -1]


def test_three_of_the_worst_are_counted_for_each_that_answers():
    positive = torch.tensor([[True, False, False, False, False, False]])
    surprise = torch.tensor([[9.0, 0.1, 0.5, 0.2, 0.4, 0.3]])
    assert hardest(surprise, positive)[0].tolist() == [False, False, True, False, True, True]


def test_the_loss_is_small_where_the_answer_is_right_and_ln_11_where_nothing_is_known():
    loss = DetectionLoss(image_size=320, side=320)
    targets = torch.tensor([[[3, 32, 32, 160, 160]]])
    anchors = make_anchors(320)
    boxes = to_centres(targets[..., 1:] / 320)
    objects = match(boxes, anchors)
    outputs = torch.zeros(1, len(anchors), 15)
    outputs[..., :4] = encode_boxes(boxes.expand(1, len(anchors), 4), anchors)
    # Boxes are right; of eleven equally likely classes, four anchors are counted for each match.
    assert loss(outputs, targets).item() == pytest.approx(4 * math.log(11), rel=1e-5)
    outputs[0, :, 4] = 20.0
    outputs[0, objects[0] >= 0, 4 + 1 + 3] = 40.0
    assert loss(outputs, targets).item() < 1e-6


def test_the_detector_learns_a_scene():
    training = prepare("ssdlite", image_size=96, rate_rule="fixed")
    update = training.updates[0]
    for group in update.optimizer.param_groups:
        group["lr"] = 0.02
    batch = update.next_batch(unmarked)
    losses = []
    for _ in range(25):
        update.optimizer.zero_grad()
        loss = update.loss(batch)
        loss.backward()
        update.optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


def test_one_pixel_of_one_image_is_normalised_by_the_running_statistics():
    norm = Norm(1)
    norm.running_mean[:], norm.running_var[:] = 1.0, 4.0
    assert norm(torch.full((1, 1, 1, 1), 5.0)).item() == pytest.approx(2.0, abs=1e-4)
    two = norm(torch.tensor([[[[3.0, 5.0]]]])).flatten().tolist()
    assert two == pytest.approx([-1, 1], abs=1e-4)


def test_a_scene_at_a_time_trains_the_detector():
    engine = TorchTrainer(find("ssdlite"), Preparation(batch_size=1))
    assert math.isfinite(engine.step())


# Scenes


def test_scenes_have_six_objects_in_their_boxes():
    samples = read_scenes(None)
    assert samples.inputs.shape == (128, 3, 320, 320)
    assert samples.targets.shape == (128, 6, 5)
    assert samples.held_out_inputs.shape == (32, 3, 320, 320)
    assert (samples.facts.stand_in, samples.facts.stands_for) == (True, "COCO")
    classes, boxes = samples.targets[..., 0], samples.targets[..., 1:]
    assert set(classes.ravel().tolist()) == set(range(10))
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    longest = np.maximum(width, height)
    assert (longest == [int(size * 320) for size in SIZES]).all()
    assert boxes.min() >= 0
    assert boxes.max() <= 320
    assert width.min() > 0
    assert height.min() > 0


def test_scenes_repeat():
    assert read_scenes(None).facts.sha256 == read_scenes(None).facts.sha256


def test_an_enlarged_image_repeats_its_pixels():
    image = np.array([[1, 2], [3, 4]], np.uint8)
    assert enlarge(image, height=4, width=2).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


def test_a_trimmed_digit_just_fills_its_box():
    digit = np.zeros((28, 28), np.uint8)
    digit[3:10, 5:7] = 9
    assert trim(digit).shape == (7, 2)
