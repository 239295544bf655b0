"""Unpacking: all of an archive below its target, or nothing at all, with the reason."""

import gzip
import hashlib
import io
import stat
import struct
import tarfile
import zipfile

import pytest
from tests.refusals import refused

from wattstep.workloads.data.archives import check_sum, unpack

FILES = {"a.txt": b"first", "deep/er/b.bin": bytes(range(256)) * 8000, "empty": b""}


def member(name, content=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def write_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return path


def write_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def write(path, files, top=""):
    names = [(top + name, content) for name, content in files.items()]
    if path.suffix == ".zip":
        return write_zip(path, names)
    mode = "w" if path.suffix == ".tar" else "w:gz"
    return write_tar(path, [member(name, content) for name, content in names], mode)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def is_refused(archive, id, *named, **options):
    """The error is named, and the folder holds what it held before."""
    before = _files(archive.parent)
    with refused(id, archive, *named):
        unpack(archive, archive.parent / "data" / "set", **options)
    assert _files(archive.parent) == before


def _files(folder):
    """All that lies there, but for the folder that would hold the data."""
    return sorted(path for path in folder.rglob("*") if path != folder / "data")


KINDS = ["x.tar.gz", "x.tgz", "x.tar", "x.zip"]


@pytest.mark.parametrize("top", ["", "./", "set/", "./set/"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_becomes_the_target_with_or_without_a_folder_of_its_name(tmp_path, kind, top):
    archive = write(tmp_path / kind, FILES, top)
    target = tmp_path / "data" / "set"
    assert unpack(archive, target) == target
    assert contents(target) == FILES
    assert list((tmp_path / "data").iterdir()) == [target]


def test_a_folder_of_another_name_stays_a_folder(tmp_path):
    target = unpack(write(tmp_path / "x.zip", FILES, "other/"), tmp_path / "set")
    assert contents(target / "other") == FILES


@pytest.mark.parametrize("kind", ["x.tar.gz", "x.zip"])
def test_empty_folders_are_kept_and_modes_are_not(tmp_path, kind):
    if kind == "x.zip":
        archive = write_zip(tmp_path / kind, [("hollow/", b""), ("run", b"x")])
    else:
        program, _ = member("run", b"x")
        program.mode = 0o4777
        members = [member("hollow", kind=tarfile.DIRTYPE), (program, b"x")]
        archive = write_tar(tmp_path / kind, members)
    target = unpack(archive, tmp_path / "set")
    assert (target / "hollow").is_dir()
    assert not stat.S_IMODE((target / "run").stat().st_mode) & 0o7111


# What leaves the target

OUTSIDE = [
    "../out",
    "a/../../out",
    "/tmp/out-of-wattstep",
    "..",
    "a\\..\\out",
    "C:/out",
    "//host/x",
]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_leaves_the_target_is_refused(tmp_path, kind, name):
    archive = write(tmp_path / kind, {"before": b"x", name: b"out", "after": b"x"})
    is_refused(archive, "member-leaves-folder")


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        (tarfile.SYMTYPE, "/etc"),
        (tarfile.SYMTYPE, "../../.."),
        (tarfile.SYMTYPE, "before"),
        (tarfile.LNKTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "../../../secret"),
    ],
)
def test_links_in_a_tar_are_refused(tmp_path, kind, link):
    (tmp_path / "secret").write_text("x")
    members = [member("before", b"x"), member("link", kind=kind, link=link), member("link/y", b"x")]
    is_refused(
        write_tar(tmp_path / "x.tar.gz", members), "unsafe-member", "'link'", f"link to '{link}'"
    )


def test_links_in_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    is_refused(
        write_zip(tmp_path / "x.zip", [("before", b"x"), (link, b"../..")]),
        "unsafe-member", "'link'", "a link",
    )  # fmt: skip


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_in_a_tar_are_refused(tmp_path, kind):
    archive = write_tar(tmp_path / "x.tar.gz", [member("node", kind=kind)])
    is_refused(archive, "unsafe-member", "'node'", "neither file nor folder")


def test_a_device_in_a_zip_is_refused(tmp_path):
    node = zipfile.ZipInfo("node")
    node.external_attr = (stat.S_IFCHR | 0o666) << 16
    is_refused(
        write_zip(tmp_path / "x.zip", [(node, b"")]),
        "unsafe-member",
        "'node'",
        "neither file nor folder",
    )


@pytest.mark.parametrize(
    "members",
    [
        [member("a", b"one"), member("a", b"two")],
        [member("a", b"one"), member("a/b", b"two")],
        [member("a/b", b"one"), member("a", b"two")],
        [member(".", b"one")],
    ],
)
def test_a_member_in_place_of_another_is_refused(tmp_path, members):
    is_refused(write_tar(tmp_path / "x.tar.gz", members), "damaged-archive")


# Too much


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_the_limit_is_refused(tmp_path, kind):
    archive = write(tmp_path / kind, {"a": bytes(600), "b": bytes(401)})
    is_refused(archive, "archive-too-large", "'b'", "1001 bytes", "1000", limit=1000)
    unpack(archive, tmp_path / "set", limit=1001)


@pytest.mark.parametrize("kind", ["x.tar.gz", "x.zip"])
def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path, kind):
    # 80 MiB of zeros are 80 kB packed, a thousand to one.
    archive = write(tmp_path / kind, {"zeros": bytes(80 << 20)})
    assert archive.stat().st_size < 100_000
    is_refused(archive, "archive-too-large", "'zeros'", "83886080 bytes")


