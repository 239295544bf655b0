"""What a board sends is written below one folder, or not at all."""

from __future__ import annotations

import io
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.remote.ssh.archive import check_name, pack, unpack


def archive(*members: tuple[str, bytes, bytes, str]) -> bytes:
    """A tar file of names, contents, kinds and link targets, as a board may make it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for name, content, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, len(content)
            made.addfile(member, io.BytesIO(content))
    return file.getvalue()


def test_what_is_packed_is_what_is_unpacked(tmp_path: Path) -> None:
    stream = io.BytesIO()
    (tmp_path / "file").write_bytes(b"123")
    assert pack({"a/b": b"four", "c": tmp_path / "file"}, stream) == 7
    stream.seek(0)
    assert unpack(stream, tmp_path / "out", {"a/b": 4, "c": 3}) == 7
    assert (tmp_path / "out/a/b").read_bytes() == b"four"
    assert (tmp_path / "out/c").read_bytes() == b"123"


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("/tmp/absolute", tarfile.REGTYPE, ""),
        ("../above", tarfile.REGTYPE, ""),
        ("a/../../above", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc"),
        ("link", tarfile.LNKTYPE, "other"),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("device", tarfile.CHRTYPE, ""),
    ],
)
def test_nothing_but_plain_files_below_the_folder(
    tmp_path: Path, name: str, kind: bytes, link: str
) -> None:
    target = tmp_path / "in/out"
    target.mkdir(parents=True)
    # Even where it was asked for: the list of names comes from the board as well.
    with pytest.raises((RecordingError, InvalidValueError)):
        unpack(io.BytesIO(archive((name, b"", kind, link))), target, {name: 0})
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_folder_here_that_leads_elsewhere_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/sub").symlink_to(tmp_path / "elsewhere")
    sent = archive(("sub/file", b"x", tarfile.REGTYPE, ""))
    with refused("leads-outside"):
        unpack(io.BytesIO(sent), tmp_path / "out", {"sub/file": 1})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    sent = archive(("surprise", b"x", tarfile.REGTYPE, ""))
    with refused("not-asked-for"):
        unpack(io.BytesIO(sent), tmp_path, {"expected": 1})
    assert list(tmp_path.iterdir()) == []


def test_more_than_the_board_had_said_is_refused_before_it_is_written(tmp_path: Path) -> None:
    sent = archive(("one", b"x" * 5000, tarfile.REGTYPE, ""))
    with refused("more-than-said", "5000 bytes", "'one'", "1:"):
        unpack(io.BytesIO(sent), tmp_path, {"one": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_asks_for_gigabytes_is_refused_before_they_are_read(
    tmp_path: Path, kind: bytes
) -> None:
    member = tarfile.TarInfo("long")
    member.type, member.size = kind, 3 << 30

    class Endless(io.RawIOBase):
        """The header, then zeros; more than a few MB of them are asked for by who would keep them."""

        def __init__(self) -> None:
            self.left, self.given = member.tobuf(tarfile.GNU_FORMAT), 0

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            data, self.left = self.left[:size], self.left[size:]
            self.given += size
            assert self.given < 8 << 20
            return data + bytes(size - len(data))

    with pytest.raises(EOFError, match="header"):
        unpack(Endless(), tmp_path, {"one": 10})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [0, 100, 512, 700, 1536, 2048, 2100])
def test_a_stream_that_is_cut_leaves_whole_files_only(tmp_path: Path, length: int) -> None:
    # A header of 512 bytes, 600 bytes of content in two blocks; twice.
    sent = archive(*((name, b"x" * 600, tarfile.REGTYPE, "") for name in ("first", "second")))
    with pytest.raises(EOFError):
        unpack(io.BytesIO(sent[:length]), tmp_path, {"first": 600, "second": 600})
    whole = ["first"] if length >= 1536 else []
    assert [path.name for path in tmp_path.iterdir()] == whole


@given(st.binary(max_size=2000), st.integers(0, 1500))
def test_damaged_streams_write_nothing_that_was_not_asked_for(noise: bytes, at: int) -> None:
    whole = archive(*((name, b"x" * 10, tarfile.REGTYPE, "") for name in ("one", "two")))
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "target"
        target.mkdir()
        with suppress(RecordingError, InvalidValueError, EOFError):
            unpack(io.BytesIO(damaged), target, {"one": 10, "two": 10})
        files = {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if not p.is_dir()}
        assert files <= {"target/one", "target/two"}


@given(st.text())
def test_a_name_that_passes_stays_below_its_folder(name: str) -> None:
    try:
        checked = check_name(name)
    except InvalidValueError:
        return
    assert Path("/a/b", checked).resolve().is_relative_to("/a/b")
    assert "\n" not in checked
