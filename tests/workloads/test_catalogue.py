"""The catalogue: one record a set, nothing invented, and what is there is told from what is right."""

import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.workloads import find, names
from wattstep.workloads.data.catalogue import DATA_SETS, find_archive, find_set
from wattstep.workloads.data.checking import check, locate, packed

ATARI = find_set("atari")
CIFAR10 = find_set("cifar10")
IWSLT = find_set("iwslt15")
MNIST = find_set("mnist")
SHAKESPEARE = find_set("shakespeare")
SPEECH_COMMANDS = find_set("speech-commands")
SQUAD = find_set("squad")
TOYADMOS = find_set("toyadmos")
VISUAL_WAKE_WORDS = find_set("visual-wake-words")
TITLES = {each.title: each for each in DATA_SETS}


def test_names_and_files_are_unlike():
    assert len({each.name for each in DATA_SETS}) == len(DATA_SETS) == len(TITLES)
    files = [file.name for each in DATA_SETS for file in (*each.files, *each.unpacked)]
    assert len(set(files)) == len(files)


@pytest.mark.parametrize("data_set", DATA_SETS, ids=lambda each: each.name)
def test_a_record_is_complete(data_set):
    assert re.fullmatch(r"https?://\S+", data_set.page)
    known = [file.checksum for file in (*data_set.files, *data_set.unpacked) if file.checksum]
    for checksum in known:
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum)
    assert len(set(known)) == len(known)
    # A checksum without a source would be one that somebody made up.
    assert bool(known) == (data_set.checksum_source is not None)
    assert data_set.placing


@pytest.mark.parametrize("workload", names())
def test_a_workload_is_listed_by_the_set_that_it_names(workload):
    title = find(workload).facts.dataset
    assert [each.title for each in DATA_SETS if workload in each.workloads] == (
        [title] if title in TITLES else []
    )
    # What an object detector trains on is made up of other sets.
    assert title in TITLES or workload == "ssdlite"


def test_every_workload_that_is_listed_exists():
    listed = {workload for each in DATA_SETS for workload in each.workloads}
    assert listed <= set(names())


def test_titles_are_those_of_the_readers():
    from wattstep.workloads.data import (
        cifar10,
        iwslt,
        mnist,
        shakespeare,
        speech_commands,
        squad,
        toyadmos,
        visual_wake_words,
    )

    readers = {
        CIFAR10: cifar10, IWSLT: iwslt, MNIST: mnist, SHAKESPEARE: shakespeare, SQUAD: squad,
        SPEECH_COMMANDS: speech_commands, TOYADMOS: toyadmos, VISUAL_WAKE_WORDS: visual_wake_words,
    }  # fmt: skip
    assert {each.title: reader.NAME for each, reader in readers.items()} == {
        title: title for title in TITLES if title != ATARI.title
    }


def test_looking_loads_no_framework():
    script = (
        "import sys; from wattstep.workloads.data import catalogue, checking; from pathlib import "
        "Path; [checking.locate(each, Path()) for each in catalogue.DATA_SETS]; "
        "assert not {'torch', 'sklearn', 'PIL', 'ale_py'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parent)


def test_a_mistyped_name_is_answered_with_the_nearest():
    with refused("unknown-data-set", " mnist"):
        find_set("mnit")


def test_an_archive_is_known_by_its_name():
    assert find_archive("cifar-10-python.tar.gz").folder == "cifar-10-batches-py"
    with refused("no-archive-needed", "train-images-idx3-ubyte.gz"):
        find_archive("train-images-idx3-ubyte.gz")
    with refused("unknown-archive-name", "cifar-100-python.tar.gz"):
        find_archive("cifar-100-python.tar.gz")


# Where the files are once they are placed as the catalogue says

PLACES = [
    (CIFAR10, "cifar-10-batches-py/data_batch_1"),
    (CIFAR10, "cifar-10-batches-bin/data_batch_1.bin"),
    (MNIST, "train-images-idx3-ubyte.gz"),
    (MNIST, "MNIST/raw/train-images-idx3-ubyte"),
    (SHAKESPEARE, "input.txt"),
    (SQUAD, "squad/train-v1.1.json"),
    (IWSLT, "iwslt15.en-vi/train.en"),
    (SPEECH_COMMANDS, "speech_commands_v0.02/testing_list.txt"),
    (VISUAL_WAKE_WORDS, "vw_coco2014_96/non_person/a.jpg"),
    (VISUAL_WAKE_WORDS, "annotations/instances_train2014.json"),
    (TOYADMOS, "ToyCar/train/normal_id_01_00000000.wav"),
]


@pytest.mark.parametrize(("data_set", "file"), PLACES)
def test_a_set_is_found_where_its_files_are_placed_and_no_other_is(tmp_path, data_set, file):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"x")
    found = [each for each in DATA_SETS if locate(each, tmp_path) and not each.bundled]
    assert found == [data_set]