def test_more_than_the_disk_holds_is_refused(tmp_path):
    info, _ = member("a")
    info.size = 1 << 60
    (tmp_path / "x.tar").write_bytes(info.tobuf(format=tarfile.GNU_FORMAT) + bytes(1024))
    is_refused(tmp_path / "x.tar", "archive-too-large", "disk", limit=1 << 61)


def test_a_name_of_gigabytes_is_refused_before_it_fills_the_memory(tmp_path):
    name, _ = member("././@LongLink", kind=tarfile.GNUTYPE_LONGNAME)
    name.size = 4 << 30
    packed = gzip.compress(name.tobuf(format=tarfile.GNU_FORMAT) + bytes(4096))
    (tmp_path / "x.tar.gz").write_bytes(packed)
    is_refused(tmp_path / "x.tar.gz", "damaged-archive", "4294967296 bytes")


def test_a_zip_that_declares_too_little_is_refused(tmp_path):
    archive = write_zip(tmp_path / "x.zip", [("a", b"y" * 5000)])
    content = archive.read_bytes()
    declared = struct.pack("<I", 5000)
    assert content.count(declared) == 2
    archive.write_bytes(content.replace(declared, struct.pack("<I", 10)))
    is_refused(archive, "damaged-archive", "after 'a'")


# Truncated and damaged


@pytest.mark.parametrize("share", [0, 0.001, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_archive_is_refused(tmp_path, kind, share):
    noise = hashlib.shake_256(b"noise").digest(300_000)
    archive = write(tmp_path / kind, {"a": noise, "b": noise, "c": b"x"})
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    is_refused(archive, "damaged-archive")


@pytest.mark.parametrize("lost", [1, 8, 9])
def test_an_archive_without_its_last_bytes_is_refused(tmp_path, lost):
    for kind in ("x.tar.gz", "x.zip"):
        archive = write(tmp_path / kind, FILES)
        archive.write_bytes(archive.read_bytes()[:-lost])
        is_refused(archive, "damaged-archive")


def test_a_tar_that_ends_between_two_members_is_refused(tmp_path):
    # Python's own library takes that for the end.
    archive = write(tmp_path / "x.tar", {"a": bytes(512), "b": bytes(512)})
    archive.write_bytes(archive.read_bytes()[:1024])
    is_refused(archive, "damaged-archive", "after 'a'", "no end mark")


def test_a_damaged_header_between_two_members_is_refused(tmp_path):
    archive = write(tmp_path / "x.tar", {"a": bytes(512), "b": bytes(512)})
    content = bytearray(archive.read_bytes())
    content[1024 + 3] ^= 0xFF
    archive.write_bytes(content)
    is_refused(archive, "damaged-archive", "after 'a'")


@pytest.mark.parametrize("kind", ["x.tar.gz", "x.zip"])
def test_a_flipped_bit_is_found(tmp_path, kind):
    archive = write(tmp_path / kind, {"a": hashlib.shake_256(b"noise").digest(10_000)})
    content = bytearray(archive.read_bytes())
    content[5000] ^= 1
    archive.write_bytes(content)
    is_refused(archive, "damaged-archive")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b"<html>not found</html>" * 100, bytes(4096)])
