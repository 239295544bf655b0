"""Unpacks archives so that nothing lands outside the target and nothing half-done stays behind."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, cast

from wattstep.errors import InvalidValueError, RecordingError

# Bytes of the archive that are behind us, and all of them.
Progress = Callable[[int, int], None]

TARS = (".tar.gz", ".tgz", ".tar")
ZIPS = (".zip",)
CHUNK = 1 << 20
BLOCK = 512
# Text shrinks to a tenth at best, pictures and sound hardly: more is a bomb and no data set.
GROWTH = 20
SPARE = 64 << 20
# The largest set, Speech Commands, has about 106,000.
MEMBERS = 1_000_000
# What the standard library raises over damaged archives.
FAULTS = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    OverflowError,
    RuntimeError,
    struct.error,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
)


@dataclass(frozen=True, kw_only=True)
class _Member:
    """Content of an archive.

    Attributes:
        name: As the archive spells it.
        size: Bytes, as the archive declares them.
        folder: It has no content.
        fault: Why it is refused, or None.
        open: Its content; never more than `size`.
    """

    name: str
    size: int
    folder: bool
    fault: str | None
    open: Callable[[], IO[bytes]]


def unpack(
    archive: Path,
    target: Path,
    *,
    checksum: str | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Unpacks a .tar.gz, .tgz, .tar or .zip as the folder `target`, all of it or nothing.

    An archive that holds one folder of the name of `target` becomes that folder. Modes, owners
    and times are not taken over. Links are refused altogether: no data set holds one.

    Args:
        archive: The file.
        target: Must not exist yet; its parent is made.
        checksum: "md5:..." or "sha256:..."; not checked where None.
        limit: Bytes that it may unpack to; twenty times its size and 64 MiB where None.
        progress: Called after each member and each MiB of it.

    Returns:
        `target`.

    Raises:
        InvalidValueError: It is truncated or damaged, not what `checksum` says, holds a member
            that is not a plain file or would land outside, would fill the disk, or `target`
            exists. Nothing of it is left.
        RecordingError: The disk is full, or the folder may not be written. Nothing is left.
    """
    if os.path.lexists(target):
        raise InvalidValueError(f"{target} exists already: remove it first", id="data-exists")
    if checksum is not None:
        check_sum(archive, checksum)
    allowed = GROWTH * _size(archive) + SPARE if limit is None else limit
    with _unfinished(target) as content:
        room = _Room(archive, allowed=allowed, free=shutil.disk_usage(content).free)
        _unpack_into(content, archive, room, progress or _ignore)
        if not any(content.iterdir()):
            raise InvalidValueError(
                f"{archive}: holds nothing: truncated or damaged", id="damaged-archive"
            )
        inner = content / target.name
        alone = [path.name for path in content.iterdir()] == [target.name] and inner.is_dir()
        (inner if alone else content).rename(target)
    return target


def check_sum(path: Path, expected: str) -> None:
    """Compares a file with what was published.

    Args:
        path: The file.
        expected: "md5:..." or "sha256:...", in hexadecimal digits.

    Raises:
        InvalidValueError: It cannot be read, or is another file.
    """
    algorithm, _, wanted = expected.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InvalidValueError(
            f"{path}: cannot be read ({error})", id="unreadable-archive"
        ) from error
    if digest.hexdigest() != wanted:
        raise InvalidValueError(
            f"{path}: wrong checksum, {algorithm} {digest.hexdigest()} where {wanted} was "
            f"published: damaged, incomplete or another file; fetch it again",
            id="wrong-checksum",
        )


class _Room:
    """Limit on what an archive may unpack to."""

    def __init__(self, archive: Path, *, allowed: int, free: int) -> None:
        self._archive = archive
        self._most = min(allowed, free)
        self._why = "that much is allowed" if allowed <= free else "that much is free on the disk"
        self._bytes = 0
        self._members = 0

    def take(self, member: _Member) -> None:
        """Refuses a member that there is no room for."""
        self._bytes += member.size
        self._members += 1
        if self._bytes > self._most:
            raise InvalidValueError(
                f"{self._archive}: {member.name!r} makes it {self._bytes} bytes unpacked, more "
                f"than {self._most}; {self._why}",
                id="archive-too-large",
            )
        if self._members > MEMBERS:
            raise InvalidValueError(
                f"{self._archive}: more than {MEMBERS} members", id="archive-too-large"
            )


def _size(archive: Path) -> int:
    try:
        return archive.stat().st_size
    except OSError as error:
        raise InvalidValueError(
            f"{archive}: cannot be read ({error})", id="unreadable-archive"
        ) from error


