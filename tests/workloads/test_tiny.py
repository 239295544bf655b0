"""MLPerf Tiny's four networks, and the reader of Visual Wake Words."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.errors import InvalidValueError
from wattstep.schema.workload import Preparation
from wattstep.workloads.data.speech_commands import WORDS
from wattstep.workloads.data.visual_wake_words import halve, read_picture, read_pictures
from wattstep.workloads.torch import find
from wattstep.workloads.torch.autoencoder import Norm

# Name, trainable parameters by hand, channels that are normalised, and the total of the
# reference: Keras counts the running mean and variance of each channel as well.
# MLPerf Tiny, github.com/mlcommons/tiny, benchmark/training: `model.summary()` of each.
TINY = [
    # First 3·9·16 + 16; blocks of two convolutions (weights + biases) and shortcut 1×1;
    # classifier 64·10 + 10.
    (
        "resnet8",
        (448)
        + (2 * (16 * 16 * 9 + 16))
        + (16 * 32 * 9 + 32 + 32 * 32 * 9 + 32 + 16 * 32 + 32)
        + (32 * 64 * 9 + 64 + 64 * 64 * 9 + 64 + 32 * 64 + 64)
        + 650
        + 2 * 240,
        16 * 3 + 32 * 2 + 64 * 2,
        78_666,
    ),
    # First 64·(10·4 + 1); four times depthwise 64·(9 + 1) and pointwise 64·(64 + 1);
    # classifier 12·(64 + 1).
    ("ds-cnn", 2_624 + 4 * (640 + 4_160) + 780 + 2 * 576, 64 * 9, 24_908),
    # First 8·(27 + 1); depthwise (9 + 1) on 1,240 channels in all; pointwise 196,224 weights
    # and 1,488 biases; classifier 2·(256 + 1).
    (
        "mobilenetv1-vww",
        224 + 12_400 + (196_224 + 1_488) + 514 + 2 * 2_736,
        8 + 1_240 + 1_488,
        221_794,
    ),
    # 640·128 + 128, thrice 128·128 + 128, 128·8 + 8, 8·128 + 128, thrice, 128·640 + 640.
    (
        "autoencoder",
        82_048 + 3 * 16_512 + 1_032 + 1_152 + 3 * 16_512 + 82_560 + 2 * 1_032,
        8 * 128 + 8,
        269_992,
    ),
]


def prepare(name, **preparation):
    return find(name).prepare(Preparation(**preparation))


def unmarked(_):
    raise AssertionError("these workloads have no phase of their own")


@pytest.mark.parametrize(("name", "trained", "channels", "total"), TINY)
def test_the_parameters_are_those_of_the_reference(name, trained, channels, total):
    workload = find(name)
    published = workload.facts.published
    with torch.device("meta"):
        model = workload.build(classes=published.classes, image_size=published.image_size)
    parameters = list(model.parameters())
    assert all(each.requires_grad for each in parameters)
    assert sum(each.numel() for each in parameters) == trained
    statistics = [b for key, b in model.named_buffers() if "running" in key]
    assert sum(each.numel() for each in statistics) == 2 * channels
    assert trained + 2 * channels == total


@pytest.mark.parametrize("name", [row[0] for row in TINY])
def test_a_batch_has_the_shape_in_the_facts(name):
    inputs, targets = prepare(name, batch_size=3).updates[0].next_batch(unmarked)
    assert tuple(inputs.shape) == (3, *find(name).facts.input_shape)
    assert inputs.dtype == torch.float32
    assert tuple(targets.shape) == ((3, 640) if name == "autoencoder" else (3,))


@pytest.mark.parametrize(
    ("name", "steps", "left"),
    [
        ("resnet8", 25, 0.3),
        ("ds-cnn", 120, 0.5),
        ("mobilenetv1-vww", 25, 0.3),
        ("autoencoder", 150, 0.7),
    ],
)
def test_a_small_batch_is_learnt_by_heart(name, steps, left):
    update = prepare(name, batch_size=8, rate_rule="fixed").updates[0]
    batch = update.next_batch(unmarked)
    losses = []
    for _ in range(steps):
        update.optimizer.zero_grad()
        loss = update.loss(batch)
        loss.backward()
        update.optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < left * losses[0]


def test_the_feature_maps_are_those_of_the_reference():
    # 49×10 becomes 25×5 (Keras' AveragePooling2D((25, 5)) at the end); 96×96 becomes 3×3.
    stem = find("ds-cnn").build(classes=None, image_size=None).stem
    assert stem(torch.zeros(1, 1, 49, 10)).shape == (1, 64, 25, 5)
    vision = find("mobilenetv1-vww").build(classes=None, image_size=None)
    assert vision.pairs(vision.stem(torch.zeros(1, 3, 96, 96))).shape == (1, 256, 3, 3)
    small = find("resnet8").build(classes=None, image_size=None)
    assert small.blocks(small.stem(torch.zeros(1, 3, 32, 32))).shape == (1, 64, 8, 8)


def test_the_autoencoder_aims_at_its_own_input():
    training = prepare("autoencoder", batch_size=4)
    inputs, targets = training.updates[0].next_batch(unmarked)
    assert torch.equal(inputs, targets)
    wanted = ((training.model(inputs) - inputs) ** 2).mean()
    assert training.updates[0].loss((inputs, targets)).item() == pytest.approx(wanted.item())
    assert set(training.evaluate()) == {"loss", "judged"}


def test_a_single_value_is_normalised_by_the_running_statistics():
    norm = Norm(2)
    norm.running_mean[:] = torch.tensor([1.0, 2.0])
    norm.running_var[:] = torch.tensor([4.0, 9.0])
    out = norm(torch.tensor([[3.0, 8.0]]))
    assert out.tolist() == [pytest.approx([1.0, 2.0], abs=1e-4)]
    assert norm.running_mean.tolist() == [1.0, 2.0]
    # Two values are normalised by each other.
    assert norm(torch.tensor([[3.0, 0.0], [5.0, 2.0]]))[:, 0].tolist() == pytest.approx(
        [-1, 1], abs=1e-4
    )


def test_spoken_words_are_told_apart_after_a_few_steps():
    engine = TorchTrainer(find("ds-cnn"), Preparation(batch_size=32, rate_rule="fixed"))
    for _ in range(45):
        engine.step()
    accuracy = engine.evaluate()["accuracy"]
    assert accuracy > 3 / len(WORDS)


def test_the_models_trained_with_more_classes_have_more_scores():
    training = prepare("ds-cnn", batch_size=2, classes=35)
    assert training.model(torch.zeros(2, 1, 49, 10)).shape == (2, 35)
    with refused("too-few-classes", "--classes 11", "ds-cnn", "12"):
        prepare("ds-cnn", batch_size=2, classes=11)


# Visual Wake Words: pictures are of one colour each, so that they can be told apart.


def write_picture(path, colour, *, size=(96, 96)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, quality=95)
    return path


def write_folders(root, *, people=20, others=20):
    folder = root / "vw_coco2014_96"
    for kind, count, red in (("person", people, 200), ("non_person", others, 0)):
        for n in range(count):
            name = f"COCO_train2014_{n:012d}.jpg"
            write_picture(folder / kind / name, (red, 10 * n, 100))
    return folder


def test_visual_wake_words_are_read_from_the_folders_of_mlperf(tmp_path):
    write_folders(tmp_path)
    samples = read_pictures(tmp_path)
    # Of 20 pairs, the 10th and the 20th are held out.
    assert samples.inputs.shape == (36, 3, 96, 96)
    assert samples.held_out_inputs.shape == (4, 3, 96, 96)
    assert_says(samples.facts.name, "Visual Wake Words", "36 of its")
    assert not samples.facts.stand_in
    for inputs, targets in (
        (samples.inputs, samples.targets),
        (samples.held_out_inputs, samples.held_out_targets),
    ):
        assert np.bincount(targets).tolist() == [len(targets) // 2] * 2
        # Red says whether somebody is there; JPEG is a little off.
        assert np.array_equal(inputs[:, 0, 48, 48] > 100, targets == 1)
    greens = samples.held_out_inputs[:, 1, 48, 48].astype(int)
    assert greens.tolist() == pytest.approx([90, 90, 190, 190], abs=4)


def test_of_an_unequal_folder_as_many_pictures_of_each_kind_are_taken(tmp_path):
    write_folders(tmp_path, people=4, others=12)
    samples = read_pictures(tmp_path, limit=100)
    assert np.bincount(samples.targets).tolist() == [4, 4]
    # Every third of the twelve without people.
    greens = samples.inputs[samples.targets == 0][:, 1, 0, 0].astype(int)
    assert greens.tolist() == pytest.approx([0, 30, 60, 90], abs=4)


def test_a_limit_holds_for_both_kinds_together(tmp_path):
    write_folders(tmp_path)
    assert len(read_pictures(tmp_path, limit=6).targets) == 6


def test_a_folder_without_people_is_refused(tmp_path):
    (write_folders(tmp_path, people=0) / "person").mkdir()
    with refused("one-kind-of-pictures", "non_person"):
        read_pictures(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no picture", None])
def test_a_damaged_picture_is_named(tmp_path, content):
    path = write_folders(tmp_path) / "person" / "COCO_train2014_000000000004.jpg"
    path.write_bytes(path.read_bytes()[:400] if content is None else content)
    with pytest.raises(InvalidValueError, match="COCO_train2014_000000000004"):
        read_pictures(tmp_path)


def test_a_picture_of_another_shape_or_colour_is_converted(tmp_path):
    Image.new("L", (640, 427), 77).save(tmp_path / "grey.jpg")
    pixels = read_picture(tmp_path / "grey.jpg")
    assert pixels.shape == (3, 96, 96)
    assert pixels.dtype == np.uint8
    assert pixels[:, 50, 50].tolist() == pytest.approx([77, 77, 77], abs=1)


def write_coco(root, part, areas):
    """COCO's layout; pictures of 100×200, each with one annotation of (category, area)."""
    images, annotations = [], []
    for n, (category, area) in enumerate(areas):
        name = f"COCO_{part}_{n:012d}.jpg"
        write_picture(root / part / name, (10 * n, 0, 0), size=(100, 200))
        images.append({"id": 7 + n, "file_name": name, "width": 100, "height": 200})
        annotations.append({"image_id": 7 + n, "category_id": category, "area": area})
    document = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}],
    }
    path = root / "annotations" / f"instances_{part}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_visual_wake_words_are_made_of_cocos_annotations(tmp_path):
    # Half a per cent of 20,000 pixels are 100: a person must be larger than that.
    write_coco(tmp_path / "coco", "train2014", [(1, 5000), (1, 100), (18, 5000), (1, 101)])
    write_coco(tmp_path / "coco", "val2014", [(18, 900), (1, 900)])
    samples = read_pictures(tmp_path)
    reds = samples.inputs[:, 0, 0, 0].astype(int)
    order = np.argsort(reds)
    assert reds[order].tolist() == pytest.approx([0, 10, 20, 30], abs=4)
    assert samples.targets[order].tolist() == [1, 0, 0, 1]
    assert samples.held_out_targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"images": []}',
        '{"images": [], "annotations": [], "categories": []}',
        '{"images": [{"id": 1, "width": 1, "height": 1, "file_name": 5}], "annotations": [], '
        '"categories": [{"id": 1, "name": "person"}]}',
        '{"images": [{}], "annotations": [], "categories": [{"id": 1, "name": "person"}]}',
    ],
)
def test_annotations_of_something_else_are_named(tmp_path, content):
    write_coco(tmp_path, "train2014", [(1, 5000), (18, 5000)]).write_text(content)
    with refused("damaged-data-file", "instances_train2014.json"):
        read_pictures(tmp_path)


