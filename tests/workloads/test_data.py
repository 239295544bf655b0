"""What the readers promise: official files as they are published, faults named, stand-ins said."""

import gzip
import hashlib
import os
import pickle
import struct

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.cifar10 import cut_bands, cut_patches, read_images
from wattstep.workloads.data.mnist import enlarge, read_digits
from wattstep.workloads.data.samples import describe
from wattstep.workloads.data.shakespeare import read_text

# CIFAR-10: five files of two images each; image n is filled with n and of class n. The test file
# holds one, filled with 20 and of class 7.


def image(number):
    """Red, green and blue planes of 32×32."""
    return bytes([number]) * 1024 + bytes([number + 100]) * 1024 + bytes([number + 200]) * 1024


def python2_batch(images, labels):
    """A file as Python 2 wrote the official ones (protocol 2, strings without encoding)."""

    def text(content):
        return b"U" + bytes([len(content)]) + content

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n"
        + (b"cnumpy\nndarray\n" + b"K\x00\x85" + text(b"b") + b"\x87R")
        + (b"(K\x01" + b"K" + bytes([len(images)]) + b"M\x00\x0c\x86")
        + (b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R")
        + (b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
        + (b"\x89T" + struct.pack("<i", 3072 * len(images)) + b"".join(images) + b"tb")
    )
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    entries = (
        (text(b"batch_label") + text(b"training batch 1 of 5"))
        + (text(b"labels") + numbers)
        + (text(b"data") + array)
        + (text(b"filenames") + b"](" + text(b"a.png") + text(b"b.png") + b"e")
    )
    return b"\x80\x02}(" + entries + b"u."


def python3_batch(images, labels):
    """A file as somebody writes it again today."""
    data = np.frombuffer(b"".join(images), np.uint8).reshape(len(images), 3072)
    return pickle.dumps({"data": data, "labels": list(labels)}, protocol=2)


def binary_batch(images, labels):
    return b"".join(bytes([label]) + image for image, label in zip(images, labels, strict=True))


VERSIONS = {
    "python 2": ("cifar-10-batches-py", "data_batch_{}", python2_batch),
    "python 3": ("cifar-10-batches-py", "data_batch_{}", python3_batch),
    "binary": ("cifar-10-batches-bin", "data_batch_{}.bin", binary_batch),
}


def write_cifar10(root, version, *, test=True):
    """Writes the folder, and gives its third file."""
    name, file, encode = VERSIONS[version]
    folder = root / name
    folder.mkdir(parents=True)
    for part in range(5):
        numbers = (2 * part, 2 * part + 1)
        content = encode([image(n) for n in numbers], numbers)
        (folder / file.format(part + 1)).write_bytes(content)
    if test:
        (folder / file.replace("data_batch_{}", "test_batch")).write_bytes(encode([image(20)], [7]))
    return folder / file.format(3)


@pytest.mark.parametrize("folder", [".", "pictures"])
@pytest.mark.parametrize("version", VERSIONS)
def test_cifar10_is_read_from_disk(tmp_path, version, folder):
    write_cifar10(tmp_path / folder, version)
    samples = read_images(tmp_path)
    assert (samples.facts.name, samples.facts.stand_in) == ("CIFAR-10", False)
    assert (samples.facts.stands_for, samples.facts.samples) == (None, 10)
    assert samples.targets.tolist() == list(range(10))
    assert samples.inputs.shape == (10, 3, 32, 32)
    # Red, green and blue of the image filled with 4.
    assert samples.inputs[4, :, 31, 31].tolist() == [4, 104, 204]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_test_file_of_cifar10_is_held_out(tmp_path, version):
    write_cifar10(tmp_path, version)
    samples = read_images(tmp_path)
    assert samples.held_out_inputs.shape == (1, 3, 32, 32)
    assert samples.held_out_inputs[0, :, 0, 0].tolist() == [20, 120, 220]
    assert samples.held_out_targets.tolist() == [7]


@pytest.mark.parametrize("version", VERSIONS)
def test_without_its_test_file_the_last_tenth_of_cifar10_is_held_out_and_the_name_says_so(
    tmp_path, version
):
    write_cifar10(tmp_path, version, test=False)
    samples = read_images(tmp_path)
    assert samples.targets.tolist() == list(range(9))
    assert samples.held_out_targets.tolist() == [9]
    assert samples.held_out_inputs[0, :, 0, 0].tolist() == [9, 109, 209]
    assert (samples.facts.samples, samples.facts.stand_in) == (9, False)
    assert_says(samples.facts.name, "CIFAR-10", "test file")


def test_a_truncated_test_file_of_cifar10_is_named(tmp_path):
    path = write_cifar10(tmp_path, "binary").with_name("test_batch.bin")
    path.write_bytes(path.read_bytes()[:-1])
    with refused("wrong-size", "test_batch.bin", "3072 bytes"):
        read_images(tmp_path)


def test_all_versions_of_cifar10_have_the_same_hash(tmp_path):
    for version in VERSIONS:
        write_cifar10(tmp_path / version, version)
    hashes = {read_images(tmp_path / version).facts.sha256 for version in VERSIONS}
    assert len(hashes) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.5, 0.99])