def _ignore(done: int, size: int) -> None:
    """Nobody watches."""


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A folder on the disk of `target`, removed at the end with what is still in it."""
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        # Two levels deeper than the readers look, should a kill -9 leave it behind.
        content = outer / "unfinished" / "content"
        content.mkdir(parents=True)
        yield content
    finally:
        shutil.rmtree(outer)


def _unpack_into(content: Path, archive: Path, room: _Room, progress: Progress) -> None:
    place = "its beginning"
    size = _size(archive)
    try:
        with archive.open("rb") as file:
            for member in _members(archive, file):
                place = repr(member.name)
                path = _place(archive, content, member)
                room.take(member)
                _write(member, path, lambda: progress(file.tell(), size))
    except InvalidValueError:
        raise
    except FAULTS as error:
        raise InvalidValueError(
            f"{archive}: cannot be unpacked, at or after {place}: truncated or damaged "
            f"({error or type(error).__name__})",
            id="damaged-archive",
        ) from error


def _place(archive: Path, content: Path, member: _Member) -> Path:
    """Destination of a member; refuses any other than a file or folder below `content`."""
    name = member.name
    parts = PurePosixPath(name).parts
    leaves = name.startswith("/") or ".." in parts or PureWindowsPath(name).drive
    if leaves or "\\" in name or "\0" in name:
        raise InvalidValueError(
            f"{archive}: {name!r} would leave the target folder; refused", id="member-leaves-folder"
        )
    if member.fault is not None:
        raise InvalidValueError(f"{archive}: {name!r} {member.fault}; refused", id="unsafe-member")
    return content.joinpath(*parts)


def _write(member: _Member, path: Path, tell: Callable[[], None]) -> None:
    if member.folder:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # "x": a name that comes twice must not replace what is there.
    with member.open() as source, path.open("xb") as file:
        while chunk := source.read(CHUNK):
            with _writing(path):
                file.write(chunk)
            tell()
    tell()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A full disk is no fault of the archive."""
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"{path.name} cannot be written: {error.strerror or error}; nothing was unpacked",
            id="unpack-failed",
        ) from error


def _members(archive: Path, file: IO[bytes]) -> Iterator[_Member]:
    if archive.name.endswith(ZIPS):
        return _zip_members(file)
    if archive.name.endswith(TARS):
        return _tar_members(file, compressed=not archive.name.endswith(".tar"))
    raise InvalidValueError(f"{archive}: neither of {', '.join(TARS + ZIPS)}", id="unknown-archive")


def _zip_members(file: IO[bytes]) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as opened:
        for info in opened.infolist():
            yield _Member(
                name=info.filename,
                size=info.file_size,
                folder=info.is_dir(),
                fault=_zip_fault(info),
                open=partial(opened.open, info),
            )


def _zip_fault(info: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if stat.S_ISLNK(kind):
        return "is a link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is neither file nor folder"
    return "is encrypted" if info.flag_bits & 1 else None


def _tar_members(file: IO[bytes], *, compressed: bool) -> Iterator[_Member]:
    stream = _Stream(cast(IO[bytes], gzip.GzipFile(fileobj=file)) if compressed else file)
    with tarfile.open(fileobj=stream, mode="r:") as opened:
        while (info := opened.next()) is not None:
            # It keeps every header that it has seen: 106,000 are 100 MB.
            opened.members.clear()  # type: ignore[attr-defined]
            yield _Member(
                name=info.name,
                size=info.size,
                folder=info.isdir(),
                fault=_tar_fault(info),
                open=partial(_tar_content, opened, info),
            )
    # The library takes a damaged header, or none, for the end.
    if stream.last != bytes(BLOCK):
        raise tarfile.ReadError("no end mark")
    while stream.read(CHUNK):  # to the checksum of gzip
        pass


def _tar_content(opened: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = opened.extractfile(info)
    assert content is not None, "a plain file has content"
    return content


def _tar_fault(info: tarfile.TarInfo) -> str | None:
    if info.issym() or info.islnk():
        return f"is a link to {info.linkname!r}"
    return None if info.isreg() or info.isdir() else "is neither file nor folder"


class _Stream:
    """Stream that the library reads a tar through.

    Attributes:
        last: What was read last; a tar ends with a block of zeros.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.last = b""

    def read(self, size: int) -> bytes:
        """As of a file; refuses headers that would fill the memory (a long name, of gigabytes)."""
        if size > CHUNK:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self._file.read(size)
        return self.last

    def seek(self, position: int) -> int:
        """As of a file."""
        return self._file.seek(position)

    def tell(self) -> int:
        """As of a file."""
        return self._file.tell()

    def write(self, content: bytes) -> int:
        """Never called: the library's type wants it."""
        raise NotImplementedError

    def close(self) -> None:
        """As of a file."""
        self._file.close()