@pytest.mark.parametrize(("data_set", "file"), PLACES)
def test_what_is_found_is_what_the_reader_reads(tmp_path, data_set, file):
    # It is no such file, so that its reader complains; a stand-in would be read.
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"x")
    if data_set is VISUAL_WAKE_WORDS and "non_person" in file:
        (tmp_path / "vw_coco2014_96/person").mkdir()
    with pytest.raises(InvalidValueError):
        data_set.read(tmp_path)


def test_nothing_is_there_in_an_empty_folder_or_in_none(tmp_path):
    for root in (tmp_path, None):
        there = [ATARI] if find_spec("ale_py") else []
        assert [each for each in DATA_SETS if locate(each, root)] == there
        assert not [each for each in DATA_SETS if packed(each, root)]


def test_an_archive_that_waits_is_seen(tmp_path):
    (tmp_path / "dev_data_ToyCar.zip").write_bytes(b"x")
    assert packed(TOYADMOS, tmp_path) == (tmp_path / "dev_data_ToyCar.zip",)
    assert locate(TOYADMOS, tmp_path) is None


# Checks

TEXT = b"To be, or not to be: that is the question.\n" * 20


def published(data_set, name, content):
    """The set, as if this had been published as that file."""
    file = next(file for file in data_set.files if file.name == name)
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return replace(data_set, choices=((replace(file, size=len(content), checksum=checksum),),))


def test_a_set_that_is_as_published_is_read(tmp_path):
    (tmp_path / "input.txt").write_bytes(TEXT)
    checked = check(published(SHAKESPEARE, "input.txt", TEXT), tmp_path)
    assert checked.problems == checked.unknown == ()
    assert checked.as_published == (tmp_path / "input.txt",)
    assert (checked.facts.name, checked.facts.stand_in) == ("Shakespeare", False)


def test_another_size_is_a_problem_though_it_can_be_read(tmp_path):
    (tmp_path / "input.txt").write_bytes(TEXT)
    checked = check(SHAKESPEARE, tmp_path)
    assert checked.facts is not None
    assert checked.as_published == ()
    assert_says(checked.problems[0], "input.txt: 860 bytes", 1115394)


def test_another_content_is_a_problem(tmp_path):
    (tmp_path / "input.txt").write_bytes(TEXT.replace(b"T", b"t"))
    checked = check(published(SHAKESPEARE, "input.txt", TEXT), tmp_path)
    assert len(checked.problems) == 1
    assert "input.txt: wrong checksum, sha256" in checked.problems[0]


def test_a_file_of_unknown_checksum_is_no_problem_and_not_called_right(tmp_path):
    (tmp_path / "dev_data_ToyCar.zip").write_bytes(b"x")
    unpublished = replace(TOYADMOS.choices[0][0], checksum=None)
    checked = check(replace(TOYADMOS, choices=((unpublished,),)), tmp_path)
    assert checked.unknown == (tmp_path / "dev_data_ToyCar.zip",)
    assert checked.as_published == ()
    # The archive alone is not there for a training.
    assert_says(checked.problems[0], "toyadmos", "not there")


def test_files_within_an_archive_are_checked_once_it_is_unpacked(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_2").write_bytes(b"x")
    problems = check(CIFAR10, tmp_path).problems
    assert "data_batch_2: wrong checksum, md5" in problems[0]
    assert "data_batch_1: cannot be read" in problems[1]


def test_the_cartridge_of_pong_is_as_published():
    pytest.importorskip("ale_py", reason="ale-py is GPL-2.0: the extra atari installs it")
    checked = check(ATARI, None)
    assert checked.problems == ()
    assert [path.name for path in checked.as_published] == ["pong.bin"]
    assert checked.facts.name == "ALE/Pong"