def test_a_truncated_file_of_cifar10_is_named(tmp_path, version, share):
    path = write_cifar10(tmp_path, version)
    content = path.read_bytes()
    # One byte more, so that the binary version does not end with a whole record.
    path.write_bytes(content[: int(share * len(content)) + 1])
    with pytest.raises(InvalidValueError, match=path.name):
        read_images(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_file_of_cifar10_is_named(tmp_path, version):
    path = write_cifar10(tmp_path, version)
    path.unlink()
    with refused("unreadable-data-file", path.name):
        read_images(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_class_that_cifar10_lacks_is_refused(tmp_path, version):
    path = write_cifar10(tmp_path, version)
    path.write_bytes(VERSIONS[version][2]([image(0), image(1)], (3, 10)))
    with refused("unknown-label", path.name, "label 10"):
        read_images(tmp_path)


class Command:
    """What a hostile pickle looks like."""

    def __init__(self, line):
        self.line = line

    def __reduce__(self):
        return os.system, (self.line,)


def test_a_pickle_cannot_run_a_command(tmp_path):
    path = write_cifar10(tmp_path, "python 2")
    trace = tmp_path / "trace"
    path.write_bytes(pickle.dumps({"data": Command(f"touch {trace}"), "labels": []}))
    with refused("damaged-data-file", path.name, "system"):
        read_images(tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "batch",
    [
        {"labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8)},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [1, 2]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [-1]},
        {"data": np.zeros((1, 100), np.uint8), "labels": [1]},
        {"data": np.zeros((1, 3072), np.float32), "labels": [1]},
        {"data": "pixels", "labels": [1]},
        ["data", "labels"],
        None,
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, batch):
    path = write_cifar10(tmp_path, "python 2")
    path.write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(InvalidValueError, match=path.name):
        read_images(tmp_path)


# MNIST: three images filled with 10, 20 and 30, of classes 1, 2 and 3; for the test one filled
# with 40, of class 4.


def idx(*shape, content):
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + content


IMAGES = idx(3, 28, 28, content=b"".join(bytes([n]) * 784 for n in (10, 20, 30)))
LABELS = idx(3, content=bytes([1, 2, 3]))
TEST_IMAGES = idx(1, 28, 28, content=bytes([40]) * 784)
TEST_LABELS = idx(1, content=bytes([4]))


def write_mnist(
    folder, *, images=IMAGES, labels=LABELS, test_labels=TEST_LABELS, dash="-", suffix=""
):
    folder.mkdir(parents=True, exist_ok=True)
    encode = gzip.compress if suffix else bytes
    (folder / f"train-images{dash}idx3-ubyte{suffix}").write_bytes(encode(images))
    (folder / f"train-labels{dash}idx1-ubyte{suffix}").write_bytes(encode(labels))
    (folder / f"t10k-images{dash}idx3-ubyte{suffix}").write_bytes(encode(TEST_IMAGES))
    (folder / f"t10k-labels{dash}idx1-ubyte{suffix}").write_bytes(encode(test_labels))


@pytest.mark.parametrize("folder", [".", "MNIST", "MNIST/raw"])
@pytest.mark.parametrize(("dash", "suffix"), [("-", ""), ("-", ".gz"), (".", "")])
def test_mnist_is_read_from_disk(tmp_path, folder, dash, suffix):
    write_mnist(tmp_path / folder, dash=dash, suffix=suffix)
    samples = read_digits(tmp_path)
    assert (samples.facts.name, samples.facts.stand_in) == ("MNIST", False)
    assert samples.inputs.shape == (3, 1, 28, 28)
    assert samples.inputs[:, 0, 27, 27].tolist() == [10, 20, 30]
    assert samples.targets.tolist() == [1, 2, 3]
    assert samples.held_out_inputs.shape == (1, 1, 28, 28)
    assert samples.held_out_inputs[0, 0, 27, 27] == 40
    assert samples.held_out_targets.tolist() == [4]


def test_without_its_test_files_the_last_tenth_of_mnist_is_held_out_and_the_name_says_so(tmp_path):
    pixels = b"".join(bytes([n]) * 784 for n in range(20))
    labels = idx(20, content=bytes(n % 10 for n in range(20)))
    write_mnist(tmp_path, images=idx(20, 28, 28, content=pixels), labels=labels)
    for path in tmp_path.glob("t10k-*"):
        path.unlink()
    samples = read_digits(tmp_path)
    assert samples.inputs[:, 0, 0, 0].tolist() == list(range(18))
    assert samples.held_out_inputs[:, 0, 0, 0].tolist() == [18, 19]
    assert samples.held_out_targets.tolist() == [8, 9]
    assert_says(samples.facts.name, "MNIST", "test files")


@pytest.mark.parametrize("other", ["FashionMNIST/raw", "KMNIST/raw", "fashion-mnist"])
def test_sets_with_the_same_file_names_are_not_taken_for_mnist(tmp_path, other):
    write_mnist(tmp_path / other)
    assert read_digits(tmp_path).facts.stand_in
    write_mnist(tmp_path / "MNIST" / "raw")
    assert read_digits(tmp_path).facts.name == "MNIST"


@pytest.mark.parametrize(
    ("files", "id", "named"),
    [
        ({"images": IMAGES[:-1]}, "wrong-size", ["images", "(3, 28, 28)"]),
        ({"images": IMAGES + b"x"}, "wrong-size", ["images"]),
        ({"images": IMAGES[:7]}, "damaged-data-file", ["images"]),
        ({"images": b""}, "damaged-data-file", ["images"]),
        ({"images": b"<html>not found</html>"}, "damaged-data-file", ["images"]),
        ({"images": LABELS}, "damaged-data-file", ["images"]),
        ({"images": idx(0, 28, 28, content=b"")}, "wrong-size", ["images"]),
        ({"images": idx(3, 2, 2, content=bytes(12))}, "wrong-shape", ["images", "28×28"]),
        (
            {"labels": idx(2, content=bytes(2))},
            "unequal-counts",
            ["labels", "2 labels for 3 images"],
        ),
        ({"labels": idx(3, content=bytes([1, 2, 10]))}, "unknown-label", ["labels", "label 10"]),
        ({"labels": LABELS[:-2]}, "wrong-size", ["labels"]),
        ({"test_labels": TEST_LABELS[:-1]}, "wrong-size", ["t10k-labels"]),
        ({"test_labels": LABELS}, "unequal-counts", ["t10k-labels", "3 labels for 1 images"]),
    ],
)
def test_a_faulty_file_of_mnist_is_named(tmp_path, files, id, named):
    write_mnist(tmp_path, **files)
    with refused(id, *named):
        read_digits(tmp_path)


def test_a_truncated_archive_is_named(tmp_path):
    write_mnist(tmp_path, suffix=".gz")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with refused("unreadable-data-file", "train-images-idx3-ubyte.gz"):
        read_digits(tmp_path)


@pytest.mark.parametrize("part", ["train", "t10k"])
def test_images_without_labels_are_refused(tmp_path, part):
    write_mnist(tmp_path)
    (tmp_path / f"{part}-labels-idx1-ubyte").unlink()
    with refused("missing-labels", f"{part}-labels"):
        read_digits(tmp_path)


# Shakespeare


@pytest.mark.parametrize("file", ["input.txt", "shakespeare.txt", "tiny/input.txt"])
def test_shakespeare_is_read_from_disk_in_windows_with_the_next_characters(tmp_path, file):
    text = "To be, or not to be – that is the question:\n" * 40
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    samples = read_text(tmp_path)
    assert (samples.facts.name, samples.facts.stand_in) == ("Shakespeare", False)
    # 1,760 characters, of which 176 are held out: 12 windows of 128 and one; a dash is not ASCII.
    assert samples.inputs.shape == samples.targets.shape == (12, 128)
    plain = text.replace("–", "?")
    assert bytes(samples.inputs[1]).decode() == plain[128:256]
    assert bytes(samples.targets[1]).decode() == plain[129:257]
    assert bytes(samples.held_out_inputs[0]).decode() == plain[1584 : 1584 + 128]
    assert bytes(samples.held_out_targets[0]).decode() == plain[1585 : 1585 + 128]
    assert len(samples.held_out_inputs) == 1


def test_windows_are_as_long_as_asked_for(tmp_path):
    (tmp_path / "input.txt").write_text("To be, or not to be: " * 20)
    samples = read_text(tmp_path, window=20)
    # 420 characters: 378 make 18 windows of 20 and 18 more, 42 are held out.
    assert samples.inputs.shape == (18, 20)
    assert samples.held_out_inputs.shape == samples.held_out_targets.shape == (2, 20)


def test_a_text_too_short_for_a_window_beside_its_last_tenth_is_named(tmp_path):
    (tmp_path / "input.txt").write_text("x" * 142)
    # 142 - 14 = 128: the last of them has no character after it.
    with refused("text-too-short", "input.txt", "142", "128"):
        read_text(tmp_path)
    (tmp_path / "input.txt").write_text("x" * 143)
    assert len(read_text(tmp_path).inputs) == 1


@pytest.mark.parametrize(
    "content", [b"", b"To be", b"\xff\xfe" * 200, b"a\0" * 200, gzip.compress(bytes(range(256)))]
)
def test_a_text_that_is_none_is_named(tmp_path, content):
    (tmp_path / "input.txt").write_bytes(content)
    with pytest.raises(InvalidValueError, match=r"input\.txt"):
        read_text(tmp_path)


# Stand-ins

READERS = [
    (read_images, "CIFAR-10", (3, 32, 32)),
    (read_digits, "MNIST", (1, 28, 28)),
    (read_text, "Shakespeare", (128,)),
]


@pytest.mark.parametrize(("read", "official", "shape"), READERS)
def test_without_official_data_a_stand_in_says_what_it_is(tmp_path, read, official, shape):
    samples = read(tmp_path)
    assert samples.facts.stand_in
    assert samples.facts.stands_for == official
    assert official not in samples.facts.name
    assert samples.inputs.shape == (samples.facts.samples, *shape)
    assert len(samples.targets) == samples.facts.samples > 1000
    assert samples.held_out_inputs.shape[1:] == shape
    assert len(samples.held_out_targets) == len(samples.held_out_inputs) > 100


@pytest.mark.parametrize("read", [read_digits, read_text])
def test_no_held_out_sample_of_a_stand_in_is_trained_on(read):
    samples = read(None)
    trained = {sample.tobytes() for sample in samples.inputs}
    assert not trained & {sample.tobytes() for sample in samples.held_out_inputs}


@pytest.mark.parametrize("read", [row[0] for row in READERS])
def test_a_stand_in_is_the_same_each_time(read):
    assert read(None).facts == read(None).facts


@pytest.mark.parametrize("read", [row[0] for row in READERS])
def test_a_folder_that_is_not_there_is_refused(tmp_path, read):
    with refused("no-such-folder", "nowhere"):
        read(tmp_path / "nowhere")


@pytest.mark.parametrize("read", [read_images, read_digits])
def test_stand_ins_for_images_have_all_ten_classes(read):
    samples = read(None)
    assert set(samples.targets.tolist()) == set(range(10))
    assert set(samples.held_out_targets.tolist()) == set(range(10))


def test_a_pixel_of_a_digit_becomes_nine_inside_the_margin():
    digit = np.zeros((1, 8, 8), np.uint8)
    digit[0, 0, 0], digit[0, 7, 7] = 16, 8
    large = enlarge(digit)[0, 0]
    assert (large[2:5, 2:5] == 255).all()
    assert (large[23:26, 23:26] == 127).all()
    assert np.count_nonzero(large) == 18


def test_a_patch_lies_in_the_strip_of_its_class():
    # 200 wide: five strips of 40, so two patches (at 0 and 8) beside each other; 32 high: one.
    columns = np.repeat(np.arange(5, dtype=np.uint8), 40)
    photograph = np.broadcast_to(columns[None, :, None], (32, 200, 3))
    inputs, targets = cut_patches([photograph, photograph + np.uint8(5)])
    assert inputs.shape == (20, 3, 32, 32)
    assert targets.tolist() == [n // 2 for n in range(20)]
    assert (inputs == targets[:, None, None, None]).all()


def test_patches_that_are_held_out_share_no_row_with_the_others():
    # Each pixel says which two rows it is from: 400 rows make ten bands of 40, and a patch of 32
    # has two places in a band of 40 (at 0 and 8).
    rows = (np.arange(400) // 2).astype(np.uint8)
    photograph = np.broadcast_to(rows[:, None, None], (400, 160, 3))
    kept, _ = cut_bands([photograph], held_out=False)
    held_out, classes = cut_bands([photograph], held_out=True)
    bands = {2, 5, 8}
    assert {row // 20 for row in np.unique(held_out)} == bands
    assert {row // 20 for row in np.unique(kept)} == set(range(10)) - bands
    assert len(held_out) == 3 * 2 * 5
    assert np.bincount(classes).tolist() == [6] * 5


def test_a_patch_has_its_colours_in_planes():
    photograph = np.zeros((32, 160, 3), np.uint8)
    photograph[3, 5] = (10, 20, 30)
    inputs, _ = cut_patches([photograph])
    assert inputs[0, :, 3, 5].tolist() == [10, 20, 30]


def test_the_hash_is_over_shape_and_content_of_inputs_and_targets():
    inputs, targets = np.array([[1, 2], [3, 4]], np.uint8), np.array([5, 6], np.uint8)
    by_hand = hashlib.sha256(b"|u1(2, 2)" + bytes([1, 2, 3, 4]) + b"|u1(2,)" + bytes([5, 6]))
    assert describe(name="", inputs=inputs, targets=targets).facts.sha256 == by_hand.hexdigest()
    # A view in another order of memory holds the same.
    turned = np.asfortranarray(inputs)
    assert describe(name="", inputs=turned, targets=targets).facts.sha256 == by_hand.hexdigest()
