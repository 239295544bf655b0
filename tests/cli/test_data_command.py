"""`wattstep data` as a user and as a script see it."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.command_line import wattstep
from tests.refusals import id_in
from tests.wording import assert_says, saying

from wattstep.workloads.data.catalogue import DATA_SETS, find_set

TOYADMOS = find_set("toyadmos")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def data(*arguments: str) -> CompletedProcess[str]:
    return wattstep("data", *arguments)


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue as if no checksum of ToyADMOS's archive were known."""
    file = replace(TOYADMOS.choices[0][0], checksum=None)
    without = replace(TOYADMOS, choices=((file,),), checksum_source=None)
    sets = tuple(without if one is TOYADMOS else one for one in DATA_SETS)
    monkeypatch.setattr("wattstep.workloads.data.catalogue.DATA_SETS", sets)


def write_toycar(path: Path, name: str = "ToyCar/train/normal_id_01_00000000.wav") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"RIFF")
    return path


def test_the_list_says_of_each_set_its_size_page_checksum_and_whether_it_is_there() -> None:
    done = data()
    assert (done.returncode, done.stderr) == (0, "")
    assert "cifar10: CIFAR-10, 170,052,171 bytes, not there" in done.stdout
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in done.stdout
    assert "md5:c58f30108f718f92721af3b95e74349a" in done.stdout
    assert (
        "dev_data_ToyCar.zip, size not known, md5:4dec75ca8d9f666aa9e4c1894a740501" in done.stdout
    )
    assert saying(done.stdout.splitlines(), "vocab.en", "size not known", "no checksum")
    there = "there: " if find_spec("ale_py") else "not there"
    assert f"atari: Atari 2600, 2,048 bytes, {there}" in done.stdout


@pytest.mark.usefixtures("unknown")
def test_a_script_gets_one_document(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("To be")
    write_toycar(tmp_path / "dev_data_ToyCar.zip")
    done = data("--data", ".", "--json")
    document = json.loads(done.stdout)
    assert list(document) == ["data"]
    rows = {row["name"]: row for row in document["data"]}
    assert list(rows) == [each.name for each in DATA_SETS]
    for row in rows.values():
        assert {"title", "there", "size", "source", "files", "workloads", "placing"} <= set(row)
        for file in row["files"]:
            assert set(file) == {"name", "choice", "size", "checksum", "address"}
    assert (rows["shakespeare"]["there"], rows["shakespeare"]["place"]) == (True, "input.txt")
    assert rows["mnist"]["size"] == 9_912_422 + 28_881 + 1_648_877 + 4_542
    assert (rows["toyadmos"]["there"], rows["toyadmos"]["size"]) == (False, None)
    assert rows["toyadmos"]["archives"] == ["dev_data_ToyCar.zip"]
    assert rows["toyadmos"]["files"][0]["checksum"] is None


def test_one_set_is_shown_with_where_to_get_it_and_how_to_place_it() -> None:
    shown = data("mnist").stdout
    assert_says(shown, "to place it:", "four files")
    assert "licence: CC BY-SA 3.0" in shown
    assert "/t10k-labels-idx1-ubyte.gz" in shown
    assert "CIFAR-10" not in shown


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (("nist",), "unknown-data-set", "mean mnist?"),
        (("check", "nist"), "unknown-data-set", "'nist'"),
        (("mnist", "cifar10"), "one-data-set", "wattstep data [NAME]"),
        (("unpack",), "no-archive-given", "ARCHIVE"),
        (("unpack", "other.zip"), "unknown-archive-name", "other.zip"),
        (("unpack", "input.txt"), "no-archive-needed", "input.txt"),
        (("unpack", "dev_data_ToyCar.zip"), "unreadable-archive", "dev_data_ToyCar.zip"),
        (("--data", "nowhere"), "no-such-folder", "nowhere"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], id: str, named: str
) -> None:
    done = data(*arguments, "--json")
    assert (done.returncode, id_in(done.stdout)) == (2, id)
    assert named in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unknown")
def test_an_archive_is_unpacked_below_the_folder_of_the_data(tmp_path: Path) -> None:
    write_toycar(tmp_path / "dev_data_ToyCar.zip")
    done = data("unpack", "dev_data_ToyCar.zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert saying(done.stdout.splitlines(), "no checksum", "data/ToyCar")
    assert (tmp_path / "data/ToyCar/train/normal_id_01_00000000.wav").read_bytes() == b"RIFF"
    again = data("unpack", "dev_data_ToyCar.zip", "--json")
    assert (again.returncode, id_in(again.stdout)) == (2, "data-exists")
    assert "data/ToyCar" in again.stderr


def test_an_archive_with_a_wrong_checksum_is_not_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("cifar-10-batches-py/data_batch_1"), io.BytesIO())
    done = data("unpack", "cifar-10-python.tar.gz", "--data", "d", "--json")
    assert (done.returncode, id_in(done.stdout)) == (2, "wrong-checksum")
    assert "md5" in done.stderr
    assert "c58f30108f718f92721af3b95e74349a" in done.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.usefixtures("unknown")
def test_an_archive_that_leaves_the_folder_is_not_unpacked(tmp_path: Path) -> None:
    write_toycar(tmp_path / "dev_data_ToyCar.zip", "ToyCar/../../out")
    done = data("unpack", "dev_data_ToyCar.zip", "--json")
    assert (done.returncode, id_in(done.stdout)) == (2, "member-leaves-folder")
    assert "'ToyCar/../../out'" in done.stderr
    assert not list(tmp_path.rglob("out"))


@pytest.mark.usefixtures("unknown")
def test_unpacking_as_a_script(tmp_path: Path) -> None:
    write_toycar(tmp_path / "dev_data_ToyCar.zip")
    done = data("unpack", "dev_data_ToyCar.zip", "--json")
    row = {"archive": "dev_data_ToyCar.zip", "place": "data/ToyCar", "checksum": None}
    assert json.loads(done.stdout) == {"data": [row]}


def test_a_check_names_what_is_wrong_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("To be, or not to be: that is the question.\n" * 20)
    done = data("check", "--data", ".")
    assert done.returncode == 2
    assert "shakespeare: wrong" in done.stdout
    assert_says(done.stdout, "input.txt: 860 bytes", 1115394)
    assert_says(done.stdout, "read: Shakespeare", "6 samples")
    assert ("atari: right" in done.stdout) == (find_spec("ale_py") is not None)
    assert_says(done.stderr, "wattstep:", "shakespeare")
    assert done.stderr.count("\n") == 1


def test_a_check_as_a_script() -> None:
    pytest.importorskip("ale_py", reason="ale-py is GPL-2.0: the extra atari installs it")
    done = data("check", "atari", "squad", "--json")
    assert (done.returncode, id_in(done.stdout)) == (2, "damaged-data")
    atari, squad = json.loads(done.stdout)["data"]
    assert (atari["name"], atari["right"], atari["problems"]) == ("atari", True, [])
    assert atari["read"]["name"] == "ALE/Pong"
    assert (squad["name"], squad["right"], squad["read"]) == ("squad", False, None)
    assert_says(squad["problems"][0], "squad", "DIR")