def test_a_name_in_the_annotations_cannot_leave_the_folder_of_pictures(tmp_path):
    path = write_coco(tmp_path / "coco", "train2014", [(1, 5000), (18, 5000)])
    write_picture(tmp_path / "secret.jpg", (255, 255, 255))
    path.write_text(path.read_text().replace("COCO_train2014_000000000000", "../../secret"))
    with refused("damaged-data-file", "train2014/secret.jpg"):
        read_pictures(tmp_path)


def test_a_picture_that_the_annotations_list_must_be_there(tmp_path):
    write_coco(tmp_path, "train2014", [(1, 5000), (18, 5000)])
    (tmp_path / "train2014" / "COCO_train2014_000000000001.jpg").unlink()
    with pytest.raises(InvalidValueError, match="COCO_train2014_000000000001"):
        read_pictures(tmp_path)


def test_without_files_patches_of_photographs_stand_in():
    samples = read_pictures(None)
    assert (samples.facts.stand_in, samples.facts.stands_for) == (True, "Visual Wake Words")
    # Half as large the photographs are 320×213. Left of 224: 17 columns and 15 rows of
    # windows every 8 pixels; right of it 1 column and 59 rows every 2.
    assert samples.inputs.shape == (2 * 17 * 15, 3, 96, 96)
    assert samples.held_out_inputs.shape == (2 * 59, 3, 96, 96)
    assert np.bincount(samples.targets).tolist() == [255, 255]


def test_a_halved_photograph_has_the_mean_of_each_four_pixels():
    photograph = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    halved = halve(photograph)
    assert halved.shape == (3, 2, 2)
    # Red of the first four pixels: 0, 3, 12 and 15.
    assert halved[0, 0, 0] == 7