def test_what_is_no_archive_is_refused(tmp_path, kind, content):
    (tmp_path / kind).write_bytes(content)
    is_refused(tmp_path / kind, "damaged-archive")


def test_a_member_without_a_name_is_refused(tmp_path):
    archive = write_zip(tmp_path / "x.zip", [("a", b"x")])
    content = bytearray(archive.read_bytes())
    name = content.index(b"PK\x01\x02") + 28  # its length, in the directory
    content[name : name + 2] = b"\0\0"
    archive.write_bytes(content)
    is_refused(archive, "damaged-archive")


def test_an_encrypted_member_is_refused(tmp_path):
    archive = write_zip(tmp_path / "x.zip", [("a", b"secret")])
    content = bytearray(archive.read_bytes())
    content[6] |= 1  # flags of the local header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and of the directory
    archive.write_bytes(content)
    is_refused(archive, "unsafe-member", "'a'", "encrypted")


def test_another_kind_of_file_is_refused_by_its_name(tmp_path):
    (tmp_path / "x.rar").write_bytes(b"x")
    is_refused(tmp_path / "x.rar", "unknown-archive", ".tar.gz")


def test_an_archive_that_is_not_there_is_named(tmp_path):
    is_refused(tmp_path / "x.zip", "unreadable-archive")


# Checksums


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_checksum_is_compared_before_anything_is_unpacked(tmp_path, algorithm):
    archive = write(tmp_path / "x.zip", FILES)
    right = hashlib.new(algorithm, archive.read_bytes()).hexdigest()
    unpack(archive, tmp_path / "set", checksum=f"{algorithm}:{right}")
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    is_refused(archive, "wrong-checksum", algorithm, right, checksum=f"{algorithm}:{wrong}")


def test_known_checksums_are_those_of_the_algorithms(tmp_path):
    # RFC 1321, appendix A.5, and FIPS 180-2, appendix B.1.
    (tmp_path / "x").write_bytes(b"abc")
    check_sum(tmp_path / "x", "md5:900150983cd24fb0d6963f7d28e17f72")
    check_sum(
        tmp_path / "x", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


# All or nothing


def test_what_is_there_is_not_replaced(tmp_path):
    archive = write(tmp_path / "x.zip", FILES)
    (tmp_path / "set").mkdir()
    with refused("data-exists", "set"):
        unpack(archive, tmp_path / "set")
    assert contents(tmp_path / "set") == {}


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_leaves_nothing(tmp_path, kind):
    archive = write(tmp_path / kind, FILES)

    def interrupt(done, size):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpack(archive, tmp_path / "set", progress=interrupt)
    assert list(tmp_path.iterdir()) == [archive]


def test_what_is_unfinished_lies_too_deep_for_the_readers(tmp_path):
    from wattstep.workloads.data.samples import folders

    archive = write(tmp_path / "x.tar.gz", FILES, "cifar-10-batches-py/")
    seen = []

    def look(done, size):
        seen.extend(path.name for path in folders(tmp_path))

    unpack(archive, tmp_path / "cifar-10-batches-py", progress=look)
    assert seen
    assert "cifar-10-batches-py" not in seen


@pytest.mark.parametrize("kind", KINDS)
def test_progress_is_in_bytes_of_the_archive(tmp_path, kind):
    noise = hashlib.shake_256(b"noise").digest(3 << 20)
    archive = write(tmp_path / kind, {"a": noise, "b": b"x"})
    steps = []
    unpack(archive, tmp_path / "set", progress=lambda done, size: steps.append((done, size)))
    size = archive.stat().st_size
    assert {step[1] for step in steps} == {size}
    assert len(steps) >= 4
    assert all(0 < done <= size for done, _ in steps)


def test_a_place_that_cannot_be_written_is_no_fault_of_the_archive(tmp_path):
    archive = tmp_path / "set.tar"
    with tarfile.open(archive, "w") as opened:
        opened.add(__file__, "set/file")
    (tmp_path / "in the way").write_text("a file, not a folder")
    with refused("unpack-failed", "set"):
        unpack(archive, tmp_path / "in the way" / "set")
