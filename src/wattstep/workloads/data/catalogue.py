"""The official data sets: where they come from, how to tell that they are right, how to place them."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.parts import load_part
from wattstep.records.workload import DataFacts
from wattstep.workloads.data import atari, cifar10, mnist, shakespeare
from wattstep.workloads.data.samples import folders


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file as it was published.

    Attributes:
        name: Its name.
        size: In bytes; None where we know of no exact figure.
        checksum: "md5:..." or "sha256:..." as published; None where we know of none.
        address: Where it can be fetched from; None where it comes with something else.
        folder: What `unpack` makes of it, below the folder of all data; None where the reader
            takes it as it is.
    """

    name: str
    size: int | None = None
    checksum: str | None = None
    address: str | None = None
    folder: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """An official data set.

    Attributes:
        name: As on the command line.
        title: As in `WorkloadFacts.dataset`.
        workloads: Those that train on it.
        choices: Sets of files of which any one, complete, will do; the smallest first.
        unpacked: Files that may lie there instead and whose checksum was published.
        page: Its official page.
        checksum_source: Where the checksums were published; None where we know of none.
        licence: None where its page states none.
        placing: What to do with the files.
        find: Its folder or file below a folder of data, as its reader finds it, or None.
        read: Reads all of it from a folder of data, as a training does.
    """

    name: str
    title: str
    workloads: tuple[str, ...]
    choices: tuple[tuple[DataFile, ...], ...]
    unpacked: tuple[DataFile, ...] = ()
    page: str
    checksum_source: str | None
    licence: str | None
    placing: str
    find: Callable[[Path], Path | None]
    read: Callable[[Path], DataFacts]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Those of all choices."""
        return tuple(file for choice in self.choices for file in choice)

    @property
    def bundled(self) -> bool:
        """It comes with a library, so that no folder of data is needed."""
        return not any(file.address for file in self.files)

    @property
    def size(self) -> int | None:
        """Bytes of the first choice, or None where one of its files is of unknown size."""
        sizes = [file.size for file in self.choices[0]]
        return None if None in sizes else sum(size or 0 for size in sizes)


def find_below(root: Path, signs: tuple[str, ...]) -> Path | None:
    """The first folder, at most two levels below `root`, that holds one of `signs`, or None."""
    return next(
        (folder for folder in folders(root) for sign in signs if (folder / sign).exists()), None
    )


def find_cartridge(root: Path) -> Path | None:
    """Pong, which lies in ale-py and not in a folder of data; loads nothing."""
    package = importlib.util.find_spec("ale_py")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / "roms" / "pong.bin"
    return path if path.is_file() else None


def read_samples(root: Path, reader: str) -> DataFacts:
    """Reads with "module:function", loaded only now.

    Raises:
        InvalidValueError: It cannot be read.
        MissingPartError: A library that it needs is not installed.
    """
    module, _, function = reader.partition(":")
    facts: DataFacts = getattr(load_part(module), function)(root).facts
    return facts


def read_cartridge(root: Path) -> DataFacts:
    """As `read_samples`, of Pong.

    Raises:
        MissingPartError: ale-py is not installed.
    """
    return atari.describe_game(samples=0)


UNPACK: Final = "Unpack it with: wattstep data unpack ARCHIVE --data DIR"
CIFAR10_PAGE: Final = "https://www.cs.toronto.edu/~kriz/"
MNIST_ADDRESS: Final = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SQUAD_ADDRESS: Final = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
IWSLT_ADDRESS: Final = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/"
COCO_ADDRESS: Final = "http://images.cocodataset.org/"

CIFAR10: Final = DataSet(
    name="cifar10",
    title="CIFAR-10",
    workloads=(
        "alexnet", "alexnet-224", "dcgan", "densenet100", "densenet40", "googlenet",
        "inceptionv1", "mobilenetv2", "mobilenetv2-bias-only", "mobilenetv2-last-layer",
        "mobilenetv3-small", "resnet101", "resnet152", "resnet50", "resnet8", "squeezenet",
        "squeezenet-224", "vgg16", "vgg19", "vit-tiny", "xception",
    ),
    choices=(
        (
            DataFile(
                name="cifar-10-binary.tar.gz",
                size=170_052_171,
                checksum="md5:c32a1d4ab5d03f1284b67883e8d87530",
                address=f"{CIFAR10_PAGE}cifar-10-binary.tar.gz",
                folder=cifar10.BINARY,
            ),
        ),
        (
            DataFile(
                name="cifar-10-python.tar.gz",
                size=170_498_071,
                checksum="md5:c58f30108f718f92721af3b95e74349a",
                address=f"{CIFAR10_PAGE}cifar-10-python.tar.gz",
                folder=cifar10.PICKLED,
            ),
        ),
    ),
    unpacked=(
        DataFile(name="data_batch_1", checksum="md5:c99cafc152244af753f735de768cd75f"),
        DataFile(name="data_batch_2", checksum="md5:d4bba439e000b95fd0a9bffe97cbabec"),
        DataFile(name="data_batch_3", checksum="md5:54ebc095f3ab1f0389bbae665268c751"),
        DataFile(name="data_batch_4", checksum="md5:634d18415352ddfa80567beed471001a"),
        DataFile(name="data_batch_5", checksum="md5:482c414d41f54cd18b22e5b47cb7c3cb"),
        DataFile(name="test_batch", checksum="md5:40351d587109b95175f43aff81a1287e"),
    ),
    page=f"{CIFAR10_PAGE}cifar.html",
    checksum_source="its page; torchvision for the files within",
    licence=None,
    placing=f"Either archive. {UNPACK}",
    find=cifar10.find,
    read=partial(read_samples, reader="wattstep.workloads.data.cifar10:read_images"),
)  # fmt: skip

MNIST: Final = DataSet(
    name="mnist",
    title="MNIST",
    workloads=("lenet",),
    choices=(
        (
            DataFile(
                name="train-images-idx3-ubyte.gz",
                size=9_912_422,
                checksum="md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
                address=f"{MNIST_ADDRESS}train-images-idx3-ubyte.gz",
            ),
            DataFile(
                name="train-labels-idx1-ubyte.gz",
                size=28_881,
                checksum="md5:d53e105ee54ea40749a09fcbcd1e9432",
                address=f"{MNIST_ADDRESS}train-labels-idx1-ubyte.gz",
            ),
            DataFile(
                name="t10k-images-idx3-ubyte.gz",
                size=1_648_877,
                checksum="md5:9fb629c4189551a2d022fa330f9573f3",
                address=f"{MNIST_ADDRESS}t10k-images-idx3-ubyte.gz",
            ),
            DataFile(
                name="t10k-labels-idx1-ubyte.gz",
                size=4_542,
                checksum="md5:ec29112dd5afa0611ce80d1b7f02629c",
                address=f"{MNIST_ADDRESS}t10k-labels-idx1-ubyte.gz",
            ),
        ),
    ),
    unpacked=(
        DataFile(
            name="train-images-idx3-ubyte",
            size=47_040_016,
            checksum="md5:6bbc9ace898e44ae57da46a324031adb",
        ),
        DataFile(
            name="train-labels-idx1-ubyte",
            size=60_008,
            checksum="md5:a25bea736e30d166cdddb491f175f624",
        ),
        DataFile(
            name="t10k-images-idx3-ubyte",
            size=7_840_016,
            checksum="md5:2646ac647ad5339dbf082846283269ea",
        ),
        DataFile(
            name="t10k-labels-idx1-ubyte",
            size=10_008,
            checksum="md5:27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    page="http://yann.lecun.com/exdb/mnist/",
    checksum_source="torchvision (torchvision.datasets.MNIST)",
    licence="CC BY-SA 3.0, as the documentation of Keras states",
    placing="Put the four files side by side into DIR or DIR/MNIST, packed or unpacked.",
    find=mnist.find,
    read=partial(read_samples, reader="wattstep.workloads.data.mnist:read_digits"),
)

SHAKESPEARE: Final = DataSet(
    name="shakespeare",
    title="Shakespeare",
    workloads=("char-cnn", "gpt", "lora"),
    choices=(
        (
            DataFile(
                name="input.txt",
                size=1_115_394,
                checksum="sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                address="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            ),
        ),
    ),
    page="https://github.com/karpathy/char-rnn",
    checksum_source="those who pin it in public repositories; its page has none",
    licence="public domain",
    placing="Put input.txt into DIR; another text of Shakespeare's as shakespeare.txt.",
    find=shakespeare.find,
    read=partial(read_samples, reader="wattstep.workloads.data.shakespeare:read_text"),
)

SQUAD: Final = DataSet(
    name="squad",
    title="SQuAD 1.1",
    workloads=("bert",),
    choices=(
        (
            DataFile(
                name="train-v1.1.json",
                size=30_288_272,
                checksum="sha256:3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
                address=f"{SQUAD_ADDRESS}train-v1.1.json",
            ),
            DataFile(
                name="dev-v1.1.json",
                size=4_854_279,
                checksum="sha256:95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
                address=f"{SQUAD_ADDRESS}dev-v1.1.json",
            ),
        ),
    ),
    page="https://rajpurkar.github.io/SQuAD-explorer/",
    checksum_source="ParlAI and TensorFlow Datasets",
    licence="CC BY-SA 4.0",
    placing="Put both files into DIR; a vocab.txt of word pieces beside them is used if there.",
    find=partial(find_below, signs=("train-v1.1.json",)),
    read=partial(read_samples, reader="wattstep.workloads.data.squad:read_questions"),
)

IWSLT: Final = DataSet(
    name="iwslt15",
    title="IWSLT'15 English-Vietnamese",
    workloads=("seq2seq",),
    choices=(
        (
            DataFile(
                name="train.en",
                size=13_603_614,
                checksum="sha256:c26dfeed74b6bf3752f5ca552f2412456f0de153f7c804df8717931fb3a5c78a",
                address=f"{IWSLT_ADDRESS}train.en",
            ),
            DataFile(
                name="train.vi",
                size=18_074_646,
                checksum="sha256:707206edf2dc0280273952c7b70544ea8a1363aa69aaeb9d70514b888dc3067d",
                address=f"{IWSLT_ADDRESS}train.vi",
            ),
            DataFile(
                name="tst2012.en",
                size=140_250,
                checksum="sha256:b8fbcd0d4199d41276421d1f7228298df67dd9e2c5c134c2ee8cdf3ec27801e2",
                address=f"{IWSLT_ADDRESS}tst2012.en",
            ),
            DataFile(
                name="tst2012.vi",
                size=188_396,
                checksum="sha256:01004078b3f36b0c46e81b65fc6851230b3c823405c76d1d82ef3b786b512ff0",
                address=f"{IWSLT_ADDRESS}tst2012.vi",
            ),
            DataFile(name="vocab.en", address=f"{IWSLT_ADDRESS}vocab.en"),
            DataFile(name="vocab.vi", address=f"{IWSLT_ADDRESS}vocab.vi"),
        ),
    ),
    page="https://nlp.stanford.edu/projects/nmt/",
    checksum_source="Hugging Face Datasets (mt_eng_vietnamese); none for the vocabularies",
    licence=None,
    placing="Put the six files side by side into DIR or DIR/iwslt15.en-vi.",
    find=partial(find_below, signs=("train.en",)),
    read=partial(read_samples, reader="wattstep.workloads.data.iwslt:read_translations"),
)

SPEECH_COMMANDS: Final = DataSet(
    name="speech-commands",
    title="Speech Commands",
    workloads=("ds-cnn", "whisper-tiny"),
    choices=(
        (
            DataFile(
                name="speech_commands_v0.02.tar.gz",
                size=2_428_923_189,
                checksum="sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
                address="http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
                folder="speech_commands_v0.02",
            ),
        ),
    ),
    page="https://www.tensorflow.org/datasets/catalog/speech_commands",
    checksum_source="torchaudio and TensorFlow Datasets",
    licence="CC BY 4.0",
    placing=UNPACK,
    find=partial(find_below, signs=("testing_list.txt",)),
    read=partial(read_samples, reader="wattstep.workloads.data.speech_commands:read_waveforms"),
)

VISUAL_WAKE_WORDS: Final = DataSet(
    name="visual-wake-words",
    title="Visual Wake Words",
    workloads=("mobilenetv1-vww",),
    choices=(
        (
            DataFile(
                name="vw_coco2014_96.tar.gz",
                size=234_810_765,
                checksum="sha256:f8746b9e44f8a7a4293f73be9ba6e8da9239fe69798d42364aae62b915cfab58",
                address="https://www.silabs.com/public/files/github/machine_learning/benchmarks/datasets/vw_coco2014_96.tar.gz",
                folder="vw_coco2014_96",
            ),
        ),
        (
            DataFile(
                name="train2014.zip",
                size=13_510_573_713,
                checksum="md5:0da8c0bd3d6becc4dcb32757491aca88",
                address=f"{COCO_ADDRESS}zips/train2014.zip",
                folder="train2014",
            ),
            DataFile(
                name="val2014.zip",
                size=6_645_013_297,
                checksum="md5:a3d79f5ed8d289b7a7554ce06a5782b3",
                address=f"{COCO_ADDRESS}zips/val2014.zip",
                folder="val2014",
            ),
            DataFile(
                name="annotations_trainval2014.zip",
                size=252_872_794,
                checksum="md5:0a379cfc70b0e71301e0f377548639bd",
                address=f"{COCO_ADDRESS}annotations/annotations_trainval2014.zip",
                folder="annotations",
            ),
        ),
    ),
    page="https://github.com/mlcommons/tiny/tree/master/benchmark/training/visual_wake_words",
    checksum_source="PaddleDetection, for COCO 2014; MLPerf EDU's list of assets, for MLPerf Tiny's archive",
    licence="CC BY 4.0 for COCO's annotations; the pictures are under the terms of Flickr",
    placing=f"MLPerf Tiny's archive, or the three of COCO 2014. {UNPACK}",
    find=partial(find_below, signs=("non_person", "instances_train2014.json")),
    read=partial(read_samples, reader="wattstep.workloads.data.visual_wake_words:read_pictures"),
)

TOYADMOS: Final = DataSet(
    name="toyadmos",
    title="ToyADMOS",
    workloads=("autoencoder",),
    choices=(
        (
            DataFile(
                name="dev_data_ToyCar.zip",
                checksum="md5:4dec75ca8d9f666aa9e4c1894a740501",
                address="https://zenodo.org/record/3678171/files/dev_data_ToyCar.zip",
                folder="ToyCar",
            ),
        ),
    ),
    page="https://zenodo.org/record/3678171",
    checksum_source="the library soundata (datasets/dcase2020task2.py)",
    licence="CC BY-NC-SA 4.0",
    placing=UNPACK,
    find=partial(find_below, signs=("ToyCar/train",)),
    read=partial(read_samples, reader="wattstep.workloads.data.toyadmos:read_machine"),
)

ATARI: Final = DataSet(
    name="atari",
    title="Atari 2600",
    workloads=("dqn",),
    choices=(
        (
            DataFile(
                name="pong.bin",
                size=2_048,
                checksum="md5:60e0ea3cbe0913d39803477945e9e5ec",
            ),
        ),
    ),
    page="https://ale.farama.org/",
    checksum_source="the Arcade Learning Environment (Pong.hpp)",
    licence="GPL-2.0 for ale-py; none is stated for the cartridge",
    placing='The cartridge of Pong comes with ale-py: pip install "wattstep[atari]"',
    find=find_cartridge,
    read=read_cartridge,
)

DATA_SETS: Final = (
    CIFAR10,
    MNIST,
    SHAKESPEARE,
    SQUAD,
    IWSLT,
    SPEECH_COMMANDS,
    VISUAL_WAKE_WORDS,
    TOYADMOS,
    ATARI,
)


def find_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
        InvalidValueError: There is none.
    """
    names = [each.name for each in DATA_SETS]
    if name in names:
        return DATA_SETS[names.index(name)]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InvalidValueError(f"no data set is called {name!r}{hint} (there are: {', '.join(names)})")


def find_archive(name: str) -> DataFile:
    """The archive of that name.

    Raises:
        InvalidValueError: No data set has one, or the file is used as it is.
    """
    files = [file for each in DATA_SETS for file in each.files if file.address]
    for file in files:
        if file.name == name and file.folder is None:
            raise InvalidValueError(
                f"{name} needs no unpacking: put it into the folder of the data"
            )
        if file.name == name:
            return file
    known = ", ".join(file.name for file in files if file.folder)
    raise InvalidValueError(f"{name}: no data set has an archive of that name (there are: {known})")
